"""Machines that run nothing: scripted durations and failures under a virtual clock.

For tests of the core, and the ground on which simulations stand (law 3). Time stands still until `wait`
finds nothing to report; then it moves to the next thing that happens.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from qoop.catalog.errors import CheckpointError, ConfigError, QoopError, Revoked
from qoop.engine.clock import VirtualClock
from qoop.engine.events import (
    CapacityNotice,
    Committed,
    Event,
    MachineJoined,
    MachineLost,
    SlotsChanged,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.packing import first_fit, on_threads
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt will come to after `seconds` (infinite: it runs until it is stopped).

    rows: in each partition of its output, of 8 bytes each.
    """

    seconds: float
    error: QoopError | None = None
    retryable: bool = True
    rows: int = 1


def as_estimated(spec: TaskSpec) -> Outcome:
    """The default script: every task takes as long as its stage's estimate says, on all its threads."""
    return Outcome(on_threads(spec.stage.estimate.task_seconds, spec.resources.cpu))


class SimulatedBackend:
    """A backend whose attempts come to what `script` says of them.

    stop_seconds: time from a stop to its report, and from the loss of a slot to that of the attempt in it.
    `start`, `stop`, `wait` are for one thread; `wake` and `happen` for any.
    """

    def __init__(
        self,
        machines: Mapping[MachineId, Resources],
        clock: VirtualClock,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        stop_seconds: float = 0.0,
    ) -> None:
        self.clock = clock
        self.started: list[TaskSpec] = []
        self._machines = dict(machines)
        self._script = script
        self._stop_seconds = stop_seconds
        self._running: dict[AttemptId, tuple[MachineId, TaskSpec]] = {}
        self._revoked: set[AttemptId] = set()
        self._agenda: list[tuple[float, int, Callable[[], Sequence[Event]]]] = []
        self._order = count()
        self._changed = threading.Condition()
        self._woken = False
        self._closed = False
        self._committed: dict[CheckpointKey, tuple[Committed, set[JobId]]] = {}

    # --- the backend's methods ------------------------------------------------------------------------------

    def machines(self) -> Mapping[MachineId, Resources]:
        return dict(self._machines)

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        self.started.append(spec)
        self._running[spec.attempt] = (machine, spec)
        missing = [key for item in spec.inputs for key, _ in item.reads if key not in self._committed]
        if missing:
            outcome = Outcome(0.0, CheckpointError(f"{spec.attempt} reads {missing[0]}, which is not there"))
        else:
            outcome = self._script(spec)
        if outcome.seconds < math.inf:
            self._plan(self.clock.now() + outcome.seconds, lambda: self._finish(spec, outcome))

    def stop(self, attempt: AttemptId) -> None:
        self._plan(self.clock.now() + self._stop_seconds, lambda: self._end_stopped(attempt))

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Of a single machine; where there are several, let it `happen`."""
        self.happen(SlotsChanged(*self._sized(slots, memory)), at=self.clock.now())

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        self.happen(CapacityNotice(*self._sized(slots, memory), at), at=self.clock.now())

    def wait(self, timeout: float | None) -> Sequence[Event]:
        limit = math.inf if timeout is None else self.clock.now() + timeout
        while True:
            with self._changed:
                if self._woken:
                    self._woken = False
                    return self._due(self.clock.now())
                if not self._agenda and limit == math.inf:
                    self._changed.wait()
                    continue
                moment = min(self._agenda[0][0] if self._agenda else math.inf, limit)
            self.clock.advance_to(moment)
            events = self._due(moment)
            if events or moment >= limit:
                return events

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def held(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        return [self._committed[key][0] for key in keys if key in self._committed]

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        for key in keys:
            if key in self._committed:
                self._committed[key][1].discard(job)
                if not self._committed[key][1]:
                    del self._committed[key]

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        raise CheckpointError(f"{key} is a simulated output: it has no rows to read")

    def close(self) -> None:
        self._running.clear()
        self._committed.clear()
        self._closed = True

    # --- the script's side ----------------------------------------------------------------------------------

    def happen(self, event: Event, at: float) -> None:
        """Let a change of machines, or a lost checkpoint, happen at this time."""
        self._plan(at, lambda: self._change(event))
        self.wake()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def running(self) -> tuple[AttemptId, ...]:
        """Attempts that have not reported."""
        return tuple(self._running)

    @property
    def committed(self) -> tuple[CheckpointKey, ...]:
        """Outputs that some job holds."""
        return tuple(self._committed)

    # --- within ---------------------------------------------------------------------------------------------

    def _plan(self, at: float, action: Callable[[], Sequence[Event]]) -> None:
        with self._changed:
            heappush(self._agenda, (at, next(self._order), action))

    def _due(self, now: float) -> list[Event]:
        events: list[Event] = []
        while True:
            with self._changed:
                if not self._agenda or self._agenda[0][0] > now:
                    return events
                _, _, action = heappop(self._agenda)
            events.extend(action())

    def _sized(self, slots: int | None, memory: int | None) -> tuple[MachineId, Resources]:
        if len(self._machines) != 1:
            raise ConfigError(f"there are {len(self._machines)} machines: resize one of them")
        ((machine, capacity),) = self._machines.items()
        cpu = capacity.cpu if slots is None else slots
        return machine, replace(capacity, cpu=cpu, memory=capacity.memory if memory is None else memory)

    def _finish(self, spec: TaskSpec, outcome: Outcome) -> Sequence[Event]:
        if self._running.pop(spec.attempt, None) is None:
            return []
        if outcome.error is not None:
            return [TaskFailed(spec.attempt, outcome.error, outcome.retryable)]
        parts = spec.stage.layout.parts
        committed = Committed(spec.key, (outcome.rows,) * parts, (8 * outcome.rows,) * parts, outcome.seconds)
        jobs = self._committed.setdefault(spec.key, (committed, set()))[1]
        jobs.add(spec.attempt.task.job)
        return [TaskSucceeded(spec.attempt, committed)]

    def _end_stopped(self, attempt: AttemptId) -> Sequence[Event]:
        return [TaskStopped(attempt)] if self._running.pop(attempt, None) is not None else []

    def _change(self, event: Event) -> Sequence[Event]:
        match event:
            case MachineJoined(machine, capacity):
                self._machines[machine] = capacity
            case MachineLost(machine):
                self._machines.pop(machine, None)
                for attempt in [attempt for attempt, (where, _) in self._running.items() if where == machine]:
                    del self._running[attempt]
            case SlotsChanged(machine, capacity):
                self._machines[machine] = capacity
                self._evict(machine, capacity)
        return [event]

    def _evict(self, machine: MachineId, capacity: Resources) -> None:
        """Take the room from attempts that no longer fit; those begun first stay first."""
        here = [
            spec.attempt
            for where, spec in self._running.values()
            if where == machine and spec.attempt not in self._revoked
        ]
        staying = first_fit([self._running[attempt][1].resources for attempt in here], capacity)
        for index, attempt in enumerate(here):
            if index not in staying:
                self._revoked.add(attempt)
                self._plan(self.clock.now() + self._stop_seconds, partial(self._end_revoked, attempt))

    def _end_revoked(self, attempt: AttemptId) -> Sequence[Event]:
        self._revoked.discard(attempt)
        found = self._running.pop(attempt, None)
        return [TaskFailed(attempt, Revoked(f"{found[0]} lost the slot"), retryable=True)] if found is not None else []
