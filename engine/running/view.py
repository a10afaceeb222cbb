"""A run as others read it: its state, its plan, and its progress; nothing here changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from math import floor
from typing import TYPE_CHECKING

from qoop.catalog.errors import OutOfMemory, QoopError
from qoop.engine.demand import Demands, ReadyDemands
from qoop.engine.events import Committed, Demand, Running, WorkObserved
from qoop.engine.frontier import Frontier
from qoop.engine.history import Coming, mentions
from qoop.engine.progress import Finished, Progress, fraction_of, stages_of, weights_of
from qoop.engine.running.attempts import Attempt, Attempts, running
from qoop.engine.running.log import RunLog
from qoop.engine.running.outputs import Outputs
from qoop.engine.running.plan import RunningPlan
from qoop.engine.running.retries import Retries
from qoop.engine.state import Limits, State
from qoop.engine.task import AttemptId, CheckpointKey, Content, JobId, Recipe, TaskId
from qoop.planner.packing import duration_ratio
from qoop.planner.plan import Plan, Resources, Stage

if TYPE_CHECKING:
    from qoop.engine.node_queues.ticket import JobLeft

MOST_SLOWED = 4.0
"""The factor by which others slow a task at most, as far as it counts: one that waits for files tells little of it."""


class RunView:
    """The parts of a run, and what follows from them. Public attributes are for reading only.

    state: of the job. error: that ended or will end it. share: its fair share, once one was announced.
    history: the records so far. plans: those it was started with or changed to, in order: the n-th is the one of the
    record `Switched` with number n.
    on_fallback: it runs its fallback plan. pinned: parts of the answer may have been handed out.
    """

    def __init__(self, job: JobId, limits: Limits) -> None:
        self.job = job
        self.state = State.SWITCHING
        self.error: QoopError | None = None
        self.share: Resources | None = None
        self.plans: list[Plan] = []
        self.on_fallback = False
        self.pinned = False
        self._limits = limits
        self._log = RunLog()
        self.history = self._log.history
        self._attempts = Attempts(self._log)
        self._outputs = Outputs(self._log, job, limits.keep_checkpoints)
        self._running_plan = RunningPlan(self._log, job, self._attempts, self._outputs, limits.goes_on)
        self._demands = Demands(limits.min_memory, limits.most_memory)
        self._ready = ReadyDemands(job, self._demands)
        self._retries = Retries(self._log, limits, self._demands)
        self._coming: Coming = ()
        self._slowed = 1.0
        self._outcome: State | None = None

    @property
    def _frontier(self) -> Frontier | None:
        return self._running_plan.frontier

    @property
    def continued(self) -> bool:
        """True if a plan of it began with outputs that were there before."""
        return bool(self._outputs.continued)

    @property
    def ending(self) -> bool:
        """The outcome is decided; it is final once `state.final`."""
        return self._outcome is not None

    @property
    def plan(self) -> Plan:
        """The plan that runs. Raises PlanError before the first switch."""
        return self._running_plan.started.plan

    @property
    def exhausted(self) -> frozenset[Recipe]:
        """The recipes by which tasks failed with all the memory there is."""
        return frozenset(self._retries.exhausted)

    @property
    def slowed(self) -> float:
        """The factor by which other programs slow the tasks, as last reported; at most `MOST_SLOWED`."""
        return min(self._slowed, MOST_SLOWED)

    @property
    def stuck(self) -> OutOfMemory | None:
        """The error that keeps the plan from its end; None if there is none."""
        if self._frontier is not None and not self.ending:
            for node in self._frontier.stages:
                error = self._retries.exhausted.get(node.recipe)
                if error is not None and any(task.active for task in node.tasks):
                    return error
        return None

    @property
    def outputs(self) -> tuple[Committed, ...]:
        """The root's outputs in order of parts, as far as they are present."""
        tasks = self._running_plan.started.root.tasks
        return tuple(self._outputs.present[task.key] for task in tasks if task.present)

    @property
    def answer_parts(self) -> int:
        """The number of parts of the root; 0: there is no plan yet."""
        frontier = self._frontier
        return 0 if frontier is None else len(frontier.root.tasks)

    @property
    def first_outputs(self) -> tuple[Committed, ...]:
        """The root's outputs from its first part on, up to the first that is not present."""
        if self._frontier is None:
            return ()
        present = takewhile(lambda task: task.present, self._frontier.root.tasks)
        return tuple(self._outputs.present[task.key] for task in present)

    @property
    def lasting(self) -> bool:
        """True if the root, run again, would put out the same: it depends on no non-deterministic stage (law 12)."""
        return self._frontier is not None and not self._frontier.root.dependent

    @property
    def alive(self) -> tuple[AttemptId, ...]:
        """Attempts that have not reported their end."""
        return tuple(attempt.id for attempt in self._attempts)

    @property
    def stopping(self) -> bool:
        """True while a stopped attempt has not reported its end."""
        return any(attempt.stopping for attempt in self._attempts)

    @property
    def began(self) -> float:
        """The time of the first message, at which the seconds of the history begin."""
        return self._log.began

    def running(self) -> tuple[Running, ...]:
        """Attempts without a command to stop, in the order in which they began."""
        return tuple(map(self._shown, self._attempts.going_on()))

    def left(self) -> tuple[tuple[Stage, int], ...]:
        """Stages of the plan with tasks that have not ended, those that run included, and how many; in plan order."""
        stages = self._frontier.stages if self._frontier is not None and not self.ending else ()
        return tuple((node.stage, node.left) for node in stages if node.left)

    @property
    def job_left(self) -> JobLeft:
        """The work and the tasks that have not ended, as reported to nodes where tasks wait."""
        from qoop.engine.node_queues.ticket import JobLeft  # where tasks wait at nodes

        return JobLeft(self.work_left, sum(node.left for node in self._frontier.stages) if self._frontier else 0)

    @property
    def work_left(self) -> float:
        """Slot seconds of the tasks that have not ended, those that run included, by the plan's estimates."""
        return max(0.0, self._frontier.work) if self._frontier is not None and not self.ending else 0.0

    def ready(self) -> tuple[Demand, ...]:
        """The next ready task of every stage that has one, with the least resources it needs.

        Longest estimated path to the end of the job first, then plan order. A demand never exceeds every
        empty machine: what fits none asks for all that the one with the most memory has.
        """
        frontier = self._running_plan.frontier
        if frontier is None or self._outcome is not None or self.state is not State.RUNNING:
            return ()
        return self._ready.of(frontier, self._retries.exhausted)

    def progress(self) -> Progress:
        """The progress of the job."""
        if self._frontier is None:
            return Progress(self.state, 0.0, (), (), ())
        running = self._attempts.going_on()
        return Progress(
            self.state,
            1.0 if self.state is State.SUCCEEDED else fraction_of(self._frontier, self._outputs.facts),
            stages_of(self._frontier, self._outputs.facts, {attempt.key: attempt.queued for attempt in running}),
            tuple(self._outputs.present.values()),
            tuple((attempt.key, attempt.started) for attempt in running),
        )

    def expected(self, now: float) -> Coming:
        """The shares that should come: (seconds from now, share)."""
        since = now - self.began
        return tuple((at - since, share) for at, share in self._coming if at > since)

    def finished(self, now: float) -> Finished:
        """The work so far, in the terms in which another plan may be judged."""
        frontier = self._running_plan.started
        dependent = {task.key for task in frontier.tasks() if task.stage.dependent}
        running: dict[Content, tuple[float, ...]] = {}
        weights: dict[Content, tuple[float, ...]] = {}
        slots: dict[Content, float] = {}
        observed: dict[Content, WorkObserved] = {}
        for attempt in self._attempts:
            if not attempt.stopping:
                content, spent = attempt.key.content, attempt.spent(now)
                if attempt.most:
                    there = self.slots_of_share(attempt.most)
                    spent *= duration_ratio(attempt.resources.cpu, there)
                elif attempt.stage.stage.whole:
                    slots[content] = attempt.resources.cpu
                if attempt.work is not None:
                    observed[content] = attempt.work
                running[content] = (*running.get(content, ()), spent)
                weights[content] = (*weights.get(content, ()), self._weight(attempt.key))
        return Finished(
            present=Counter(key.content for key in self._outputs.present if key not in dependent),
            spent=dict(self._outputs.spent),
            running=running,
            done={id: sum(not task.active for task in node.tasks) for id, node in frontier.nodes.items()},
            memory=dict(self._demands.raised),
            exhausted=self.exhausted,
            slots=slots,
            weights=weights,
            observed=observed,
            slowed=self._slowed,
            interrupted=dict(self._retries.interrupted),
        )

    def _weight(self, key: CheckpointKey) -> float:
        """The bytes that the task reads, as a multiple of those of a task of its stage in the mean."""
        task = self._running_plan.node(key)
        if task is None or self._frontier is None:
            return 1.0
        weights = weights_of(task.stage, self._frontier, self._outputs.facts)
        return 1.0 if weights is None else weights[task.part]

    def story(self, key: CheckpointKey) -> str:
        """All that happened to one checkpoint, a sentence a line."""
        return "\n".join(str(record) for record in self.history if mentions(record, key))

    def check(self) -> None:
        """Raise AssertionError, with the story of a key where there is one, unless all invariants hold."""
        from qoop.engine.running.invariants import check_attempts, check_frontier  # tests ask

        attempts = tuple(self._attempts)
        check_attempts(attempts, self.story)
        assert self._outputs.present_bytes == sum(sum(one.bytes) for one in self._outputs.present.values())
        if self.state.final:
            assert not attempts, f"{self.job} has ended, but {self.alive} are alive"
            assert self.state is self._outcome
        if self.ending:
            assert not self.ready()
            assert all(attempt.stopping for attempt in attempts)
        elif self._frontier is not None:
            check_frontier(self._frontier, attempts, self._outputs.present, self._limits.keep_checkpoints, self.story)
            waiting = any(task.active for task in self._frontier.tasks())
            going_on = self.ready() or attempts or self.stuck or self.state is State.SWITCHING
            assert not waiting or going_on, f"{self.job}: work is left, but nothing is ready or running"

    def slots_of_share(self, most: float) -> float:
        """The slots that a task which can use `most` has of the share: one at least."""
        return max(1.0, min(float(most), floor(self.share.cpu) if self.share is not None else 1.0))

    def seconds_of(self, task: TaskId) -> float:
        """Seconds that a task of the plan should take: as long as the longest of its stage that has ended; by estimate
        while none has."""
        return self._demands.seconds(self._running_plan.started.nodes[task.stage])

    def path_of(self, task: TaskId) -> float:
        """Estimated seconds from the beginning of a task of the plan to the end of the job, on the longest path."""
        return self._running_plan.started.nodes[task.stage].tail

    def most_slots(self, task: TaskId) -> float:
        """The slots that a task can use: of the share, where it begins on any; else what it asks for."""
        stage = self.plan.by_id[task.stage]
        return self.slots_of_share(stage.slots) if stage.begins_on_any else 0.0

    def elastic(self) -> tuple[Running, ...]:
        """Attempts that can be granted other resources now."""
        return tuple(map(self._shown, self._attempts.elastic()))

    def missing(self, keys: Iterable[CheckpointKey]) -> list[CheckpointKey]:
        """Those of the keys that it neither holds nor makes under the plan that runs."""
        return [key for key in keys if key not in self._outputs.present and self._running_plan.node(key) is None]

    def _shown(self, attempt: Attempt) -> Running:
        return running(attempt, self._demands.seconds(attempt.stage))

    @property
    def present_bytes(self) -> int:
        """The size of the outputs that can be read."""
        return self._outputs.present_bytes
