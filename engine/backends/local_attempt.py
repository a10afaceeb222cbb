"""An attempt in a thread of this process: its state, its end, and its failures as events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qoop.catalog.errors import CheckpointError, QoopError, Revoked
from qoop.engine.events import CheckpointLost, Event, TaskFailed
from qoop.engine.failures import Stopped, to_failure
from qoop.engine.task import CheckpointKey, TaskSpec
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.engine.backends.ahead import FetchedAhead
    from qoop.engine.kernel import Kernel
    from qoop.engine.processes.isolated_kernel import IsolatedKernel

    Ahead = FetchedAhead[tuple[CheckpointKey, int | None], pa.Table]

INSIST = 0.005  # seconds between interrupts, since one that comes before the query starts is lost


@dataclass(eq=False)
class LocalAttempt:
    """An attempt between start and report. `kernel` is set while it runs; `lock` guards that.

    resources: that it is to have; had: that it is known to have. extra: it runs on a slot on top of those there are.
    revoked: it was stopped because its resources were taken away. came: when it was started; queued: it was reported
    that it waits. ahead: what it reads from other machines, if that was fetched while it waited.
    """

    spec: TaskSpec
    resources: Resources = field(init=False)
    had: Resources = field(init=False)
    extra: bool = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    kernel: Kernel | IsolatedKernel | None = None
    revoked: bool = False
    came: float = field(default_factory=time.perf_counter)
    queued: bool = False
    ahead: Ahead | None = None

    def __post_init__(self) -> None:
        self.resources = self.had = self.spec.resources
        self.extra = self.spec.extra

    def check(self) -> None:
        """Raise Stopped once it is to end."""
        if self.stop.is_set():
            raise Stopped

    @contextmanager
    def runs_in(self, kernel: Kernel | IsolatedKernel) -> Iterator[None]:
        """It can be interrupted and regranted by its kernel meanwhile."""
        with self.lock:
            self.kernel = kernel
        try:
            yield
        finally:
            with self.lock:
                self.kernel = None

    def outgrows(self, resources: Resources) -> bool:
        """True if it is to have less memory, and its child process holds more, whose end frees that at once."""
        with self.lock:
            kernel = self.kernel
        return kernel is not None and resources.memory < self.resources.memory and kernel.exceeds(resources)

    def regrant(self, resources: Resources) -> bool:
        """Have its kernel go on with these resources. False: its query has not begun yet, or has ended."""
        with self.lock:
            kernel = self.kernel
        return kernel is not None and kernel.regrant(self.spec, resources)


class LostInput(CheckpointError):
    """Checkpoints that were to be read are gone; `keys` says which."""

    keys: Sequence[CheckpointKey] = ()


def failed(spec: TaskSpec, error: BaseException) -> list[Event]:
    """The reports of an attempt that met an error: the inputs that it could not read, and its failure."""
    failure, retryable = to_failure(error, spec)
    lost: list[Event] = [CheckpointLost(key) for key in error.keys] if isinstance(error, LostInput) else []
    return [*lost, TaskFailed(spec.attempt, failure, retryable)]


def revoked(spec: TaskSpec) -> TaskFailed:
    """The report of an attempt that lost its resources."""
    error = Revoked("the slots or the memory it ran in were taken away")
    error.stage, error.part = spec.stage.id, spec.attempt.task.part
    return TaskFailed(spec.attempt, error, retryable=True)


def changed_table(spec: TaskSpec) -> QoopError | None:
    """If a table changed under the task, that is what went wrong, whatever DuckDB stumbled over."""
    try:
        for item in spec.stage.table_inputs:
            spec.tables[item.table].check()
    except QoopError as error:
        return error
    return None


def insist(attempt: LocalAttempt) -> None:
    """Interrupt the kernel of an attempt until the attempt has ended."""
    while not attempt.ended.is_set():
        interrupt(attempt)
        attempt.ended.wait(INSIST)


def interrupt(attempt: LocalAttempt) -> None:
    """Interrupt the kernel of an attempt once, if it has one by now."""
    with attempt.lock:
        if attempt.kernel is not None:
            attempt.kernel.interrupt()
