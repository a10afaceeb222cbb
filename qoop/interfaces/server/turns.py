"""Turns of queries: each owner, a user or a tenant, runs a number at a time, and a number more wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from qoop.catalog.errors import Busy
from qoop.catalog.value import value


@value
class Owner:
    """A user or a tenant. name: as messages have it. running: queries at a time. queue: queries that may wait."""

    name: str
    running: float
    queue: float


class Turns:
    """Entered queries in their order. Not thread-safe.

    A query that waits for one of its owners does not hold up the queries of others.

    >>> turns, ana = Turns(), Owner("ana", running=1, queue=1)
    >>> for number in range(2):
    ...     turns.enter(threading.Event(), [ana])
    >>> turns.enter(threading.Event(), [ana])
    Traceback (most recent call last):
    qoop.catalog.errors.Busy: 1 queries of ana run and 1 wait, which is as many as may
    """

    def __init__(self) -> None:
        self._owners: dict[threading.Event, Sequence[Owner]] = {}
        self._begun: set[threading.Event] = set()

    def enter(self, turn: threading.Event, owners: Sequence[Owner]) -> None:
        """Set the event of a query at its turn. Raises Busy where an owner's queue is full."""
        self.check(owners)
        self._owners[turn] = owners
        self._begin(turn)

    def check(self, owners: Sequence[Owner]) -> None:
        """Raise Busy where an owner's queue is full."""
        for owner in owners:
            running, waiting = self._numbers(owner)
            if running >= owner.running and waiting >= owner.queue:
                wait = f" and {waiting} wait" if owner.queue else ""
                raise Busy(f"{running} queries of {owner.name} run{wait}, which is as many as may")

    def leave(self, turn: threading.Event) -> None:
        """A query has ended: the next of its owners begin."""
        self._owners.pop(turn, None)
        self._begun.discard(turn)
        for waiting in [one for one in self._owners if one not in self._begun]:
            self._begin(waiting)

    def _begin(self, turn: threading.Event) -> None:
        if all(self._numbers(owner)[0] < owner.running for owner in self._owners[turn]):
            self._begun.add(turn)
            turn.set()

    def _numbers(self, owner: Owner) -> tuple[int, int]:
        """The queries of an owner that run, and those that wait."""
        turns = [turn for turn, owners in self._owners.items() if any(one.name == owner.name for one in owners)]
        running = sum(turn in self._begun for turn in turns)
        return running, len(turns) - running
