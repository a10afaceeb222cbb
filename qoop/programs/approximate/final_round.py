"""The last round: it reads the pieces that are left, or is the query itself, whichever should take less.

To read the row groups that are left saves those of the looks, and costs a SELECT for each stretch of them and a
comparison of each row's place. It also comes without what DuckDB leaves out of a whole table where a join wants few of
its rows; the looks, which had to do without that, too, tell how much that is. In return DuckDB knows the least and the
greatest values of a file that it reads alone, not those of many: so it joins by arrays where it had hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.programs.approximate.universe import Buckets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoop.catalog.sources.pieces import Cut
    from qoop.programs.approximate.growth import Growth

PLACE_SECONDS = 1e-9
"""To compare the place of a row: at scale 10, 28.8 million rows took 0.02 s more of one thread."""

STRETCH_SECONDS = 2.5e-3
"""Of a SELECT over a stretch of row groups: to bind it, and to open its file."""

MOST_BESIDES = 0.15
"""The part of the time of the query that each look may have taken beyond its part of the rows: for what is read whole,
and for telling pieces apart."""


@value
class Whole:
    """The query itself. seconds: that it should take. slots: on which it should."""

    seconds: float
    slots: float


def may_run_whole(growth: Growth, cut: Cut | Buckets) -> bool:
    """True if the last round is, or may be, the query itself: where something does not add up, and of row groups. Of
    buckets, too: the rows of all of them are read in any case."""
    return growth.is_of_values or not cut.rest_is_less


def is_taken_over(
    growth: Growth, cut: Cut | Buckets, left: Sequence[int], whole: Whole, looks: Sequence[float] = ()
) -> bool:
    """True if the last round had better read the pieces that are left, and take over what the looks have read. looks:
    seconds of each look before."""
    if not may_run_whole(growth, cut):
        return True
    if growth.is_of_values or isinstance(cut, Buckets):
        return False
    rows = cut.of(left).rows
    share = 1 - rows / cut.table.rows
    besides = (PLACE_SECONDS * rows + STRETCH_SECONDS * stretches(cut, left)) / whole.slots
    if whole.seconds * share <= besides:
        return False
    return sum(looks) <= whole.seconds * (share + MOST_BESIDES * len(looks))


def stretches(cut: Cut, pieces: Sequence[int]) -> int:
    """The number of stretches of row groups that lie together, in one file each."""
    return sum(
        sum(after > before + 1 for before, after in zip(run.chosen, run.chosen[1:], strict=False)) + 1
        for run in cut.runs(pieces)
    )
