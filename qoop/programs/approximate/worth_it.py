"""Predicts by statistics which answers would grow in vain, before anything is read.

Small groups get no estimate from a sample, and all groups need one. So rounds are in vain where the groups of a query
have few rows on average. With very many groups, the rounds would cost more than the query. Statistics err and groups
differ: `DOUBT` is the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value
from qoop.programs.approximate.estimators.interim import Interim
from qoop.programs.approximate.growth import UNBOUNDED

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.algebra.relation import Aggregate, Relation
    from qoop.programs.approximate.growth import Growth
    from qoop.programs.approximate.schedule import Schedule
    from qoop.programs.approximate.target import Target
    from qoop.query.job import Prepared

DOUBT = 4.0
"""The factor by which groups may have more rows than statistics say: for TPC-DS's queries at scale 10 it is up to 5, in
the median 1.2."""

DOUBT_OF_FIRST = 20.0
"""The same for groups that are shown for their greatest counts, sums or averages: of a hundred groups whose sizes
follow Zipf's law with an exponent of 1, the first has 19 times the mean."""

_LEAST = 25.0
"""The fewest rows of a group with an interval: Cochran's rule (`estimators/skewness.py`) requires about as many pieces
that have it."""

MOST_GROUPS = 200_000
"""The most groups for which rounds pay: each is computed by piece, and merged again for each edition."""

MOST_IN_PARTS = 0.2
"""The part of a query's time that its exact parts may take. The first edition waits for them, and they run twice where
the last round is the query itself."""


MOST_IN_EDITION = 0.1
"""The part of the exact answer's time that an interim edition may take where only the exact answer is requested, and
reuses nothing of it."""

EDITION_SECONDS = 0.1
"""Seconds of an interim edition besides its rows: to analyse the query and to plan it."""


@value
class Expected:
    """The estimated rows of the sums, and their groups."""

    rows: float
    groups: float

    @property
    def each(self) -> float:
        """Rows of a group, on average."""
        return self.rows / max(1.0, self.groups)


def expected(growth: Growth, prepare: Callable[[str], Prepared]) -> Expected | None:
    """The rows and groups of a query by the statistics of its tables; None: unknown. prepare: see
    `QueryPlanning.prepare`."""
    from qoop.planner.estimate.cardinality import Cardinality

    try:
        prepared = prepare(_over_whole_table(growth))
    except QueryError:
        return None  # the run reports what is wrong with the text
    sums = _sums(prepared.relation)
    if sums is None:
        return None
    cardinality = Cardinality(prepared.stats)
    return Expected(cardinality.rows(sums.input) * len(sums.grouping_sets or (0,)), cardinality.rows(sums))


def in_vain(found: Expected, growth: Growth, schedule: Schedule, target: Target) -> str:
    """The reason to answer exactly at once; empty: the answer should grow."""
    if found.groups > MOST_GROUPS:
        return f"it should have {found.groups:,.0f} groups, which are too many to compute by piece"
    last, pieces = schedule.ends[-2], len(schedule.order)
    unseen = Interim(last, pieces, 1 - target.confidence).unseen
    if target.error and growth.bounded and unseen >= target.error:
        return f"its {pieces} pieces are too few to be within {target.error:.1%} before all are read"
    sampled = found.each * last / pieces
    each = f"its groups should have {found.each:,.0f} rows each, and {last / pieces:.0%} of them are read at most"
    kinds, doubt = {one.kind for one in growth.bounded}, _doubt(growth)
    if sampled * doubt < _LEAST and kinds.difference(UNBOUNDED):
        return f"{each}, before all are: too few for an interval"
    if target.error and "total" in kinds:
        least = _least_error(found.each * doubt, growth.fact.rows, Interim(last, pieces, 1 - target.confidence))
        if least > target.error:
            return f"{each}, before all are: too few to be within {target.error:.1%}"
    return ""


def _doubt(growth: Growth) -> float:
    """The factor by which the groups shown may have more rows than the mean."""
    greatest_first = growth.ranked is not None and growth.ranked[1]
    return DOUBT_OF_FIRST if growth.limited and greatest_first else DOUBT


def first_edition_costs(
    growth: Growth, schedule: Schedule, tables: Mapping[str, Table], seconds: float, is_kept: bool = False
) -> str:
    """The reason to compute an exact answer without an interim edition; empty: it may have one.

    tables: by lower-case name. seconds: of the exact answer. is_kept: the exact answer reuses the pieces. An edition
    reads its pieces, and all other tables whole."""
    named = (one.name.lower() for one in parse_one(growth.rest_sql, read="duckdb").find_all(exp.Table))
    others = sum(tables[name].rows for name in named if name in tables)
    rows = others + (0.0 if is_kept else growth.fact.rows * schedule.ends[0] / len(schedule.order))
    part = rows / (growth.fact.rows + others) + EDITION_SECONDS / max(seconds, EDITION_SECONDS)
    if part <= MOST_IN_EDITION:
        return ""
    unused = "" if is_kept else ", which reuses nothing of it"
    return f"a first edition should take {part:.0%} of the time of the exact answer{unused}"


_SPREAD = 1.0
"""The assumed standard deviation of the values of a sum, over their mean."""


def part_needed(found: Expected, growth: Growth, schedule: Schedule, target: Target) -> float | None:
    """The part of the pieces that an answer should read to meet its target; None: all pieces."""
    pieces = len(schedule.order)
    for end in schedule.ends[:-1]:
        if (
            _least_error(found.each, growth.fact.rows, Interim(end, pieces, 1 - target.confidence), _SPREAD)
            <= target.error
        ):
            return end / pieces
    return None


def _least_error(each: float, rows: int, interim: Interim, spread: float = 0.0) -> float:
    """The error of the count of a group of a number of rows, in a sample of single rows; the error of a sum is no less.

    spread: of the values of a sum: their standard deviation over their mean.

    >>> round(_least_error(1000, 1_000_000, Interim(25, 100, 0.05)), 3)
    0.107
    """
    share = interim.drawn / interim.pieces
    others = 1 - min(1.0, each / max(1, rows))  # where all rows are of one group their count is known
    return interim.z * sqrt((1 - share) * (others + spread**2) / max(1.0, each * share))


def _over_whole_table(growth: Growth) -> str:
    from qoop.programs.approximate.eligibility import PIECES

    query = parse_one(growth.rest_sql, read="duckdb")
    for table in query.find_all(exp.Table):
        if table.name == PIECES:
            table.set("this", exp.to_identifier(growth.fact.name, quoted=True))
    return query.sql("duckdb")


def _sums(relation: Relation) -> Aggregate | None:
    """The outermost aggregate of a relation; None: a node above it has several inputs."""
    from qoop.planner.algebra.relation import Aggregate

    while not isinstance(relation, Aggregate):
        if len(relation.inputs) != 1:
            return None
        [relation] = relation.inputs
    return relation
