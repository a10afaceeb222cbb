"""The script of a simulation: the outcomes of attempts, and what happens to machines."""

from __future__ import annotations

from qoop.catalog.errors import QoopError
from qoop.catalog.value import value
from qoop.engine.backends.simulated_outputs import Sizes
from qoop.engine.events import Committed, Event
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.task import MachineId, TaskSpec
from qoop.planner.packing import on_threads


@value
class Outcome:
    """The outcome of an attempt after `seconds` (infinite: it runs until it is stopped).

    arriving, spilled: bytes that come in over its machine's link before the work, and that go to its disk and back
    after it. The attempts on a machine share these; where they have no rate, moving takes no time.
    rows, bytes: in each partition of its output; None: 8 bytes a row. It is committed with one number for all of them:
    there may be thousands, and a simulated one is never read; bytes of partitions that differ are a tuple.
    cpu_seconds: of its thread, 0: unknown. called: its calls of Python functions.
    """

    seconds: float
    error: QoopError | None = None
    retryable: bool = True
    rows: int = 1
    bytes: Sizes | None = None
    arriving: float = 0.0
    spilled: float = 0.0
    cpu_seconds: float = 0.0
    called: tuple[FunctionCalls, ...] = ()

    def committed(self, spec: TaskSpec, seconds: float) -> tuple[Committed, Sizes]:
        """The output of an attempt that took these seconds, and the bytes of its partitions."""
        parts = spec.stage.layout.parts
        size = 8 * self.rows if self.bytes is None else self.bytes
        sizes = size if isinstance(size, tuple) else (size * parts,)
        width = spec.stage.width * spec.shared
        rows, cpu = (self.rows * parts,), self.cpu_seconds
        return Committed(spec.key, rows, sizes, seconds, cpu, width=width, called=self.called), size


@value
class MachineSlowed:
    """From now on all work on the machine takes `factor` times as long; 1: as usual. No cluster hears of it."""

    machine: MachineId
    factor: float


@value
class MachineShared:
    """From now on that many threads of others work on the machine, too. No cluster hears of it."""

    machine: MachineId
    threads: float


Happening = Event | MachineSlowed | MachineShared


def as_estimated(spec: TaskSpec) -> Outcome:
    """The default script: every task takes as long as its stage's estimate says, on all its threads."""
    return Outcome(on_threads(spec.stage.estimate.task_seconds, spec.resources.cpu))
