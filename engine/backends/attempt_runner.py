"""The way of an attempt in this process: its inputs are read, its kernel computes, its outputs go to the store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from qoop.catalog.errors import CheckpointError
from qoop.catalog.priority import NICENESS, URGENT, keep_starter
from qoop.engine.backends.local_attempt import LocalAttempt, LostInput, changed_table, failed, revoked
from qoop.engine.backends.release_memory import GROWTH, MemoryReleaser
from qoop.engine.backends.warm_kernels import WarmKernels
from qoop.engine.backends.work_watch import WorkWatch
from qoop.engine.clock import Stopwatch
from qoop.engine.events import CallsObserved, Committed, Event, TaskStopped, TaskSucceeded
from qoop.engine.failures import Stopped, is_fatal
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.kernel import Kernel
from qoop.engine.memory import Used
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.growing import Output, Timed
from qoop.engine.storage.guard import Origin
from qoop.engine.storage.segments import joined
from qoop.engine.task import AttemptId, CheckpointKey, JobId, TaskAccount, TaskSpec
from qoop.planner.plan import ISOLATED, Resources

if TYPE_CHECKING:
    from qoop.engine.backends.local_attempt import Ahead
    from qoop.engine.processes.isolated_kernel import IsolatedKernel
    from qoop.engine.processes.pool import ProcessPool

Read = tuple[CheckpointKey, int | None]
"""An output, and which partition of it is to be read; None: all."""


class Elsewhere(Protocol):
    """The place of outputs that a machine has not made itself."""

    def fetch(self, spec: TaskSpec, requested: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        """Rows of outputs that a task reads and its machine does not hold, as far as they can be had. ahead: the task
        waits for its slot, so what others need comes first."""
        ...

    def hasten(self, attempt: AttemptId) -> None:
        """An attempt begins to wait for what is fetched ahead for it."""
        ...


class LocalInputs:
    """Reads what tasks need. elsewhere: the outputs that the store does not hold; None: there are no other machines."""

    def __init__(self, store: Store, elsewhere: Elsewhere | None) -> None:
        self._store = store
        self._elsewhere = elsewhere

    def ahead(self, spec: TaskSpec) -> Ahead | None:
        """The inputs of a waiting task on other machines, to be fetched in the background; None: there are none."""
        requested = dict.fromkeys(read for item in spec.inputs for read in item.reads)
        if self._elsewhere is None or not requested:
            return None
        from qoop.engine.backends.ahead import FetchedAhead  # at most machines nothing waits

        return FetchedAhead(partial(self._fetched, spec, list(requested), ahead=True))

    def reader(self, attempt: LocalAttempt, stopwatch: Stopwatch) -> Callable[[str], pa.Table]:
        """Reads the stage inputs of a task by name, as one table of as many chunks as there are pieces."""
        spec = attempt.spec
        reads = {item.name: item.reads for item in spec.inputs}

        def read(name: str) -> pa.Table:
            with stopwatch:
                return fetched(name)

        def fetched(name: str) -> pa.Table:
            if attempt.ahead is not None and self._elsewhere is not None:
                self._elsewhere.hasten(spec.attempt)
            ahead = attempt.ahead.take() if attempt.ahead is not None else {}
            found = {one: ahead[one] for one in reads[name] if one in ahead}
            found.update(self._fetched(spec, [one for one in reads[name] if one not in found]))
            self._store.fetch([one for one in reads[name] if one not in found])
            try:
                return joined([found[one] if one in found else self._store.read(*one) for one in reads[name]])
            except CheckpointError as error:
                lost = LostInput(str(error))
                lost.keys = self._unreadable(spec)
                raise lost from error

        return read

    def _fetched(self, spec: TaskSpec, requested: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        """The part of it that lies elsewhere."""
        if self._elsewhere is None:
            return {}
        return self._elsewhere.fetch(spec, [one for one in requested if not self._store.has(one[0])], ahead)

    def _unreadable(self, spec: TaskSpec) -> list[CheckpointKey]:
        """All that the task would miss, so that it fails once and not once for each."""
        requested = list(dict.fromkeys(read for item in spec.inputs for read in item.reads))
        found, lost = self._fetched(spec, requested), []
        for key, partition in (one for one in requested if one not in found):
            try:
                self._store.read(key, partition)
            except CheckpointError:
                lost.append(key)
        return lost


CROWDED = 0.6
"""The part of the memory above which what is free goes back to the system."""
_SHORT = 0.1  # seconds of an attempt that has freed little, unless the process has grown


class Watcher(Protocol):
    """Divides the slots of a machine between several backends. It is called while no lock is held."""

    def ended(self, attempt: AttemptId) -> None:
        """An attempt has given its resources back."""
        ...

    def changed(self, attempt: AttemptId, resources: Resources) -> None:
        """An attempt has other resources now."""
        ...


class AttemptRunner:
    """Runs attempts in kernels, and gives what they make to the store. report: takes events of running attempts.
    folder: for the tasks that run in child processes."""

    def __init__(
        self,
        store: Store,
        inputs: LocalInputs,
        memory: MemoryReleaser,
        kernels: WarmKernels,
        report: Callable[[Event], None],
        folder: Path,
    ) -> None:
        self._store = store
        self._inputs = inputs
        self._memory_releaser = memory
        self._kernels = kernels
        self._report = report
        self._folder = folder
        self._work_watch = WorkWatch(report)
        self._is_long: Callable[[JobId], bool] = lambda job: False
        self._is_short: Callable[[JobId], bool] = lambda job: True
        self._has_made = False  # an output
        self._least_seconds = math.inf  # estimated, of the tasks with trusted texts that run in child processes

    @cached_property
    def processes(self) -> ProcessPool:
        """The child processes, none of which is there before it is needed."""
        from qoop.engine.processes.pool import ProcessPool  # few sessions have texts that are not trusted

        releaser = self._memory_releaser
        pool = ProcessPool(lambda: releaser.memory, lambda: releaser.release(0.0))
        releaser.of_children = pool.size
        return pool

    def isolate(self, least_seconds: float = 0.0) -> None:
        """Run tasks in child processes from now on, if they can: the system ends these first where memory is short.

        least_seconds: estimated, of a task; with more than 0, the first processes are started by enough such work.
        """
        self._least_seconds = least_seconds
        if not least_seconds:
            self.processes.warm()

    def let_short_go_first(
        self,
        went_behind: Callable[[int], object],
        is_long: Callable[[JobId], bool],
        is_short: Callable[[JobId], bool],
    ) -> None:
        """An attempt in a thread that has worked for longer than short ones do goes behind others on the CPUs from now
        on, and one of a job that is long at once. In a child process it has a niceness, unless its job is short.
        went_behind: called with its thread, which stays behind, so it ought to take no other attempt."""
        keep_starter()
        self.processes.niceness = NICENESS
        self._work_watch.urgent, self._work_watch.went_behind = URGENT, went_behind
        self._is_long, self._is_short = is_long, is_short

    def used_by_children(self) -> Used:
        """The use of the child processes, if there are any, and what of this process was behind others."""
        used = self.processes.used() if "processes" in self.__dict__ else Used()
        return replace(used, nice_seconds=used.nice_seconds + self._work_watch.behind_seconds())

    def run(self, attempt: LocalAttempt, spec: TaskSpec, waited: float) -> list[Event]:
        """Run an attempt to its end; returns what is to be reported of it.

        spec: its own, with the memory that it may use now. waited: seconds for which it waited for a worker.
        """
        try:
            attempt.check()
            with self._kernel(spec) as kernel, attempt.runs_in(kernel):
                return [TaskSucceeded(spec.attempt, *self._run(kernel, attempt, spec, waited), kernel.profile)]
        except Stopped:
            return [revoked(spec) if attempt.revoked else TaskStopped(spec.attempt)]
        except Exception as error:
            return failed(spec, changed_table(spec) or error)

    @contextmanager
    def _kernel(self, spec: TaskSpec) -> Iterator[Kernel | IsolatedKernel]:
        """A kernel for one task."""
        if self._is_isolated(spec):
            from qoop.engine.processes.isolated_kernel import IsolatedKernel  # as above

            yield IsolatedKernel(
                self.processes, self._folder, self._urgent(spec), self._is_short(spec.attempt.task.job)
            )
            return
        with self._kernels.taken() as kernel:
            try:
                yield kernel
            except Exception as error:
                if is_fatal(error):
                    kernel.restart()
                raise

    def _urgent(self, spec: TaskSpec) -> float:
        """Seconds of the processor after which a task in a child process goes behind others."""
        if self._is_long(spec.attempt.task.job):
            return 0.0
        return URGENT if spec.stage.opaque == ISOLATED else math.inf

    def _is_isolated(self, spec: TaskSpec) -> bool:
        """True for a task whose text is not trusted, and, if tasks run in processes, for those that are long enough and
        can: functions of Python are in this process, and so are the connections to stores. True for a long one that
        goes behind others at once: behind others in this process, it would hold locks for which all of them wait.
        Not for one on an extra slot, whose estimate is short: behind all in a process, it held the slot for seconds."""
        if spec.stage.opaque == ISOLATED:
            return True
        if spec.functions:
            return False
        sources = [spec.tables[item.table].source for item in spec.stage.table_inputs]
        if any(source.places().remote for source in sources):
            return False
        alone = spec.stage.whole and not spec.profiled and spec.slicing is None
        if alone and self._is_long(spec.attempt.task.job) and not spec.extra:
            return all(source.places().local or source.attach() for source in sources)  # none is in memory
        seconds = spec.stage.estimate.task_seconds / max(1.0, spec.resources.cpu)
        if seconds < self._least_seconds:
            return False
        return not self._least_seconds or (not spec.profiled and self.processes.pays(seconds))

    def _run(
        self, kernel: Kernel | IsolatedKernel, attempt: LocalAttempt, spec: TaskSpec, waited: float
    ) -> tuple[Committed, TaskAccount]:
        reading, writing = Stopwatch(), Stopwatch()
        began, cpu_began = time.perf_counter(), time.thread_time()

        def begin(schema: pa.Schema, parts: int) -> Output:
            return Timed(self._store.begin(schema, parts, attempt.check), writing)

        read = self._inputs.reader(attempt, reading)

        def report(called: tuple[FunctionCalls, ...]) -> None:
            self._report(CallsObserved(spec.attempt, called))

        is_long = isinstance(kernel, Kernel) and self._is_long(spec.attempt.task.job)  # else a process does the work
        with self._work_watch.watched(spec.attempt, kernel.part_over, kernel.cpu_seconds, is_long):
            if spec.slicing is None or not isinstance(kernel, Kernel):
                made = kernel.run(spec, read, attempt.check, begin, report)
            else:
                from qoop.engine.backends.sliced import SlicedTask  # few processes live as short as their tasks

                task, once = SlicedTask(spec, self._store, attempt.check, not self._has_made), cache(read)
                made = task.made(lambda one: kernel.run(one, once, attempt.check, begin, report))
        committed = Committed(
            spec.key,
            made.rows,
            made.bytes,
            made.earlier_seconds + time.perf_counter() - began,
            # DuckDB works in this thread as long as it has one; what others did is not known.
            time.thread_time() - cpu_began if spec.resources.cpu <= 1 and isinstance(kernel, Kernel) else 0.0,
            width=spec.stage.width if spec.shared else 0,
            finished=spec.shared and spec.stage.meaning != "",
            called=kernel.called,
            maker=spec.attempt.task.job,
        )
        if self._kernels.copies is not None and isinstance(kernel, Kernel):
            self._kernels.copies.note(spec, committed.seconds, kernel.native)
        origin = Origin(spec.stage, spec.settings) if spec.shared else None
        job, durable = spec.attempt.task.job, spec.durable
        with writing:
            committed = self._store.put(
                committed, job, made.tables, durable, attempt.check, origin, made.mapped, made.slices
            )
            self._has_made = True
            del made  # if it was spilled, this frees it
            self._memory_releaser.release(CROWDED, GROWTH if committed.seconds < _SHORT else 0.0)
        rest = time.perf_counter() - began - reading.seconds - writing.seconds
        return committed, TaskAccount(waited, reading.seconds, rest, writing.seconds)

    def close(self) -> None:
        """Watch no work any more, and end the child processes."""
        self._work_watch.close()
        if "processes" in self.__dict__:
            self.processes.close()
