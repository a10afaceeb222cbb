"""The growth of a query's answer in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.planner.explain import seconds_text
from qoop.programs.approximate.growth import UNBOUNDED, Kind
from qoop.programs.approximate.start import why_not
from qoop.programs.approximate.universe import Buckets

if TYPE_CHECKING:
    from qoop.programs.approximate.planning import RoundPlan, SessionQueries
    from qoop.programs.approximate.target import AnswerOptions


_WITHOUT: dict[Kind, str] = {
    "distinct": "The interval of {} begins at the number of values seen. There is none while each value was seen in "
    "several pieces: no value then indicates those in few pieces.",
    "extreme": "Without intervals, as seen so far: {}. Rows that were not read may have any value.",
    "derived": "Without intervals, computed from estimates: {}. There is no formula for their error.",
}


def explained_growth(text: str, session: SessionQueries, options: AnswerOptions) -> str:
    """The pieces of each round, or the reason why the query runs exactly."""
    plan = why_not(text, session, options)
    if isinstance(plan, str):
        return f"The query runs exactly: {plan}."
    return "\n".join(_lines(plan))


def _lines(plan: RoundPlan) -> list[str]:
    growth, ends = plan.growth, plan.schedule.ends
    kinds = {one.place: one.kind for one in growth.figures}
    shown = [(growth.columns[place][0], kinds[core]) for place, (core, _) in sorted(growth.shown.items())]
    names = [name for name, kind in shown if kind not in UNBOUNDED]
    sooner = ", or sooner where the target should be met" if plan.schedule.aims else ""
    lines = [
        *_way(plan),
        f"Editions come after {', '.join(map(str, ends))} of them{sooner}; the last one is exact. It comes at "
        "once where the width of the first edition shows that the others would be in vain.",
    ]
    if names:
        lines.append(f"With intervals: {', '.join(names)}.")
    for unbounded, why in _WITHOUT.items():
        some = [name for name, kind in shown if kind == unbounded]
        lines += [f"{why.format(', '.join(some))}"] if some else []
    if growth.is_of_values:
        lines.append("The last round is the query itself, as distinct counts and quantiles of pieces do not add up.")
    elif growth.ends_as_query:
        lines.append("The last round is the query itself, as the squares of large values do not add up exactly.")
    elif isinstance(plan.cut, Buckets):
        lines.append("The last round is the query itself.")
    elif plan.cut.in_row_groups:
        lines.append("The last round reads the row groups that are left, or is the query itself if that takes less.")
    text = growth.round_sql
    if isinstance(plan.cut, Buckets):
        text = plan.cut.text(text, plan.schedule.pieces_of(0))
    return [*lines, f"Each round: {text}"]


def _way(plan: RoundPlan) -> list[str]:
    """The way to draw rows, and its reason."""
    name, cut, ways = plan.growth.fact.name, plan.cut, plan.ways
    why = []
    if ways is not None:
        seconds = seconds_text(ways.by_pieces), seconds_text(ways.by_buckets)
        why = ["Its rounds should take {} of one CPU by pieces, {} by buckets of the key of a join.".format(*seconds)]
    if isinstance(cut, Buckets):
        fact, others = cut.universe.fact, cut.universe.others
        keys = " and ".join(fact.keys)
        joined = ", ".join(one.alias for one in others)
        return [f"{name} and {joined} are read by {cut.count} buckets of the hash of {keys}, all others whole.", *why]
    kind = "row groups" if cut.in_row_groups else "pieces"
    return [f"{name} is read by {cut.count} {kind} in random order, all other tables whole.", *why]
