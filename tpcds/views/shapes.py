"""Views in the shapes of TPC-DS over three tables of sales."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

CHANNELS = {"store_sales": "ss", "catalog_sales": "cs", "web_sales": "ws"}
"""The tables of sales, with the beginnings of their columns."""

DIMENSIONS = ("item", "date_dim", "promotion")

_ITEM, _DAY = "JOIN item ON {p}_item_sk = i_item_sk", "JOIN date_dim ON {p}_sold_date_sk = d_date_sk"
_SHAPES = (
    f"SELECT i_category, d_year, sum({{p}}_ext_sales_price) AS sales, count(*) AS c, avg({{p}}_quantity) AS q "
    f"FROM {{t}} {_ITEM} {_DAY} {{where}} GROUP BY i_category, d_year",
    f"SELECT i_brand, sum({{p}}_ext_sales_price) AS sales FROM {{t}} {_ITEM} {{where}} "
    "GROUP BY i_brand ORDER BY sales DESC, i_brand LIMIT 100",
    f"SELECT d_date, sum({{p}}_net_profit) AS profit, count(*) AS c FROM {{t}} {_DAY} {{where}} GROUP BY d_date",
    "SELECT p_channel_email, p_channel_event, min({p}_ext_sales_price) AS low, max({p}_ext_sales_price) AS high, "
    "count(*) AS c FROM {t} JOIN promotion ON {p}_promo_sk = p_promo_sk {where} GROUP BY ALL",
    "SELECT {p}_item_sk, sum({p}_ext_sales_price) AS sales, avg({p}_quantity) AS q FROM {t} {where} "
    "GROUP BY {p}_item_sk",
    f"SELECT i_manufact_id, sum({{p}}_net_profit) AS profit FROM {{t}} {_ITEM} {{where}} "
    "GROUP BY i_manufact_id HAVING count(*) > 50",
    f"SELECT i_category, i_class, sum({{p}}_ext_sales_price) AS sales, rank() OVER (PARTITION BY i_category "
    f"ORDER BY sum({{p}}_ext_sales_price) DESC) AS place FROM {{t}} {_ITEM} {{where}} GROUP BY i_category, i_class",
    f"SELECT d_moy, count(DISTINCT {{p}}_promo_sk) AS promotions, sum({{p}}_quantity)::BIGINT AS q "
    f"FROM {{t}} {_DAY} {{where}} GROUP BY d_moy",
)
_GOALS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """A view. table: that grows. goal: its lag goal, over the least of all."""

    name: str
    table: str
    query: str
    goal: float


def shapes(count: int) -> list[Shape]:
    """This number of views: three tables in eight shapes, then the same over other quantities."""
    found = []
    for number in range(count):
        (table, prefix), shape = list(product(CHANNELS.items(), _SHAPES))[number % 24]
        above = number // 24
        where = f"WHERE {prefix}_quantity > {above}" if above else ""
        query = shape.format(t=table, p=prefix, where=where)
        found.append(Shape(f"v{number:03}", table, query, _GOALS[number % len(_GOALS)]))
    return found
