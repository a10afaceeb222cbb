"""Outputs that rest on non-deterministic stages (law 12), kept from one process to the next.

The rows of such a stage may depend on the last digits of sums alone. From the same sums it makes the same rows in
any process. So once all sums that such stages of a plan read are complete, the names of the outputs contain the facts
of the making of these sums. Two makings have different facts. If a sum is made again, no process finds what rested on
it.

Among outputs of such names the law holds as within one process: each is made once, and what rests on one that was lost
is not used. Then the plan goes on under other names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set

from qoop.engine.events import Committed
from qoop.engine.task import CheckpointKey, checkpoint_key, checkpoint_keys, dependents, own_non_deterministic
from qoop.planner.plan import Plan, Stage, StageId

_MOST_LOSSES = 8
"""The names that are tried for outputs of one plan."""


def going_on(plan: Plan, text: str, present: Callable[[Sequence[CheckpointKey]], Iterable[Committed]]) -> Plan | None:
    """The plan with signatures for its non-deterministic stages, and for what depends on them, that processes share.

    None if there are no such stages, if one of them depends on more than digits, or if sums that they read are missing.
    text: of the query. present: finds outputs.
    """
    own = dependents(plan)
    if not own or not all(stage.shareable or stage.by_digits for stage in plan.stages):
        return None
    read = dict.fromkeys(source for stage in plan.stages if stage.id in own for source in _sources(stage, plan))
    sums = [key for source in read if source.id not in own and _has_floats(source) for key in checkpoint_keys(source)]
    found = {one.key: one for one in present(sums)}
    if len(found) < len(sums):
        return None
    made = [(str(one.key), one.rows, one.bytes, one.seconds, one.cpu_seconds) for one in map(found.__getitem__, sums)]
    for losses in range(_MOST_LOSSES):
        named = own_non_deterministic(plan, repr((text, losses, made)))
        outputs = checkpoint_keys(*(stage for stage in named.stages if stage.id in own))
        if not _misses(named, own, {one.key for one in present(outputs)}):
            return named
    return None


def _misses(plan: Plan, own: Collection[StageId], present: Set[CheckpointKey]) -> bool:
    """True if an output is there that rests on one of these stages' outputs that is not."""
    for stage in plan.stages:
        for part in range(stage.width) if stage.id in own else ():
            if checkpoint_key(stage, part) in present and not set(_read(stage, part, plan, own)) <= present:
                return True
    return False


def _read(stage: Stage, part: int, plan: Plan, own: Collection[StageId]) -> Iterator[CheckpointKey]:
    for item in stage.stage_inputs:
        if item.stage in own:
            keys = checkpoint_keys(plan.by_id[item.stage])
            yield from (keys[part],) if item.mode == "forward" else keys


def _sources(stage: Stage, plan: Plan) -> Iterator[Stage]:
    return (plan.by_id[item.stage] for item in stage.stage_inputs)


def _has_floats(stage: Stage) -> bool:
    """False: it puts out the same values each time it is made."""
    return any("DOUBLE" in type_ or "FLOAT" in type_ for _, type_ in stage.columns)
