"""The common part of two plans of a query, stage by stage: the outputs that a switch between them could keep.

A stage is *shared* if the other plan has one with interchangeable outputs, part by part (equal
:func:`~qoop.planner.search.alternatives.stage_key`). It is *recut* if the other plan has one of the same rows and
columns in another partitioning, so that one re-partitioning makes its outputs usable.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import Enum
from functools import cached_property
from itertools import zip_longest

from qoop.catalog.value import value
from qoop.planner.explain import count_text, seconds_text
from qoop.planner.plan import Plan, Stage, StageId
from qoop.planner.search.candidate import stage_key

_LABEL = 34


class Mark(Enum):
    """A stage's relation to another plan; the value stands before its line."""

    SHARED = "="
    RECUT = "~"
    OWN = " "


@value
class Difference:
    """Two plans of one query. names: what they are called."""

    left: Plan
    right: Plan
    names: tuple[str, str] = ("A", "B")

    @cached_property
    def marks(self) -> tuple[dict[StageId, Mark], dict[StageId, Mark]]:
        """The marks of the left plan's stages against the right plan, and the other way round."""
        return marks(self.left, self.right), marks(self.right, self.left)

    @cached_property
    def pairs(self) -> tuple[tuple[Stage | None, Stage | None], ...]:
        """The stages of both in their order, those of equal meaning side by side as far as the orders allow."""
        left, right = self.left.stages, self.right.stages
        matcher = SequenceMatcher(
            None, [stage.signature for stage in left], [stage.signature for stage in right], autojunk=False
        )
        return tuple(pair for _, i, j, k, m in matcher.get_opcodes() for pair in zip_longest(left[i:j], right[k:m]))

    def stages(self, mark: Mark) -> tuple[list[Stage], list[Stage]]:
        """The stages of both plans that bear a mark."""
        left, right = self.marks
        return (
            [stage for stage in self.left.stages if left[stage.id] is mark],
            [stage for stage in self.right.stages if right[stage.id] is mark],
        )


def marks(plan: Plan, other: Plan) -> dict[StageId, Mark]:
    """The relation of each stage of a plan to another plan. Non-deterministic stages are never shared (law 12)."""
    there = [stage for stage in other.stages if stage.shareable]
    keys, signatures = {stage_key(stage) for stage in there}, {stage.signature for stage in there}

    def mark(stage: Stage) -> Mark:
        if not stage.shareable or stage.signature not in signatures:
            return Mark.OWN
        return Mark.SHARED if stage_key(stage) in keys else Mark.RECUT

    return {stage.id: mark(stage) for stage in plan.stages}


def explain_difference(difference: Difference) -> str:
    """Both plans side by side, a stage a line: ``=`` stands before shared stages, ``~`` before recut ones."""
    rows = [(_cell(one, difference.marks[0]), _cell(other, difference.marks[1])) for one, other in difference.pairs]
    first, second = difference.names
    width = max(len(first), *(len(one) for one, _ in rows))
    lines = [f"{one:<{width}} │ {other}".rstrip() for one, other in [(first, second), *rows]]
    return "\n".join([*lines, "", *_summary(difference)])


def _cell(stage: Stage | None, found: dict[StageId, Mark]) -> str:
    if stage is None:
        return ""
    label = stage.label if len(stage.label) <= _LABEL else stage.label[: _LABEL - 1] + "…"
    estimate = stage.estimate
    return (
        f"{found[stage.id].value} {stage.id:<4}{label:<{_LABEL}} {f'{stage.width}×{stage.slots}':>6}"
        f"{count_text(estimate.rows):>6} rows {seconds_text(work(stage)):>7}"
    )


def _summary(difference: Difference) -> Iterator[str]:
    first, second = difference.names
    shared, recut = difference.stages(Mark.SHARED), difference.stages(Mark.RECUT)
    yield f"= {_stages(len(shared[0]))} shared, about {seconds_text(_work(shared[0]))} of one thread to keep"
    if recut[0] or recut[1]:
        yield f"~ {_stages(len(recut[0]))} of {first} and {len(recut[1])} of {second} have the same rows, cut otherwise"
    for name, own in zip(difference.names, difference.stages(Mark.OWN), strict=True):
        yield f"  {_stages(len(own))} only in {name}, about {seconds_text(_work(own))}"


def work(stage: Stage) -> float:
    """Estimated seconds of one thread of all its tasks."""
    return stage.width * stage.estimate.task_seconds


def _work(stages: list[Stage]) -> float:
    return sum(map(work, stages))


def _stages(number: int) -> str:
    return f"{number} stage{'s' if number != 1 else ''}"
