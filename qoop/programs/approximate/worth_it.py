"""Statistics tell that some answers would grow in vain, before anything of them is read.

A sample tells nothing of a group that has few rows in it, and all groups are to be told of. So where the groups of a
query have few rows on average its rounds would be in vain, and where there are very many groups the rounds would cost
more than the query. Statistics err, and groups differ; `DOUBT` is between what they say and what is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value
from qoop.programs.approximate.estimators.look import Look
from qoop.programs.approximate.growth import UNBOUNDED

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.algebra.relation import Aggregate, Relation
    from qoop.programs.approximate.growth import Growth
    from qoop.programs.approximate.schedule import Schedule
    from qoop.programs.approximate.target import Target
    from qoop.query.job import Prepared

DOUBT = 4.0
"""Groups may have that many times the rows that statistics give them: of TPC-DS's queries at scale 10 they have up to
5 times as many, in the median 1.2."""

DOUBT_OF_FIRST = 20.0
"""The same of groups that are shown since theirs are the greatest counts, sums or averages: of a hundred groups whose
sizes follow Zipf's law, with an exponent of 1, the first has 19 times the mean."""

_LEAST = 25.0
"""Rows of a group below which it has no interval: Cochran's rule (`estimators/skewness.py`) asks for about as many
pieces that have it."""

MOST_GROUPS = 200_000
"""Groups that rounds are worth: each is told by piece, and put together once more for each edition."""

MOST_IN_PARTS = 0.2
"""The part of the time of a query that exact parts of it may take, which the first edition waits for. Where the last
round is the query itself they run twice."""


MOST_IN_LOOK = 0.1
"""The part of the time of the exact answer that a look may take where nothing else is wanted, and nothing of the look
is taken over."""

LOOK_SECONDS = 0.1
"""Seconds of a look besides its rows: to see what the query is made of, and to plan it."""


@value
class Expected:
    """rows: that go into the sums. groups: that they fall into."""

    rows: float
    groups: float

    @property
    def each(self) -> float:
        """Rows of a group, on average."""
        return self.rows / max(1.0, self.groups)


def expected(growth: Growth, prepare: Callable[[str], Prepared]) -> Expected | None:
    """By the statistics of the tables; None where these tell nothing. prepare: see `QueryPlanning.prepare`."""
    from qoop.planner.estimate.cardinality import Cardinality

    try:
        prepared = prepare(_over_whole_table(growth))
    except QueryError:
        return None  # the text is told about when it runs
    sums = _sums(prepared.relation)
    if sums is None:
        return None
    cardinality = Cardinality(prepared.stats)
    return Expected(cardinality.rows(sums.input) * len(sums.grouping_sets or (0,)), cardinality.rows(sums))


def in_vain(found: Expected, growth: Growth, schedule: Schedule, target: Target) -> str:
    """The reason why an answer had better be exact at once; empty if it had better grow."""
    if found.groups > MOST_GROUPS:
        return f"it should have {found.groups:,.0f} groups, which are too many to be told of by piece"
    last, pieces = schedule.ends[-2], len(schedule.order)
    unseen = Look(last, pieces, 1 - target.confidence).unseen
    if target.error and growth.bounded and unseen >= target.error:
        return f"its {pieces} pieces are too few to be within {target.error:.1%} before all are read"
    seen = found.each * last / pieces
    each = f"its groups should have {found.each:,.0f} rows each, and {last / pieces:.0%} of them are read at most"
    kinds, doubt = {one.kind for one in growth.bounded}, _doubt(growth)
    if seen * doubt < _LEAST and kinds.difference(UNBOUNDED):
        return f"{each}, before all are: too few for an interval"
    if target.error and "total" in kinds:
        least = _least_error(found.each * doubt, growth.fact.rows, Look(last, pieces, 1 - target.confidence))
        if least > target.error:
            return f"{each}, before all are: too few to be within {target.error:.1%}"
    return ""


def _doubt(growth: Growth) -> float:
    """The number of times the mean rows that the groups shown may have."""
    greatest_first = growth.ranked is not None and growth.ranked[1]
    return DOUBT_OF_FIRST if growth.limited and greatest_first else DOUBT


def look_is_dear(
    growth: Growth, schedule: Schedule, tables: Mapping[str, Table], seconds: float, is_kept: bool = False
) -> str:
    """The reason why an answer that is wanted exact had better have no look before; empty if it may have one. tables:
    by lower-case name. seconds: of the exact answer. A look reads its pieces, and all other tables whole. is_kept: the
    exact answer takes over the pieces."""
    named = (one.name.lower() for one in parse_one(growth.rest_sql, read="duckdb").find_all(exp.Table))
    others = sum(tables[name].rows for name in named if name in tables)
    rows = others + (0.0 if is_kept else growth.fact.rows * schedule.ends[0] / len(schedule.order))
    part = rows / (growth.fact.rows + others) + LOOK_SECONDS / max(seconds, LOOK_SECONDS)
    if part <= MOST_IN_LOOK:
        return ""
    nothing = "" if is_kept else ", which takes over nothing of it"
    return f"a look before should take {part:.0%} of the time of the exact answer{nothing}"


_SPREAD = 1.0
"""The standard deviation of the values of a sum over their mean, where nothing is known of it."""


def part_needed(found: Expected, growth: Growth, schedule: Schedule, target: Target) -> float | None:
    """The part of the pieces that an answer should have to read to meet its target; None: all of them."""
    pieces = len(schedule.order)
    for end in schedule.ends[:-1]:
        if (
            _least_error(found.each, growth.fact.rows, Look(end, pieces, 1 - target.confidence), _SPREAD)
            <= target.error
        ):
            return end / pieces
    return None


def _least_error(each: float, rows: int, look: Look, spread: float = 0.0) -> float:
    """The error of the count of a group of that many rows, in a sample of the rows one by one; a sum's is no less.

    spread: of the values of a sum: their standard deviation over their mean.

    >>> round(_least_error(1000, 1_000_000, Look(25, 100, 0.05)), 3)
    0.107
    """
    share = look.drawn / look.pieces
    others = 1 - min(1.0, each / max(1, rows))  # where all rows are of one group their count is known
    return look.z * sqrt((1 - share) * (others + spread**2) / max(1.0, each * share))


def _over_whole_table(growth: Growth) -> str:
    from qoop.programs.approximate.eligibility import PIECES

    query = parse_one(growth.rest_sql, read="duckdb")
    for table in query.find_all(exp.Table):
        if table.name == PIECES:
            table.set("this", exp.to_identifier(growth.fact.name, quoted=True))
    return query.sql("duckdb")


def _sums(relation: Relation) -> Aggregate | None:
    """The outermost sums of a relation, below which there is nothing but what is summed up."""
    from qoop.planner.algebra.relation import Aggregate

    while not isinstance(relation, Aggregate):
        if len(relation.inputs) != 1:
            return None
        [relation] = relation.inputs
    return relation
