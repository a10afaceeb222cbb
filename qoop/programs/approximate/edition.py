"""The editions of an answer that grows: each is a state of it, and they come one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from qoop.catalog.sizes import counted
from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.growth import Growth
    from qoop.programs.approximate.intervals import Intervals
    from qoop.query.result import Result


@value
class Edition:
    """result: the rows; next to each column ``x`` that is estimated stand ``x_low`` and ``x_high``, NULL where there is
    no interval, and the last column, ``share_read``, is the part of the data that was read.

    number: of the edition, from 0. share: of the pieces of the largest table that were read. exact: all was read.
    groups: that were seen. unseen: the largest part of the pieces that any one group may be in of which nothing was
    seen, at the confidence that was asked for; 0: there is none.
    error: the largest half-width of an interval relative to its estimate; None: some have no interval yet.
    reason: why the query did not grow and ran as usual; empty: it grew.
    notes: what else is to be known, as sentences. figures: places, among the columns of the query, of those that are
    estimated.
    """

    result: Result
    number: int
    share: float
    exact: bool
    groups: int
    unseen: float
    error: float | None
    reason: str = ""
    notes: tuple[str, ...] = ()
    figures: tuple[int, ...] = ()

    def places(self) -> Iterator[tuple[int, bool]]:
        """The places of the columns of the query in the result; True where the two columns after it are its bounds."""
        at = place = 0
        while at < len(self.result.columns) - 1:
            yield at, place in self.figures
            at += 3 if place in self.figures else 1
            place += 1

    def plain(self) -> Result:
        """The rows in the columns of the query alone."""
        from qoop.query.result import Result

        columns = list(zip(self.result.columns, self.result.types, strict=True))
        kept = [at for at, _ in self.places()]
        return Result(self.result.lossless().select(kept), tuple(columns[one] for one in kept), self.result.settings)

    def __str__(self) -> str:
        if self.reason:
            return f"exact: {self.reason}"
        if self.exact:
            return f"exact, {counted(self.groups, 'group')}"
        error = "some without an interval yet" if self.error is None else f"within {self.error:.2%}"
        more = f"; other groups are in at most {self.unseen:.1%} of the pieces each" if self.unseen else ""
        return f"{self.share:.1%} read, {counted(self.groups, 'group')}, {error}{more}"


class Editions(Iterator[Edition], AsyncIterator[Edition]):
    """``for`` waits for each, ``async for`` does so without holding up the event loop.

    nth: waits for the edition of a number; None if there will be none.
    """

    def __init__(self, nth: Callable[[int], Edition | None]) -> None:
        self._nth = nth
        self._seen = 0

    def __iter__(self) -> Editions:
        return self

    def __next__(self) -> Edition:
        found = self._nth(self._seen)
        if found is None:
            raise StopIteration
        self._seen += 1
        return found

    def __aiter__(self) -> Editions:
        return self

    async def __anext__(self) -> Edition:
        from asyncio import to_thread

        found = await to_thread(self._nth, self._seen)
        if found is None:
            raise StopAsyncIteration
        self._seen += 1
        return found


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
