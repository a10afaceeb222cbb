"""The actions of a simulation in order of time, and the thread that waits for them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from qoop.engine.clock import VirtualClock
from qoop.engine.events import Event

Action = Callable[[], Sequence[Event]]
"""Happens at its time, and returns what is reported then."""


class Agenda:
    """Actions under a virtual clock; those of one moment happen in the order in which they were planned.

    alone: no other thread will wake it: `wait` returns with nothing if nothing will ever happen.
    `wait` is for one thread, all else for any.
    """

    def __init__(self, clock: VirtualClock, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._actions: list[tuple[float, int, Action]] = []
        self._order = count()
        self._lock = threading.RLock()  # taken alone, it costs a third of what the condition costs
        self._changed = threading.Condition(self._lock)
        self._woken = False

    @property
    def idle(self) -> bool:
        """True if nothing will happen any more, unless another thread plans it."""
        with self._lock:
            return not self._actions and not self._woken

    def plan(self, at: float, action: Action) -> None:
        """Have an action happen at this time."""
        with self._lock:
            heappush(self._actions, (at, next(self._order), action))

    def after(self, at: float, action: Callable[[], None]) -> None:
        """As `plan`, for an action that reports nothing."""

        def happen() -> Sequence[Event]:
            action()
            return ()

        self.plan(at, happen)

    def wake(self) -> None:
        """Have `wait` return, also with nothing."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def wait(self, timeout: float | None) -> Sequence[Event]:
        """Move the clock on until something is reported, or this many seconds have passed."""
        limit = math.inf if timeout is None else self._clock.now() + timeout
        while True:
            with self._lock:
                if self._woken:
                    self._woken = False
                    return self._due(self._clock.now())
                if not self._actions and limit == math.inf:
                    if self._alone:
                        return []
                    self._changed.wait()
                    continue
                moment = min(self._actions[0][0] if self._actions else math.inf, limit)
            self._clock.advance_to(moment)
            events = self._due(moment)
            if events or moment >= limit:
                return events

    def _due(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._actions and self._actions[0][0] <= now:
            with self._lock:
                _, _, action = heappop(self._actions)  # by this thread alone
            events += action()
        return events
