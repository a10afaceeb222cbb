"""``qoop tpcds alternatives``: how many really different plans each query has, and how many are worth keeping.

With a scale, plans are made for data that are not there: the row counts of the tables become those of that scale, the
distributions of their values stay as they were measured (:func:`scaled`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import exp, log
from pathlib import Path

from qoop.catalog.stats import ColumnStats, Scalar, TableStats
from qoop.job import Prepared
from qoop.planner.alternatives import cluster_grid, keep, local_grid, pool
from qoop.planner.plan import Resources
from qoop.planner.relation import Join, walk
from qoop.session import connect
from qoop.tpcds.queries import text

_SCALES = (1.0, 10.0, 100.0, 1000.0)
_ROWS: Mapping[str, tuple[float, ...]] = {
    "call_center": (6, 24, 30, 42),
    "catalog_page": (11_718, 12_000, 20_400, 30_000),
    "customer": (100_000, 500_000, 2_000_000, 12_000_000),
    "customer_address": (50_000, 250_000, 1_000_000, 6_000_000),
    "inventory": (11_745_000, 133_110_000, 399_330_000, 783_000_000),
    "item": (18_000, 102_000, 204_000, 300_000),
    "promotion": (300, 500, 1_000, 1_500),
    "reason": (35, 45, 55, 65),
    "store": (12, 102, 402, 1_002),
    "warehouse": (5, 10, 15, 20),
    "web_page": (60, 200, 2_040, 3_000),
    "web_site": (30, 42, 24, 54),
}
"""Rows of the tables that do not grow in proportion, at scales 1, 10, 100, 1000 (TPC-DS 2.x, table 3-2)."""
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
    """How many times the rows of scale 1 a table has at a scale; between those documented on a straight line of the
    logarithms."""
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


@dataclass(frozen=True)
class QueryAlternatives:
    """What was found for one query.

    pool, pool_shapes: plans and shapes that were costed. kept, kept_shapes: of those kept. joins: of the query as it is
    written. cover_error: by how much, at worst over the grid, the best kept plan is behind the best of the pool.
    planning_seconds: of making, costing and choosing all plans.
    """

    query: int
    pool: int
    pool_shapes: int
    kept: int
    kept_shapes: int
    joins: int
    cover_error: float
    planning_seconds: float

    def json(self) -> dict[str, float]:
        """As a JSON object."""
        return asdict(self)

    def line(self) -> str:
        """As a line of the table that starts with :data:`HEADER`."""
        return (
            f"{self.query:5} {self.pool:5} {self.pool_shapes:7} {self.kept:5} {self.kept_shapes:7} {self.joins:6}"
            f" {self.cover_error:8.1%} {self.planning_seconds * 1e3:9.0f}"
        )


HEADER = "query  pool  shapes  kept  shapes  joins    error  planning (ms)"


def alternatives(
    directory: Path, queries: Iterable[int], scale: float | None, show: Callable[[QueryAlternatives], object]
) -> list[QueryAlternatives]:
    """Make the alternatives of TPC-DS queries on the data of a folder, without running any.

    scale: None: for the data as they are, on this machine; else for that scale, made of data of scale 1, on the
    cluster of the paper. show: is called with each query as it is done. Raises as a session does.
    """
    found = []
    with connect() as session:
        session.register_folder(directory)
        for query in queries:
            found.append(_of(session.prepare(text(query)), session.room, query, scale))
            show(found[-1])
    return found


def _of(prepared: Prepared, room: Resources, query: int, scale: float | None) -> QueryAlternatives:
    grid = local_grid(room)
    if scale is not None:
        stats, splits = scaled(prepared.stats, scale), scaled_splits(prepared.splits, scale)
        prepared, grid = replace(prepared, stats=stats, splits=splits), cluster_grid()
    begun = time.perf_counter()
    kept = keep(pool(prepared.planning(), grid))
    seconds = time.perf_counter() - begun
    joins = sum(isinstance(node, Join) for node in walk(prepared.relation))
    return QueryAlternatives(
        query,
        len(kept.pool.candidates),
        kept.pool.shapes,
        len(kept.kept),
        kept.shapes,
        joins,
        kept.cover_error,
        seconds,
    )


def totals(found: list[QueryAlternatives]) -> str:
    """A few lines over all queries."""
    seconds = sorted(one.planning_seconds for one in found)
    pools = [sum(one.pool_shapes >= least for one in found) for least in (3, 5)]
    kept = sum(one.kept >= 3 for one in found)
    error = max(one.cover_error for one in found)
    return (
        f"{pools[0]} of {len(found)} queries have 3 shapes or more in the pool, {pools[1]} have 5 or more; "
        f"{kept} keep 3 plans or more; the worst error is {error:.1%}\n"
        f"planning: median {seconds[len(seconds) // 2] * 1e3:.0f} ms, "
        f"95th percentile {seconds[min(len(seconds) - 1, len(seconds) * 95 // 100)] * 1e3:.0f} ms"
    )
