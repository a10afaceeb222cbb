"""From a query to a growing answer, or to the reason why it does not grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.errors import BindError, QueryError
from qoop.catalog.sources.pieces import cut
from qoop.catalog.value import value
from qoop.planner.explain import seconds_text
from qoop.programs.approximate.answer import ExactAnswer, Growing, GrowingAnswer
from qoop.programs.approximate.eligibility import growth_of
from qoop.programs.approximate.final_round import Whole, is_taken_over, may_run_whole
from qoop.programs.approximate.growth import Growth, NotGrowing
from qoop.programs.approximate.planning import RoundPlanning
from qoop.programs.approximate.schedule import Schedule, buckets_in_order, schedule
from qoop.programs.approximate.totals import NUMBERS, Totals
from qoop.programs.approximate.universe import Buckets, Ways, compared
from qoop.programs.approximate.worth_it import MOST_IN_PARTS, expected, in_vain, look_is_dear, part_needed
from qoop.query.plan_keys import versions

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog
    from qoop.catalog.sources.pieces import Cut
    from qoop.catalog.table import Table
    from qoop.planner.estimate.cost import CostModel
    from qoop.planner.sql.bind import Bound
    from qoop.programs.approximate.target import Target
    from qoop.query.config import Config
    from qoop.query.job import Planned, Starts
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables

NOT_BUSY = "no other query had to wait for it"
"""The reason of an answer that was to end early for others, and did not."""

_PIECES = 1024
"""Pieces that a table is cut into at least, if they have rows enough: of fewer too little is known too long."""


MOST_VALUES = 20_000_000
"""Rows whose values are kept for distinct counts and quantiles, of which each takes some 20 bytes."""


@value
class Found:
    """A query that can grow, its pieces or buckets, and its rounds. ways: what both take, where there is a choice."""

    growth: Growth
    cut: Cut | Buckets
    schedule: Schedule
    ways: Ways | None = None


def found(
    bound: Bound,
    tables: Mapping[str, Table],
    seed: int | None,
    on_nodes: bool,
    describe: Callable[[str], tuple[tuple[str, str], ...]],
    cost: CostModel,
    target: Target,
) -> Found | NotGrowing:
    """The way in which a query grows. seed: of the order of the pieces; by default one of the text and of the
    table, so that the same query reads the same pieces. on_nodes: tasks run in other processes. cost: of rows."""
    growth = growth_of(bound, tables, describe)
    if isinstance(growth, NotGrowing):
        return growth
    name = growth.fact.name
    if on_nodes and not growth.fact.source.shared:
        return NotGrowing(f"{name}, the table of its sums, is in the memory of this process")
    drawn_by = _seed(bound, growth) if seed is None else seed
    pieces = cut(growth.fact, _PIECES)
    ways = compared(growth.universes, buckets_in_order().ends, cost)
    by_buckets = ways is not None and (pieces is None or ways.by_buckets < ways.by_pieces)
    if ways is not None and by_buckets:
        return _held(growth, Found(growth, Buckets(ways.universe, name, drawn_by), buckets_in_order(), ways))
    if pieces is None:
        return NotGrowing(f"{name}, the table of its sums, cannot be read by pieces")
    rounds = schedule(
        pieces.count, drawn_by, pieces.in_row_groups, bool(growth.keys) and target.error > 0, pieces.sizes
    )
    if len(rounds.ends) == 1:
        return NotGrowing(f"{name}, the table of its sums, has only {growth.fact.rows:,} rows")
    return _held(growth, Found(growth, pieces, rounds, ways))


def _held(growth: Growth, way: Found) -> Found | NotGrowing:
    """The same, if the values that are to be kept are not too many."""
    rows = growth.fact.rows * way.schedule.ends[-2] // way.cut.count
    if growth.is_of_values and rows > MOST_VALUES:
        name = growth.fact.name
        return NotGrowing(f"it would have to keep the values of too many rows of {name} for what does not add up")
    return way


def _seed(bound: Bound, growth: Growth) -> int:
    text = f"{growth.fact.version}:{bound.text}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def ask(
    text: str,
    tables: SessionTables,
    planning: QueryPlanning,
    config: Config,
    target: Target,
    seed: int | None,
    start: Starts,
    exact_within: float = 0.0,
    busy: Callable[[], bool] | None = None,
    cut_short: Callable[[float], object] | None = None,
    deadline: float = inf,
    tell: MessageLog | None = None,
) -> GrowingAnswer | ExactAnswer:
    """The answer to a query: one that grows where that can be. start: starts a job. exact_within: seconds; an answer
    that should be exact by then does not grow. busy, cut_short, deadline, tell: see `Growing`."""
    if busy is not None and not busy():
        return ExactAnswer(start(planning.plan(text)), NOT_BUSY)
    if exact_within:
        planned = planning.plan(text)
        short = _short(planning.foretold(planned), exact_within)
        if short:
            return ExactAnswer(start(planned), short)
    bound, named = tables.bind(tables.as_read(text))
    growing = found(bound, named, seed, config.ray is not None, tables.describe, planning.cost, target)
    if isinstance(growing, NotGrowing):
        return ExactAnswer(start(planning.plan(text)), growing.reason)
    vain = _vain(text, growing, named, planning, target) if exact_within else ""
    if vain:
        return ExactAnswer(start(planning.plan(text)), vain)
    rounds = partial(RoundPlanning, named, bound.settings, planning.apart, bool(config.locked))
    opened = rounds()
    refused = _refused(opened, growing)
    if refused:
        opened.close()
        return ExactAnswer(start(planning.plan(text)), refused)
    whole = partial(_planned_whole, planning, text, bound, named)
    seconds = partial(_of_whole, planning, text)
    ways = growing.growth, growing.cut, growing.schedule, target, bound.settings, rounds, whole, seconds
    return GrowingAnswer(Growing(*ways, start, busy, cut_short, deadline, opened, tell))


def part_to_read(
    text: str, tables: SessionTables, planning: QueryPlanning, config: Config, target: Target
) -> float | None:
    """The part of its tables that an approximate answer to a query should read to meet its target, by statistics; None
    if the query has none, or had better be answered exactly."""
    bound, named = tables.bind(tables.as_read(text))
    growing = found(bound, named, None, config.ray is not None, tables.describe, planning.cost, target)
    if isinstance(growing, NotGrowing) or _exact_parts_are_long(text, growing.growth, planning):
        return None
    known = expected(growing.growth, planning.prepare)
    if known is None or in_vain(known, growing.growth, growing.schedule, target):
        return None
    return part_needed(known, growing.growth, growing.schedule, target)


def _planned_whole(
    planning: QueryPlanning, text: str, bound: Bound, named: Mapping[str, Table], rounds: Callable[[], RoundPlanning]
) -> Planned:
    """The plan of the query itself: the session's, which may be known, unless it is of other tables or settings since
    the answer began to grow. rounds: the planning of the answer, which has those tables yet."""
    try:
        found = planning.plan(text)
        if versions(found.tables) == versions(named) and found.bound.settings == bound.settings:
            return found
    except QueryError:
        pass  # a table is gone
    return rounds().plan_whole(text)


def _of_whole(planning: QueryPlanning, text: str) -> Whole:
    """The seconds that the query itself should take. Raises QueryError if it can no longer be planned."""
    return Whole(planning.foretold(planning.plan(text)), planning.usable.cpu)


def _short(seconds: float, exact_within: float) -> str:
    """The reason of an answer that is exact soon; empty if it is not."""
    if seconds > exact_within:
        return ""
    return f"it should take {seconds_text(seconds)}, and grows from {seconds_text(exact_within)} on (exact_within)"


def _vain(text: str, growing: Found, named: Mapping[str, Table], planning: QueryPlanning, target: Target) -> str:
    """The reason of an answer that had better not grow, by what is foretold; empty if it had better."""
    if not target.error and may_run_whole(growing.growth, growing.cut):
        whole, schedule_ = _of_whole(planning, text), growing.schedule
        kept = is_taken_over(growing.growth, growing.cut, schedule_.order[schedule_.ends[0] :], whole)
        dear = look_is_dear(growing.growth, schedule_, named, whole.seconds, kept)
        if dear:
            return dear
    long = _exact_parts_are_long(text, growing.growth, planning)
    found = None if long else expected(growing.growth, planning.prepare)
    return long if found is None else in_vain(found, growing.growth, growing.schedule, target)


def _exact_parts_are_long(text: str, growth: Growth, planning: QueryPlanning) -> str:
    """The reason of an answer that waits for exact parts as long as for the query, nearly; empty if it does not."""
    if growth.around is None:
        return ""
    try:
        parts = sum(planning.foretold(planning.plan(one)) for _, one in growth.around.exact)
    except QueryError:
        return ""  # a part that is none, such as one that names a column outside: `_refused` says so
    whole = planning.foretold(planning.plan(text))
    if parts <= MOST_IN_PARTS * whole:
        return ""
    return f"what stands around its sums should take {seconds_text(parts)} of its {seconds_text(whole)}"


def why_not(
    text: str, tables: SessionTables, planning: QueryPlanning, config: Config, target: Target, exact_within: float = 0.0
) -> Found | str:
    """The way in which a query would grow, or the reason why it would not."""
    short = _short(planning.foretold(planning.plan(text)), exact_within) if exact_within else ""
    if short:
        return short
    bound, named = tables.bind(tables.as_read(text))
    growing = found(bound, named, None, config.ray is not None, tables.describe, planning.cost, target)
    if isinstance(growing, NotGrowing):
        return growing.reason
    vain = _vain(text, growing, named, planning, target) if exact_within else ""
    rounds = RoundPlanning(named, bound.settings, planning.apart, bool(config.locked))
    try:
        return vain or _refused(rounds, growing) or growing
    finally:
        rounds.close()


def _around_refused(growth: Growth, rounds: RoundPlanning) -> str:
    """The reason why what stands around the sums cannot be computed from them."""
    if growth.around is None:
        return ""
    totals = Totals(growth, rounds.settings)
    try:
        for name, text in growth.around.exact:
            totals.know(name, None, rounds.columns(text))
        return "" if totals.describes_around() else "what stands around its sums has other columns over estimates"
    except (duckdb.Error, QueryError) as error:
        return f"what stands around its sums needs more than these: {str(error).splitlines()[0]}"
    finally:
        totals.close()


def _refused(rounds: RoundPlanning, growing: Found) -> str:
    """The reason why the query of a round is none."""
    try:
        first = growing.schedule.pieces_of(0)
        types = dict(rounds.plan_ahead(growing.growth.round_sql, growing.cut, first).bound.columns)
        around = _around_refused(growing.growth, rounds)
        if around:
            return around
    except BindError as error:
        return f"its sums cannot be taken apart: {str(error).splitlines()[0]}"
    for place, measure in enumerate(growing.growth.measures):
        type_ = _listed(types[f"v{place}"]) if measure.merged_by == "values" else types[f"t{place}"]
        if measure.merged_by in ("sum", "values") and (not type_.startswith(NUMBERS) or type_ == "UUID"):
            return f"{measure.sql} is no number"
    return ""


def _listed(type_: str) -> str:
    """The type of the values in a list of pieces with theirs.

    >>> _listed("STRUCT(p INTEGER, v DECIMAL(7,2)[])[]")
    'DECIMAL(7,2)'
    """
    return type_.removeprefix("STRUCT(p INTEGER, v ").removesuffix("[])[]")
