"""Carries events from a backend to the runs, their commands back, and keeps account of the machines' resources.

Not thread-safe and without a policy: its owner calls it from one thread and decides the grants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from qoop.catalog.errors import PlanError
from qoop.engine.backends.base import Backend
from qoop.engine.events import (
    Begun,
    CapacityExpected,
    CapacityNotice,
    Command,
    Event,
    Grant,
    MachineJoined,
    MachineLost,
    Queued,
    Regrant,
    Release,
    ShareChanged,
    SlotsChanged,
    Start,
    Stop,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.run import Run
from qoop.engine.state import State
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId
from qoop.planner.packing import Availability, Available, least
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.engine.node_queues.ticket import Ticket
    from qoop.engine.node_queues.view import NodesView

_NOTHING = Resources()
_REPORTS = TaskSucceeded, TaskFailed, TaskStopped


@dataclass(slots=True)
class _Charge:
    """The resources that an attempt takes until it reports. extra: they are none of its machine's. waits: it has none
    yet, but is next."""

    job: JobId
    machine: MachineId
    resources: Resources
    extra: bool = False
    waits: bool = False


class Driver:
    """The runs of one backend and the resources of its machines.

    Resources that were taken away count as used until the attempts in them have reported: meanwhile what is free is
    negative, and nothing may be granted there. `leaving` are the notices that are pending, by machine, also of more;
    `dirty_jobs` the jobs that changed since the last grant round, in that order. Where tasks wait at
    machines (:mod:`qoop.engine.node_queues`), `nodes` knows of them; what these will take is not free, so that less
    than nothing is, but no job is charged for it before they begin.
    observe: is shown every event that comes in and every command that goes out.
    """

    def __init__(self, backend: Backend, observe: Callable[[Event | Command], None] = lambda _: None) -> None:
        self._backend = backend
        self._observe = observe
        self._capacity: dict[MachineId, Resources] = dict(backend.machines())
        self._used: dict[MachineId, Resources] = {}
        self._availability = self._all_available()
        self._used_by: dict[JobId, Resources] = {}
        self._served: dict[JobId, float] = {}  # slot seconds, less those that running attempts began with
        self._now = 0.0
        self._charges: dict[AttemptId, _Charge] = {}
        self._extra: dict[AttemptId, MachineId] = {}
        self._answers: dict[JobId, set[CheckpointKey]] = {}  # of jobs that are gone, while they are still held
        self.runs: dict[JobId, Run] = {}
        self.dirty_jobs: dict[JobId, None] = {}
        self.leaving: dict[MachineId, CapacityNotice] = {}
        self._expected: tuple[tuple[float, Resources], ...] = ()
        self.nodes: NodesView | None = None
        self._promised_to: dict[JobId, Resources] = {}
        self._arrivals: dict[JobId, int] = {}
        self._order = count(1)

    @property
    def capacity(self) -> Resources:
        """Sum over all machines."""
        return self._availability.capacity

    @property
    def promised(self) -> Resources:
        """Sum over all machines of what will not be taken away, by the notices so far."""
        return sum((self._lasting(name, capacity) for name, capacity in self._capacity.items()), Resources())

    def _lasting(self, machine: MachineId, capacity: Resources) -> Resources:
        notice = self.leaving.get(machine)
        return capacity if notice is None else least(capacity, notice.capacity_after)

    def expect(self, course: Sequence[tuple[float, Resources]]) -> None:
        """See `CapacityExpected`."""
        self._expected = tuple(course)

    def coming(self, now: float) -> tuple[tuple[float, Resources], ...]:
        """(seconds of the clock, resources): what all machines together should have from later times on.

        That is what is expected of them, or, where nothing is, what notices announce of more.
        """
        expected = [(at, self._like(one)) for at, one in self._expected if at > now]
        if expected or not self.leaving:
            return tuple(expected)
        more = [one for one in self.leaving.values() if one.at > now and self._grows(one)]
        return tuple((at, self._announced(at)) for at in sorted({one.at for one in more}))

    def _like(self, expected: Resources) -> Resources:
        """The resources; where they tell slots alone, all else goes with these as it does now."""
        now = self.capacity
        if expected.memory or not now.cpu:
            return expected
        part = expected.cpu / now.cpu
        return Resources(expected.cpu, now.memory * part, now.disk * part, now.network * part)

    def _grows(self, notice: CapacityNotice) -> bool:
        return not notice.capacity_after.fits(self._capacity[notice.machine])

    def _announced(self, at: float) -> Resources:
        """The sum over all machines of what they should have at a time, by the notices."""
        due = {name: one.capacity_after for name, one in self.leaving.items() if one.at <= at}
        parts = (due.get(name, self._lasting(name, capacity)) for name, capacity in self._capacity.items())
        return sum(parts, Resources())

    def availability(self) -> Availability:
        """Capacity and free resources of every machine; current until a machine changes. Only for reading."""
        return self._availability

    def available(self, machine: MachineId) -> Available:
        """Capacity and free resources of one machine."""
        return self._availability[machine]

    def _all_available(self) -> Availability:
        return Availability((name, Available(capacity, self._free(name))) for name, capacity in self._capacity.items())

    def _free(self, machine: MachineId) -> Resources:
        capacity, used = self._capacity[machine], self._used.get(machine)
        return capacity if used is None else capacity - used

    def used_by(self, job: JobId) -> Resources:
        """The resources that the attempts of a job take, including those that are being stopped."""
        return self._used_by.get(job, _NOTHING)

    def promised_to(self, job: JobId) -> Resources:
        """The resources that attempts of a job, which wait at machines, will take."""
        return self._promised_to.get(job, _NOTHING)

    def served(self, job: JobId, now: float) -> float:
        """Slot seconds that the attempts of a job have held."""
        return self._served.get(job, 0.0) + self.used_by(job).cpu * now

    def add(self, run: Run, now: float) -> None:
        """Let the run take part: it learns of the machines, and its events reach it from now on."""
        self.runs[run.job] = run
        self._arrivals[run.job] = next(self._order)
        self.dirty_jobs[run.job] = None
        joined = [MachineJoined(name, capacity) for name, capacity in self._capacity.items()]
        self.obey(run.handle(*joined, *self.leaving.values(), now=now))

    def remove(self, job: JobId) -> None:
        """Forget a run. Of late reports about its attempts only what they left behind matters from now on: it is given
        back, unless it is part of the answer."""
        run = self.runs.pop(job, None)
        self._served.pop(job, None)
        self._arrivals.pop(job, None)
        if run is not None and run.state is State.SUCCEEDED:
            self._answers[job] = {fact.key for fact in run.outputs}

    def take(self, events: Sequence[Event], now: float) -> bool:
        """Account for the events and give each to the runs it is for. True if capacity changed, or will."""
        changed, self._now = False, now
        for event in events:
            self._observe(event)
            if isinstance(event, _REPORTS):
                self._discharge(event.attempt)
                self._tell((event.attempt.task.job,), event, now)
                self._give_back(event)
            elif isinstance(event, TaskRegranted):
                self._recharge(event.attempt, event.resources)
                self._tell((event.attempt.task.job,), event, now)
            elif isinstance(event, Queued | Begun):
                if isinstance(event, Begun):
                    self._begin(event.attempt)
                self._tell((event.attempt.task.job,), event, now)
            elif isinstance(event, ShareChanged):
                self._tell([event.job], event, now)
            else:
                if self._account(event):
                    changed = True
                    self._availability = self._all_available()
                self._tell(list(self.runs), event, now)
        return changed

    def apply(self, grant: Grant, now: float) -> Start:
        """Start the granted task. Raises PlanError if it is not ready, or the machine has not got these resources."""
        if not (grant.extra or grant.waits) and not grant.resources.fits(self.available(grant.machine).free):
            raise PlanError(f"task {grant.task} was granted resources that {grant.machine} has not got")
        self._now = now
        start = self.runs[grant.job].grant(grant.task, grant.machine, grant.resources, grant.extra, now=now)
        attempt = start.spec.attempt
        self._charge(attempt, _Charge(grant.job, grant.machine, grant.resources, grant.extra, grant.waits))
        if self.nodes is not None:
            ticket = replace(self.ticket(grant, now), attempt=attempt)
            start = Start(start.machine, replace(start.spec, ticket=ticket))
            self.nodes.granted(grant.machine, ticket, now)
        if grant.waits:
            self.runs[grant.job].handle(Queued(attempt), now=now)
        self._observe(start)
        self._backend.start(start.machine, start.spec)
        return start

    def ticket(self, grant: Grant, now: float) -> Ticket:
        """The ticket that a machine would get with a task if it were granted now, the last of its job."""
        from qoop.engine.node_queues.ticket import Ticket  # where tasks wait at nodes

        run = self.runs[grant.job]
        return Ticket(
            AttemptId(grant.task, sys.maxsize), self._arrivals[grant.job], run.seconds_of(grant.task), now,
            run.job_left, grant.resources, grant.waits, run.path_of(grant.task),
        )  # fmt: skip

    def _begin(self, attempt: AttemptId) -> None:
        """An attempt that waited runs: from now on its job has what it takes."""
        charge = self._charges.get(attempt)
        if charge is not None and charge.waits:
            self._discharge(attempt, ended=False)
            self._charge(attempt, _Charge(charge.job, charge.machine, charge.resources))
        if self.nodes is not None:
            self.nodes.begun(attempt, self._now)

    def obey(self, commands: Iterable[Command]) -> None:
        """Pass commands of a run to the backend."""
        for command in commands:
            self._observe(command)
            match command:
                case Stop(attempt):
                    self._backend.stop(attempt)
                case Regrant(attempt, resources):
                    self._regrant(attempt, resources)
                case Release(job, keys):
                    self._forget_answer(job, keys)
                    self._backend.release(job, keys)
                case Start(machine, spec):
                    self._backend.start(machine, spec)

    def stop_all(self) -> None:
        """Stop every attempt that has not reported, whether its run is still known or not."""
        for attempt in self._charges:
            self._backend.stop(attempt)

    def check(self) -> None:
        """Raise AssertionError unless the accounts add up and no machine is overcommitted."""
        for name, available in self._all_available().items():
            assert available == self._availability[name], (
                f"{name}: {self._availability[name]} is offered, {available} accounted"
            )
            here = [charge for charge in self._charges.values() if charge.machine == name]
            charges = [charge.resources for charge in here if not charge.extra]
            used = sum(charges, Resources())
            assert _close(used, available.capacity - available.free), (
                f"{name}: {used} charged, but {available} accounted"
            )
        for run in self.runs.values():
            run.check()
        charged: Mapping[JobId, set[AttemptId]] = {job: set() for job in self.runs}
        for attempt, charge in self._charges.items():
            charged.get(charge.job, set()).add(attempt)
        for job, run in self.runs.items():
            assert charged[job] == set(run.alive), f"{job}: charged for {charged[job]}, alive are {run.alive}"

    def _tell(self, jobs: Iterable[JobId], event: Event, now: float) -> None:
        for job in jobs:
            run = self.runs.get(job)
            if run is not None:
                self.dirty_jobs[job] = None
                if commands := run.handle(event, now=now):
                    self.obey(commands)

    def _give_back(self, event: TaskSucceeded | TaskFailed | TaskStopped) -> None:
        """Release what was put out for a job that is gone."""
        job = event.attempt.task.job
        if isinstance(event, TaskSucceeded) and job not in self.runs:
            key = event.committed.key
            if key not in self._answers.get(job, ()):
                self.obey([Release(job, (key,))])

    def _forget_answer(self, job: JobId, keys: Iterable[CheckpointKey]) -> None:
        answer = self._answers.get(job)
        if answer is not None:
            answer.difference_update(keys)
            if not answer:
                del self._answers[job]

    def _account(self, event: Event) -> bool:
        if isinstance(event, CapacityNotice):
            if event.machine in self._capacity:
                self.leaving[event.machine] = event
            return True
        if isinstance(event, CapacityExpected):
            self.expect(event.course)
            return True
        if isinstance(event, MachineJoined | MachineLost | SlotsChanged):
            self.leaving.pop(event.machine, None)
        match event:
            case MachineJoined(machine, capacity) | SlotsChanged(machine, capacity):
                self._capacity[machine] = capacity
                return True
            case MachineLost(machine):
                self._capacity.pop(machine, None)
                if self.nodes is not None:
                    self.nodes.lost(machine)
                for attempt in [name for name, charge in self._charges.items() if charge.machine == machine]:
                    self._discharge(attempt)
                return True
        return False

    def _charge(self, attempt: AttemptId, charge: _Charge) -> None:
        self._charges[attempt] = charge
        if charge.extra:
            self._extra[attempt] = charge.machine
            return
        _add(self._used, charge.machine, charge.resources)
        if charge.waits:
            _add(self._promised_to, charge.job, charge.resources)
        else:
            self._served[charge.job] = self._served.get(charge.job, 0.0) - charge.resources.cpu * self._now
            _add(self._used_by, charge.job, charge.resources)
        self._availability.set_free(charge.machine, self._free(charge.machine))

    def _regrant(self, attempt: AttemptId, resources: Resources) -> None:
        """Take what it is to have more at once; what it is to have less is free once it says so."""
        charge = self._charges.get(attempt)
        if charge is not None:
            had = charge.resources
            self._recharge(attempt, Resources(max(had.cpu, resources.cpu), max(had.memory, resources.memory)))
            self._backend.regrant(attempt, resources)

    def _recharge(self, attempt: AttemptId, resources: Resources) -> None:
        charge = self._charges.get(attempt)
        if charge is not None:
            self._discharge(attempt, ended=False)
            self._charge(attempt, _Charge(charge.job, charge.machine, resources, charge.extra, charge.waits))

    def extra(self) -> Mapping[AttemptId, MachineId]:
        """Attempts on slots that their machines have not got, in the order in which they began."""
        return self._extra

    def extra_slots(self, job: JobId) -> float:
        """The slots that attempts of a job have on top of those of their machines."""
        if not self._extra:
            return 0.0
        return sum(self._charges[attempt].resources.cpu for attempt in self._extra if attempt.task.job == job)

    def promote(self, attempt: AttemptId) -> None:
        """Give an attempt on an extra slot one of its machine's, and its memory, if they are free."""
        charge = self._charges.get(attempt)
        if charge is None or charge.machine not in self._capacity:
            return
        if not charge.resources.fits(self.available(charge.machine).free):
            return
        self._discharge(attempt, ended=False)
        self._charge(attempt, _Charge(charge.job, charge.machine, charge.resources))
        if charge.job in self.runs:
            self.runs[charge.job].promote(attempt)
            self.dirty_jobs[charge.job] = None  # it holds more of what there is, which its share must show
        self._backend.promote(attempt)

    def _discharge(self, attempt: AttemptId, ended: bool = True) -> None:
        charge = self._charges.pop(attempt, None)
        if ended and self.nodes is not None:
            self.nodes.ended(attempt)
        self._extra.pop(attempt, None)
        if charge is None or charge.extra:
            return
        _subtract(self._used, charge.machine, charge.resources)
        if charge.waits:
            _subtract(self._promised_to, charge.job, charge.resources)
        else:
            if charge.job in self._served:
                self._served[charge.job] += charge.resources.cpu * self._now
            _subtract(self._used_by, charge.job, charge.resources)
        if charge.machine in self._capacity:
            self._availability.set_free(charge.machine, self._free(charge.machine))


def _add(account: dict[str, Resources], name: str, resources: Resources) -> None:
    taken = account.get(name)
    account[name] = resources if taken is None else taken + resources


def _subtract(account: dict[str, Resources], name: str, resources: Resources) -> None:
    left = account[name] - resources
    if left.cpu > 0:
        account[name] = left
    else:
        del account[name]  # an empty account is exactly zero: no rounding is left behind


def _close(one: Resources, other: Resources) -> bool:
    return abs(one.cpu - other.cpu) < 1e-6 and abs(one.memory - other.memory) < 1.0
