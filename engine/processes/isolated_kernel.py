"""A kernel whose tasks run in child processes: :class:`~qoop.engine.kernel.Kernel` for texts that are not trusted, and
for sessions that are to live on where the system ends a process for want of memory."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ProcessEnded, Revoked
from qoop.catalog.priority import URGENT
from qoop.engine.kernel import check_tables
from qoop.engine.processes.child import PARTITION
from qoop.engine.processes.isolated_task import IsolatedTask
from qoop.engine.processes.pool import ProcessPool
from qoop.engine.processes.process import ChildProcess, Limits
from qoop.engine.processes.task_in_process import run_task
from qoop.engine.storage.growing import Begin, InMemory, Made, Output
from qoop.engine.task import TaskSpec
from qoop.planner.plan import ISOLATED, Resources

if TYPE_CHECKING:
    from qoop.engine.functions.calls import Tell
    from qoop.engine.functions.measured import FunctionCalls

_MARGIN = 64 << 20  # bytes on top of DuckDB's limit: vectors of rows, batches on their way
_OF_PROCESS = 256 << 20
"""Bytes that this process and that of a task take besides rows: their modules, and the slack until the task is killed.
They are part of the memory of a task that is not trusted, at most half of it, so that all processes together stay
within that of the session."""
_COUNTED = 0.75
"""The part of the memory of a task that is not trusted which is the limit of DuckDB; the rest is for what it does not
count."""
_BEYOND = 2.0  # times its memory, that a trusted task may take beyond DuckDB's limit
_numbers = count()


class IsolatedKernel:
    """Runs a task in a child process; `interrupt` kills the process.

    folder: for what DuckDB spills, and for rows that this process has in memory; removed with its end.
    urgent: seconds of the processor after which a text goes behind others. short: `urgent` of `ProcessPool.process`.
    """

    profile = None
    called: tuple[FunctionCalls, ...] = ()

    def __init__(self, pool: ProcessPool, folder: Path, urgent: float = URGENT, short: bool = True) -> None:
        self._pool, self._folder, self._urgent, self._short = pool, folder, urgent, short
        self._process: ChildProcess | None = None  # that runs the task
        self._lock = threading.Lock()  # of the process: once the task has ended, it may run another
        self._part: float | None = None  # of the query that is over, as last heard
        self._part_requested = False  # and not yet answered
        self._memory = 0.0  # bytes with which the task has begun

    def run(
        self,
        spec: TaskSpec,
        read: Callable[[str], pa.Table],
        between: Callable[[], None] = lambda: None,
        begin: Begin = InMemory,
        tell: Tell = lambda _: None,
    ) -> Made:
        """As `Kernel.run`. Raises OutOfMemory, too, for a task that needs more than it has. A task whose process the
        system kills raises Revoked if it is trusted; any other runs once more, and raises ProcessEnded the second time.
        """
        try:
            return self._run(spec, read, between, begin)
        except ProcessEnded as error:
            between()  # raises if the task was to stop, and was interrupted
            if not error.was_killed:
                raise
            if spec.stage.opaque != ISOLATED:
                raise Revoked("its process was killed, as where memory is short") from error
        return self._run(spec, read, between, begin)

    def _run(self, spec: TaskSpec, read: Callable[[str], pa.Table], between: Callable[[], None], begin: Begin) -> Made:
        output: Output | None = None
        spec, limits = _limited(spec, between, self._urgent)
        self._memory = spec.resources.memory
        with ExitStack() as stack:
            folder = self._folder / f"task-{next(_numbers)}"  # made with its first file, since few tasks have any
            stack.callback(shutil.rmtree, folder, ignore_errors=True)

            def receive(data: bytearray) -> None:
                nonlocal output
                (number,) = PARTITION.unpack_from(data)
                with pa.ipc.open_stream(pa.py_buffer(data).slice(PARTITION.size)) as batches:
                    if output is None:
                        output = stack.enter_context(closing(begin(batches.schema, spec.stage.layout.parts)))
                    output.add([(number, batch) for batch in batches])

            task = IsolatedTask.of(spec, folder, self._folder, read)
            process = stack.enter_context(self._pool.process(self._short))
            stack.callback(self._remove_spill, process)
            self._set_process(process)
            stack.callback(self._set_process, None)
            process.call(run_task, [task.written()], limits, receive)
            assert output is not None  # its schema came first
            check_tables(spec)
            return output.finish()

    def _remove_spill(self, process: ChildProcess) -> None:
        """Remove what a process has left that was killed."""
        if not process.fit:
            shutil.rmtree(self._folder / str(process.id), ignore_errors=True)

    def part_over(self) -> float | None:
        """As `Kernel.part_over`. The process answers later, so this is the part at the call before."""
        if not self._part_requested:
            self._part_requested = True
            self._request(None, self._set_part)
        return self._part

    def _set_part(self, part: float | None) -> None:
        self._part, self._part_requested = part, False

    def _request(self, message: object, take: Callable[[Any], object]) -> None:
        """Send a message to the task, if it runs."""
        with self._lock:
            process = self._process
        if process is None:
            take(None)
        else:
            process.request(message, take)

    def cpu_seconds(self) -> float | None:
        """Seconds that the call of the process has used; None: it has no process by now."""
        with self._lock:
            return None if self._process is None else self._process.used_seconds

    def interrupt(self) -> None:
        """Kill the process of the task, if it has one by now."""
        with self._lock:
            if self._process is not None:
                self._process.interrupt()

    def _set_process(self, process: ChildProcess | None) -> None:
        with self._lock:
            self._process = process

    def exceeds(self, resources: Resources) -> bool:
        """True if its process has taken more memory than that."""
        with self._lock:
            return self._process is not None and self._process.taken() > resources.memory

    def regrant(self, spec: TaskSpec, resources: Resources) -> bool:
        """As `Kernel.regrant`."""
        answers: queue.SimpleQueue[bool | str | None] = queue.SimpleQueue()
        memory = int(resources.memory)
        added = int(_BEYOND * max(0.0, memory - self._memory))
        with self._lock:
            if self._process is not None:
                self._process.allow(added)
        self._request((int(resources.cpu), memory, added), answers.put)
        answer = answers.get()
        if isinstance(answer, str):
            raise duckdb.Error(answer)
        return answer is True


def _limited(spec: TaskSpec, check: Callable[[], object], urgent: float) -> tuple[TaskSpec, Limits]:
    """The task with the memory that DuckDB counts, and the limits of its process."""
    memory = int(spec.resources.memory)
    if spec.stage.opaque != ISOLATED:
        return spec, Limits(int(_BEYOND * memory) + _MARGIN, check, urgent)
    most = max(memory // 2, memory - _OF_PROCESS)
    limits = Limits(most, check, urgent, gives_way=True)
    return replace(spec, resources=replace(spec.resources, memory=_COUNTED * most)), limits
