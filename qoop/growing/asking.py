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
from qoop.growing.answer import ExactAnswer, Growing, GrowingAnswer
from qoop.growing.eligibility import growth_of
from qoop.growing.growth import Growth, NotGrowing
from qoop.growing.planning import RoundPlanning
from qoop.growing.schedule import Schedule, schedule
from qoop.growing.totals import NUMBERS, Totals

if TYPE_CHECKING:
    from qoop.catalog.sources.pieces import Cut
    from qoop.catalog.table import Table
    from qoop.config import Config
    from qoop.growing.goal import Goal
    from qoop.job import Starts
    from qoop.planner.sql.bind import Bound
    from qoop.planning import QueryPlanning
    from qoop.session_tables import SessionTables

NOT_BUSY = "no other query had to wait for it"
"""The reason of an answer that was to end early for others, and did not."""

_PIECES = 1024
"""Pieces that a table is cut into at least, if they have rows enough: of fewer too little is known too long."""


@value
class Found:
    """A query that can grow, its pieces and its rounds."""

    growth: Growth
    cut: Cut
    schedule: Schedule


def found(
    bound: Bound,
    tables: Mapping[str, Table],
    seed: int | None,
    on_nodes: bool,
    describe: Callable[[str], tuple[tuple[str, str], ...]],
) -> Found | NotGrowing:
    """The way in which a query grows. seed: of the order of the pieces; by default one of the text and of the
    table, so that the same query reads the same pieces. on_nodes: tasks run in other processes."""
    growth = growth_of(bound, tables, describe)
    if isinstance(growth, NotGrowing):
        return growth
    name = growth.fact.name
    if on_nodes and not growth.fact.source.shared:
        return NotGrowing(f"{name}, the table of its sums, is in the memory of this process")
    pieces = cut(growth.fact, _PIECES)
    if pieces is None:
        return NotGrowing(f"{name}, the table of its sums, cannot be read by pieces")
    rounds = schedule(pieces.count, _seed(bound, growth) if seed is None else seed)
    if len(rounds.ends) == 1:
        return NotGrowing(f"{name}, the table of its sums, has only {growth.fact.rows:,} rows")
    return Found(growth, pieces, rounds)


def _seed(bound: Bound, growth: Growth) -> int:
    text = f"{growth.fact.version}:{bound.text}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def ask(
    text: str,
    tables: SessionTables,
    planning: QueryPlanning,
    config: Config,
    goal: Goal,
    seed: int | None,
    start: Starts,
    busy: Callable[[], bool] | None = None,
    cut_short: Callable[[float], object] | None = None,
) -> GrowingAnswer | ExactAnswer:
    """The answer to a query: one that grows where that can be. start: starts a job. busy, cut_short: see `Growing`."""
    if busy is not None and not busy():
        return ExactAnswer(start(planning.plan(text)), NOT_BUSY)
    bound, named = tables.bind(tables.as_read(text))
    growing = found(bound, named, seed, config.ray is not None, tables.describe)
    if isinstance(growing, NotGrowing):
        return ExactAnswer(start(planning.plan(text)), growing.reason)
    rounds = partial(RoundPlanning, named, bound.settings, planning.apart, bool(config.locked))
    refused = _refused(rounds(), growing)
    if refused:
        return ExactAnswer(start(planning.plan(text)), refused)
    return GrowingAnswer(
        Growing(growing.growth, growing.cut, growing.schedule, goal, bound.settings, rounds, start, busy, cut_short)
    )


def why_not(text: str, tables: SessionTables, planning: QueryPlanning, config: Config) -> Found | str:
    """The way in which a query would grow, or the reason why it would not."""
    bound, named = tables.bind(tables.as_read(text))
    growing = found(bound, named, None, config.ray is not None, tables.describe)
    if isinstance(growing, NotGrowing):
        return growing.reason
    return _refused(RoundPlanning(named, bound.settings, planning.apart, bool(config.locked)), growing) or growing


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
        types = dict(rounds.plan(growing.growth.round_sql, growing.cut.of(growing.schedule.pieces_of(0))).bound.columns)
        around = _around_refused(growing.growth, rounds)
        if around:
            return around
    except BindError as error:
        return f"its sums cannot be taken apart: {str(error).splitlines()[0]}"
    finally:
        rounds.close()
    for place, measure in enumerate(growing.growth.measures):
        if measure.merged_by == "sum" and not types[f"t{place}"].startswith(NUMBERS):
            return f"{measure.sql} is no number"
    return ""
