"""The demand of a plan: the number of slots from which on more of them do not let it end sooner.

That is what a job tells the scheduler of its plan (the dual of the share it is told), and no more: see
:mod:`qoop.schedulers.demand_aware`.
"""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.finish import Done, Finish
from qoop.planner.plan import Resources

TOLERANCE = 0.05
"""Part of its time that a plan may take longer for having no more slots than it asks for. Less than what makes a policy
change plan, so that a job is content with what it has asked for."""


def on_slots(share: Resources, slots: float) -> Resources:
    """As many slots of the kind that the share is made of: memory and network in proportion."""
    factor = slots / share.cpu
    return replace(share, cpu=slots, memory=share.memory * factor, network=share.network * factor)


def useful_resources(finish: Finish, done: Done, share: Resources, tolerance: float = TOLERANCE) -> Resources:
    """The least resources, of the kind of a share, on which the rest of a plan ends nearly as soon as on any.

    Found by bisection, which takes the finish time to fall with the slots; where it does not, by a step of list
    scheduling (Graham's anomalies), the answer is still a size on which it is as good.
    """
    left = finish.needed(done)
    most = int(sum(count * task.slots for count, task in zip(left, finish.tasks, strict=True)))
    few, enough = 0, max(1, most)
    best = finish.seconds(on_slots(share, enough), done)
    while enough - few > max(1, few // 32):
        middle = (few + enough) // 2
        if finish.seconds(on_slots(share, middle), done) <= (1.0 + tolerance) * best:
            enough = middle
        else:
            few = middle
    return on_slots(share, enough)
