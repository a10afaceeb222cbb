"""The plan that a job runs now: its frontier, kept in line with the attempts alive and the outputs present."""

from __future__ import annotations

from collections.abc import Iterable

from qoop.catalog.errors import PlanError
from qoop.engine.frontier import Frontier, TaskNode
from qoop.engine.history import Redone
from qoop.engine.running.attempts import Attempt, Attempts
from qoop.engine.running.log import RunLog
from qoop.engine.running.outputs import Outputs
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Plan, read_by


class RunningPlan:
    """Stops attempts and releases outputs that the plan does not need. frontier: None before the first plan.

    goes_on: outputs that depend on non-deterministic stages are those of one run over several processes: see `Limits`.
    False from when the plan changes, or makes one of them again.
    """

    def __init__(self, log: RunLog, job: JobId, attempts: Attempts, outputs: Outputs, goes_on: bool) -> None:
        self.frontier: Frontier | None = None
        self.goes_on = goes_on
        self._log = log
        self._job = job
        self._attempts = attempts
        self._outputs = outputs

    @property
    def started(self) -> Frontier:
        """The frontier; PlanError before the first plan."""
        if self.frontier is None:
            raise PlanError(f"job {self._job} has no plan yet")
        return self.frontier

    def node(self, key: CheckpointKey) -> TaskNode | None:
        """The task of the plan that makes this output; None: the plan makes no such output."""
        return self.frontier.by_key.get(key) if self.frontier is not None else None

    def change(self, plan: Plan) -> None:
        """Run this plan from now on: the difference between it and what is present and running is stopped, released
        and begun."""
        before = self.frontier
        same = before is not None and before.plan == plan
        self.goes_on = self.goes_on and (same or before is None)
        if not same:
            self._drop_dependents()
        busy = {attempt.key for attempt in self._attempts}
        self.frontier = Frontier(plan, self._outputs.present, busy, reuse_dependents=same or self.goes_on)
        if same and before is not None:
            self.frontier.remember_made(before)
        self._outputs.useful = None  # until `keep_only` names what the plans before this one made for others
        self.release_useless()
        self._stop_useless()
        if before is not None and not same:
            self._stop_otherwise_made(before)

    def clear_up(self) -> None:
        """Stop and release what the last event left without use."""
        if self.frontier is None:
            return
        surplus, spare, spoiled = self.frontier.drain()
        if spoiled:
            self._spoil(spoiled)
        if surplus:
            self._stop_useless()
        if spare:
            idle = [
                task.key for task in spare if task.present and not task.needed and not self._outputs.keeps(task.key)
            ]
            self.release(dict.fromkeys(idle))

    def end(self, attempt: Attempt) -> None:
        """The attempt is alive no more."""
        task = self.node(attempt.key)
        if task is not None:
            self.started.end(task)

    def release(self, keys: Iterable[CheckpointKey]) -> None:
        """Let go of these outputs, whether they are present or were just reported."""
        gone = tuple(keys)
        for key in gone:
            task = self.node(key)
            if task is not None and task.present:
                self.started.release(task)
        self._outputs.release(gone)

    def release_useless(self) -> None:
        """Let go of the outputs that neither the plan needs nor another plan may use."""
        self.release([key for key in self._outputs.present if self._outputs.useless(key, self.node(key))])

    def release_stray(self, key: CheckpointKey) -> None:
        """Release an output that was reported but not used, once no attempt at the same key is alive."""
        if key in self._outputs.strays and self._attempts.at(key) is None:
            self._outputs.strays.discard(key)
            self.release([key])

    def void_attempts_at(self, key: CheckpointKey) -> None:
        """A store keeps the first of two equal outputs. A late output whose non-deterministic stage has run again is
        not equal, but could displace the one that is being put out under its key."""
        for attempt in self._attempts:
            if attempt.key == key:
                self._attempts.void(attempt, "an output that is not to be used came late")

    def _stop_useless(self) -> None:
        """Stop attempts at what the plan does not (any longer) need."""
        for attempt in self._attempts:
            task = self.node(attempt.key)
            if task is None or not task.active:
                self._attempts.stop(attempt, "the plan does not need it")

    def _stop_otherwise_made(self, before: Frontier) -> None:
        """Stop attempts at what the plan makes of other inputs than the plan before it.

        One task may make in an hour, of the tables, what another makes in a second of finished stages.
        """
        for attempt in self._attempts:
            old, new = before.by_key.get(attempt.key), self.node(attempt.key)
            if old is None or new is None:
                continue
            if read_by(old.stage.stage, before.plan) != read_by(new.stage.stage, self.started.plan):
                self._attempts.stop(attempt, "the plan makes it of other things")

    def _spoil(self, spoiled: list[TaskNode]) -> None:
        self.goes_on = False
        keys = {task.key for task in spoiled}
        for attempt in self._attempts:
            if attempt.key in keys:
                self._attempts.void(attempt, "what it reads is being made again")
        self.release([key for key in keys if key in self._outputs])
        stages = dict.fromkeys(task.stage.stage.id for task in spoiled)
        self._log.note(Redone(self._log.at, tuple(stages), tuple(keys)))

    def _drop_dependents(self) -> None:
        """Drop non-deterministic stages and what depends on them: another plan must not meet their outputs."""
        if self.frontier is None:
            return
        dependent = {task.key for task in self.frontier.tasks() if task.stage.dependent}
        for attempt in self._attempts:
            if attempt.key in dependent:
                self._attempts.void(attempt, "it rests on data that only its own plan may use")
        self.release([key for key in self._outputs.present if key in dependent])
