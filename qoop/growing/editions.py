"""The editions of an answer, one after the other, for threads and for event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoop.growing.edition import Edition


class Editions(Iterator["Edition"], AsyncIterator["Edition"]):
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
