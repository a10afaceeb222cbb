"""From a query to a growing answer, or to the reason why it does not grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
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
from qoop.programs.approximate.planning import RoundPlan, RoundPlanning, SessionQueries
from qoop.programs.approximate.schedule import buckets_in_order, schedule
from qoop.programs.approximate.target import AnswerOptions, Target
from qoop.programs.approximate.totals import NUMBERS, Totals
from qoop.programs.approximate.universe import Buckets, compared
from qoop.programs.approximate.worth_it import MOST_IN_PARTS, expected, first_edition_costs, in_vain, part_needed
from qoop.query.plan_keys import versions

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.query.job import Planned, Starts
    from qoop.query.planning import QueryPlanning

NOT_BUSY = "no other query had to wait for it"
"""The reason of an exact answer that could have ended early for other queries."""

FEWEST_PIECES = 1024
"""The fewest pieces of a table that has enough rows: with fewer, the first intervals come too late."""


MOST_VALUES = 20_000_000
"""The most rows whose values are kept for distinct counts and quantiles. Each takes some 20 bytes."""


def start_answer(
    text: str, session: SessionQueries, options: AnswerOptions, start: Starts
) -> GrowingAnswer | ExactAnswer:
    """The answer to a query: it grows where the query allows it. start: starts a job."""
    planning = session.planning
    if options.busy is not None and not options.busy():
        return ExactAnswer(start(planning.plan(text)), NOT_BUSY)
    if options.exact_within:
        planned = planning.plan(text)
        short = _short(planning.estimated_seconds(planned), options.exact_within)
        if short:
            return ExactAnswer(start(planned), short)
    query = _Query.of(text, session)
    opened = _opened(query, options)
    if isinstance(opened, str):
        return ExactAnswer(start(planning.plan(text)), opened)
    plan, rounds = opened
    whole = partial(_planned_whole, query)
    seconds = partial(_of_whole, planning, text)
    return GrowingAnswer(Growing(plan, options, query.bound.settings, query.rounds, whole, seconds, start, rounds))


def part_to_read(text: str, session: SessionQueries, target: Target) -> float | None:
    """The part of its tables that an approximate answer to a query should read to meet a target, by statistics; None:
    the query has no such answer, or an exact one is better."""
    query, planning = _Query.of(text, session), session.planning
    plan = _round_plan(query, AnswerOptions(target))
    if isinstance(plan, NotGrowing) or _exact_parts_are_long(text, plan.growth, planning):
        return None
    known = expected(plan.growth, planning.prepare)
    if known is None or in_vain(known, plan.growth, plan.schedule, target):
        return None
    return part_needed(known, plan.growth, plan.schedule, target)


def why_not(text: str, session: SessionQueries, options: AnswerOptions) -> RoundPlan | str:
    """The rounds in which the answer to a query would grow, or the reason why it would not."""
    planning, within = session.planning, options.exact_within
    short = _short(planning.estimated_seconds(planning.plan(text)), within) if within else ""
    if short:
        return short
    opened = _opened(_Query.of(text, session), options)
    if isinstance(opened, str):
        return opened
    plan, rounds = opened
    rounds.close()
    return plan


@value
class _Query:
    """A bound query of a session. tables: by lower-case name."""

    text: str
    bound: Bound
    tables: Mapping[str, Table]
    session: SessionQueries

    @classmethod
    def of(cls, text: str, session: SessionQueries) -> _Query:
        """The query of a text. Raises QueryError."""
        return cls(text, *session.tables.bind(session.tables.as_read(text)), session)

    def rounds(self) -> RoundPlanning:
        """A planning of rounds over the tables of the query."""
        tables = self.session.tables
        return RoundPlanning(self.tables, self.bound.settings, self.session.planning.apart, tables.locked)


def _opened(query: _Query, options: AnswerOptions) -> tuple[RoundPlan, RoundPlanning] | str:
    """The rounds of a query, and their planning with a plan of the first; or the reason why the query runs exactly."""
    plan = _round_plan(query, options)
    if isinstance(plan, NotGrowing):
        return plan.reason
    vain = _vain(query, plan, options.target) if options.exact_within else ""
    if vain:
        return vain
    rounds = query.rounds()
    refused = _refused(rounds, plan)
    if refused:
        rounds.close()
        return refused
    return plan, rounds


def _round_plan(query: _Query, options: AnswerOptions) -> RoundPlan | NotGrowing:
    """The rounds in which a query grows: by pieces of its largest table, or by buckets of a key."""
    session, target = query.session, options.target
    growth = growth_of(query.bound, query.tables, session.tables.describe)
    if isinstance(growth, NotGrowing):
        return growth
    name = growth.fact.name
    if session.on_nodes and not growth.fact.source.shared:
        return NotGrowing(f"{name}, the table of its sums, is in the memory of this process")
    seed = _seed(query.bound, growth) if options.seed is None else options.seed
    pieces = cut(growth.fact, FEWEST_PIECES)
    ways = compared(growth.universes, buckets_in_order().ends, session.planning.cost)
    if ways is not None and (pieces is None or ways.by_buckets < ways.by_pieces):
        return _if_values_fit(RoundPlan(growth, Buckets(ways.universe, name, seed), buckets_in_order(), ways))
    if pieces is None:
        return NotGrowing(f"{name}, the table of its sums, cannot be read by pieces")
    rounds = schedule(pieces.count, seed, pieces.in_row_groups, bool(growth.keys) and target.error > 0, pieces.sizes)
    if len(rounds.ends) == 1:
        return NotGrowing(f"{name}, the table of its sums, has only {growth.fact.rows:,} rows")
    return _if_values_fit(RoundPlan(growth, pieces, rounds, ways))


def _if_values_fit(plan: RoundPlan) -> RoundPlan | NotGrowing:
    """The same rounds, if they do not keep too many values."""
    fact = plan.growth.fact
    rows = fact.rows * plan.schedule.ends[-2] // plan.cut.count
    if plan.growth.is_of_values and rows > MOST_VALUES:
        return NotGrowing(f"it would have to keep the values of too many rows of {fact.name} for what does not add up")
    return plan


def _seed(bound: Bound, growth: Growth) -> int:
    """The seed of a text and of its table: the same query reads the same pieces."""
    text = f"{growth.fact.version}:{bound.text}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _planned_whole(query: _Query, rounds: Callable[[], RoundPlanning]) -> Planned:
    """The plan of the query itself: the session's, unless its tables or settings have changed since the answer began.
    rounds: the planning of the answer, which still has the tables of its beginning."""
    try:
        found = query.session.planning.plan(query.text)
        if versions(found.tables) == versions(query.tables) and found.bound.settings == query.bound.settings:
            return found
    except QueryError:
        pass  # a table is gone
    return rounds().plan_whole(query.text)


def _of_whole(planning: QueryPlanning, text: str) -> Whole:
    """The estimated seconds of the query itself. Raises QueryError if it can no longer be planned."""
    return Whole(planning.estimated_seconds(planning.plan(text)), planning.usable.cpu)


def _short(seconds: float, exact_within: float) -> str:
    """The reason to answer exactly: the query is short; empty: it is not."""
    if seconds > exact_within:
        return ""
    return f"it should take {seconds_text(seconds)}, and grows from {seconds_text(exact_within)} on (exact_within)"


def _vain(query: _Query, plan: RoundPlan, target: Target) -> str:
    """The reason to answer exactly, by estimates; empty: the answer should grow."""
    planning, growth = query.session.planning, plan.growth
    if not target.error and may_run_whole(growth, plan.cut):
        whole, rounds = _of_whole(planning, query.text), plan.schedule
        kept = is_taken_over(growth, plan.cut, rounds.order[rounds.ends[0] :], whole)
        costs = first_edition_costs(growth, rounds, query.tables, whole.seconds, kept)
        if costs:
            return costs
    long = _exact_parts_are_long(query.text, growth, planning)
    found = None if long else expected(growth, planning.prepare)
    return long if found is None else in_vain(found, growth, plan.schedule, target)


def _exact_parts_are_long(text: str, growth: Growth, planning: QueryPlanning) -> str:
    """The reason to answer exactly: the exact parts take nearly as long as the query; empty: they do not."""
    if growth.around is None:
        return ""
    try:
        parts = sum(planning.estimated_seconds(planning.plan(one)) for _, one in growth.around.exact)
    except QueryError:
        return ""  # a part is not a query, as where it names a column outside: `_refused` says so
    whole = planning.estimated_seconds(planning.plan(text))
    if parts <= MOST_IN_PARTS * whole:
        return ""
    return f"the exact parts around its sums should take {seconds_text(parts)} of its {seconds_text(whole)}"


def _around_refused(growth: Growth, rounds: RoundPlanning) -> str:
    """The reason why the query around the sums cannot be computed from them."""
    if growth.around is None:
        return ""
    totals = Totals(growth, rounds.settings)
    try:
        for name, text in growth.around.exact:
            totals.add_table(name, None, rounds.columns(text))
        return "" if totals.describes_around() else "the query around its sums has other columns over estimates"
    except (duckdb.Error, QueryError) as error:
        return f"the query around its sums needs more than these: {str(error).splitlines()[0]}"
    finally:
        totals.close()


def _refused(rounds: RoundPlanning, plan: RoundPlan) -> str:
    """The reason why the query of a round is not valid."""
    try:
        first = plan.schedule.pieces_of(0)
        types = dict(rounds.plan_ahead(plan.growth.round_sql, plan.cut, first).bound.columns)
        around = _around_refused(plan.growth, rounds)
        if around:
            return around
    except BindError as error:
        return f"its sums cannot be taken apart: {str(error).splitlines()[0]}"
    for place, measure in enumerate(plan.growth.measures):
        type_ = _listed(types[f"v{place}"]) if measure.merged_by == "values" else types[f"t{place}"]
        if measure.merged_by in ("sum", "values") and (not type_.startswith(NUMBERS) or type_ == "UUID"):
            return f"{measure.sql} is no number"
    return ""


def _listed(type_: str) -> str:
    """The type of the values in a list of pieces with their values.

    >>> _listed("STRUCT(p INTEGER, v DECIMAL(7,2)[])[]")
    'DECIMAL(7,2)'
    """
    return type_.removeprefix("STRUCT(p INTEGER, v ").removesuffix("[])[]")
