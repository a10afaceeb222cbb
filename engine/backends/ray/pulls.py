"""Pulls from several nodes at once, so that a task does not wait for one after the other while it has its slot.

Readers of one exchange begin at different nodes, in turns, so that they do not all ask the same one first; and a node
takes no more than a few answers at a time, since what arrives from many at once is lost on the way and sent again
(incast: Phanishayee et al., FAST 2008).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from qoop.engine.exchanges.order import Pull, next_pull
from qoop.engine.task import AttemptId, JobId, TaskSpec

T = TypeVar("T")

FAN_IN = 4
"""Answers that come into a node at a time, for all of its tasks together."""

PATIENCE = 2.0
_THREADS = 64


@dataclass(eq=False, slots=True)
class _Request:
    """A question that waits for its turn, or whose answer comes in. attempt: the reader."""

    pull: Pull
    ask: Callable[[], Any]
    attempt: AttemptId | None
    answer: Future[Any]


class Pulls:
    """Asks several nodes at once, for all tasks of one node.

    most: answers that come in at a time. patience: seconds after which one comes in besides, for hosts that have
    vanished may hold all turns. Threads begin with the first pull.

    >>> pulls = Pulls()
    >>> pulls.all([lambda: "a", lambda: "b", lambda: "c"], begin=1)
    ['a', 'b', 'c']
    >>> pulls.close()
    """

    def __init__(self, most: float = FAN_IN, patience: float = PATIENCE) -> None:
        self._most, self._patience = most, patience
        self._waiting: dict[Pull, _Request] = {}
        self._coming: dict[_Request, float] = {}  # since when
        self._numbers = count()
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def all(
        self, asks: Sequence[Callable[[], T]], begin: int = 0, spec: TaskSpec | None = None, ahead: bool = False
    ) -> list[T]:
        """The answers, in the order of the questions; the one at `begin` goes first, then those after it, round
        the end. Raises what the first of them that fails raises, once all have ended.

        spec: the task for which they are. ahead: it waits for its slot (:meth:`hasten`).
        """
        answers: dict[int, Future[T]] = {}
        job, attempt = ("", None) if spec is None else (spec.attempt.task.job, spec.attempt)
        with self._lock:
            for place in rotated(len(asks), begin):
                pull, answers[place] = Pull(job, next(self._numbers), ahead), Future()
                self._waiting[pull] = _Request(pull, asks[place], attempt, answers[place])
            self._take_turns()
        for answer in answers.values():
            self._await(answer)
        return [answers[place].result() for place in range(len(asks))]

    def hasten(self, attempt: AttemptId) -> None:
        """An attempt that waited has its slot: what it asks for comes before what others that wait ask for."""
        with self._lock:
            for pull, request in list(self._waiting.items()):
                if request.attempt == attempt and pull.ahead:
                    del self._waiting[pull]
                    request.pull = Pull(pull.job, pull.number)
                    self._waiting[request.pull] = request

    def counts(self) -> tuple[int, int]:
        """The answers that come in now, and the questions that wait."""
        with self._lock:
            return len(self._coming), len(self._waiting)

    def close(self) -> None:
        """End the threads, once they have their answers."""
        with self._lock:
            self._most = float("inf")
            self._take_turns()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _await(self, answer: Future[T]) -> None:
        while True:
            try:
                answer.exception(timeout=self._patience)
                return
            except TimeoutError:
                with self._lock:
                    self._take_turns()

    def _take_turns(self) -> None:
        """Begin what may begin. An answer that is late no longer counts."""
        now = time.monotonic()
        coming = Counter[JobId](
            request.pull.job for request, since in self._coming.items() if now - since < self._patience
        )
        while self._waiting and coming.total() < self._most:
            request = self._waiting.pop(next_pull(self._waiting, coming))
            coming[request.pull.job] += 1
            self._coming[request] = now
            self._threads().submit(self._pull, request)

    def _pull(self, request: _Request) -> None:
        try:
            found = request.ask()
        except BaseException as error:
            self._over(request)
            request.answer.set_exception(error)
        else:
            self._over(request)
            request.answer.set_result(found)

    def _over(self, request: _Request) -> None:
        with self._lock:
            del self._coming[request]
            self._take_turns()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="qoop-pull")
        return self._pool


def rotated(number: int, begin: int) -> list[int]:
    """All numbers below `number`, from `begin` on and round the end.

    >>> rotated(4, 6)
    [2, 3, 0, 1]
    """
    return [(begin + step) % number for step in range(number)]
