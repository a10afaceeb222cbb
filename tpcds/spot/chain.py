"""The class *chain*: ten tables, each made by a text over those before it, as a nightly job makes them."""

from __future__ import annotations

from collections.abc import Mapping

_SALES = """
SELECT {item} AS item, d_year AS year, d_moy AS month, count(*) AS sales, sum({quantity}) AS quantity,
       sum({paid}) AS paid, sum({profit}) AS profit
FROM {table} JOIN date_dim ON {day} = d_date_sk
GROUP BY {item}, d_year, d_moy"""


def _sales(table: str, prefix: str) -> str:
    columns = {"item": "item_sk", "quantity": "quantity", "paid": "net_paid", "profit": "net_profit"}
    names = {name: f"{prefix}_{column}" for name, column in columns.items()}
    return _SALES.format(table=table, day=f"{prefix}_sold_date_sk", **names)


CHAIN: Mapping[str, str] = {
    "chain_store": _sales("store_sales", "ss"),
    "chain_catalog": _sales("catalog_sales", "cs"),
    "chain_web": _sales("web_sales", "ws"),
    "chain_all": """
SELECT 'store' AS channel, * FROM chain_store
UNION ALL SELECT 'catalog' AS channel, * FROM chain_catalog
UNION ALL SELECT 'web' AS channel, * FROM chain_web""",
    "chain_brands": """
SELECT channel, i_category AS category, i_brand AS brand, year, month, sum(sales) AS sales, sum(paid) AS paid,
       sum(profit) AS profit
FROM chain_all JOIN item ON item = i_item_sk
GROUP BY channel, i_category, i_brand, year, month""",
    "chain_growth": """
SELECT now.channel, now.category, now.brand, now.year, now.month, now.paid, before.paid AS paid_before,
       now.profit
FROM chain_brands AS now JOIN chain_brands AS before
  ON now.channel = before.channel AND now.category = before.category AND now.brand = before.brand
 AND now.month = before.month AND now.year = before.year + 1""",
    "chain_customers": """
SELECT ss_customer_sk AS customer, d_year AS year, count(*) AS sales, sum(ss_net_paid) AS paid
FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
WHERE ss_customer_sk IS NOT NULL
GROUP BY ss_customer_sk, d_year""",
    "chain_states": """
SELECT ca_state AS state, year, count(*) AS customers, sum(sales) AS sales, sum(paid) AS paid
FROM chain_customers JOIN customer ON customer = c_customer_sk
     JOIN customer_address ON c_current_addr_sk = ca_address_sk
GROUP BY ca_state, year""",
    "chain_returns": """
SELECT i_brand AS brand, i_category AS category, count(*) AS returns, sum(sr_return_amt) AS amount
FROM store_returns JOIN item ON sr_item_sk = i_item_sk
GROUP BY i_brand, i_category""",
    "chain_report": """
SELECT g.category, g.brand, g.year, sum(g.paid) AS paid, sum(g.paid_before) AS paid_before,
       sum(g.profit) AS profit, max(r.returns) AS returns, max(r.amount) AS amount
FROM chain_growth AS g JOIN chain_returns AS r ON g.brand = r.brand AND g.category = r.category
GROUP BY g.category, g.brand, g.year
ORDER BY g.category, g.brand, g.year""",
}
"""The texts by the name of the table that each makes."""

RESULTS = ("chain_states", "chain_report")
"""The tables that no other reads, into which all go: they are judged."""
