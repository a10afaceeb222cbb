"""The last things of a kind, as many as do not take much memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from qoop.planner.plan import Plan

_T = TypeVar("_T")


class Latest(Generic[_T]):
    """The things that were put last, in that order: so many at most, and with so many bytes, or one. Not thread-safe.

    >>> latest = Latest(most=3, most_bytes=10)
    >>> for name, size in (("a", 1), ("b", 8), ("c", 1), ("d", 1)):
    ...     latest.put(name, size)
    >>> list(latest), latest.put("e", 100), list(latest)
    (['b', 'c', 'd'], None, ['e'])
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._things: deque[tuple[_T, int]] = deque()
        self._bytes = 0

    def put(self, thing: _T, size: int) -> None:
        """Keep one more. size: its bytes, about."""
        self._things.append((thing, size))
        self._bytes += size
        while len(self._things) > self._most or (self._bytes > self._most_bytes and len(self._things) > 1):
            self._bytes -= self._things.popleft()[1]

    def __iter__(self) -> Iterator[_T]:
        return iter([thing for thing, _ in self._things])


def characters(plans: Iterable[Plan]) -> int:
    """The characters of the texts of plans, which share stages."""
    return sum(len(sql) for sql in {id(stage): stage.sql for plan in plans for stage in plan.stages}.values())
