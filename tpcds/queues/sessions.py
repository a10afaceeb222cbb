"""Three sessions on real nodes of one CPU, with one agent a node and without: the figures of `qoop bench queues`.

One session has tasks of 5 s, one of half a second, one of 50 ms; each always has a job. Meanwhile sessions come, one
after the other, with a short job each. Ways take turns, on nodes that stay; a task counts rows for as long as a thread
of this machine should need for it alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import duckdb

from qoop.catalog.errors import ExecutionError
from qoop.control.job_handle import JobHandle
from qoop.control.messages import JobRequest
from qoop.engine.history import Began, Started, Succeeded, Waiting
from qoop.engine.state import State
from qoop.planner.plan import Estimate, Plan, Stage
from qoop.session import Session, connect
from qoop.tpcds.on_ray.ray_nodes import LocalNodes
from qoop.tpcds.quantiles import quantile

TASKS: Mapping[str, float] = {"long": 5.0, "middle": 0.5, "short": 0.05}
"""Seconds that a task of each session takes."""

WAYS: Mapping[str, int | None] = {"today": None, "agents": 2}
"""Tasks that wait at a node: none, with processes of each session; or some, at the agent of all."""

_JOB = 2.0  # seconds of work of a job, at least two tasks
_COLUMNS = (("n", "BIGINT"),)
_PATIENCE = 10.0  # seconds that a session which comes waits for its first task, at most
_PAUSE = 1.0  # seconds from a session that came to the next

Span = tuple[str, float, float]
"""The node at which a task ran, from when until when."""


@dataclass(frozen=True, slots=True)
class SessionsOptions:
    """seconds: of each way, each time. nodes: of one CPU."""

    seconds: float = 30.0
    nodes: int = 2
    repeat: int = 1


@dataclass(slots=True)
class SessionsResult:
    """One way. done: seconds of work by session. waits: of the first task of each session that came. busy: seconds in
    which a task ran, over those of all slots."""

    way: str
    seconds: float = 0.0
    done: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TASKS, 0.0))
    waits: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def line(self) -> str:
        """The figures as a line of a table."""
        rates = " ".join(f"{self.done[name] / self.seconds:8.3f}" for name in TASKS)
        late = quantile(self.waits, 0.95)
        share = sum(self.busy) / len(self.busy)
        return f"{self.way:8s} {share:6.1%} {median(self.waits):8.3f} {late:8.3f} {len(self.waits):6d} {rates}"


def run(options: SessionsOptions, tell: Callable[[str], None] = lambda _: None) -> list[SessionsResult]:
    """Measure all ways. Raises ConfigError if Ray is not installed, ExecutionError if a job fails."""
    results = [SessionsResult(way) for way in WAYS]
    rows = _rows_a_second()
    tell(f"{'way':8s} {'busy':>6s} {'wait s':>8s} {'p95 s':>8s} {'came':>6s} " + " ".join(f"{n:>8s}" for n in TASKS))
    with LocalNodes() as nodes:
        for _ in range(options.nodes):
            nodes.add()
        for _ in range(options.repeat):
            for result in results:
                _Round(nodes.address, WAYS[result.way], rows, options).run(result)
                tell(result.line())
    return results


class _Round:
    """One way, once."""

    def __init__(self, address: str, waiting: int | None, rows: float, options: SessionsOptions) -> None:
        self._address, self._waiting, self._rows, self._options = address, waiting, rows, options
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        self._spans: list[Span] = []
        self._done = dict.fromkeys(TASKS, 0.0)

    def run(self, result: SessionsResult) -> None:
        """Add what is measured to the result."""
        sessions = {name: self._connect() for name in TASKS}
        threads = [threading.Thread(target=self._keep_busy, args=one) for one in sessions.items()]
        try:
            for thread in threads:
                thread.start()
            began = time.monotonic()
            while time.monotonic() < began + self._options.seconds and not self._failures:
                result.waits.append(self._come())
                self._over.wait(_PAUSE)
            ended = time.monotonic()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
            for session in sessions.values():
                session.close()
        if self._failures:
            raise self._failures[0]
        result.seconds += ended - began
        for name, seconds in self._done.items():
            result.done[name] += seconds
        result.busy.append(busy_share(self._spans, began, ended, self._options.nodes))

    def _connect(self) -> Session:
        return connect(ray=self._address, node_queue=self._waiting)

    def _keep_busy(self, name: str, session: Session) -> None:
        """Submit a job after the other until the round is over."""
        try:
            while not self._over.is_set():
                began, handle = time.monotonic(), self._submit(session, TASKS[name], _JOB)
                while not handle.wait(0.1):
                    if self._over.is_set():
                        handle.cancel()
                self._count(name, handle, began)
        except BaseException as error:
            self._failures.append(error)

    def _come(self) -> float:
        """A session that comes with a short job: the seconds until its first task begins, or that it waited in vain."""
        with self._connect() as session:
            handle = self._submit(session, TASKS["short"], 2 * TASKS["short"])
            handle.wait(_PATIENCE)
            if (waited := first_wait(handle.history())) is None:
                handle.cancel()
                return _PATIENCE
            handle.wait()
            self._check(handle)
            return waited

    def _submit(self, session: Session, seconds: float, work: float) -> JobHandle:
        sql = f"SELECT count(*) AS n FROM range({int(self._rows * seconds)}) t(i) WHERE i % 7 = 3"
        estimate = Estimate(task_seconds=seconds, task_memory=1e6)
        stage = Stage("a", sql, (), _COLUMNS, max(2, round(work / seconds)), "a", estimate=estimate)
        return session.cluster.submit(JobRequest(Plan((stage,), _COLUMNS)))

    def _count(self, name: str, handle: JobHandle, began: float) -> None:
        history = handle.history()
        machines = {record.attempt: record.machine for record in history if isinstance(record, Started)}
        for record in history:
            if isinstance(record, Succeeded):
                end = began + record.at
                self._spans.append((machines[record.attempt], end - record.committed.seconds, end))
                self._done[name] += TASKS[name]
        if not self._over.is_set():
            self._check(handle)

    @staticmethod
    def _check(handle: JobHandle) -> None:
        if handle.state is not State.SUCCEEDED:
            raise ExecutionError(f"a job of the measurement ended as {handle.state.name}: {handle.error}")


def first_wait(history: Iterable[object]) -> float | None:
    """Seconds from the beginning of a job until its first task ran; None: none has."""
    records = list(history)
    waited = {record.attempt for record in records if isinstance(record, Waiting)}
    began = [record.at for record in records if isinstance(record, Began)]
    at_once = [one.at for one in records if isinstance(one, Started) and one.attempt not in waited]
    return min(began + at_once, default=None)


def busy_share(spans: Iterable[Span], began: float, ended: float, nodes: int) -> float:
    """The part of the time in which a task ran at a node; several at once count once.

    >>> busy_share([("a", 0.0, 2.0), ("a", 1.0, 3.0), ("b", 3.0, 9.0)], 0.0, 4.0, 2)
    0.5
    """
    busy, until = 0.0, dict[str, float]()
    for node, start, end in sorted(spans, key=lambda span: span[1]):
        start, end = max(start, began, until.get(node, began)), min(end, ended)
        busy += max(0.0, end - start)
        until[node] = max(end, until.get(node, began))
    return busy / ((ended - began) * nodes)


def _rows_a_second() -> float:
    """The rows that one thread counts in a second."""
    rows = 20_000_000
    with duckdb.connect(config={"threads": 1}) as connection:
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            connection.execute(f"SELECT count(*) FROM range({rows}) t(i) WHERE i % 7 = 3").fetchall()
            seconds.append(time.perf_counter() - began)
    return rows / median(seconds)


def to_json(results: Sequence[SessionsResult]) -> list[dict[str, object]]:
    """The figures, for programs."""
    return [
        {"way": one.way, "seconds": one.seconds, "done": dict(one.done), "waits": one.waits, "busy": one.busy}
        for one in results
    ]
