"""The queries of a race: the metrics of several trials side by side, over some pieces of a table or over all of it.

    texts of trials ──`side_by_side`──> one SELECT with a column for each trial ──`growth_of`──> its sums
    sums of each piece ──estimates, and those without each piece──> :func:`qoop.programs.sweeps.paired.comparison`

So a table is read once for all trials, and its rows are joined and filtered once. Trials differ in the values of their
parameters alone, as literals: those of a condition become a FILTER of the trial's aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp, parse_one

from qoop.catalog import arrow_input
from qoop.catalog.errors import ExecutionError, QueryError
from qoop.catalog.sources.pieces import Cut, cut
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import growth_of
from qoop.programs.approximate.growth import NotGrowing
from qoop.programs.approximate.planning import RoundPlanning
from qoop.programs.approximate.schedule import schedule
from qoop.programs.approximate.start import FEWEST_PIECES
from qoop.programs.approximate.totals import spread_sql
from qoop.programs.approximate.universe import per_piece
from qoop.programs.sweeps.messages import Compared
from qoop.programs.sweeps.paired import comparison
from qoop.query.statements.settings import opened

if TYPE_CHECKING:
    from qoop.programs.approximate.growth import Growth, Term
    from qoop.programs.approximate.planning import SessionQueries
    from qoop.programs.approximate.schedule import Schedule
    from qoop.query.job import Planned

_PARTS_OF_A_WHOLE = ("group", "having", "order", "limit", "offset", "qualify", "distinct", "laterals")
_MOST_TRIALS = 400
"""Of one race: each is a column of its queries."""


@value
class Contest:
    """A race that is about to begin. growth: of the metrics of all trials side by side, the columns of `whole`.
    confidence: of the outcome. sign: from metrics to scores. target: a score."""

    growth: Growth
    cut: Cut
    schedule: Schedule
    confidence: float
    sign: float
    target: float | None
    whole: exp.Select
    planning: Callable[[], RoundPlanning]

    def opened(self) -> ContestQueries:
        """Its queries."""
        return ContestQueries(self, self.planning())

    @property
    def rounds(self) -> int:
        """The rounds before the exact one."""
        return len(self.schedule.ends) - 1


class Side(Exception):
    """The trials have no query side by side, for the reason in the message."""


def contest(
    texts: Sequence[str],
    metric: str,
    session: SessionQueries,
    confidence: float,
    sign: float,
    target: float | None,
    seed: int,
) -> Contest | str:
    """The race of trials; or the reason why each runs exactly. texts: as the session reads them. target: a score.
    sign: from metrics to scores. seed: of the order of pieces."""
    if not 2 <= len(texts) <= _MOST_TRIALS:
        return f"a race is for 2 to {_MOST_TRIALS} trials"
    tables = session.tables
    try:
        first, _ = tables.bind(texts[0])
        if first.ast is None:
            return "only DuckDB can parse the text"
        whole = side_by_side([_parsed(text) for text in texts], metric)
        bound, found = tables.bind(whole.sql("duckdb"))
        growth = growth_of(bound, found, tables.describe)
    except Side as refused:
        return str(refused)
    except QueryError as error:
        return f"its metrics cannot be computed side by side: {str(error).splitlines()[0]}"
    if isinstance(growth, NotGrowing):
        return growth.reason
    if growth.around is not None:
        return "its sums are within another query"
    if any(term.op in ("min", "max") or term.is_of_values for term in growth.terms):
        return "an extreme, a distinct count or a quantile has no sums by piece"
    pieces = cut(growth.fact, FEWEST_PIECES)
    if pieces is None or (session.on_nodes and not growth.fact.source.shared):
        return f"{growth.fact.name}, the table of its sums, cannot be read by pieces"
    rounds = schedule(pieces.count, seed, pieces.in_row_groups, sizes=pieces.sizes)
    if len(rounds.ends) == 1:
        return f"{growth.fact.name}, the table of its sums, has only {growth.fact.rows:,} rows"
    planning = partial(RoundPlanning, found, bound.settings, session.planning.apart, tables.locked)
    return Contest(growth, pieces, rounds, confidence, sign, target, whole, planning)


def _parsed(text: str) -> exp.Select:
    found = parse_one(text, read="duckdb")
    if not isinstance(found, exp.Select):
        raise Side("it is not one SELECT")
    return found


def side_by_side(selects: Sequence[exp.Select], metric: str) -> exp.Select:
    """One SELECT with the metric of each trial, `q0` …, as a column. Raises Side.

    >>> texts = [f"SELECT sum(v * {k}) AS m FROM t WHERE a AND b < {k}" for k in (1, 2)]
    >>> side_by_side([parse_one(text, read="duckdb") for text in texts], "m").sql("duckdb")
    'SELECT SUM(v * 1) FILTER(WHERE b < 1) AS q0, SUM(v * 2) FILTER(WHERE b < 2) AS q1 FROM t WHERE a'
    """
    conditions = [_conditions(one) for one in selects]
    common = [one for one in conditions[0] if all(one in others for others in conditions[1:])]
    items = []
    for number, (select, mine) in enumerate(zip(selects, conditions, strict=True)):
        item = _item(select, metric)
        for text in (one for one in mine if one not in common):
            item = _filtered(item, text)
        items.append(exp.alias_(item, f"q{number}"))
    frames = {_frame(one).sql("duckdb") for one in selects}
    if len(frames) > 1:
        raise Side("its parameters are not only in its columns and conditions")
    made = _frame(selects[0])
    made.set("expressions", items)
    for text in common:
        made = made.where(parse_one(text, read="duckdb"))
    return made


def _frame(select: exp.Select) -> exp.Select:
    """The SELECT without its columns and conditions."""
    for part in _PARTS_OF_A_WHOLE:
        if select.args.get(part):
            raise Side(f"it has {part.upper().replace('_', ' ')}")
    made = select.copy()
    made.set("expressions", [])
    made.set("where", None)
    return made


def _conditions(select: exp.Select) -> list[str]:
    where = select.args.get("where")
    if where is None:
        return []
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    return [one.sql("duckdb") for one in parts]


def _item(select: exp.Select, metric: str) -> exp.Expression:
    found = [one for one in select.expressions if one.alias_or_name.lower() == metric.lower()]
    if len(found) != 1:
        raise Side(f"it has no one column {metric}")
    item: exp.Expression = found[0].unalias().copy()
    if item.find(exp.AggFunc) is None or item.find(exp.Window, exp.Query) is not None:
        raise Side(f"{metric} is no aggregate, or more than that")
    return item


def _filtered(item: exp.Expression, condition: str) -> exp.Expression:
    """The item, whose aggregates are over the rows that meet a condition, too."""

    def of(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            both = exp.and_(node.expression.this.copy(), parse_one(condition, read="duckdb"))
            return exp.Filter(this=node.this.copy(), expression=exp.Where(this=both))
        if isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Filter):
            kept = parse_one(condition, read="duckdb")
            return exp.Filter(this=node.copy(), expression=exp.Where(this=kept))
        return node

    if isinstance(item, exp.Filter | exp.AggFunc):
        found = of(item)
        assert isinstance(found, exp.Expression)
        return found
    for node in [one for one in item.find_all(exp.Filter, exp.AggFunc) if not isinstance(one.parent, exp.Filter)]:
        node.replace(of(node))
    return item


class ContestQueries:
    """The queries of a race as it goes on, and the sums of the pieces read. For one thread."""

    def __init__(self, contest: Contest, planning: RoundPlanning) -> None:
        self._contest, self._planning = contest, planning
        measures = len(contest.growth.measures)
        self._sums = np.zeros((len(contest.schedule.order), measures))
        self._connection = opened(planning.settings, threads=1)

    def close(self) -> None:
        """Release tables and plans."""
        self._planning.close()
        self._connection.close()

    def plan_round(self, number: int, trials: Sequence[int]) -> Planned:
        """The plan of a round: the sums of each piece that the metrics of these trials need."""
        contest = self._contest
        select = self._per_piece.copy()
        piece, *measures = select.expressions
        needed = sorted(set().union(*(self._measures(trial) for trial in trials)))
        sums = [exp.alias_(exp.cast(measures[one].unalias(), "DOUBLE"), f"m{one}") for one in needed]
        select.set("expressions", [piece, *sums])
        return self._planning.plan(select.sql("duckdb"), contest.cut, contest.schedule.pieces_of(number))

    def add(self, rows: pa.Table) -> None:
        """Take the rows of a round."""
        piece, *sums = rows.columns
        places = piece.to_numpy()
        for name, found in zip(rows.column_names[1:], sums, strict=True):
            self._sums[places, int(name[1:])] = np.nan_to_num(found.to_numpy().astype(float))

    def compared(self, number: int, trials: Sequence[int], seconds: float, at: float) -> Compared:
        """The comparison of trials after a round."""
        contest = self._contest
        alpha = contest.schedule.alpha(contest.confidence) / max(1, len(contest.growth.columns) - 1)
        interim = contest.schedule.interim(contest.schedule.ends[number], alpha)
        found = comparison(self._replicates(number, trials), interim, contest.target)
        beaten = tuple(trial for trial, lost in zip(trials, found.beaten, strict=True) if lost)
        scores, halves, chances = (tuple(map(float, one)) for one in (found.estimates, found.half, found.chances))
        return Compared(number, tuple(trials), scores, halves, chances, beaten, seconds, at)

    def plan_whole(self, trials: Sequence[int]) -> Planned:
        """The plan of the metrics of these trials over the whole tables."""
        whole = self._contest.whole.copy()
        whole.set("expressions", [whole.expressions[trial] for trial in trials])
        return self._planning.plan_whole(whole.sql("duckdb"))

    def scores(self, rows: pa.Table) -> tuple[float, ...]:
        """The scores of the trials, from the row of `plan_whole`; NaN: none."""
        found = (column[0].as_py() for column in rows.columns)
        return tuple(float("nan") if one is None else self._contest.sign * float(one) for one in found)

    @cached_property
    def _per_piece(self) -> exp.Select:
        return per_piece(parse_one(self._contest.growth.round_sql, read="duckdb"))

    def _measures(self, trial: int) -> set[int]:
        terms = self._contest.growth.terms
        return {
            measure
            for place in self._terms(trial)
            for measure in (terms[place].y, terms[place].x, terms[place].z)
            if measure is not None
        }

    def _terms(self, trial: int) -> set[int]:
        item = parse_one(self._contest.growth.items[trial], read="duckdb")
        return {int(column.name[1:]) for column in item.find_all(exp.Column)}

    def _replicates(self, number: int, trials: Sequence[int]) -> np.ndarray:
        """The scores by all pieces read, and by all but each, as estimates for the whole table."""
        schedule, growth = self._contest.schedule, self._contest.growth
        read = list(schedule.order[: schedule.ends[number]])
        sizes = np.array(schedule.sizes or [1.0] * len(schedule.order))
        sums, drawn = self._sums[read], sizes[read]
        without = np.vstack([sums.sum(axis=0), sums.sum(axis=0) - sums])
        scale = sizes.sum() / np.concatenate([[drawn.sum()], drawn.sum() - drawn])
        totals = without * scale[:, None]
        table = pa.table({f"t{place}": totals[:, place] for place in range(totals.shape[1])})
        needed = sorted(set().union(*(self._terms(trial) for trial in trials)))
        estimates = (f"{_estimate(growth.terms[place])} AS {kind}{place}" for place in needed for kind in ("e", "u"))
        items = (f"({growth.items[trial]})::DOUBLE AS q{trial}" for trial in trials)
        text = f"SELECT {', '.join(items)} FROM (SELECT {', '.join(estimates)} FROM replicates)"
        arrow_input.register(self._connection, "replicates", table)
        try:
            found = self._connection.execute(text).fetchnumpy()
        except duckdb.Error as error:
            raise ExecutionError(f"the metrics cannot be estimated: {str(error).splitlines()[0]}") from error
        finally:
            self._connection.unregister("replicates")
        columns: list[np.ndarray] = [np.ma.filled(np.ma.asarray(one, float), np.nan) for one in found.values()]
        return self._contest.sign * np.column_stack(columns)


def _estimate(term: Term) -> str:
    """An aggregate over totals `t0` …"""
    if term.z is not None:
        return spread_sql(term)
    return f"t{term.y}" if term.x is None else f"(t{term.y} / nullif(t{term.x}, 0))"
