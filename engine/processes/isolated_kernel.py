"""A kernel whose tasks run in child processes: :class:`~qoop.engine.kernel.Kernel` for texts that are not trusted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.engine.processes.isolated_task import IsolatedTask
from qoop.engine.processes.pool import ProcessPool
from qoop.engine.processes.process import ChildProcess, Limits
from qoop.engine.processes.task_in_process import run_task
from qoop.engine.storage.growing import Begin, InMemory, Made, Output
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.engine.functions.calls import Tell
    from qoop.engine.functions.measured import FunctionCalls

_MARGIN = 64 << 20  # bytes on top of DuckDB's limit: vectors of rows, batches on their way
_numbers = count()


class IsolatedKernel:
    """Runs tasks, each in a child process. It keeps its threads and memory to its end; a stop kills the process.

    folder: for what DuckDB spills, and for tables that this process has in memory; removed with its end.
    """

    profile = None
    called: tuple[FunctionCalls, ...] = ()

    def __init__(self, pool: ProcessPool, folder: Path) -> None:
        self._pool, self._folder = pool, folder

    def run(
        self,
        spec: TaskSpec,
        read: Callable[[str], pa.Table],
        between: Callable[[], None] = lambda: None,
        begin: Begin = InMemory,
        tell: Tell = lambda _: None,
    ) -> Made:
        """As `Kernel.run`; a task of no stage inputs. Raises OutOfMemory, too, for one that needs more than it has."""
        output: Output | None = None
        limits = Limits(int(spec.resources.memory) + _MARGIN, between)
        with ExitStack() as stack:
            folder = stack.enter_context(_made(self._folder / f"task-{next(_numbers)}"))

            def receive(data: bytearray) -> None:
                nonlocal output
                with pa.ipc.open_stream(pa.py_buffer(data)) as batches:
                    if output is None:
                        output = stack.enter_context(closing(begin(batches.schema, 1)))
                    output.add([(0, batch) for batch in batches])

            process = stack.enter_context(self._pool.process())
            stack.callback(self._remove_spill, process)
            process.call(run_task, [IsolatedTask.of(spec, folder, self._folder).written()], limits, receive)
            assert output is not None  # its schema came first
            _check_tables(spec)
            return output.finish()

    def _remove_spill(self, process: ChildProcess) -> None:
        """Remove what a process has left that was killed."""
        if not process.fit:
            shutil.rmtree(self._folder / str(process.id), ignore_errors=True)

    def part_over(self) -> float | None:
        """None: the process does not say."""
        return None

    def interrupt(self) -> None:
        """The check of the call stops it."""

    def regrant(self, spec: TaskSpec, resources: Resources) -> bool:
        """Raises duckdb.Error: the resources of the process are fixed."""
        raise duckdb.NotSupportedError("a task in a process of its own keeps its threads and memory")


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A folder for the time of a task, which may be killed."""
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_tables(spec: TaskSpec) -> None:
    """To be done after reading. Raises TableChanged or SourceError."""
    for table in spec.tables.values():
        table.check()
