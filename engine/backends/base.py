"""The seam between the core and whatever really runs tasks."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from qoop.engine.events import Committed, Event
from qoop.engine.storage.manifest import Saved
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    import pyarrow as pa


class Backend(Protocol):
    """Machines that run attempts and keep their outputs. Only `wait` blocks; all calls are from one thread
    except `wake`, which any thread may call."""

    def machines(self) -> Mapping[MachineId, Resources]:
        """Capacity of every machine that can be used now."""
        ...

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        """Begin an attempt; one report about it follows from `wait`. Where it cannot be begun at once, Queued comes
        before that, and Begun when it is."""
        ...

    def stop(self, attempt: AttemptId) -> None:
        """Interrupt an attempt; returns at once, its report follows. Unknown or ended attempts are ignored."""
        ...

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        """Let an attempt that is elastic (`TaskSpec.most`) go on with other resources; returns at once. TaskRegranted
        follows with those that it has then, unless it ends first. Unknown or ended attempts are ignored."""
        ...

    def promote(self, attempt: AttemptId) -> None:
        """An attempt that began on a slot which its machine had not got (`TaskSpec.extra`) has one of them now."""
        ...

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Change how many slots (0 is legal) and bytes of memory there are, at once; None: leave that as it is.

        `wait` reports SlotsChanged next, TaskRegranted for every elastic attempt that could be made smaller, and
        TaskFailed with Revoked for every other that had to go, once it has ended. Raises ConfigError for less than
        nothing, or where capacity is not for the caller to decide.
        """
        ...

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        """Have `wait` report CapacityNotice: the caller will `resize` like this at that time. Raises as that does."""
        ...

    def wait(self, timeout: float | None) -> Sequence[Event]:
        """Block until something happened, `wake` was called or `timeout` seconds passed."""
        ...

    def wake(self) -> None:
        """Make a blocked `wait` return."""
        ...

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        """Those of the keys that are committed and readable; kept for the job, if one is named, until it releases
        them."""
        ...

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job no longer needs these outputs."""
        ...

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        """The rows of one partition of a committed output, or of all. Raises CheckpointError."""
        ...

    def close(self) -> None:
        """Stop everything, join all threads, remove temporary files."""
        ...


class LastingBackend(Backend, Protocol):
    """A backend that can also use outputs that others have left in files: what a session needs."""

    def adopt(self, found: Iterable[Saved], job: JobId) -> list[CheckpointKey]:
        """Hold checkpoints that lie in files of another process, until the job releases them."""
        ...

    def verify(self, keys: Sequence[CheckpointKey]) -> None:
        """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
        ...


def happened(events: queue.SimpleQueue[Event | None], timeout: float | None) -> list[Event]:
    """All events in a queue, as `wait` returns them; blocks for the first. `wake` puts None into the queue."""
    found: list[Event] = []
    with contextlib.suppress(queue.Empty):
        first = events.get(timeout=timeout) if timeout != 0 else events.get_nowait()
        while True:
            if first is not None:
                found.append(first)
            first = events.get_nowait()
    return found
