"""The orders of a job's tasks: what is fixed for the job, and what a stage and an attempt add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from qoop.catalog.errors import PlanError
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.engine.events import Committed
from qoop.engine.frontier import Frontier, TaskNode
from qoop.engine.running.attempts import Attempt
from qoop.engine.running.retries import name
from qoop.engine.state import Limits, Saving
from qoop.engine.task import CheckpointKey, ResolvedInput, Slicing, TaskSpec, slices_of
from qoop.planner.plan import Plan, Resources, Stage, StageId


class TaskSpecs:
    """Makes the `TaskSpec` of an attempt. The arguments are those of `Run`."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        settings: tuple[tuple[str, str], ...],
        functions: tuple[UserFunction, ...],
        durable: bool,
        saving: Saving | None,
        limits: Limits,
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._functions = functions
        self._durable = durable
        self._saving = saving
        self._limits = limits
        self._saved: tuple[Plan, frozenset[StageId]] | None = None

    def need_tables(self, plan: Plan) -> None:
        """Raise PlanError if a stage reads a table that the job does not have."""
        for stage in plan.stages:
            for item in stage.table_inputs:
                if item.table not in self._tables:
                    known = ", ".join(sorted(self._tables)) or "none"
                    raise PlanError(f"{name(stage)} reads table {item.table}; the job has {known}")

    def make(
        self,
        attempt: Attempt,
        task: TaskNode,
        frontier: Frontier,
        share: Resources | None,
        facts: Mapping[CheckpointKey, Committed],
        goes_on: bool,
    ) -> TaskSpec:
        """The order of an attempt at a task of the plan that runs. facts: of the outputs that it reads. goes_on: an
        output that depends on a non-deterministic stage is of use to another process."""
        stage, inputs = task.stage.stage, frontier.inputs(task)
        useful = goes_on or not task.stage.dependent
        durable = self._durable and useful and self._saves(stage.id, frontier.plan, share)
        sliced = durable and not any(source.dependent for source, _ in task.stage.sources)
        return TaskSpec(
            attempt=attempt.id,
            stage=stage,
            key=task.key,
            inputs=inputs,
            tables={item.table: self._tables[item.table] for item in stage.table_inputs},
            resources=attempt.resources,
            settings=frontier.plan.settings + self._settings,
            durable=durable,
            shared=not task.stage.dependent,
            answer=task.stage is frontier.root,
            locked=self._limits.locked,
            functions=self._functions,
            most=attempt.most,
            extra=attempt.extra,
            profiled=self._limits.profiled,
            path=task.stage.tail,
            slicing=self._slicing(stage, frontier.plan, inputs, facts) if sliced else None,
        )

    def _slicing(
        self,
        stage: Stage,
        plan: Plan,
        inputs: Sequence[ResolvedInput],
        facts: Mapping[CheckpointKey, Committed],
    ) -> Slicing | None:
        """The slices of a task that takes long for the life of its process; None: it cannot be cut, or nothing is known
        of lives."""
        seconds = self._limits.slice_seconds
        if seconds == inf:
            return None
        most = slices_of(stage, stage.estimate.task_seconds * _part_of_mean(inputs, facts), seconds)
        if not most:
            return None
        divided = [item for item in stage.stage_inputs if item.mode == "partition"]
        return Slicing(most, {item.name: plan.by_id[item.stage].layout for item in divided}, seconds)

    def _saves(self, stage: StageId, plan: Plan, share: Resources | None) -> bool:
        """True if the outputs of a stage of this plan are to survive the process."""
        if self._saving is None:
            return True
        if self._saved is None or self._saved[0] is not plan:
            self._saved = (plan, self._saving.stages(plan, share or Resources(1.0)))
        return stage in self._saved[1]


def _part_of_mean(inputs: Sequence[ResolvedInput], facts: Mapping[CheckpointKey, Committed]) -> float:
    """The rows that a task reads by partition, as a multiple of their mean over all partitions; 1 if there are none.

    The groups of a key with few values lie in few partitions: a slice of another one only finds that it has no rows.
    """
    own, mean = 0, 0.0
    for one in inputs:
        if one.partition is not None:
            rows = [facts[key].rows for key in one.keys]
            own += sum(each[one.partition] for each in rows)
            mean += sum(sum(each) / len(each) for each in rows)
    return own / mean if mean else 1.0
