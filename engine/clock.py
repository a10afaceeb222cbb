"""Two clocks under one core (law 3): the wall's, and one that a simulation moves."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds since some fixed moment."""

    def now(self) -> float: ...


class WallClock:
    """Real time, never going back."""

    def now(self) -> float:
        return time.monotonic()


class Stopwatch:
    """Adds up the seconds spent within it, each time 0.3 µs more than there is to do. Of one thread.

    >>> reading = Stopwatch()
    >>> with reading:
    ...     pass
    >>> 0 < reading.seconds < 1
    True
    """

    __slots__ = ("_began", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._began


class VirtualClock:
    """Time that stands still until it is moved on.

    >>> clock = VirtualClock()
    >>> clock.advance_to(2.5)
    >>> clock.now()
    2.5
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance_to(self, moment: float) -> None:
        """Move on to `moment`; never back."""
        self._now = max(self._now, moment)
