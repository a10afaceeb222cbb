"""The world of a schedule: machines that do what it says to the real core, in virtual time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from sim_script import GB, JobLine, Node, Schedule, available, plan_of
from sim_watch import Watch

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import (
    CancelRequested,
    JobRequest,
    PauseRequested,
    PinRequested,
    ReleaseRequested,
    ResizeRequested,
    SuspendRequested,
)
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Decision, DecisionInput, switch_to
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import CheckpointError, ExecutionError, OutOfMemory, PlanError, Suspended
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.backends.simulated_nodes import MachineModel
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.clock import VirtualClock
from qoop.engine.events import (
    Begun,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Event,
    MachineJoined,
    MachineLost,
    Queued,
    SlotsChanged,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.state import Limits
from qoop.engine.task import AttemptId, CheckpointKey, MachineId, TaskSpec, checkpoint_key, own_non_deterministic
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.schedulers.carbyne import Carbyne
from qoop.tpcds.schedulers.drf import DRF
from qoop.tpcds.schedulers.sjf import SJF
from qoop.tpcds.schedulers.tetris import Tetris

T = TypeVar("T")
SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "max-min": MaxMin, "drf": DRF, "tetris": Tetris, "sjf": SJF, "carbyne": Carbyne,
}  # fmt: skip
PATIENCE = 10_000.0
"""Seconds of virtual time in which something must happen while a job has not ended."""
HANGS = 1_000.0
"""Seconds after which an attempt that hangs is given up by the backend that runs it."""
MOST_TICKS = 6_000
OWNER = "owner"
"""For whom the outputs of suspended jobs are kept."""


class Forced:
    """A policy that switches to the plan it was told of once, and is greedy otherwise."""

    def __init__(self) -> None:
        self.wanted: int | None = None

    def decide(self, question: DecisionInput) -> Decision:
        wanted, self.wanted = self.wanted, None
        if wanted is not None and wanted < len(question.options) and wanted != question.running:
            return switch_to(question, wanted)
        return Greedy().decide(question)


class SlowPlanner:
    """Works at once, and tells of it after some seconds."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world, self._seconds = world, seconds

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:
            outcome = error
        if self._seconds:
            self._world.later(self._seconds, lambda: then(outcome))
        else:
            then(outcome)

    def close(self) -> None:
        pass


_WAITING: tuple[tuple[tuple[float, type[Queued | Begun]], ...], ...] = (
    (),
    ((0.0, Queued), (0.25, Begun)),
    ((0.0, Queued), (0.0, Queued), (0.5, Begun), (0.5, Begun), (3.0, Queued)),
    ((0.0, Begun), (0.0, Queued)),
    ((0.25, Queued),),
)
"""By the number of an attempt, the reports that it waits, and that it has begun, and after how many seconds."""


def _one(event: Event) -> Sequence[Event]:
    return (event,)


class Machines(SimulatedBackend):
    """Simulated machines whose reports come twice, contradict each other, or come from machines thought lost."""

    def __init__(self, world: World, machines: dict[MachineId, Resources], clock: VirtualClock, stop: float) -> None:
        super().__init__(machines, clock, world.outcome, MachineModel(Kernels(stopping=stop)))
        self._world = world
        self._on: dict[AttemptId, tuple[MachineId, TaskSpec]] = {}

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        self._on[spec.attempt] = machine, spec
        super().start(machine, spec)
        self._tell_of_waiting(spec.attempt)

    def _tell_of_waiting(self, attempt: AttemptId) -> None:
        """Of some attempts: in any order, more than once, and when they have ended."""
        told = _WAITING[attempt.number % len(_WAITING)]
        for seconds, event in told:
            self._agenda.plan(self.clock.now() + seconds, partial(_one, event(attempt)))

    def wait(self, timeout: float | None) -> Sequence[Event]:
        events: list[Event] = []
        for event in super().wait(timeout):
            events.append(event)
            if isinstance(event, MachineLost):
                self._lost(event.machine)
            elif isinstance(event, TaskSucceeded | TaskFailed | TaskStopped):
                known = self._on.pop(event.attempt, None)
                events += self._world.echo(known[1], event) if known is not None else ()
        return events

    def _lost(self, machine: MachineId) -> None:
        for attempt in [attempt for attempt, (where, _) in self._on.items() if where == machine]:
            _, spec = self._on.pop(attempt)
            self._world.ghost(spec)

    def where(self, attempt: AttemptId) -> MachineId | None:
        """On which machine the attempt runs; None: it has ended, or the machine is lost."""
        found = self._on.get(attempt)
        return found[0] if found is not None and self.on(found[0]) else None

    def on(self, machine: MachineId) -> bool:
        """True if there is that machine."""
        return machine in self.machines()


class World:
    """One schedule, performed by `run`. events: that came to the cluster from outside."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.clock = VirtualClock()
        machines = {name: available(slots, memory) for name, slots, memory in schedule.machines}
        self.backend = Machines(self, machines, self.clock, schedule.stop)
        scheduler = SCHEDULERS[schedule.scheduler]()
        if schedule.patience:
            scheduler = Reserving(scheduler, schedule.patience)
        self.watch = Watch(self.backend, schedule.scheduler, schedule.patience)
        self.cluster = Cluster(
            self.backend, scheduler, self.clock, self.watch, thread=False,
            planner=SlowPlanner(self, schedule.think),
            options=ClusterOptions(wait_for_capacity=schedule.wait or math.inf),
        )  # fmt: skip
        self.watch.cluster = self.cluster
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._jobs = {job.name: job for job in schedule.jobs}
        self._handles: dict[str, JobHandle] = {}
        self._names: dict[str, str] = {}
        self._policies = {job.name: Forced() for job in schedule.jobs}
        self._plans = {job.name: [plan_of(nodes, job.missing) for nodes in job.plans] for job in schedule.jobs}
        self._nodes = {(job.name, node.id): node for job in schedule.jobs for nodes in job.plans for node in nodes}
        self._fates = {(fate.job, fate.stage, fate.part, fate.n): fate for fate in schedule.fates}
        self._starts: Counter[tuple[str, str, int]] = Counter()
        self._number: dict[AttemptId, int] = {}
        self._suspended: list[SuspendRequested] = []
        self._taken: dict[
            str, tuple[int, str]
        ] = {}  # of answers that are taken: parts, and the plan that is wanted then
        self._closed = False

    # --- how it goes ----------------------------------------------------------------------------------------

    def run(self) -> Watch:
        """Perform the schedule to its end. Raises AssertionError, or whatever the core does."""
        for job in self.schedule.jobs:
            if job.plans:
                self.at(job.at, lambda job=job: self.submit(job))
        for happening in self.schedule.happenings:
            self.at(happening.at, lambda words=happening.words: self.do(*words))
        self.at(self.schedule.relief, self.relieve)
        self._tick()
        if not self._closed:
            self._leave()
        return self.watch

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Have something done at this time."""
        heappush(self._agenda, (moment, next(self._order), action))

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something done after that many seconds."""
        self.at(self.clock.now() + seconds, action)

    def _tick(self) -> None:
        ticks = 0
        while (self._agenda or self.cluster.busy) and not self._closed:
            began = self.clock.now()
            while self._agenda and self._agenda[0][0] <= began and not self._closed:
                heappop(self._agenda)[2]()
            if self._closed:
                return
            self.cluster.step(self._agenda[0][0] - began if self._agenda else PATIENCE)
            self._take_rows()
            ticks += 1
            if ticks > MOST_TICKS:
                raise AssertionError(f"jobs never end: {self.cluster._jobs.keys()} after {ticks} ticks")
            if not self._agenda and self.clock.now() - began >= PATIENCE and self.cluster.busy:
                raise AssertionError(f"nothing happens any more, but {list(self.cluster._jobs)} have not ended")

    def _leave(self) -> None:
        """All owners release what they have; nothing may be left."""
        for handle in self._handles.values():
            handle.release()
        for asked in self._suspended:
            if asked.kept.done():
                self.cluster.post(ReleaseRequested(OWNER, tuple(fact.key for fact in asked.kept.result())))
        self.cluster.step(0.0)
        self.watch.nothing_left()
        self.cluster.close()

    # --- what happens ---------------------------------------------------------------------------------------

    def submit(self, job: JobLine) -> None:
        """A job comes."""
        plans = self._plans[job.name]
        adaptive = self._adaptive(job, plans) if job.adaptive else None
        limits = Limits(job.attempts, job.revocations, keep_checkpoints=job.keep)
        request = JobRequest(
            plans[0], terms=Terms(weight=job.weight), timeout=job.timeout or None, durable=job.durable, reuse=job.reuse,
            limits=limits, adaptive=adaptive,
        )  # fmt: skip
        handle = self._handles[job.name] = self.cluster.submit(request)
        self._names[handle.id] = job.name

    def _adaptive(self, job: JobLine, plans: list[Plan]) -> Adaptive:
        def find(_: object) -> list[Candidate]:
            if job.lost:
                raise PlanError("no plans are found")
            return [Candidate(plan, f"plan {place}") for place, plan in enumerate(plans)]

        slots, memory = (self.schedule.machines or (("", 1.0, 1.0),))[0][1:]
        return Adaptive(find, available(max(1.0, slots), memory), job.at_once, self._policies[job.name])

    def do(self, what: str, *words: str) -> None:
        """Do what one line of the schedule says; nothing, where it makes no sense as things are."""
        getattr(self, f"_do_{what}")(*words)

    def _do_slots(self, name: str, slots: str, memory: str) -> None:
        if self.backend.on(name):
            self._happen(SlotsChanged(name, available(float(slots), float(memory))))

    def _do_lose(self, name: str) -> None:
        self._happen(MachineLost(name))  # it may be known already

    def _do_join(self, name: str, slots: str, memory: str) -> None:
        if not self.backend.on(name):
            self._happen(MachineJoined(name, available(float(slots), float(memory))))

    def _do_notice(self, name: str, slots: str, memory: str, notice: str) -> None:
        self._happen(CapacityNotice(name, available(float(slots), float(memory)), self.clock.now() + float(notice)))

    def _do_resize(self, slots: str, memory: str, notice: str) -> None:
        self.cluster.post(ResizeRequested(int(slots), int(float(memory) * GB), float(notice)))

    def _do_drop(self, job: str, task: str) -> None:
        stage, _, part = task.rpartition(".")
        key = self._key(job, stage, int(part))
        if key is not None:
            self._happen(CheckpointLost(key))

    def _do_cancel(self, job: str) -> None:
        if job in self._handles:
            self._handles[job].cancel()

    def _do_suspend(self, job: str, grace: str) -> None:
        if job in self._handles:
            name = self._handles[job].id
            if float(grace):
                self.cluster.post(PauseRequested(name))
            self.later(float(grace), lambda: self._suspend(name))

    def _suspend(self, name: str) -> None:
        self._keep(name)
        self.cluster.post(CancelRequested(name, Suspended("the job was suspended")))

    def _do_pause(self, job: str, seconds: str) -> None:
        """A job is to be suspended, but where it is to go on it cannot be written."""
        if job in self._handles:
            name = self._handles[job].id
            self._keep(name)
            self.later(float(seconds), lambda: self.cluster.post(PauseRequested(name, on=False)))

    def _keep(self, name: str) -> None:
        asked = SuspendRequested(name, OWNER, Future())
        self._suspended.append(asked)
        self.cluster.post(asked)

    def _do_pin(self, job: str, plan: str) -> None:
        """From now on somebody takes the rows of the answer as they come; then they would rather have another plan."""
        if job in self._handles:
            self._taken[job] = -1, plan
            self._take_rows()

    def _take_rows(self) -> None:
        """Ask for the parts of answers that have come since they were asked for last."""
        for job, (known, plan) in self._taken.items():
            there = len(self._handles[job]._run.first_outputs)
            if there > known:
                self._taken[job] = there, plan
                self.cluster.post(PinRequested(self._handles[job].id))
                if there:
                    self._do_switch(job, plan)

    def _do_release(self, job: str) -> None:
        if job in self._handles:
            self._handles[job].release()

    def _do_switch(self, job: str, plan: str) -> None:
        if job in self._handles:
            self._policies[job].wanted = int(plan)
            self._handles[job].reconsider(f"plan {plan} was asked for")

    def _do_reconsider(self, job: str) -> None:
        if job in self._handles:
            self._handles[job].reconsider()

    def _do_close(self) -> None:
        self._closed = True
        self.cluster.close()
        for name, handle in self._handles.items():
            if not handle.done.done():
                raise AssertionError(f"the session is closed, but {name} has not ended")

    def relieve(self) -> None:
        """There is enough of everything from now on."""
        plenty = available(6, 64)
        for name in self.backend.machines():
            self._happen(SlotsChanged(name, plenty))
        if not self.backend.on("relief"):
            self._happen(MachineJoined("relief", plenty))

    def _happen(self, event: Event) -> None:
        self.backend.happen(event, self.clock.now())

    def _key(self, job: str, stage: str, part: int) -> CheckpointKey | None:
        if job not in self._handles:
            return None
        for plan in self._plans[job]:
            owned = own_non_deterministic(plan, self._handles[job].id)
            if stage in owned.by_id and part < owned.by_id[stage].width:
                return checkpoint_key(owned.by_id[stage], part)
        return None

    # --- what becomes of attempts ---------------------------------------------------------------------------

    def outcome(self, spec: TaskSpec) -> Outcome:
        """The outcome of the attempt."""
        job, stage, part = self._task(spec)
        self._starts[job, stage, part] += 1
        n = self._number[spec.attempt] = self._starts[job, stage, part]
        node = self._nodes.get((job, stage), Node(stage))  # a stage that reads another plan's finished work
        seconds = on_threads(node.t, spec.resources.cpu) * node.pace
        rows = max(1, node.rows // spec.stage.width // spec.stage.layout.parts)
        fate = self._fates.get((job, stage, part, n))
        if fate is not None:
            match fate.kind:
                case "fails":
                    return Outcome(seconds * fate.value, ExecutionError("it fails"))
                case "breaks":
                    return Outcome(seconds * fate.value, ExecutionError("it is broken"), retryable=False)
                case "unreadable":
                    return self._unreadable(spec, seconds * fate.value)
                case "hangs":
                    return Outcome(HANGS, ExecutionError("it hung"))
                case "slow":
                    seconds *= fate.value
                case "spoiled":
                    self.later(seconds / 2, lambda: self._spoil(spec))
                case "closed":
                    self._close_about(spec, seconds, fate.value)
        if spec.resources.memory < node.needs * GB:
            return Outcome(seconds / 2, OutOfMemory("it is too large"), n % 2 == 0)
        if spec.durable:
            self._save(spec, rows, seconds)
        return Outcome(seconds, rows=rows)

    def _spoil(self, spec: TaskSpec) -> None:
        """The attempt's machine is lost and comes again; its inputs from non-deterministic stages are lost."""
        machine = self.backend.where(spec.attempt)
        if machine is None:
            return
        capacity = self.backend.machines()[machine]
        for event in (MachineLost(machine), MachineJoined(machine, capacity)):
            self._happen(event)
        job, _, _ = self._task(spec)
        for item in spec.inputs:
            if self._nodes.get((job, item.name), Node(item.name)).island:
                self._happen(CheckpointLost(item.keys[0]))

    def _task(self, spec: TaskSpec) -> tuple[str, str, int]:
        task = spec.attempt.task
        return self._names[task.job], task.stage, task.part

    def _close_about(self, spec: TaskSpec, end: float, apart: float) -> None:
        """Before the attempt ends its first input is lost, and begun again; afterwards the session is closed."""
        now = self.clock.now()
        for key in _read_by(spec)[:1]:
            self.backend.happen(CheckpointLost(key), now + max(0.0, end - apart))
        self.at(now + end + apart, self._do_close)

    def _unreadable(self, spec: TaskSpec, seconds: float) -> Outcome:
        reads = _read_by(spec)
        if not reads:
            return Outcome(seconds, ExecutionError("it fails"))
        self.backend.happen(CheckpointLost(reads[0]), self.clock.now() + seconds)
        return Outcome(seconds, CheckpointError(f"{reads[0]} cannot be read"))

    def _save(self, spec: TaskSpec, rows: int, seconds: float) -> None:
        saved = CheckpointSaved((spec.attempt.task.job,), spec.key, 8 * rows, 0.5, kept=rows < 10_000)
        self.backend.happen(saved, self.clock.now() + seconds + 0.5)

    def echo(self, spec: TaskSpec, event: TaskSucceeded | TaskFailed | TaskStopped) -> list[Event]:
        """The events that follow a report at once."""
        fate = self._fates.get((*self._task(spec), self._number.get(spec.attempt, 0)))
        if fate is None or fate.kind not in ("again", "contradicts"):
            return []
        again: Event = event
        if fate.kind == "contradicts":
            failed = TaskFailed(event.attempt, ExecutionError("a late report"), retryable=spec.attempt.number % 2 == 0)
            again = failed if isinstance(event, TaskSucceeded | TaskStopped) else TaskStopped(event.attempt)
        if fate.value:
            self.backend.happen(again, self.clock.now() + fate.value)
            return []
        return [again]

    def ghost(self, spec: TaskSpec) -> None:
        """The machine of the attempt is lost."""
        fate = self._fates.get((*self._task(spec), self._number.get(spec.attempt, 0)))
        if fate is not None and fate.kind in ("ghost", "spoiled"):
            done = TaskSucceeded(spec.attempt, self.watch.fact(spec))
            self.backend.happen(done, self.clock.now() + fate.value)


def _read_by(spec: TaskSpec) -> list[CheckpointKey]:
    return [key for item in spec.inputs for key, _ in item.reads]
