"""Statistics of larger data than there are: queries are planned for row counts of another scale.

The row counts of the tables become those of that scale; the distributions of their values stay as they were measured
(:func:`scaled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log

from qoop.catalog.statistics.stats import ColumnStats, Scalar, TableStats
from qoop.query.job import Prepared

_SCALES = (1.0, 10.0, 100.0, 1000.0, 3000.0)
_ROWS: Mapping[str, tuple[float, ...]] = {
    "call_center": (6, 24, 30, 42, 48),
    "catalog_page": (11_718, 12_000, 20_400, 30_000, 36_000),
    "customer": (100_000, 500_000, 2_000_000, 12_000_000, 30_000_000),
    "customer_address": (50_000, 250_000, 1_000_000, 6_000_000, 15_000_000),
    "inventory": (11_745_000, 133_110_000, 399_330_000, 783_000_000, 1_033_560_000),
    "item": (18_000, 102_000, 204_000, 300_000, 360_000),
    "promotion": (300, 500, 1_000, 1_500, 1_800),
    "reason": (35, 45, 55, 65, 67),
    "store": (12, 102, 402, 1_002, 1_350),
    "warehouse": (5, 10, 15, 20, 22),
    "web_page": (60, 200, 2_040, 3_000, 3_600),
    "web_site": (30, 42, 24, 54, 66),
}
"""Rows of the tables that do not grow in proportion, at scales 1, 10, 100, 1000, 3000 (TPC-DS 2.x, table 3-2)."""
_IN_PROPORTION = frozenset(
    {"store_sales", "store_returns", "catalog_sales", "catalog_returns", "web_sales", "web_returns"}
)
_REFERS = {
    "customer_sk": "customer", "addr_sk": "customer_address", "address_sk": "customer_address", "item_sk": "item",
    "store_sk": "store", "promo_sk": "promotion", "warehouse_sk": "warehouse", "call_center_sk": "call_center",
    "catalog_page_sk": "catalog_page", "web_page_sk": "web_page", "web_site_sk": "web_site", "site_sk": "web_site",
    "page_sk": "catalog_page", "reason_sk": "reason", "ticket_number": "store_sales", "order_number": "store_sales",
}  # fmt: skip
"""By the end of its name, the table whose keys a column holds; the longest end counts."""


def growth(table: str, scale: float) -> float:
    """The rows of a table at a scale, relative to scale 1. Between the documented scales the logarithms lie on a
    straight line."""
    if table in _IN_PROPORTION:
        return scale
    rows = _ROWS.get(table)
    if rows is None or scale <= 1:
        return 1.0
    last = len(_SCALES) - 2
    i = next((i for i in range(last) if scale <= _SCALES[i + 1]), last)
    part = log(scale / _SCALES[i]) / log(_SCALES[i + 1] / _SCALES[i])
    return exp(log(rows[i]) * (1 - part) + log(rows[i + 1]) * part) / rows[0]


def scaled(stats: Mapping[str, TableStats], scale: float) -> dict[str, TableStats]:
    """Statistics of scale 1 as they would be at another scale: more rows and more keys, values spread as before."""
    return {name: _table(name.lower(), table, scale) for name, table in stats.items()}


def scaled_splits(splits: Mapping[str, int], scale: float) -> dict[str, int]:
    """Into how many parts the tables could be cut at that scale, with row groups of the same size."""
    return {name: max(1, round(parts * growth(name.lower(), scale))) for name, parts in splits.items()}


def at_scale(prepared: Prepared, scale: float) -> Prepared:
    """A query over tables of scale 1 as it would be prepared over those of another scale."""
    return replace(prepared, stats=scaled(prepared.stats, scale), splits=scaled_splits(prepared.splits, scale))


def _table(name: str, table: TableStats, scale: float) -> TableStats:
    factor = growth(name, scale)
    columns = {column: _column(column, stats, factor, scale, table.rows) for column, stats in table.columns.items()}
    return TableStats(table.rows * factor, table.bytes * factor, columns, table.keys)


def _column(name: str, stats: ColumnStats, factor: float, scale: float, rows: float) -> ColumnStats:
    """A key has as many values as its table has rows; a column that is nearly unique stays so; others keep theirs."""
    grown = replace(stats, nulls=stats.nulls * factor)
    ends = [end for end in _REFERS if name.lower().endswith(end)]
    if ends:
        keys = growth(_REFERS[max(ends, key=len)], scale)
    elif stats.distinct > 0.5 * rows:
        return replace(grown, distinct=stats.distinct * factor)
    else:
        return grown
    return replace(
        grown,
        distinct=min(stats.distinct * keys, rows * factor),
        minimum=stats.minimum,
        maximum=_times(stats.maximum, keys),
        common=tuple((_times(value, keys) or 0.0, part / keys) for value, part in stats.common),
        bounds=tuple(_times(bound, keys) or 0.0 for bound in stats.bounds),
    )


def _times(value: Scalar | None, factor: float) -> Scalar | None:
    return value * factor if isinstance(value, float) else value
