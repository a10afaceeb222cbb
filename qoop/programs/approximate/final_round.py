"""The last round: it reads the pieces that are left, or is the query itself, whichever should take less.

To read the row groups that are left saves those of the interim editions. It costs a SELECT for each stretch of them and
a comparison of each row's place. It also loses DuckDB's skipping of rows that a join does not need; the times of the
interim editions, which lack it as well, measure that loss. In return DuckDB knows the minimum and maximum of a file
that it reads alone, not those of many files, so it joins by arrays where it would hash.
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
"""The seconds to compare the place of a row: at scale 10, 28.8 million rows added 0.02 s of one thread."""

STRETCH_SECONDS = 2.5e-3
"""The seconds of a SELECT over a stretch of row groups, to bind it and to open its file."""

MOST_BESIDES = 0.15
"""The part of the query's time that each interim edition may exceed its part of the rows by: to read other tables
whole, and to separate pieces."""


@value
class Whole:
    """The query itself. seconds: its estimate on a number of slots."""

    seconds: float
    slots: float


def may_run_whole(growth: Growth, cut: Cut | Buckets) -> bool:
    """True if the last round is, or may be, the query itself: where figures do not add up exactly, with row groups,
    and with buckets, for which all rows are read in any case."""
    return growth.ends_as_query or not cut.rest_is_less


def is_taken_over(
    growth: Growth, cut: Cut | Buckets, left: Sequence[int], whole: Whole, before: Sequence[float] = ()
) -> bool:
    """True if the last round should read the pieces that are left, and reuse the pieces of the interim editions.

    before: the seconds of each interim edition."""
    if not may_run_whole(growth, cut):
        return True
    if growth.ends_as_query or isinstance(cut, Buckets):
        return False
    rows = cut.of(left).rows
    share = 1 - rows / cut.table.rows
    besides = (PLACE_SECONDS * rows + STRETCH_SECONDS * stretches(cut, left)) / whole.slots
    if whole.seconds * share <= besides:
        return False
    return sum(before) <= whole.seconds * (share + MOST_BESIDES * len(before))


def stretches(cut: Cut, pieces: Sequence[int]) -> int:
    """The number of stretches of adjacent row groups, each in one file."""
    return sum(
        sum(after > before + 1 for before, after in zip(run.chosen, run.chosen[1:], strict=False)) + 1
        for run in cut.runs(pieces)
    )
