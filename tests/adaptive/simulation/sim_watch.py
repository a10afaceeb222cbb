"""Watches a cluster through its trace: a model of machines, outputs and jobs, against which every step is held.

A trace hears of every event before the core takes it, and of every command as it goes out. So between two events all
that the first has led to is done, and everything must hold:

- no attempt begins twice, none in resources that are not there, none at what is running, there, or not needed;
- what an attempt reads is there, and is what its plan says; no two makings of a non-deterministic stage meet;
- what a job believes to hold is held for it, and nothing else is; nothing is released that it needs;
- an attempt is told to stop once, and for a reason;
- the job with the lowest share goes first, and nothing is left free that somebody could use;
- shares are those of Pseudocode 1 (paper section 2);
- what was handed out of an answer stays in it: the job changes to no plan with another one, and makes nothing of it
  again, unless it was lost;
- a job fails if, and only if, it must; afterwards nothing of it is left;
- its history tells one story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isclose

from sim_cover import Cover
from sim_history import check_history
from sim_shape import Shape

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.recording.messages import (
    CancelRequested,
    CloseRequested,
    PauseRequested,
    PinRequested,
    PlannerReplied,
    Submitted,
    SuspendRequested,
)
from qoop.adaptive.cluster.recording.ticks import (
    JobEnded,
    OutputsFound,
    PlanDecided,
    PlannerRequested,
    ResizeRefused,
    Resizing,
    Tick,
)
from qoop.catalog.errors import CheckpointError, NoCapacity, OutOfMemory, Revoked, Timeout
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.events import (
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Committed,
    Event,
    MachineJoined,
    MachineLost,
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
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.plan import Plan, Resources

Making = tuple[CheckpointKey, AttemptId, int]
"""A non-deterministic stage, the attempt that made it, and under how many-th plan of the job."""


@dataclass
class Living:
    """An attempt that has not reported. rests: the makings of non-deterministic stages that it reads, and its own.
    made_of: the signatures of what it reads.
    """

    key: CheckpointKey
    machine: MachineId
    resources: Resources
    rests: frozenset[Making]
    made_of: frozenset[str]
    stopping: bool = False


@dataclass
class JobModel:
    """The model of a job. doomed: the reason why it must fail. epoch: counts its plans.

    given: outputs of the root that were handed out; root: all that it will put out, since then.
    on_hold: it was told to begin nothing new. memory: too little for tasks of a content.
    """

    run: Run
    message: Submitted
    present: set[CheckpointKey] = field(default_factory=set)
    states: dict[CheckpointKey, str] = field(default_factory=dict)
    stages: dict[int, str] = field(default_factory=dict)
    living: dict[AttemptId, Living] = field(default_factory=dict)
    condition: str = "SWITCHING"
    state: State = State.SWITCHING
    doomed: str = ""
    asked: bool = False
    failures: Counter[CheckpointKey] = field(default_factory=Counter)
    revocations: Counter[CheckpointKey] = field(default_factory=Counter)
    losses: Counter[CheckpointKey] = field(default_factory=Counter)
    plans: int = 0
    epoch: int = 0
    records: int = 0
    on_hold: bool = False
    given: set[CheckpointKey] = field(default_factory=set)
    root: tuple[CheckpointKey, ...] = ()
    memory: dict[object, float] = field(default_factory=dict)


class Watch:
    """A trace that raises AssertionError. scheduler, patience: see `sim_script.Schedule`."""

    def __init__(self, backend: SimulatedBackend, scheduler: str, patience: int) -> None:
        self.cluster: Cluster
        self.cover = Cover()
        self.events = 0
        self.told: Counter[str] = Counter()
        self.jobs: dict[JobId, JobModel] = {}
        self._backend, self._scheduler, self._patience = backend, scheduler, patience
        self._capacity = dict(backend.machines())
        self._leaving: dict[MachineId, Resources] = {}
        self._used: dict[MachineId, list[Resources]] = {}
        self._holders: dict[CheckpointKey, set[str]] = {}
        self._of_job: dict[str, set[CheckpointKey]] = {}
        self._rests: dict[CheckpointKey, frozenset[Making]] = {}
        self._begun: dict[AttemptId, Living] = {}
        self._touched: set[JobId] = set()
        self._suspended: list[tuple[SuspendRequested, set[CheckpointKey]]] = []
        self._pinned: list[PinRequested] = []
        self._shapes: dict[int, Shape] = {}
        self._what: object = None

    # --- as a trace -----------------------------------------------------------------------------------------

    def record(self, at: float, what: object) -> None:
        self.told[type(what).__name__] += 1
        match what:
            case Start() | Stop() | Release():
                self._command(what)
                return
            case Regrant(attempt, resources):
                had = self._begun[attempt].resources  # what it is to have more is taken at once
                self._regrant(attempt, Resources(max(had.cpu, resources.cpu), max(had.memory, resources.memory)))
                return
            case JobEnded(job):
                self._clear_up()
                self._ended(job)
                return
            case OutputsFound(job, outputs):
                for fact in outputs:
                    self._put(job, fact.key)
                return
            case Tick() | PlannerRequested() | PlanDecided() | Resizing() | ResizeRefused():
                return
        self._clear_up()
        self._what = what
        if hasattr(what, "job") and what.job in self.jobs:  # a message, a share
            self._touched.add(what.job)
            self.cover("job", self.jobs[what.job].condition, type(what).__name__)
        match what:
            case Submitted(job):
                self.jobs[job] = JobModel(self.cluster._coming[job].run, what)
                self._touched.add(job)
            case TaskSucceeded() | TaskFailed() | TaskStopped():
                self._report(what)
            case TaskRegranted(attempt, resources):
                self._regrant(attempt, resources)
                self._touched.add(attempt.task.job)
            case MachineJoined() | MachineLost() | SlotsChanged() | CapacityNotice() | CheckpointLost():
                self._for_all(what)
            case CheckpointSaved(jobs):
                for job in jobs:
                    self.cover("job", self.jobs[job].condition, "CheckpointSaved")
            case PauseRequested(job, on) if job in self.jobs:
                self.jobs[job].on_hold = on
            case PinRequested():
                self._pinned.append(what)
            case CancelRequested(job):
                self._asked_to_end(job)
            case SuspendRequested(job):
                self._suspended.append((what, self._of_use(job)))
                if job in self.jobs:
                    self.jobs[job].on_hold = True
            case CloseRequested():
                for job in self._live():
                    self.cover("job", self.jobs[job].condition, "CloseRequested")
                    self._asked_to_end(job)
                    self._touched.add(job)
            case PlannerReplied():
                pass
        self.events += not isinstance(what, ShareChanged)

    def _regrant(self, attempt: AttemptId, resources: Resources) -> None:
        """A living attempt is charged for other resources."""
        for job in self.jobs.values():
            living = job.living.get(attempt)
            if living is not None:
                self._used[living.machine].remove(living.resources)
                self._used[living.machine].append(resources)
                living.resources = resources

    def flush(self) -> None:
        """The tick is over."""
        if not self.jobs:
            return
        self._clear_up()
        self._accounts_agree()
        self._in_time()
        self._no_slot_left_free()
        self._shares_are_fair()

    def nothing_left(self) -> None:
        """After all jobs have ended and their owners have released them."""
        self._clear_up()
        left = {key: names for key, names in self._holders.items() if names}
        assert not left, f"outputs are left behind: {left}"
        assert not self._backend.running, f"attempts are left behind: {self._backend.running}"
        assert not self._backend.committed, f"the store still has {self._backend.committed}"
        assert not any(self._used.values()), f"resources are taken still: {self._used}"
        for name, available in self.cluster._driver.availability().items():
            assert available.free == available.capacity, f"{name} has {available} at the end"

    def fact(self, spec: TaskSpec) -> Committed:
        """The output that an attempt would have made."""
        parts = spec.stage.layout.parts
        return Committed(spec.key, (1,) * parts, (8,) * parts, 1.0)

    # --- events ---------------------------------------------------------------------------------------------

    def _live(self) -> list[JobId]:
        return [name for name, job in self.jobs.items() if job.condition != "gone"]

    def _report(self, event: TaskSucceeded | TaskFailed | TaskStopped) -> None:
        name = event.attempt.task.job
        job = self.jobs[name]
        living = job.living.pop(event.attempt, None)
        self._touched.add(name)
        self.cover("job", job.condition, type(event).__name__)
        self.cover("attempt", self._condition_of(job, event.attempt, living), _end(event))
        if living is not None:
            self._used[living.machine].remove(living.resources)
        if isinstance(event, TaskSucceeded):
            self._put(name, event.committed.key)
            self._rests.setdefault(event.committed.key, self._begun[event.attempt].rests)
        elif isinstance(event, TaskFailed) and living is not None:
            self._failed(job, event, living)

    def _condition_of(self, job: JobModel, attempt: AttemptId, living: Living | None) -> str:
        if living is None:
            return "gone"
        known = job.run._attempts.get(attempt)
        assert known is not None, f"{attempt} is alive, but its job does not know it"
        return "void" if known.void else "stopping" if living.stopping else "runs"

    def _failed(self, job: JobModel, event: TaskFailed, living: Living) -> None:
        """Count as the limits say."""
        if living.stopping or job.run.ending:
            return
        if isinstance(event.error, Revoked | CheckpointError):
            self._count(job, job.revocations, living.key, job.message.request.limits.max_revocations)
        elif isinstance(event.error, OutOfMemory):
            self._too_little(job, living)
            if living.resources.memory >= self._most_memory(lasting=False) and job.message.request.adaptive is None:
                job.doomed = "a task had all the memory there is"
        elif event.retryable:
            self._count(job, job.failures, living.key, job.message.request.limits.max_attempts)
        else:
            job.doomed = f"{event.attempt} failed for good"

    def _most_memory(self, lasting: bool = True) -> float:
        """The most that a task can be given. lasting: of what will not be taken away."""
        availability = [
            (available.memory, self._leaving[name] if lasting and name in self._leaving else available)
            for name, available in self._capacity.items()
            if available.cpu >= 1
        ]
        return max(
            (min(memory, after.memory if after.cpu >= 1 else inf) for memory, after in availability), default=inf
        )

    def _too_little(self, job: JobModel, living: Living) -> None:
        content = living.key.content
        job.memory[content] = max(job.memory.get(content, 0.0), living.resources.memory)

    def _count(self, job: JobModel, counts: Counter[CheckpointKey], key: CheckpointKey, most: int) -> None:
        counts[key] += 1
        if counts[key] >= most:
            job.doomed = f"{key} failed {counts[key]} times"

    def _for_all(self, event: Event) -> None:
        live = self._live()
        self._touched.update(live)
        for name in live:
            self.cover("job", self.jobs[name].condition, type(event).__name__)
        match event:
            case MachineJoined(machine, capacity) | SlotsChanged(machine, capacity):
                self._capacity[machine] = capacity
                self._leaving.pop(machine, None)
            case CapacityNotice(machine, capacity) if machine in self._capacity:
                self._leaving[machine] = capacity
            case MachineLost(machine):
                self._machine_lost(machine)
            case CheckpointLost(key):
                self._lost(key)

    def _machine_lost(self, machine: MachineId) -> None:
        self._capacity.pop(machine, None)
        self._leaving.pop(machine, None)
        self._used.pop(machine, None)
        for job in self.jobs.values():
            for attempt in [name for name, living in job.living.items() if living.machine == machine]:
                living = job.living[attempt]
                self.cover("attempt", self._condition_of(job, attempt, living), "machine lost")
                del job.living[attempt]
                if not living.stopping and not job.run.ending:
                    self._count(job, job.revocations, living.key, job.message.request.limits.max_revocations)

    def _lost(self, key: CheckpointKey) -> None:
        for name in self._holders.pop(key, ()):
            self._of_job[name].discard(key)
        self._rests.pop(key, None)
        for job in self.jobs.values():
            job.given.discard(key)
            if key in job.present and job.condition != "gone":
                job.losses[key] += 1
                if job.losses[key] >= job.message.request.limits.max_revocations and not job.run.ending:
                    job.doomed = f"{key} was lost {job.losses[key]} times"

    def _asked_to_end(self, name: JobId) -> None:
        if name in self.jobs:
            self.jobs[name].asked = True

    def _of_use(self, name: JobId) -> set[CheckpointKey]:
        """The outputs that can serve elsewhere if the job is suspended now."""
        job = self.jobs.get(name)
        if job is None or job.condition == "gone" or job.run.ending:
            return set()
        return {key for key in job.present if not self._dependent_before(job, key)}

    def _put(self, job: str, key: CheckpointKey) -> None:
        self._holders.setdefault(key, set()).add(job)
        self._of_job.setdefault(job, set()).add(key)

    # --- commands -------------------------------------------------------------------------------------------

    def _command(self, command: Start | Stop | Release) -> None:
        match command:
            case Start(machine, spec):
                self._touched.add(spec.attempt.task.job)
                self._started(machine, spec)
            case Stop(attempt):
                self._stopped(attempt)
            case Release(job, keys):
                for key in keys:
                    self._released(job, key)

    def _started(self, machine: MachineId, spec: TaskSpec) -> None:
        name = spec.attempt.task.job
        job = self.jobs[name]
        run = job.run
        where = f"{spec.attempt} at {spec.key} on {machine}"
        assert spec.attempt not in self._begun, f"{where} begins twice"
        assert spec.key not in job.given, f"{where} begins, but its rows were handed out"
        assert all(living.key != spec.key for living in job.living.values()), f"{where} begins, but one runs already"
        assert not job.doomed and not job.asked, (
            f"{where} begins, but the job must end: {job.doomed or 'it was asked to'}"
        )
        assert not job.on_hold, f"{where} begins, but nothing new is to begin"
        too_little = job.memory.get(spec.key.content, 0.0)
        assert spec.resources.memory > min(too_little, self._most_memory() - 1.0), (
            f"{where} has less than was too little"
        )
        assert run.state is State.RUNNING and not run.ending, f"{where} begins while the job is {run.state}"
        self._fits(machine, spec, where)
        self._goes_first(job, spec, where)
        shape = self._shape(run.plan)
        assert spec.key in shape.active(job.run._outputs.present), f"{where} begins without need\n{run.story(spec.key)}"
        reads = tuple(item.reads for item in spec.inputs)
        assert reads == shape.tasks[spec.key].reads, f"{where} reads {reads} instead of {shape.tasks[spec.key].reads}"
        self._begin(job, machine, spec, shape)

    def _begin(self, job: JobModel, machine: MachineId, spec: TaskSpec, shape: Shape) -> None:
        rests: set[Making] = set()
        now = self._epoch(job)
        for source in shape.tasks[spec.key].sources:
            assert spec.attempt.task.job in self._holders.get(source, ()) and self._backend.present([source]), (
                f"{spec.attempt} reads {source}, which is not there for it\n{job.run.story(source)}"
            )
            rests |= self._rests.get(source, frozenset())
        non_deterministic = [island for island, _, _ in rests]
        assert len(non_deterministic) == len(set(non_deterministic)), (
            f"{spec.attempt} reads two makings of a non-deterministic stage: {rests}"
        )
        own = all(attempt.task.job == spec.attempt.task.job and epoch == now for _, attempt, epoch in rests)
        assert own, f"{spec.attempt} reads a non-deterministic stage of another plan, or job: {rests}"
        if not spec.stage.shareable:
            rests.add((spec.key, spec.attempt, now))
        self._note_task(job, spec.key, "ready")
        self._note_task(job, spec.key, "runs")
        living = Living(spec.key, machine, spec.resources, frozenset(rests), shape.tasks[spec.key].made_of)
        self._begun[spec.attempt] = job.living[spec.attempt] = living
        self._used.setdefault(machine, []).append(spec.resources)

    def _epoch(self, job: JobModel) -> int:
        """The number of times that the job has changed to a plan that differs."""
        plans = job.run.plans
        while job.plans < len(plans):
            job.epoch += job.plans == 0 or plans[job.plans] != plans[job.plans - 1]
            job.plans += 1
        return job.epoch

    def _free(self, machine: MachineId) -> Resources:
        used = self._used.get(machine)
        return self._capacity[machine] - _total(used) if used else self._capacity[machine]

    def _fits(self, machine: MachineId, spec: TaskSpec, where: str) -> None:
        assert machine in self._capacity, f"{where}: there is no such machine"
        assert spec.resources.cpu >= 1 and spec.resources.memory > 0, f"{where}: it is given {spec.resources}"
        free = self._free(machine)
        fits = spec.resources.cpu <= free.cpu + 1e-6 and spec.resources.memory <= free.memory + 1.0
        assert fits, f"{where}: it is given {spec.resources}, and {free} is free"

    def _goes_first(self, job: JobModel, spec: TaskSpec, where: str) -> None:
        """No job with a lower share had a task that could have begun instead."""
        if self._leaving or self._patience or self._scheduler not in ("max-min", "drf"):
            return
        total = sum(self._capacity.values(), Resources())
        mine = self._place(job, total)
        for other in self.jobs.values():
            if other is not job and other.condition != "gone" and self._place(other, total) < mine:
                for demand in other.run.ready():
                    assert not any(demand.resources.fits(self._free(name)) for name in self._capacity), (
                        f"{where} begins, but {demand.task} is of a job with a lower share:"
                        f" {self._place(other, total)} against {mine}"
                    )

    def _place(self, job: JobModel, total: Resources) -> tuple[float, int]:
        used = _total(living.resources for living in job.living.values())
        share = max((part / whole for part, whole in ((used.cpu, total.cpu), (used.memory, total.memory)) if whole), default=0.0)  # noqa: E501  # fmt: skip
        return round(share / job.message.request.terms.weight, 9), job.message.arrival

    def _stopped(self, attempt: AttemptId) -> None:
        job = self.jobs[attempt.task.job]
        living = job.living.get(attempt)
        assert living is not None, f"{attempt} is told to stop, but does not run"
        assert not living.stopping, f"{attempt} is told to stop twice"
        living.stopping = True
        shape = self._shape(job.run.plan)
        task = shape.tasks.get(living.key)
        reason = (
            job.run.ending or task is None or task.dependent or living.key not in shape.active(job.run._outputs.present)
            or living.machine in self._leaving or self._dependent_before(job, living.key)
            or living.made_of != task.made_of
        )  # fmt: skip
        assert reason, f"{attempt} is told to stop for no reason\n{job.run.story(living.key)}"

    def _dependent_before(self, job: JobModel, key: CheckpointKey) -> bool:
        plans = job.run.plans
        return any(key in shape.tasks and shape.tasks[key].dependent for shape in map(self._shape, plans))

    def _released(self, name: str, key: CheckpointKey) -> None:
        self._holders.get(key, set()).discard(name)
        self._of_job.get(name, set()).discard(key)
        if not self._holders.get(key):
            self._holders.pop(key, None)
            self._rests.pop(key, None)
        job = self.jobs.get(name)
        if job is None or job.run.ending or not job.run.plans:
            return
        shape = self._shape(job.run.plan)
        task = shape.tasks.get(key)
        had = key in job.present and (task is None or not task.dependent)
        assert not had or key not in shape.wanted(job.run._outputs.present), (
            f"{name} lets go of {key}, which it needs\n{job.run.story(key)}"
        )

    # --- what must hold between two events ----------------------------------------------------------------------

    def _clear_up(self) -> None:
        touched, self._touched = self._touched, set()
        for asked, of_use in self._suspended:
            kept = {fact.key for fact in asked.kept.result()} if asked.kept.done() else set()
            assert kept == of_use, f"{asked.job} has {of_use} to be kept, and {kept} is"
            for key in kept:
                self._put(asked.owner, key)
        self._suspended = []
        for pin in self._pinned:
            self._handed_out(pin)
        self._pinned = []
        for name in touched:
            job = self.jobs[name]
            if job.condition != "gone":
                self._job_holds(name, job)
            else:
                self._nothing_of(name, job)

    def _handed_out(self, pin: PinRequested) -> None:
        """Check that the present part of the answer has been handed out, if it may be."""
        job = self.jobs.get(pin.job)
        if job is None or job.condition == "gone":
            assert not pin.done.result(), f"{pin.job} is gone, but hands out rows"
            return
        there = {fact.key for fact in job.run.first_outputs} if job.run.lasting else set()
        assert pin.done.result() == bool(there), f"{pin.job} hands out rows: {pin.done.result()}; there are {there}"
        if there:
            job.given |= there
            job.root = tuple(self._shape(job.run.plan).root)

    def _job_holds(self, name: JobId, job: JobModel) -> None:
        run = job.run
        run.check()
        present = set(run._outputs.present)
        mine = self._of_job.get(name, set())
        for key in present - mine:
            raise AssertionError(f"{name} believes to hold {key}\n{run.story(key)}")
        assert set(run.alive) == set(job.living), (
            f"{name}: {run.alive} are believed to be alive, {list(job.living)} are"
        )
        writing = {living.key for living in job.living.values()}
        tasks = self._shape(run.plan).tasks if run.plans else {}
        for attempt, living in job.living.items():
            same = living.stopping or living.key not in tasks or tasks[living.key].made_of == living.made_of
            assert same, f"{attempt} goes on, but the plan makes it of other things\n{run.story(living.key)}"
        for key in mine - present - writing:
            raise AssertionError(f"{key} is kept for {name}, which does not know\n{run.story(key)}")
        if run.ending:
            going = [attempt for attempt, living in job.living.items() if not living.stopping]
            assert not going, f"{name} is about to end, but {going} were not told to stop"
        assert not (job.doomed or job.asked) or run.ending or run.state.final, f"{name} must end: {job.doomed}"
        if job.root and not run.ending:
            root = tuple(self._shape(run.plan).root)
            assert root == job.root, f"rows of {job.root} were handed out, and now {root} is to be the answer of {name}"
        job.present = present
        self._note_states(job)

    def _note_states(self, job: JobModel) -> None:
        run = job.run
        if run.state is not job.state:
            self.cover("job", job.state.value, f"-> {run.state.value}")
            job.state = run.state
        before, job.condition = job.condition, _condition(run)
        if (
            before != job.condition
            and isinstance(run.error, Timeout | NoCapacity)
            and before in ("RUNNING", "SWITCHING")
        ):
            self.cover("job", before, type(run.error).__name__)
        self._note_tasks(job)
        for record in run.history[job.records :]:
            self.cover("record", type(record).__name__, "")
        job.records = len(run.history)

    def _note_tasks(self, job: JobModel) -> None:
        frontier = job.run._frontier
        if frontier is None or job.run.ending:
            return
        stopping = {living.key for living in job.living.values() if living.stopping}
        states, stages = {}, {}
        for node in frontier.stages:
            whole = "none" if not node.present else "all" if node.present == len(node.tasks) else "some"
            content = hash(node.tasks[0].key.content)
            stages[content] = whole
            if job.stages.get(content, whole) != whole:
                self.cover("stage", job.stages[content], f"-> {whole}")
            for task in node.tasks:
                state = states[task.key] = _state(task, stopping)
                if job.states.get(task.key) != state:
                    self._note_task(job, task.key, state)
        job.states, job.stages = states, stages

    def _note_task(self, job: JobModel, key: CheckpointKey, state: str) -> None:
        old = job.states.get(key) or _state_outside(job, key)
        if old != state:
            self.cover("task", old, f"-> {state}")
            job.states[key] = state

    def _ended(self, name: JobId) -> None:
        job = self.jobs[name]
        run = job.run
        self._note_states(job)
        job.condition = "gone"
        assert run.state.final and not job.living, f"{name} has ended as {run.state}, but {list(job.living)} run"
        if run.state is State.SUCCEEDED:
            assert not job.doomed, f"{name} has succeeded, although {job.doomed}"
            root = self._shape(run.plan).root
            assert [fact.key for fact in run.outputs] == list(root), f"{name} has {run.outputs} for an answer of {root}"
        elif run.state is State.CANCELLED:
            assert job.asked, f"{name} was cancelled, but nobody asked for it"
        check_history(run)
        self._nothing_of(name, job)

    def _nothing_of(self, name: JobId, job: JobModel) -> None:
        answer = set(self._shape(job.run.plan).root) if job.run.state is State.SUCCEEDED else set()
        left = self._of_job.get(name, set()) - answer
        assert not left, f"{name} has ended as {job.run.state} and leaves {left}"

    def _in_time(self) -> None:
        """No job goes on after its deadline."""
        now = self._backend.clock.now()
        for name, job in self.cluster._jobs.items():
            late = job.ends_at is not None and now >= job.ends_at
            assert not late or job.run.ending, f"{name} goes on, though its time was up at {job.ends_at}"

    def _accounts_agree(self) -> None:
        """The driver knows which resources are free, and who has the others."""
        driver = self.cluster._driver
        availability = driver.availability()
        assert availability.keys() == self._capacity.keys(), (
            f"the driver knows {availability}, there are {self._capacity}"
        )
        for name, available in availability.items():
            assert available.capacity == self._capacity[name], f"{name} is {self._capacity[name]}, not {available}"
            assert _close(available.free, self._free(name)), f"{name} has {self._free(name)} free, not {available.free}"
        for name in driver.runs:
            used = _total(living.resources for living in self.jobs[name].living.values())
            assert _close(driver.used_by(name), used), f"{name} has {used}, not {driver.used_by(name)}"

    def _no_slot_left_free(self) -> None:
        """Work conserving: no ready task fits in what is free, but on one machine that a patient scheduler keeps
        for another task."""
        places = [name for name in self._capacity if name not in self._leaving]
        free = {name: self._free(name) for name in places}
        ready = [demand for job in self.cluster._jobs.values() for demand in job.run.ready()]
        unused = {name for name in places if any(demand.resources.fits(free[name]) for demand in ready)}
        assert len(unused) <= (self._patience > 0), f"there are resources on {unused} for tasks that are ready"

    def _shares_are_fair(self) -> None:
        if self._scheduler == "sjf":  # which promises all to the shortest job
            return
        jobs = self.cluster._jobs.values()
        weights = sum(job.request.terms.weight for job in jobs)
        lasting = [
            (
                min(available.cpu, self._leaving.get(name, available).cpu),
                min(available.memory, self._leaving.get(name, available).memory),
            )
            for name, available in self._capacity.items()
        ]
        for job in jobs:
            part = job.request.terms.weight / weights
            share = job.run.share
            fair = share is not None and isclose(share.cpu, part * sum(cpu for cpu, _ in lasting), abs_tol=1e-6)
            fair = fair and isclose(share.memory, part * sum(memory for _, memory in lasting), abs_tol=1.0)
            assert fair, f"{job.run.job} was told a share of {share}: its part of {lasting} is {part}"

    def _shape(self, plan: Plan) -> Shape:
        found = self._shapes.get(id(plan))
        if found is None:
            found = self._shapes[id(plan)] = Shape(plan)
        return found


def _total(several: Iterable[Resources]) -> Resources:
    cpu = memory = 0.0
    for one in several:
        cpu += one.cpu
        memory += one.memory
    return Resources(cpu, memory)


def _close(one: Resources, other: Resources) -> bool:
    return abs(one.cpu - other.cpu) < 1e-6 and abs(one.memory - other.memory) < 1.0


def _condition(run: Run) -> str:
    if run.ending and run._outcome is not None:
        return f"to be {run._outcome.value}"
    return run.state.value


def _state_outside(job: JobModel, key: CheckpointKey) -> str:
    """Of a task that was not in the plan before."""
    if key in job.run._outputs.present:
        return "spare"
    return "stopping" if any(living.key == key for living in job.living.values()) else "idle"


def _state(task: object, stopping: Iterable[CheckpointKey]) -> str:
    if task.present:  # type: ignore[attr-defined]
        return "kept" if task.needed else "spare"  # type: ignore[attr-defined]
    if task.busy:  # type: ignore[attr-defined]
        return "stopping" if task.key in stopping else "runs"  # type: ignore[attr-defined]
    if not task.active:  # type: ignore[attr-defined]
        return "idle"
    return "ready" if task.ready else "waits"  # type: ignore[attr-defined]


def _end(event: TaskSucceeded | TaskFailed | TaskStopped) -> str:
    match event:
        case TaskSucceeded():
            return "succeeded"
        case TaskStopped():
            return "stopped"
    if isinstance(event.error, OutOfMemory):
        return "out of memory"
    if isinstance(event.error, Revoked):
        return "revoked"
    if isinstance(event.error, CheckpointError):
        return "unreadable"
    return "failed" if event.retryable else "broke"
