"""Jobs on simulated machines in virtual time: the real core under another backend and clock (law 3).

    Fleet, jobs ──> SimulatedBackend, VirtualClock ──> Cluster: the same Run, scheduler and re-planner ──> JobRun

What the planner believes are the estimates of the plans; what really happens is said by `ground_truth`, task by task.
The same arguments give the same runs, record for record::

    fleet = Fleet.uniform(20, Resources(30, 128e9)).after((60.0, MachineLost("m7")), (90.0, MachineSlowed("m3", 4.0)))
    run = simulate(fleet, [SimulatedJob("q7", 0.0, plan, Adaptive(lambda _: plans, fleet.available, at_once=True))])
    run.jobs[0].seconds, run.jobs[0].switches
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.profiles import CapacityProfile, Point, Stay
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.answers import Answer
from qoop.adaptive.replanning.decision import Switch
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.access import Places
from qoop.catalog.errors import ConfigError, QoopError, SourceError
from qoop.catalog.table import Columns, Footer, Range, Split, Table
from qoop.catalog.value import value
from qoop.engine.backends.outcomes import Happening, MachineShared, MachineSlowed, Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.backends.simulated_nodes import AT_ONCE, Heartbeats, MachineModel
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.clock import VirtualClock
from qoop.engine.events import CapacityNotice, MachineJoined, MachineLost, SlotsChanged
from qoop.engine.exchanges.terms import Exchanged, Exchanges
from qoop.engine.history import Ended, Record, Started, Switched
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.state import USUAL_LIMITS, Limits
from qoop.engine.task import MachineId, TaskSpec
from qoop.planner.collector import collector_waits
from qoop.planner.plan import Plan, Resources

T = TypeVar("T")

__all__ = [
    "Fleet",
    "JobRun",
    "Kernels",
    "MachineShared",
    "MachineSlowed",
    "SimulatedJob",
    "SimulatedRun",
    "SimulationOptions",
    "simulate",
]


class _NoRows:
    """The source of a table that is only spoken of."""

    rows = 0
    shared = False

    def digest(self) -> str:
        return ""

    def pieces(self) -> tuple[Range, ...]:
        return ()

    def check(self, split: Split | None) -> None:
        pass

    def scan(self, columns: Columns, split: Split | None) -> str:
        raise SourceError("a table of a simulation has no rows to read")

    def sample(self, columns: Columns, one_in: int) -> str:
        return self.scan(columns, None)

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        return {}

    def footers(self) -> Sequence[Footer]:
        return ()

    def places(self) -> Places:
        """Nothing must be opened to read it."""
        return Places()

    def attach(self) -> tuple[str, str] | None:
        return None


class _AnyTable(Mapping[str, Table]):
    """A table under every name: simulated tasks read none."""

    def __getitem__(self, name: str) -> Table:
        return Table(name, (), "", _NoRows(), 0)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@value
class Fleet:
    """Machines at the start, and what happens to them: (seconds, event) in any order."""

    machines: Mapping[MachineId, Resources]
    changes: tuple[tuple[float, Happening], ...] = ()

    @classmethod
    def uniform(cls, count: int, capacity: Resources) -> Fleet:
        """That many machines of one size, called m1, m2 …"""
        return cls({_name(number): capacity for number in range(1, count + 1)})

    @classmethod
    def of(cls, profile: CapacityProfile, network: float = 0.0, notice: float = 0.0, disk: float = 0.0) -> Fleet:
        """The machines that a profile says are there, each for as long as it stays (`CapacityProfile.stays`).

        network, disk: bytes per second in and out of each machine, and of its disk; 0: no limit. notice: seconds by
        which it is announced that a machine goes or shrinks, though never before the last thing that happened to it.
        """
        sizes = [(point.at, _available(point, network, disk)) for point in profile.changes()]
        happening = [one for stay in profile.stays() for one in _happening(stay, sizes, notice)]
        first = {stay.machine: sizes[0][1] for stay in profile.stays() if stay.begin == 0}
        return cls(first, tuple(sorted(happening, key=lambda one: (one[0], _ORDER.index(type(one[1]))))))

    def after(self, *changes: tuple[float, Happening]) -> Fleet:
        """The fleet with more happening to it."""
        return replace(self, changes=(*self.changes, *changes))

    @property
    def available(self) -> Resources:
        """Of all machines together at the start."""
        return sum(self.machines.values(), Resources())


def _name(number: int) -> MachineId:
    return f"m{number}"


def _available(point: Point, network: float, disk: float) -> Resources:
    return Resources(math.floor(point.slots), point.memory, disk, network)


_ORDER: tuple[type, ...] = (MachineLost, SlotsChanged, MachineJoined, CapacityNotice)
"""Of what happens at the same time."""


def _happening(
    stay: Stay, sizes: Sequence[tuple[float, Resources]], notice: float
) -> Iterator[tuple[float, Happening]]:
    """All that happens to one machine. sizes: from when on machines have which capacity."""
    available = next(size for at, size in reversed(sizes) if at <= stay.begin)
    if stay.begin > 0:
        yield stay.begin, MachineJoined(stay.machine, available)
    last = stay.begin
    for at, after in _changes(stay, sizes):
        if after == available:
            continue
        if notice and not available.fits(after or Resources()):
            yield max(last, at - notice), CapacityNotice(stay.machine, after or Resources(), at)
        yield at, SlotsChanged(stay.machine, after) if after is not None else MachineLost(stay.machine)
        available, last = after or Resources(), at


def _changes(stay: Stay, sizes: Sequence[tuple[float, Resources]]) -> Iterator[tuple[float, Resources | None]]:
    yield from ((at, size) for at, size in sizes if stay.begin < at < stay.end)
    if stay.end < math.inf:
        yield stay.end, None


@value
class SimulatedJob:
    """A job to come. at: seconds after the start when it is submitted. adaptive: how it may change plan; None: not.

    tables: those that the plans read, for callers that read them; tasks have their names and read none.
    limits: what it allows itself before it gives up. terms: its owner, and how soon it is needed.
    gain: see `JobRequest`. then: gives, from the second in which it ended, the job that comes
        after it, None for none.
    """

    name: str
    at: float
    plan: Plan
    adaptive: Adaptive | None = None
    terms: Terms = Terms()
    tables: Mapping[str, Table] = field(default_factory=_AnyTable)
    limits: Limits = USUAL_LIMITS
    gain: float | None = None
    then: Callable[[float], SimulatedJob | None] | None = None


@value
class JobRun:
    """The outcome of a job. ended: at which second of the simulation; infinite if it could never end.

    seconds: from its submission to its end. attempts: started in all. switches: changes of plan.
    error: why it failed; None if it succeeded or did not end.
    """

    name: str
    at: float
    ended: float
    attempts: int
    switches: int
    history: tuple[Record, ...]
    plans: tuple[Plan, ...]
    error: QoopError | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.at


@value
class SimulatedRun:
    """jobs: in the order in which they were given, then those that came after others. seconds: until the last ended.

    task_events: starts of attempts and reports about them. exchanged: what went over links.
    """

    jobs: tuple[JobRun, ...]
    seconds: float
    task_events: int
    exchanged: Exchanged = Exchanged()

    def __getitem__(self, name: str) -> JobRun:
        """The job of that name. Raises KeyError."""
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(f"no job {name}; there are {', '.join(job.name for job in self.jobs)}")


class _VirtualPlanner:
    """Decides at once and reports it after that many seconds of virtual time; one decision after the other.

    switching: seconds that it takes to go over to another plan: the driver of the jobs does nothing else meanwhile.
    """

    def __init__(self, backend: SimulatedBackend, seconds: float, switching: float) -> None:
        self._backend = backend
        self._seconds = seconds
        self._switching = switching
        self._free_at = 0.0

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:  # the cluster decides what it means
            outcome = error
        if not isinstance(outcome, Answer):
            then(outcome)
            return
        reply: T = replace(outcome, seconds=self._seconds, searching=0.0)
        switching = self._switching if isinstance(outcome.decision, Switch) else 0.0
        if not self._seconds and not switching:
            then(reply)
            return
        self._free_at = max(self._free_at, self._backend.clock.now()) + self._seconds
        self._backend.appoint(lambda: self._deliver(lambda: then(reply), switching), self._free_at)

    def _deliver(self, then: Callable[[], None], switching: float) -> None:
        self._backend.clock.advance_to(self._backend.clock.now() + switching)
        then()

    def close(self) -> None:
        pass


@runtime_checkable
class World(Protocol):
    """A truth in which what an attempt comes to depends on the machines that there are at the moment."""

    def on(self, machines: Callable[[], Mapping[MachineId, Resources]]) -> Callable[[TaskSpec], Outcome]: ...


@value
class SimulationOptions:
    """The costs that a simulation has, and the options of its cluster.

    decision_seconds: virtual seconds that a decision about a plan takes, while the plan goes on.
    switch_seconds: those of a change of plan: tasks go on, but nothing is begun and no report is read.
    crowding: how many times as long everything takes on a machine while that many threads work there; None: as alone.
    kernels: what it costs to open, to warm and to interrupt one; None: nothing.
    heartbeats: how long messages take between the scheduler and the machines. queueing: how granted tasks wait at
        these; None: they do not, so a slot is idle from the end of a task until another has been granted.
    exchanges: how tasks read from other machines, over links of `Resources.network` in each direction; None: what
        arrives shares the machine's link.
    tenants, most_jobs, extra_slots: see `ClusterOptions`.
    """

    decision_seconds: float = 0.0
    switch_seconds: float = 0.0
    crowding: Callable[[float], float] | None = None
    kernels: Kernels | None = None
    heartbeats: Heartbeats = AT_ONCE
    queueing: NodeQueueing | None = None
    exchanges: Exchanges | None = None
    tenants: Mapping[str, float] = field(default_factory=dict)
    most_jobs: float = math.inf
    extra_slots: bool = False

    def cluster(self) -> ClusterOptions:
        """The options of the cluster. A simulation warns of no deadline."""
        return ClusterOptions(
            extra_slots=self.extra_slots, tenants=self.tenants, watch_deadlines=False, most_jobs=self.most_jobs,
            queueing=self.queueing,
        )  # fmt: skip

    def backend(self, fleet: Fleet, script: Callable[[TaskSpec], Outcome]) -> SimulatedBackend:
        """The machines of a fleet, and all that happens to them."""
        model = MachineModel(self.kernels, self.crowding, self.heartbeats, self.exchanges)
        made = SimulatedBackend(fleet.machines, VirtualClock(), script, model, alone=True, queueing=self.queueing)
        for at, event in fleet.changes:
            made.happen(event, at)
        return made


@collector_waits()
def simulate(
    fleet: Fleet,
    jobs: Sequence[SimulatedJob],
    ground_truth: Callable[[TaskSpec], Outcome] | World = as_estimated,
    scheduler: Scheduler | None = None,
    check: bool = False,
    options: SimulationOptions | None = None,
) -> SimulatedRun:
    """Run the jobs on the fleet until all have ended, or nothing can happen any more.

    ground_truth: what an attempt comes to, which may depend on the machines there are (`World`). scheduler: the usual
    one if None. check: check all invariants after every turn. Raises ConfigError if two jobs have one name.
    """
    if len({job.name for job in jobs}) < len(jobs):
        raise ConfigError("the jobs of a simulation must have names of their own")
    options = options or SimulationOptions()
    script = ground_truth.on(lambda: backend.machines()) if isinstance(ground_truth, World) else ground_truth
    backend = options.backend(fleet, script)
    planner = _VirtualPlanner(backend, options.decision_seconds, options.switch_seconds)
    cluster = Cluster(backend, scheduler, backend.clock, thread=False, planner=planner, options=options.cluster())
    backend.left_of = cluster.left_of
    return _Simulation(backend, cluster).run(jobs, check)


class _Simulation:
    """Jobs that come to a cluster. handles: of those that have come, by name."""

    def __init__(self, backend: SimulatedBackend, cluster: Cluster) -> None:
        self._backend = backend
        self._cluster = cluster
        self._jobs: list[SimulatedJob] = []
        self._handles: dict[str, JobHandle] = {}

    def run(self, jobs: Sequence[SimulatedJob], check: bool) -> SimulatedRun:
        """Run them, and those that come after them. check: see `simulate`."""
        for job in jobs:
            self._appoint(job, job.at)
        while self._goes_on():
            self._cluster.step()
            if check:
                self._cluster.check()
        runs = tuple(_run_of(job, self._handles[job.name]) for job in self._jobs)
        self._cluster.close()
        seconds = max((run.ended for run in runs), default=0.0)
        return SimulatedRun(runs, seconds, self._backend.task_events, self._backend.exchanged)

    def _goes_on(self) -> bool:
        expected = self._cluster.busy or len(self._handles) < len(self._jobs)
        return expected and not (self._backend.idle and not self._cluster.waits)

    def _appoint(self, job: SimulatedJob, at: float) -> None:
        self._jobs.append(job)
        self._backend.appoint(partial(self._submit, job), at)

    def _submit(self, job: SimulatedJob) -> None:
        request = JobRequest(
            job.plan,
            job.tables,
            text=job.name,
            limits=job.limits,
            adaptive=job.adaptive,
            terms=job.terms,
            gain=job.gain,
        )
        self._handles[job.name] = handle = self._cluster.submit(request)
        if job.then is not None:
            handle.when_ended(partial(self._follow, job.then))

    def _follow(self, then: Callable[[float], SimulatedJob | None]) -> None:
        now = self._backend.clock.now()
        job = then(now)
        if job is not None:
            self._appoint(job, now)


def _run_of(job: SimulatedJob, handle: JobHandle) -> JobRun:
    history = tuple(handle.history())
    ended = next((job.at + record.at for record in reversed(history) if isinstance(record, Ended)), math.inf)
    return JobRun(
        job.name, job.at, ended,
        attempts=sum(isinstance(record, Started) for record in history),
        switches=sum(isinstance(record, Switched) for record in history) - 1,
        history=history,
        plans=handle.plans(),
        error=handle.error,
    )  # fmt: skip
