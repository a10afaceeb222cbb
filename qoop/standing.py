"""How a running job stands, for people: what it has done, what it uses, and when it will end.

When it will end is the completion time estimate of the re-planner (spec section 4) for the plan that runs, put right
by how long its finished tasks took against how long they were thought to take. Nobody knows what the tasks that are
left will do, so it is told as a range, wider the less has been seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from qoop.engine.progress import Finished, Progress
from qoop.planner.alternatives import Candidate
from qoop.planner.finish import finish_time
from qoop.planner.plan import Plan, Resources, StageId
from qoop.replanner import Option, own_progress

_TRUST = 0.15
"""The part of a plan's estimated work that must have been done for its pace to count as much as the estimate."""

_WIDEST, _NARROWEST = 2.2, 1.35
"""Factors by which the end may come sooner or later than said: when nothing has been seen, and at the end."""

_OVERHEAD = 0.03
"""Seconds that are always uncertain: what starting tasks and handing over the answer take."""


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds until the end: the most likely number, and from what to what it may be."""

    likely: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a job stands.

    elapsed: seconds since it was submitted. share: what it is sure of, None before it was told. used: by its running
    tasks. left: None if it has ended, or cannot go on (there is no slot).
    """

    progress: Progress
    elapsed: float
    share: Resources | None
    used: Resources
    left: Left | None


def left_of(plan: Plan, finished: Finished, progress: Progress, share: Resources) -> Left | None:
    """When a job with this plan, so far done, would end on this share if that lasted."""
    seconds = finish_time(plan, own_progress(Option("", Candidate(plan, "")), finished), share)
    if not isfinite(seconds):
        return None
    estimated = {stage.id: stage.estimate.task_seconds for stage in plan.stages}
    likely = seconds * pace(progress, estimated)
    factor = _WIDEST + (_NARROWEST - _WIDEST) * min(1.0, max(0.0, progress.fraction))
    return Left(likely, max(0.0, likely / factor - _OVERHEAD), likely * factor + _OVERHEAD)


def pace(progress: Progress, estimated: Mapping[StageId, float]) -> float:
    """By which factor the finished tasks took longer than estimated, believed the more the more there are.

    estimated: seconds of a task, by stage.
    """
    total = sum(stage.total * estimated.get(stage.stage, 0.0) for stage in progress.stages)
    made = [(stage, estimated.get(stage.stage, 0.0)) for stage in progress.stages if stage.seconds > 0]
    thought = sum(stage.done * seconds for stage, seconds in made)
    trust = _TRUST * total
    return (sum(stage.seconds for stage, _ in made) + trust) / (thought + trust) if trust > 0 else 1.0
