"""Counts of the failures of a job's tasks, and the failure that ends the job."""

from __future__ import annotations

from qoop.catalog.errors import CheckpointError, ExecutionError, OutOfMemory, QoopError
from qoop.catalog.sizes import size
from qoop.engine.demand import Demands
from qoop.engine.history import MemoryExhausted, MemoryRaised
from qoop.engine.running.attempts import Attempt
from qoop.engine.running.log import RunLog
from qoop.engine.state import Limits
from qoop.engine.task import CheckpointKey, Content, Recipe
from qoop.planner.plan import Stage


class Retries:
    """Counts by key; each method returns the error that ends the job, None while the task may be tried again.

    exhausted: the errors of stages for which all memory was too little, where that does not end the job.
    interrupted: by content the seconds that attempts at it had run when they had to end for want of resources.
    """

    def __init__(self, log: RunLog, limits: Limits, demands: Demands) -> None:
        self.exhausted: dict[Recipe, OutOfMemory] = {}
        self.interrupted: dict[Content, tuple[float, ...]] = {}
        self._log = log
        self._limits = limits
        self._demands = demands
        self._failures: dict[CheckpointKey, int] = {}
        self._revocations: dict[CheckpointKey, int] = {}
        self._losses: dict[CheckpointKey, int] = {}

    def failed(self, attempt: Attempt, error: QoopError) -> QoopError | None:
        """A task failed in a way that may pass."""
        return _counted(self._failures, self._limits.max_attempts, attempt, error)

    def revoked(self, attempt: Attempt, error: QoopError) -> QoopError | None:
        """A task lost its slot, its machine or what it reads, which is no fault of the task."""
        return _counted(self._revocations, self._limits.max_revocations, attempt, error)

    def note_interrupted(self, attempt: Attempt) -> None:
        """An attempt had to end for want of its slot, machine or memory."""
        content = attempt.key.content
        self.interrupted[content] = (*self.interrupted.get(content, ()), attempt.spent(self._log.now))

    def lost(self, key: CheckpointKey) -> QoopError | None:
        """An output that was present is lost."""
        losses = self._losses[key] = self._losses.get(key, 0) + 1
        if losses < self._limits.max_revocations:
            return None
        return CheckpointError(f"checkpoint {key} was made and lost {losses} times")

    def out_of_memory(self, attempt: Attempt, error: OutOfMemory) -> QoopError | None:
        """Demand more memory for the next attempt; the end is reached when the task had a whole machine.

        A single value of twice a machine's memory ends the job, since every plan computes that value.
        """
        stage, had = attempt.stage.stage, attempt.resources.memory
        raised = self._demands.raise_memory(attempt.stage, max(had, error.single / 2))
        if raised is not None:
            self._log.note(MemoryRaised(self._log.at, stage.id, had, raised))
            return None
        if error.single / 2 > had:
            value = size(error.single)
            return _because(f"{name(stage)} makes a value of {value}, for which no machine has the memory", error)
        limit = "it may have" if had >= self._limits.most_memory else "the largest machine has"
        final = _because(
            f"{name(stage)} needs more than {size(had)} of memory for one task, which is all {limit}", error
        )
        if not self._limits.leave_exhausted:
            return final
        self.exhausted[attempt.stage.recipe] = final
        self._log.note(MemoryExhausted(self._log.at, stage.id, had))
        return None


def _counted(counts: dict[CheckpointKey, int], limit: int, attempt: Attempt, error: QoopError) -> QoopError | None:
    failures = counts[attempt.key] = counts.get(attempt.key, 0) + 1
    if failures < limit:
        return None
    what = f"{name(attempt.stage.stage)} failed {failures} times in task {attempt.id.task.part}; last: {error}"
    final = ExecutionError(what)
    final.__cause__ = error
    return final


def _because(what: str, error: OutOfMemory) -> OutOfMemory:
    final = OutOfMemory(f"{what}: {error}")
    final.__cause__ = error
    return final


def name(stage: Stage) -> str:
    """The stage for an error message: its id, and its label if there is one."""
    return f"stage {stage.id} ({stage.label})" if stage.label else f"stage {stage.id}"
