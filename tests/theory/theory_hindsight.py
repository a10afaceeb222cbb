"""The optimum that knows the whole allocation, and the exact worst case of an online algorithm against it.

It is made to run copies of the query back to back; ratios count copies, and a part of a copy counts as the part of its
plan's tasks that is done. A copy may start in the very step in which the one before it ends, which favours the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from theory_model import Online, Rectangle, State


def copies_of_best_plan(plans: Sequence[Rectangle], allocation: Sequence[int], one_task: bool = False) -> Fraction:
    """Copies done by the end of the allocation if one plan, the best, serves them all: the tasks that fit, counted."""

    def tasks(plan: Rectangle) -> int:
        fit = (units // plan.size for units in allocation)
        return sum(min(n, 1) for n in fit) if one_task else sum(fit)

    return max(Fraction(tasks(plan), plan.tasks) for plan in plans)


def copies_of_best_plans(plans: Sequence[Rectangle], allocation: Sequence[int]) -> Fraction:
    """Copies done by the end of the allocation if each may have another plan.

    By dynamic programming over copies: what counts of copies 1 … k is the earliest moment at which they can be done,
    where a moment is a step and the units used of it. Ending earlier never hurts the copies that follow.
    """
    copies, moment = 0, (0, 0)
    while True:
        ends = [_end(plan, allocation, moment) for plan in plans]
        done = [end for end in ends if not isinstance(end, Fraction)]
        if not done:
            return copies + max(end for end in ends if isinstance(end, Fraction))
        copies, moment = copies + 1, min(done)


def _end(plan: Rectangle, allocation: Sequence[int], moment: tuple[int, int]) -> tuple[int, int] | Fraction:
    """The end, on a plan, of a copy begun at a moment, or the part of it that is done when the allocation is over."""
    step, used = moment
    left = plan.tasks
    while step < len(allocation):
        done = min(left, (allocation[step] - used) // plan.size)
        left -= done
        if not left:
            return step, used + done * plan.size
        step, used = step + 1, 0
    return Fraction(plan.tasks - left, plan.tasks)


def copies_of_any_schedule(plans: Sequence[Rectangle], allocation: Sequence[int]) -> Fraction:
    """The same by trying every order of tasks of all plans: exponential, to check the others by."""
    fresh = tuple(plan.tasks for plan in plans)

    @cache
    def most(step: int, units: int, left: tuple[int, ...]) -> Fraction:
        if 0 in left:
            return 1 + most(step, units, fresh)
        best = max(Fraction(plan.tasks - n, plan.tasks) for plan, n in zip(plans, left, strict=True))
        if step + 1 < len(allocation):
            best = max(best, most(step + 1, allocation[step + 1], left))
        for i, plan in enumerate(plans):
            if plan.size <= units:
                best = max(best, most(step, units - plan.size, (*left[:i], left[i] - 1, *left[i + 1 :])))
        return best

    return most(0, allocation[0], fresh) if allocation else Fraction(0)


def worst_copies(online: Online, held: bool = False) -> Fraction:
    """The most copies, over ALL allocations, that the best single plan does before the online algorithm ends.

    With ``held`` that plan gets only the units which the tasks of the online algorithm hold. For a given plan its tasks
    add up over the steps, so that the worst allocation is a longest path through the states of the online algorithm
    (which must neither lose work nor depend on its last choice). Only multiples of the plans' sizes need be offered:
    between two of them nothing changes for anybody.
    """
    bound = max(online.plans[i].work for i in online.kept)
    offers = sorted({k * plan.size for plan in online.plans for k in range(1, bound // plan.size + 1)})
    offers = [units for units in offers if units >= online.plans[online.kept[0]].size]

    @cache
    def unfinished(left: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        after = ((units, online.advance(State(left), units)) for units in offers)
        return tuple((state.spent if held else units, state.left) for units, state in after if not state.finished)

    @cache
    def most_tasks(left: tuple[int, ...], size: int) -> int:
        return max((units // size + most_tasks(then, size) for units, then in unfinished(left)), default=0)

    return max(Fraction(most_tasks(online.start.left, plan.size), plan.tasks) for plan in online.plans)
