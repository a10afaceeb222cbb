"""The notes to an edition, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from qoop.growing.growth import Growth
    from qoop.growing.intervals import Intervals


def notes(growth: Growth, found: Intervals) -> tuple[str, ...]:
    """Of an edition that is not exact."""
    told = []
    if any(one.kind == "extreme" for one in growth.figures):
        told.append("least and greatest values are those seen so far")
    if any(one.kind == "derived" for one in growth.figures) or growth.around is not None:
        told.append("what has no bounds next to it is computed from estimates, or a group")
    names = [(growth.own_columns or growth.columns)[place][0] for place in found.heavy]
    if names:
        told.append(f"no interval, a heavy tail: few pieces have most of the spread of {', '.join(names)}")
    if growth.limited:
        told.append("the rows were chosen and put in order by estimates; others may belong among them")
        if growth.ranked is not None:
            place, descending = growth.ranked
            told.append(_ranks(found.low[place], found.high[place], descending))
    return tuple(told)


def _ranks(low: np.ndarray, high: np.ndarray, descending: bool) -> str:
    sure = surely_first(low, high, descending, 10)
    return f"of the groups seen, {sure} of the first 10 are surely among the first 10"


def surely_first(low: np.ndarray, high: np.ndarray, descending: bool, first: int) -> int:
    """The number of groups that are among that number of first ones, wherever in the intervals the truth lies.

    >>> import numpy as np
    >>> surely_first(np.array([9.0, 5.0, 4.0]), np.array([11.0, 7.0, 6.0]), True, 1)
    1
    """
    import numpy as np

    best, worst = (high, low) if descending else (-low, -high)
    best, worst = np.where(np.isnan(best), np.inf, best), np.where(np.isnan(worst), -np.inf, worst)
    before = len(best) - np.searchsorted(np.sort(best), worst, side="right") - (best > worst)
    return int((before < first).sum())
