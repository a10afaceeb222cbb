"""The editions of an answer that grows: its states, one after the other."""

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
    """result: the rows. Two columns, ``x_low`` and ``x_high``, follow each estimated column ``x``; they are NULL where
    there is no interval. The last column, ``share_read``, is the part of the data that was read.

    number: of the edition, from 0. share: the part of the pieces of the largest table that was read. exact: all was.
    groups: the number of observed groups. unseen: the largest part of the pieces that any one unobserved group may be
    in, at the requested confidence; 0: there is no such group.
    error: the largest half-width of an interval relative to its estimate; None: some have no interval yet.
    reason: why the query ran as usual; empty: it grew.
    notes: remarks, as sentences. figures: the places of estimated columns among the columns of the query.
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
        """The rows, in the columns of the query alone."""
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
    """``for`` waits for each edition; ``async for`` does so without blocking the event loop.

    nth: waits for the edition of a number; None: the answer ended before it.
    """

    def __init__(self, nth: Callable[[int], Edition | None]) -> None:
        self._nth = nth
        self._next = 0

    def __iter__(self) -> Editions:
        return self

    def __next__(self) -> Edition:
        found = self._nth(self._next)
        if found is None:
            raise StopIteration
        self._next += 1
        return found

    def __aiter__(self) -> Editions:
        return self

    async def __anext__(self) -> Edition:
        from asyncio import to_thread

        found = await to_thread(self._nth, self._next)
        if found is None:
            raise StopAsyncIteration
        self._next += 1
        return found


def notes(growth: Growth, found: Intervals) -> tuple[str, ...]:
    """The remarks on an edition that is not exact."""
    sentences = []
    if any(one.kind == "extreme" for one in growth.figures):
        sentences.append("least and greatest values are those seen so far")
    if any(one.kind == "derived" for one in growth.figures) or growth.around is not None:
        sentences.append("columns without bounds are groups, or computed from estimates")
    names = [(growth.own_columns or growth.columns)[place][0] for place in found.heavy]
    if names:
        sentences.append(f"no interval, a heavy tail: few pieces have most of the spread of {', '.join(names)}")
    if growth.limited:
        sentences.append("the rows were chosen and put in order by estimates; others may belong among them")
        if growth.ranked is not None:
            place, descending = growth.ranked
            sentences.append(_ranks(found.low[place], found.high[place], descending))
    return tuple(sentences)


def _ranks(low: np.ndarray, high: np.ndarray, descending: bool) -> str:
    sure = surely_first(low, high, descending, 10)
    return f"of the groups seen, {sure} of the first 10 are surely among the first 10"


def surely_first(low: np.ndarray, high: np.ndarray, descending: bool, first: int) -> int:
    """The number of groups that are among the first ones for all true values within the intervals.

    >>> import numpy as np
    >>> surely_first(np.array([9.0, 5.0, 4.0]), np.array([11.0, 7.0, 6.0]), True, 1)
    1
    """
    import numpy as np

    best, worst = (high, low) if descending else (-low, -high)
    best, worst = np.where(np.isnan(best), np.inf, best), np.where(np.isnan(worst), -np.inf, worst)
    before = len(best) - np.searchsorted(np.sort(best), worst, side="right") - (best > worst)
    return int((before < first).sum())
