"""``qoop tpcds alternatives``: how many really different plans each query has, and how many are worth keeping.

With a scale, plans are made for data that are not there: the row counts of the tables become those of that scale, the
distributions of their values stay as they were measured (:func:`scaled`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import exp, inf, log
from pathlib import Path

from qoop.catalog.statistics.stats import ColumnStats, Scalar, TableStats
from qoop.planner.algebra.relation import Join, walk
from qoop.planner.collector import collector_waits
from qoop.planner.search.alternatives import explain_alternatives, full_pool, keep, pool
from qoop.planner.search.candidate import MOST_TOLERANCE, Alternatives, Pool, cluster_grid, local_grid
from qoop.query.job import Prepared
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.queries import text

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


@dataclass(frozen=True)
class QueryAlternatives:
    """The plans found for one query.

    pool, pool_shapes: plans and shapes that were costed. kept, kept_shapes: of those kept. covering: of the kept those
    that cover needs; the others are kept because they are cheap to switch to. joins: of the query as it is written.
    cover_error: by how much, at worst over the grid, the best kept plan is behind the best of the pool.
    planning_seconds: from the text to the kept set, without collecting statistics. cpu_seconds: of it, on the cpu.
    full, full_error: of a wider search, how many plans it found and how far the kept ones are behind the best of them.
    diagram: which kept plan wins where.
    """

    query: int
    pool: int
    pool_shapes: int
    kept: int
    covering: int
    kept_shapes: int
    joins: int
    cover_error: float
    planning_seconds: float
    cpu_seconds: float
    full: int | None = None
    full_error: float | None = None
    diagram: str = ""

    def json(self) -> dict[str, float]:
        """As a JSON object, without the fields that were not requested."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "diagram"}

    def line(self) -> str:
        """As a line of the table that starts with :data:`HEADER`."""
        full = "" if self.full_error is None else f" {self.full:5} {self.full_error:10.1%}"
        return (
            f"{self.query:5} {self.pool:5} {self.pool_shapes:7} {self.kept:5} {self.covering:9} {self.kept_shapes:7}"
            f" {self.joins:6} {self.cover_error:8.1%} {self.planning_seconds * 1e3:9.0f}"
            f" {self.cpu_seconds * 1e3:9.0f}{full}"
        )


HEADER = "query  pool  shapes  kept  covering  shapes  joins    error  planning  cpu (ms)"
FULL_HEADER = HEADER + "  full  full error"


def alternatives(
    directory: Path,
    queries: Iterable[int],
    scale: float | None,
    show: Callable[[QueryAlternatives], object],
    full: bool = False,
) -> list[QueryAlternatives]:
    """Make the alternatives of TPC-DS queries on the data of a folder, without running any.

    scale: None: for the data as they are, on this machine; else for that scale, made of data of scale 1, on the
    cluster of the paper. show: is called with each query as it is done. full: measure the kept plans against a wider
    search, too. Raises as a session does.
    """
    found = []
    with connect(staged=True, statistics="full") as session:
        session.register_folder(directory)
        for query in queries:
            statement = text(query, directory=directory)
            session.prepare(statement)  # collects the statistics
            found.append(_of(session, query, statement, scale, full))
            show(found[-1])
    return found


def _of(session: Session, query: int, statement: str, scale: float | None, full: bool) -> QueryAlternatives:
    with collector_waits():  # as in a session
        reading = _Stopwatch()
        prepared = session.prepare(statement)
        reading.stop()
        grid = local_grid(session.available)
        if scale is not None:
            prepared, grid = at_scale(prepared, scale), cluster_grid()
        planning = _Stopwatch()
        kept = keep(pool(prepared.planning(), grid))
        planning.stop()
    made = QueryAlternatives(
        query,
        len(kept.pool.candidates),
        kept.pool.shapes,
        len(kept.kept),
        kept.covering,
        kept.shapes,
        sum(isinstance(node, Join) for node in walk(prepared.relation)),
        kept.cover_error,
        reading.seconds + planning.seconds - prepared.statistics_seconds,
        reading.cpu + planning.cpu,
        diagram=explain_alternatives(kept),
    )
    if not full:
        return made
    wider = full_pool(prepared.planning(), grid)
    return replace(made, full=len(wider.candidates), full_error=_behind(kept, wider))


class _Stopwatch:
    """Wall and cpu seconds of this thread."""

    def __init__(self) -> None:
        self.seconds, self.cpu = -time.perf_counter(), -time.thread_time()

    def stop(self) -> None:
        """Take the time."""
        self.seconds += time.perf_counter()
        self.cpu += time.thread_time()


def _behind(kept: Alternatives, full: Pool) -> float:
    """By how much, at worst over the grid, the best kept plan ends later than the best of the full search."""
    pairs = ((kept.seconds(place), best) for place, best in enumerate(full.best))
    return max((mine / best - 1.0 for mine, best in pairs if 0.0 < best < inf), default=0.0)


def totals(found: list[QueryAlternatives]) -> str:
    """A few lines over all queries, with their targets."""
    pools = [sum(one.pool_shapes >= least for one in found) for least in (3, 5)]
    kept, covering = sum(one.kept >= 3 for one in found), sum(one.covering >= 3 for one in found)
    error = max(one.cover_error for one in found)
    lines = [
        f"{pools[0]} of {len(found)} queries have 3 shapes or more in the pool (target: 70 of 99), {pools[1]} have 5 "
        f"or more (50)",
        f"{covering} keep 3 plans or more because cover needs them (50), {kept} with those kept to switch to",
        f"the worst error is {error:.1%} (10%)",
        f"planning: {_percentiles([one.planning_seconds for one in found])}, "
        f"on the cpu {_percentiles([one.cpu_seconds for one in found])} (80 and 400 ms)",
    ]
    errors = sorted(one.full_error for one in found if one.full_error is not None)
    if errors:
        near = sum(error <= MOST_TOLERANCE for error in errors)
        lines.append(
            f"against the full search: {near} of {len(errors)} are within {MOST_TOLERANCE:.0%} everywhere, median "
            f"{errors[len(errors) // 2]:.1%}, worst {errors[-1]:.1%}"
        )
    return "\n".join(lines)


def _percentiles(seconds: list[float]) -> str:
    median, last = (quantile(seconds, part) * 1e3 for part in (0.5, 0.95))
    return f"median {median:.0f} ms, 95th percentile {last:.0f} ms"
