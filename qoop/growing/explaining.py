"""The growth of a query's answer in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.growing.asking import Found, why_not
from qoop.growing.growth import UNBOUNDED

if TYPE_CHECKING:
    from qoop.config import Config
    from qoop.planning import QueryPlanning
    from qoop.session_tables import SessionTables


def explained_growth(
    text: str, tables: SessionTables, planning: QueryPlanning, config: Config, exact_within: float = 0.0
) -> str:
    """The pieces that are read in which rounds, or the reason why the query runs exactly."""
    found = why_not(text, tables, planning, config, exact_within)
    if isinstance(found, str):
        return f"The query runs exactly: {found}."
    return "\n".join(_lines(found))


def _lines(found: Found) -> list[str]:
    growth, ends = found.growth, found.schedule.ends
    kinds = {one.place: one.kind for one in growth.figures}
    shown = [(growth.columns[place][0], kinds[core]) for place, (core, _) in sorted(growth.shown.items())]
    names = [name for name, kind in shown if kind not in UNBOUNDED]
    extremes = [name for name, kind in shown if kind == "extreme"]
    kind = "row groups" if found.cut.in_row_groups else "pieces"
    lines = [
        f"{growth.fact.name} is read by {found.cut.count} {kind} in random order, all other tables whole.",
        f"Editions come after {', '.join(map(str, ends))} of them; the last one is exact. Where the others would be in "
        "vain, by the width of the first, it comes at once.",
    ]
    if names:
        lines.append(f"With intervals: {', '.join(names)}.")
    if extremes:
        lines.append(f"Without intervals, as seen so far: {', '.join(extremes)}.")
    return [*lines, f"Each round: {growth.round_sql}"]
