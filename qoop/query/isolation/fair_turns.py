"""Turns of texts that are bound in child processes: a few at a time, and tenants take turns.

A text may be bound for as long as its deadline allows. So a tenant with many such texts waits for itself: the next turn
is of the tenant with the fewest texts at work, and of these the one whose last turn is the longest ago.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_INTERVAL = 0.05  # seconds between two checks of a text that waits
_REMEMBERED = 1000


class FairTurns:
    """Turns of which `number` are taken at a time. Thread-safe."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._lock = threading.Lock()
        self._waiting: list[_Turn] = []
        self._working: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # by tenant, the number of its last turn
        self._count = 0

    @contextmanager
    def turn(self, tenant: str, check: Callable[[], object]) -> Iterator[None]:
        """Within it a text of the tenant has a turn. check: called while it waits; raises what gives it up."""
        turn = _Turn(tenant)
        with self._lock:
            self._waiting.append(turn)
            self._begin()
        try:
            while not turn.begun.wait(_INTERVAL):
                check()
            yield
        finally:
            with self._lock:
                self._leave(turn)

    def _leave(self, turn: _Turn) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
            return
        self._working[turn.tenant] -= 1
        self._free += 1
        self._begin()

    def _begin(self) -> None:
        while self._free and self._waiting:
            turn = min(self._waiting, key=self._order)
            self._waiting.remove(turn)
            self._free -= 1
            self._working[turn.tenant] += 1
            self._count += 1
            self._last.pop(turn.tenant, None)
            self._last[turn.tenant] = self._count
            if len(self._last) > _REMEMBERED:
                self._last.pop(next(iter(self._last)))
            turn.begun.set()

    def _order(self, turn: _Turn) -> tuple[int, int]:
        return self._working[turn.tenant], self._last.get(turn.tenant, 0)


class _Turn:
    def __init__(self, tenant: str) -> None:
        self.tenant, self.begun = tenant, threading.Event()
