"""Pulls from several nodes at once, so that a task does not wait for one after the other while it has its slot.

Readers of one exchange begin at different nodes, in turns, so that they do not all ask the same one first; and a node
takes no more than a few answers at a time, since what arrives from many at once is lost on the way and sent again
(incast: Phanishayee et al., FAST 2008).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

FAN_IN = 4
"""Answers that come into a node at a time, for all of its tasks together."""

PATIENCE = 2.0
_THREADS = 64


class Pulls:
    """Asks several nodes at once, for all tasks of one node.

    most: answers that come in at a time. patience: seconds after which one comes in besides, for hosts that have
    vanished may hold all turns. Threads begin when the first task has something to pull from two nodes.

    >>> pulls = Pulls()
    >>> pulls.all([lambda: "a", lambda: "b", lambda: "c"], begin=1)
    ['a', 'b', 'c']
    >>> pulls.close()
    """

    def __init__(self, most: int = FAN_IN, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._turns = threading.BoundedSemaphore(most)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def all(self, asks: Sequence[Callable[[], T]], begin: int = 0) -> list[T]:
        """The answers, in the order of the questions; the one at `begin` is asked first, then those after it, round
        the end. Raises what the first of them that fails raises, once all have ended.
        """
        if len(asks) < 2:
            return [self._alone(ask) for ask in asks]
        order = rotated(len(asks), begin)
        pool = self._threads()
        answers = {place: pool.submit(self._alone, asks[place]) for place in order}
        for answer in answers.values():
            answer.exception()  # waits for it
        return [answers[place].result() for place in range(len(asks))]

    def close(self) -> None:
        """End the threads, once they have their answers."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _alone(self, ask: Callable[[], T]) -> T:
        turn = self._turns.acquire(timeout=self._patience)
        try:
            return ask()
        finally:
            if turn:
                self._turns.release()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="qoop-pull")
            return self._pool


def rotated(count: int, begin: int) -> list[int]:
    """All numbers below `count`, from `begin` on and round the end.

    >>> rotated(4, 6)
    [2, 3, 0, 1]
    """
    return [(begin + step) % count for step in range(count)]
