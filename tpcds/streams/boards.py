"""Three dashboards of 20 tiles over the tables of TPC-DS: one of each channel, for one year."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

YEAR = 2001

_CHANNELS = {
    "store": {
        "f": "store_sales", "p": "ss", "date": "ss_sold_date_sk", "time": "ss_sold_time_sk", "net": "ss_net_paid",
        "order": "ss_ticket_number", "customer": "ss_customer_sk", "cdemo": "ss_cdemo_sk", "hdemo": "ss_hdemo_sk",
        "addr": "ss_addr_sk", "place": "store", "place_key": "ss_store_sk = s_store_sk", "place_name": "s_store_name",
        "place_state": "s_state",
    },
    "catalog": {
        "f": "catalog_sales", "p": "cs", "date": "cs_sold_date_sk", "time": "cs_sold_time_sk", "net": "cs_net_paid",
        "order": "cs_order_number", "customer": "cs_bill_customer_sk", "cdemo": "cs_bill_cdemo_sk",
        "hdemo": "cs_bill_hdemo_sk", "addr": "cs_bill_addr_sk", "place": "call_center",
        "place_key": "cs_call_center_sk = cc_call_center_sk", "place_name": "cc_name", "place_state": "cc_state",
    },
    "web": {
        "f": "web_sales", "p": "ws", "date": "ws_sold_date_sk", "time": "ws_sold_time_sk", "net": "ws_net_paid",
        "order": "ws_order_number", "customer": "ws_bill_customer_sk", "cdemo": "ws_bill_cdemo_sk",
        "hdemo": "ws_bill_hdemo_sk", "addr": "ws_bill_addr_sk", "place": "web_site",
        "place_key": "ws_web_site_sk = web_site_sk", "place_name": "web_name", "place_state": "web_state",
    },
}  # fmt: skip

_REVENUE = "sum($net) AS revenue"
_BY_REVENUE = "ORDER BY revenue DESC NULLS LAST"
_ITEM = ("item", "${p}_item_sk = i_item_sk")
_PLACE = ("$place", "$place_key")

_TILES: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = (
    (f"{_REVENUE}, sum(${{p}}_net_profit) AS profit, sum(${{p}}_quantity) AS units", (), ""),
    (f"d_moy, {_REVENUE}", (), "GROUP BY d_moy ORDER BY d_moy"),
    (f"d_moy, i_category, {_REVENUE}", (_ITEM,), "GROUP BY d_moy, i_category ORDER BY 1, 2"),
    (f"i_category, {_REVENUE}", (_ITEM,), f"GROUP BY i_category {_BY_REVENUE}"),
    (f"i_brand, {_REVENUE}", (_ITEM,), f"GROUP BY i_brand {_BY_REVENUE}, i_brand LIMIT 10"),
    ("i_category, i_class, sum(${p}_net_profit) AS profit", (_ITEM,),
     "GROUP BY i_category, i_class ORDER BY profit DESC NULLS LAST, 1, 2 LIMIT 10"),
    (f"d_day_name, {_REVENUE}, count(*) AS sales", (), f"GROUP BY d_day_name {_BY_REVENUE}"),
    ("d_qoy, avg(${p}_sales_price) AS price, avg(${p}_quantity) AS quantity", (), "GROUP BY d_qoy ORDER BY d_qoy"),
    (f"$place_name, $place_state, {_REVENUE}", (_PLACE,), f"GROUP BY 1, 2 {_BY_REVENUE}, 1, 2"),
    (f"$place_name, d_moy, {_REVENUE}", (_PLACE,), "GROUP BY 1, 2 ORDER BY 1, 2"),
    (f"cd_gender, cd_education_status, {_REVENUE}", (("customer_demographics", "$cdemo = cd_demo_sk"),),
     "GROUP BY 1, 2 ORDER BY 1, 2"),
    (f"cd_marital_status, {_REVENUE}, avg(${{p}}_quantity) AS quantity",
     (("customer_demographics", "$cdemo = cd_demo_sk"),), "GROUP BY 1 ORDER BY 1"),
    (f"hd_buy_potential, {_REVENUE}", (("household_demographics", "$hdemo = hd_demo_sk"),), "GROUP BY 1 ORDER BY 1"),
    (f"p_channel_email, p_channel_tv, {_REVENUE}", (("promotion", "${p}_promo_sk = p_promo_sk"),),
     "GROUP BY 1, 2 ORDER BY 1, 2"),
    ("t_hour, count(*) AS sales", (("time_dim", "$time = t_time_sk"),), "GROUP BY t_hour ORDER BY t_hour"),
    ("d_moy, count(DISTINCT $order) AS orders", (), "GROUP BY d_moy ORDER BY d_moy"),
    ("count(DISTINCT $customer) AS customers", (), ""),
    (f"ca_state, {_REVENUE}", (("customer_address", "$addr = ca_address_sk"),),
     f"GROUP BY 1 {_BY_REVENUE}, 1 LIMIT 10"),
    ("i_category, sum(${p}_ext_discount_amt) AS discount, sum(${p}_ext_list_price) AS list", (_ITEM,),
     "GROUP BY 1 ORDER BY 1"),
    ("CASE WHEN ${p}_sales_price < 20 THEN 'low' WHEN ${p}_sales_price < 80 THEN 'middle' ELSE 'high' END AS band, "
     "count(*) AS sales, max(${p}_sales_price) AS most", (), "GROUP BY 1 ORDER BY 1"),
)  # fmt: skip


def boards(year: int = YEAR) -> Mapping[str, list[str]]:
    """The texts of the tiles by the name of the channel.

    >>> boards()["web"][1].splitlines()[-1]
    'GROUP BY d_moy ORDER BY d_moy'
    """
    return {name: [_text(tile, names, year) for tile in _TILES] for name, names in _CHANNELS.items()}


def _text(tile: tuple[str, tuple[tuple[str, str], ...], str], names: Mapping[str, str], year: int) -> str:
    items, joined, rest = tile
    tables = ", ".join(("$f", "date_dim", *(table for table, _ in joined)))
    where = " AND ".join(("$date = d_date_sk", f"d_year = {year}", *(on for _, on in joined)))
    return Template(f"SELECT {items}\nFROM {tables}\nWHERE {where}\n{rest}").substitute(names).strip()
