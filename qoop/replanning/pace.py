"""The pace of a job: by which factor its tasks take longer than estimated, and the end that follows from it.

One estimate for all that tells of an end: the decisions, the header of the live view, deadlines and the page. The
factor is the machine's as much as the plan's, so it holds for every plan of a job alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qoop.engine.progress import Finished
from qoop.engine.task import Content
from qoop.planner.finish import Done, Finish
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, StageId

_TRUST = 0.15
"""The part of a plan's estimated work that must have been done for its pace to count as much as the estimate."""


def pace(plan: Plan, contents: Mapping[StageId, Content], done: Done, finished: Finished) -> float:
    """By which factor the tasks of the plan that runs take longer than estimated, believed the more the more there are.

    Tasks that run longer than estimated tell as much as those that are done. Of DuckDB's own plan nothing is known but
    how long it has run: 1.

    contents: of the plan's stages. done: its progress.
    """
    if plan.root.whole:
        return 1.0
    thought = took = total = 0.0
    for stage in plan.stages:
        seconds = on_threads(stage.estimate.task_seconds, done.slots.get(stage.id, stage.slots))
        total += stage.width * seconds
        spent = finished.spent.get(contents[stage.id], 0.0)
        if spent > 0:
            thought += done.parts.get(stage.id, 0) * seconds
            took += spent
        running = done.running.get(stage.id, ())
        thought += sum(min(one, seconds) for one in running)
        took += sum(running)
    trust = _TRUST * total
    return (took + trust) / (thought + trust) if trust > 0 else 1.0


def end(finish: Finish, done: Done, share: Resources, pace: float) -> float:
    """Seconds until a plan ends on a share, if its tasks take `pace` times as long as estimated."""
    if pace == 1.0:
        return finish.seconds(share, done)
    running = {stage: tuple(one / pace for one in spent) for stage, spent in done.running.items()}
    return pace * finish.seconds(share, replace(done, running=running))
