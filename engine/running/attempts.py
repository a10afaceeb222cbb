"""The living attempts of a run, and the states of one.

::

    state      event    becomes    command, record
    GRANTED    QUEUE    QUEUED     Waiting                  its machine reports that it waits there
               BEGIN    RUNNING                             its machine reports that it runs
               REGRANT  GRANTED    Regrant                  elastic attempts only
               STOP     STOPPING   Stop, Stopping           the output may still be used
               VOID     VOID       Stop, Stopping           the output must not be used
    QUEUED     QUEUE    QUEUED                              a report that came twice
               BEGIN    RUNNING    Began                    the clock of the attempt starts now
               REGRANT  QUEUED     Regrant
               STOP     STOPPING   Stop, Stopping
               VOID     VOID       Stop, Stopping
    RUNNING    QUEUE    RUNNING                             a report that came late
               BEGIN    RUNNING                             a report that came twice
               REGRANT  RUNNING    Regrant
               STOP     STOPPING   Stop, Stopping
               VOID     VOID       Stop, Stopping
    STOPPING   QUEUE    STOPPING   Waiting                  reports move `reported` alone
               BEGIN    STOPPING   Began                    if it was reported to wait
               VOID     VOID                                the stop is under way already
    VOID       QUEUE    VOID       Waiting
               BEGIN    VOID       Began

All else is refused with a PlanError. The end of an attempt (success, failure, stop, loss of the machine) is legal in
each state and removes it. An output counts unless the state is VOID; a failure counts unless a stop was commanded.
A report about an attempt that has ended changes no attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from qoop.catalog.errors import PlanError
from qoop.engine.events import Regrant, Running, Stop, WorkObserved
from qoop.engine.frontier import StageNode
from qoop.engine.history import Began, Regranted, Stopping, Waiting
from qoop.engine.running.log import RunLog
from qoop.engine.task import AttemptId, CheckpointKey, MachineId
from qoop.planner.packing import duration_ratio
from qoop.planner.plan import Resources


class AttemptState(StrEnum):
    """State of a living attempt; see the module's table."""

    GRANTED = "GRANTED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    VOID = "VOID"


class AttemptEvent(StrEnum):
    """Event of a living attempt: a report of its machine, or a decision of the run."""

    QUEUE = "QUEUE"
    BEGIN = "BEGIN"
    REGRANT = "REGRANT"
    STOP = "STOP"
    VOID = "VOID"


_S, _E = AttemptState, AttemptEvent
ATTEMPT_TRANSITIONS: Mapping[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (_S.GRANTED, _E.QUEUE): _S.QUEUED,
    (_S.GRANTED, _E.BEGIN): _S.RUNNING,
    (_S.GRANTED, _E.REGRANT): _S.GRANTED,
    (_S.GRANTED, _E.STOP): _S.STOPPING,
    (_S.GRANTED, _E.VOID): _S.VOID,
    (_S.QUEUED, _E.QUEUE): _S.QUEUED,
    (_S.QUEUED, _E.BEGIN): _S.RUNNING,
    (_S.QUEUED, _E.REGRANT): _S.QUEUED,
    (_S.QUEUED, _E.STOP): _S.STOPPING,
    (_S.QUEUED, _E.VOID): _S.VOID,
    (_S.RUNNING, _E.QUEUE): _S.RUNNING,
    (_S.RUNNING, _E.BEGIN): _S.RUNNING,
    (_S.RUNNING, _E.REGRANT): _S.RUNNING,
    (_S.RUNNING, _E.STOP): _S.STOPPING,
    (_S.RUNNING, _E.VOID): _S.VOID,
    (_S.STOPPING, _E.QUEUE): _S.STOPPING,
    (_S.STOPPING, _E.BEGIN): _S.STOPPING,
    (_S.STOPPING, _E.VOID): _S.VOID,
    (_S.VOID, _E.QUEUE): _S.VOID,
    (_S.VOID, _E.BEGIN): _S.VOID,
}


@dataclass(slots=True)
class Attempt:
    """A living attempt at the task of one key.

    id, key, stage: the try, the output it makes, the stage of the plan that began it.
    machine, resources: where it runs, and with what; a regrant changes the resources.
    granted: the time of its grant. started: that time, or the time at which it began after it had waited.
    virtual_start: start time at which it would be as far as it is, had it always had its present slots.
    most: slots that it can be granted while it runs; 0: it keeps its resources to the end.
    extra: it runs on a slot beyond those of its machine, until it is promoted.
    state: see the module's table. reported: GRANTED, QUEUED or RUNNING, by the last report of its machine; differs from
    the state only once a stop was commanded.
    regranting: a Regrant was commanded, and its machine has not yet reported the resources.
    work: the last report of its progress.
    """

    id: AttemptId
    key: CheckpointKey
    stage: StageNode
    machine: MachineId
    resources: Resources
    granted: float
    started: float
    virtual_start: float
    most: int = 0
    extra: bool = False
    state: AttemptState = AttemptState.GRANTED
    reported: AttemptState = AttemptState.GRANTED
    regranting: bool = False
    work: WorkObserved | None = None

    @property
    def stopping(self) -> bool:
        """True once a stop was commanded, whether the output may be used or not."""
        return self.state is AttemptState.STOPPING or self.state is AttemptState.VOID

    @property
    def void(self) -> bool:
        """True if the output must not be used: it rests on data that is being made again."""
        return self.state is AttemptState.VOID

    @property
    def queued(self) -> bool:
        """True while it waits at its machine."""
        return self.reported is AttemptState.QUEUED

    def move(self, event: AttemptEvent) -> None:
        """Take a row of the table; PlanError if there is none."""
        becomes = ATTEMPT_TRANSITIONS.get((self.state, event))
        if becomes is None:
            raise PlanError(f"attempt {self.id} is {self.state} and cannot take {event}")
        self.state = becomes
        if event is AttemptEvent.QUEUE or event is AttemptEvent.BEGIN:
            self.reported = ATTEMPT_TRANSITIONS[self.reported, event]

    def spent(self, now: float) -> float:
        """Seconds on its present slots in which it would have come as far as it is."""
        return 0.0 if self.queued else now - self.virtual_start


class Attempts:
    """The attempts of a run that have not reported their end, in the order in which they began."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._by_number: dict[int, Attempt] = {}
        self._next_number = 1

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._by_number.values())

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, id: AttemptId) -> Attempt | None:
        """The attempt, if it is alive."""
        return self._by_number.get(id.number)

    def next_number(self) -> int:
        """The number of the next attempt; each is used once."""
        self._next_number += 1
        return self._next_number - 1

    def add(self, attempt: Attempt) -> None:
        """An attempt was granted."""
        self._by_number[attempt.id.number] = attempt

    def remove(self, id: AttemptId) -> Attempt | None:
        """The attempt has ended; None: it was not alive."""
        return self._by_number.pop(id.number, None)

    def at(self, key: CheckpointKey) -> Attempt | None:
        """The attempt at a key: there is one at most."""
        return next((attempt for attempt in self if attempt.key == key), None)

    def going_on(self) -> list[Attempt]:
        """Those without a command to stop."""
        return [attempt for attempt in self if not attempt.stopping]

    def elastic(self) -> list[Attempt]:
        """Those that can be granted other resources now."""
        return [
            attempt
            for attempt in self
            if attempt.most and not (attempt.stopping or attempt.extra or attempt.regranting)
        ]

    def queue(self, id: AttemptId) -> None:
        """Its machine reports that the attempt waits there; a late or repeated report changes nothing."""
        attempt = self.get(id)
        if attempt is None:
            return
        fresh = attempt.reported is AttemptState.GRANTED
        attempt.move(AttemptEvent.QUEUE)
        if fresh:
            self._log.note(Waiting(self._log.at, id, attempt.key, attempt.machine))

    def begin(self, id: AttemptId) -> None:
        """Its machine reports that the attempt waits no more."""
        attempt = self.get(id)
        if attempt is None:
            return
        waited = attempt.queued
        attempt.move(AttemptEvent.BEGIN)
        if waited:
            self._log.note(Began(self._log.at, id, attempt.key, attempt.machine, self._log.now - attempt.granted))
            attempt.started = attempt.virtual_start = self._log.now

    def regrant(self, id: AttemptId, resources: Resources) -> list[Regrant]:
        """The command that lets an elastic attempt go on with other resources; none where it cannot."""
        attempt = self.get(id)
        if attempt is None or attempt.stopping or not attempt.most:
            return []
        attempt.move(AttemptEvent.REGRANT)
        attempt.regranting = True
        return [Regrant(id, resources)]

    def regranted(self, id: AttemptId, resources: Resources) -> None:
        """Its machine reports the resources that the attempt has from now on."""
        attempt = self.get(id)
        if attempt is None:
            return
        now = self._log.now
        if attempt.resources != resources:
            self._log.note(Regranted(self._log.at, id, attempt.key, attempt.machine, resources))
        ratio = duration_ratio(attempt.resources.cpu, resources.cpu)
        attempt.virtual_start = now - attempt.spent(now) * ratio
        attempt.resources, attempt.regranting = resources, False

    def promote(self, id: AttemptId) -> None:
        """An attempt that ran on an extra slot has one of its machine's from now on."""
        attempt = self.get(id)
        if attempt is not None:
            attempt.extra = False

    def stop(self, attempt: Attempt, reason: str) -> None:
        """Command the stop, unless that was done."""
        if not attempt.stopping:
            attempt.move(AttemptEvent.STOP)
            self._command_stop(attempt, reason)

    def void(self, attempt: Attempt, reason: str) -> None:
        """Command the stop, unless that was done; its output must not be used, should it still come."""
        under_way = attempt.stopping
        if not attempt.void:
            attempt.move(AttemptEvent.VOID)
        if not under_way:
            self._command_stop(attempt, reason)

    def _command_stop(self, attempt: Attempt, reason: str) -> None:
        self._log.command(Stop(attempt.id))
        self._log.note(Stopping(self._log.at, attempt.id, attempt.key, reason))


def running(attempt: Attempt, seconds: float) -> Running:
    """The attempt as the scheduler sees it. seconds: a task of its stage should take."""
    return Running(
        attempt.id, attempt.machine, attempt.resources, attempt.started, seconds, attempt.most, attempt.extra,
        attempt.queued, None if attempt.work is None else attempt.work.cpu_seconds,
    )  # fmt: skip
