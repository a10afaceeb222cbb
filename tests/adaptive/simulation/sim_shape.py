"""The needs of a plan, worked out again each time: the judge of what the engine's frontier keeps up to date."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from qoop.engine.task import CheckpointKey, checkpoint_key, content_of
from qoop.planner.plan import Plan, Stage

Read = tuple[CheckpointKey, int | None]


class Task(NamedTuple):
    """One task.

    reads: by input, the outputs it reads, and which partition of each. made_of: their signatures, however they are cut.
    dependent: it rests on a non-deterministic stage.
    """

    key: CheckpointKey
    stage: Stage
    reads: tuple[tuple[Read, ...], ...]
    sources: frozenset[CheckpointKey]
    made_of: frozenset[str]
    dependent: bool


class Shape:
    """The tasks of a plan by their keys; stages that put out the same are one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tasks: dict[CheckpointKey, Task] = {}
        keys = {stage.id: [checkpoint_key(stage, part) for part in range(stage.width)] for stage in plan.stages}
        dependent: dict[object, bool] = {}
        for stage in plan.stages:
            made_of = frozenset(plan.by_id[item.stage].signature for item in stage.stage_inputs)
            below = [content_of(plan.by_id[item.stage]) for item in stage.stage_inputs]
            dependent[content_of(stage)] = not stage.shareable or any(dependent[content] for content in below)
            for part, key in enumerate(keys[stage.id]):
                if key not in self.tasks:
                    reads = tuple(_reads(keys[item.stage], item.mode, part) for item in stage.stage_inputs)
                    sources = frozenset(source for read in reads for source, _ in read)
                    self.tasks[key] = Task(key, stage, reads, sources, made_of, dependent[content_of(stage)])
        self.root = tuple(keys[plan.root.id])

    def active(self, present: Collection[CheckpointKey]) -> set[CheckpointKey]:
        """The tasks that are still to be done: what the root needs, as far as it is not present."""
        found: set[CheckpointKey] = set()
        stack = [key for key in self.root if key not in present]
        while stack:
            key = stack.pop()
            if key not in found:
                found.add(key)
                stack += [source for source in self.tasks[key].sources if source not in present]
        return found

    def wanted(self, present: Collection[CheckpointKey]) -> set[CheckpointKey]:
        """The outputs that some task still to be done reads, and the answer."""
        return set(self.root).union(*(self.tasks[key].sources for key in self.active(present)))


def _reads(keys: list[CheckpointKey], mode: str, part: int) -> tuple[Read, ...]:
    if mode == "forward":
        return ((keys[part], None),)
    return tuple((key, part if mode == "partition" else None) for key in keys)
