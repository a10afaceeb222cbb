"""One side of a comparison under changing resources, in a process that may be killed: qoop or DuckDB.

Run as ``python -m qoop.tpcds.bench.system_under_test`` by :mod:`qoop.tpcds.bench.contest`, which writes JSON lines to
standard input: first a :class:`Task`, then any number of :class:`Size`. It answers with a line when it is ready, and
another when the answer is complete. The answer itself goes to a file, after the clock has been stopped.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa

KINDS = ("qoop", "held", "restarted", "keeping", "running")
"""qoop; qoop held to its launch plan; DuckDB started again when it loses resources; the same, where it keeps what its
query reads more than once; DuckDB left running."""

UNTIL_DONE = "until done"
"""qoop that goes on where the process before it was killed; its clock begins before the session opens."""


@dataclass(frozen=True, slots=True)
class Size:
    """Slots (threads), and bytes of memory."""

    slots: int
    memory: int


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a system under test.

    kind: one of :data:`KINDS`, or `UNTIL_DONE`. size: at the start. answer: where the rows go.

    checkpoints: a folder for durable outputs, which the next process with the same task takes up; of DuckDB only where
    it keeps something.
    waits: it waits for a line after it is ready; else it begins at once. staged: qoop has no plan of DuckDB's among its
    own. restarts_on_more: DuckDB that starts again does so when it is given more, too. fresh: qoop knows nothing of the
    text when it is ready, but has loaded the modules; else it has the statistics.
    """

    kind: str
    directory: str
    text: str
    size: Size
    answer: str
    checkpoints: str | None = None
    waits: bool = True
    staged: bool = False
    restarts_on_more: bool = False
    fresh: bool = False

    def line(self) -> str:
        """For the other process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> Task:
        fields: dict[str, Any] = json.loads(line)
        return cls(**{**fields, "size": Size(**fields["size"])})


class Side(Protocol):
    """A system under test: answers the text, and hears of other resources meanwhile."""

    def answer(self) -> pa.Table: ...

    def resize(self, size: Size) -> None: ...

    def facts(self) -> Mapping[str, Any]:
        """Its further report once it has answered."""
        ...


class Qoop:
    """A session of qoop, adaptive or held to the plan it starts with."""

    def __init__(self, task: Task, replan: bool) -> None:
        import qoop

        self.task = task
        size = task.size
        self.session = qoop.connect(
            slots=size.slots, memory=size.memory, checkpoints=task.checkpoints, replan=replan, staged=task.staged
        )
        self.session.register_folder(task.directory)
        if task.fresh:
            self.session.alternatives("SELECT 1")
        elif task.waits:
            with contextlib.suppress(qoop.QoopError):  # the run will say what is wrong with the text
                self.session.prepare(task.text)  # statistics are collected once for a table, not once for a query
        self.job: qoop.Job | None = None

    def answer(self) -> pa.Table:
        self.job = self.session.submit(self.task.text, resume=self.task.checkpoints is not None)
        return self.job.result().arrow()

    def resize(self, size: Size) -> None:
        self.session.resize(slots=size.slots, memory=size.memory)

    def facts(self) -> Mapping[str, Any]:
        assert self.job is not None
        history = self.job.history()
        return {
            "attempts": sum(type(record).__name__ == "Started" for record in history),
            "switches": max((getattr(record, "number", 1) for record in history), default=1) - 1,
            "history": [str(record) for record in history if type(record).__name__ not in ("Started", "Succeeded")],
        }


class UntilDone:
    """One life of a query that survives its processes, as of ``qoop run --until-done``."""

    def __init__(self, task: Task) -> None:
        import numpy
        import pyarrow.compute

        import qoop
        import qoop.session.until_done

        self.task, self.loaded = task, (numpy, pyarrow.compute)  # which the first task of several would load
        with qoop.connect() as session:
            session.alternatives("SELECT 1")  # loads the modules

    def answer(self) -> pa.Table:
        import qoop
        from qoop.interfaces.commands.loading import tables_named
        from qoop.query.statements.statement import Query

        size = self.task.size
        with qoop.connect(
            slots=size.slots, memory=size.memory, checkpoints=self.task.checkpoints, staged=True
        ) as session:
            session.register_path(self.task.directory, tables_named([Query(self.task.text)]))
            result = session.run_until_done(self.task.text).result
            assert result is not None
            return result.arrow()

    def resize(self, size: Size) -> None:
        raise NotImplementedError("each life has one size")

    def facts(self) -> Mapping[str, Any]:
        return {}


class DuckDB:
    """DuckDB on the same files. restarts: it is stopped and begins again whenever it loses resources."""

    def __init__(self, task: Task, restarts: bool) -> None:
        from qoop.tpcds.oracle import Oracle

        self.task = task
        self.oracle = Oracle(task.directory, task.size.slots, f"{task.size.memory}B")
        self.size = task.size
        self.restarts = restarts
        self.again = threading.Event()
        self.begun = 0
        self.refusals: list[str] = []

    def once(self) -> pa.Table:
        """Answer the text, from the beginning."""
        return self.oracle.answer(self.task.text)

    def answer(self) -> pa.Table:
        import duckdb

        while True:
            self.again.clear()
            self.begun += 1
            try:
                return self.once()
            except duckdb.InterruptException:
                if not self.again.is_set():
                    raise
                self.limit(threads=self.size.slots)

    def resize(self, size: Size) -> None:
        """Fewer resources: stop and begin again, or set the new limit while it runs. More: go on with what it has, or
        begin again where the task says so."""
        less = size.slots < self.size.slots or size.memory < self.size.memory
        self.size = size
        if self.restarts and (less or self.task.restarts_on_more):
            self.again.set()
            self.oracle.interrupt()
        elif not self.restarts:
            self.limit(threads=None)

    def limit(self, threads: int | None) -> None:
        """Apply the size. The number of threads cannot be set while a query runs: that would wait for its end."""
        import duckdb

        try:
            self.oracle.limit(f"{self.size.memory}B", threads)
        except duckdb.Error as error:
            self.refusals.append(str(error))

    def facts(self) -> Mapping[str, Any]:
        return {"attempts": self.begun, "refusals": self.refusals}


class KeepingDuckDB(DuckDB):
    """DuckDB that begins again with what its text reads more than once, as
    :mod:`~qoop.tpcds.spot.adapters.shared_steps` has it: in a database file, if it is given a folder, which the next
    process finds, else in memory."""

    def __init__(self, task: Task) -> None:
        from qoop.tpcds.spot.adapters.shared_steps import steps

        super().__init__(task, restarts=True)
        self.steps = steps(task.text)
        if task.checkpoints is not None:
            Path(task.checkpoints).mkdir(parents=True, exist_ok=True)
            self.oracle.attach(Path(task.checkpoints) / "kept.duckdb", "kept")

    def once(self) -> pa.Table:
        for name, text in self.steps.shared:
            self.oracle.keep(name, text, "memory" if self.task.checkpoints is None else "kept")
        return self.oracle.answer(self.steps.last)


def side(task: Task) -> Side:
    """The system under test that a task asks for."""
    if task.kind in ("qoop", "held"):
        return Qoop(task, replan=task.kind == "qoop")
    if task.kind == UNTIL_DONE:
        return UntilDone(task)
    if task.kind == "keeping":
        return KeepingDuckDB(task)
    return DuckDB(task, restarts=task.kind == "restarted")


def serve(requests: TextIO, replies: TextIO) -> None:
    """Do one task; tell when ready, and then seconds, facts or the error."""
    task = Task.read(requests.readline())
    system = side(task)
    tell(replies, {"ready": True})
    if task.waits:
        requests.readline()
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        with _listening(requests, system.resize):
            table = system.answer()
            seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    except Exception as error:
        tell(replies, {"seconds": time.perf_counter() - begun, "error": f"{type(error).__name__}: {error}"})
        return
    _write(Path(task.answer), table)
    tell(replies, {"seconds": seconds, "cpu": cpu, "rows": table.num_rows, **system.facts()})


@contextmanager
def _listening(requests: TextIO, resize: Callable[[Size], None]) -> Iterator[None]:
    """Pass on changes of the size as they come, in a thread that ends with the process."""

    def listen() -> None:
        for line in requests:
            resize(Size(**json.loads(line)))

    threading.Thread(target=listen, name="qoop-contest", daemon=True).start()
    yield


def _write(path: Path, table: pa.Table) -> None:
    """Write the rows so that a reader never sees a part of them."""
    partial = path.with_suffix(".partial")
    with pa.ipc.new_file(partial, table.schema) as writer:
        writer.write_table(table)
    partial.rename(path)


def tell(replies: TextIO, what: Mapping[str, Any]) -> None:
    """Write one line."""
    replies.write(json.dumps(what) + "\n")
    replies.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
