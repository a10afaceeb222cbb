"""The progress of a job, as values that people and the re-planner read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from qoop.catalog.value import value
from qoop.engine.data_locality import bytes_of
from qoop.engine.events import Committed, WorkObserved
from qoop.engine.frontier import Frontier, StageNode
from qoop.engine.task import CheckpointKey, Content, Recipe, ResolvedInput
from qoop.planner.plan import Stage, StageId


@value
class StageProgress:
    """The progress of one stage.

    total: its parts. done: those put out, found or not needed. running: those with an attempt that goes on.
    queued: of these, those whose attempt has not begun yet: it waits at its machine. within: the part of the stage that
    running tasks have done, as far as that is known.
    rows, bytes: put out by the parts made or found so far. seconds: wall time spent on them, added up.
    """

    stage: StageId
    label: str
    total: int
    done: int
    running: int
    rows: int
    bytes: int
    seconds: float
    queued: int = 0
    within: float = 0.0

    @property
    def fraction(self) -> float:
        """The part of the stage that is done, 0 to 1, that of running tasks included."""
        return min(1.0, self.done / self.total + self.within) if self.total else 1.0


@value
class Progress:
    """The progress of a job.

    state: of the job, as text. fraction: finished share of the estimated work of the plan, 0 to 1.
    present: the checkpoints there are. running: key and start time of attempts that are not being stopped, also of
    those that are queued.
    """

    state: str
    fraction: float
    stages: tuple[StageProgress, ...]
    present: tuple[Committed, ...]
    running: tuple[tuple[CheckpointKey, float], ...]

    @property
    def queued(self) -> int:
        """Tasks that were granted resources and wait at their machines."""
        return sum(stage.queued for stage in self.stages)


@value
class Finished:
    """The work of a job so far under all its plans: all that judging another plan needs. A value; it never changes.

    present: by content the parts that can be read, without those that depend on a non-deterministic stage (law 12).
    spent: wall seconds that making the outputs of each content took, of those released since, too.
    running: seconds that each attempt at a content, if it is not being stopped, has run; of an elastic one those in
    which it would have come as far with the slots of the share.
    done: by stage of the plan that runs, the parts that need not be done (any more).
    slots: that the attempt at DuckDB's plan of the whole query has, where it gets no more, whatever comes.
    weights: of each of these running attempts, how many times as much as a task of its stage in the mean it reads.
    observed: the last report of the progress of a running attempt. slowed: by others on the CPUs, by the last of all.
    memory: bytes that a task of a content is known to need. exhausted: what cannot be made of which inputs, since a
    task had all the memory of the largest machine and it was too little.
    interrupted: by content the seconds that attempts at it had run when they had to end for want of resources.
    """

    present: Mapping[Content, int]
    spent: Mapping[Content, float]
    running: Mapping[Content, tuple[float, ...]]
    done: Mapping[StageId, int]
    memory: Mapping[Content, float] = field(default_factory=dict)
    exhausted: frozenset[Recipe] = frozenset()
    slots: Mapping[Content, float] = field(default_factory=dict)
    weights: Mapping[Content, tuple[float, ...]] = field(default_factory=dict)
    observed: Mapping[Content, WorkObserved] = field(default_factory=dict)
    slowed: float = 1.0
    interrupted: Mapping[Content, tuple[float, ...]] = field(default_factory=dict)

    @property
    def worked(self) -> Mapping[Content, float]:
        """Seconds that went into each content: of tasks that have ended, and of those that run."""
        total = dict(self.spent)
        for content, seconds in self.running.items():
            total[content] = total.get(content, 0.0) + sum(seconds)
        return total


def stages_of(
    frontier: Frontier, facts: Mapping[CheckpointKey, Committed], running: Mapping[CheckpointKey, bool]
) -> tuple[StageProgress, ...]:
    """Progress of every stage, in plan order. facts: all outputs made or found, released ones too. running: whether
    the attempt at a key is queued."""
    return tuple(_stage(node, facts, running) for node in frontier.stages)


def fraction_of(frontier: Frontier, facts: Mapping[CheckpointKey, Committed]) -> float:
    """Estimated work that is done or was never needed, as a fraction of that of the whole plan; tasks count by what
    they read, see :func:`weights_of`. facts: all outputs made or found, released ones too."""
    total = sum(len(node.tasks) * node.stage.estimate.task_seconds for node in frontier.stages)
    left = sum(node.stage.estimate.task_seconds * _left(node, frontier, facts) for node in frontier.stages if node.left)
    return max(0.0, 1.0 - left / total) if total > 0 else 0.0


def _left(node: StageNode, frontier: Frontier, facts: Mapping[CheckpointKey, Committed]) -> float:
    """The tasks that have not ended, each by its weight."""
    weights = weights_of(node, frontier, facts)
    return node.left if weights is None else sum(weights[task.part] for task in node.tasks if task.active)


def weights_of(
    node: StageNode, frontier: Frontier, facts: Mapping[CheckpointKey, Committed]
) -> tuple[float, ...] | None:
    """By task how many times as many bytes as one of its stage in the mean it reads, by the sizes of the partitions.

    None as long as these are not known: until all that the stage reads is there, so before one of its tasks begins; and
    of a stage of which a task may begin before that, or that reads parts of tables: its tasks are taken for alike.
    """
    if node.weights is None and _has_partitions(node):
        inputs = [item for item in frontier.inputs(node.tasks[0]) if item.keys]
        if all(key in facts for item in inputs for key in item.keys):
            node.weights = _weights(node.stage.width, inputs, facts)
    return node.weights


def _has_partitions(node: StageNode) -> bool:
    stage = node.stage
    modes = {item.mode for item in stage.stage_inputs}
    return (
        stage.width > 1
        and "partition" in modes
        and "forward" not in modes
        and not any(item.split for item in stage.table_inputs)
    )


def _weights(
    width: int, inputs: Iterable[ResolvedInput], facts: Mapping[CheckpointKey, Committed]
) -> tuple[float, ...]:
    read = [0.0] * width
    for item in inputs:
        for key in item.keys:
            everywhere = float(bytes_of(facts[key], None)) if item.partition is None else None
            for part in range(width):
                read[part] += bytes_of(facts[key], part) if everywhere is None else everywhere
    total = sum(read)
    return tuple(width * one / total for one in read) if total > 0 else (1.0,) * width


def _label(stage: Stage) -> str:
    """The operators of a stage; of a part that the planner did not take apart, that it runs whole, and why."""
    return stage.label if stage.opaque is None or stage.whole else f"runs whole: {stage.opaque}"


def _stage(
    node: StageNode, facts: Mapping[CheckpointKey, Committed], running: Mapping[CheckpointKey, bool]
) -> StageProgress:
    made = [facts[task.key] for task in node.tasks if task.made and task.key in facts]
    return StageProgress(
        stage=node.stage.id,
        label=_label(node.stage),
        total=len(node.tasks),
        done=sum(not task.active for task in node.tasks),
        running=sum(task.key in running for task in node.tasks),
        rows=sum(sum(fact.rows) for fact in made),
        bytes=sum(sum(fact.bytes) for fact in made),
        seconds=sum(fact.seconds for fact in made),
        queued=sum(running.get(task.key, False) for task in node.tasks),
    )
