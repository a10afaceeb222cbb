"""The model in which re-planning has a bound: plans are rectangles, checkpoints are free and never lost.

A query has several plans, each of b tasks that hold a units of the resource for one step (a :class:`Rectangle`). Time
goes in steps; step t offers a_t units, which an adversary chooses knowing all that was done before. A task once done
stays done, whichever plan runs next, and the query ends when all tasks of *one* plan are done.
:class:`Online` is Pseudocode 2 of "Dynamic Query Re-Planning Using QOOP" (OSDI 2018; appendix A of K. Mahajan's
dissertation, UW-Madison 2021), and has a switch for each part of it whose absence the tests want to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, order=True)
class Rectangle:
    """A plan of ``tasks`` unit-time tasks that hold ``size`` units of the resource each (the paper's a × b)."""

    size: int
    tasks: int

    @property
    def work(self) -> int:
        return self.size * self.tasks


def half_work(plans: Iterable[Rectangle]) -> tuple[Rectangle, ...]:
    """The plans by size, without those that need more than half the work of the one kept before them.

    >>> half_work([Rectangle(4, 1), Rectangle(1, 8), Rectangle(2, 3)])
    (Rectangle(size=1, tasks=8), Rectangle(size=4, tasks=1))
    """
    kept: list[Rectangle] = []
    for plan in sorted(plans):
        if not kept or 2 * plan.work <= kept[-1].work:
            kept.append(plan)
    return tuple(kept)


@dataclass(frozen=True)
class State:
    """The progress of an online algorithm."""

    left: tuple[int, ...]
    """Tasks still to do of each plan."""
    running: int | None = None
    """The plan that ran last."""
    given: int = 0
    """Units that the last step offered."""
    step: int = 0
    spent: int = 0
    """Units held by tasks so far."""

    @property
    def finished(self) -> bool:
        return 0 in self.left


Rule = Callable[["Online", State, Sequence[int], int], int]
"""The choice of one of the plans that fit (by index, smallest first) to run on a number of units."""


def least_time(online: Online, state: State, fitting: Sequence[int], units: int) -> int:
    """The least remaining processing time, that is the fewest unit-time tasks left; ties to the smallest plan."""
    return min(fitting, key=lambda i: state.left[i])


@dataclass(frozen=True)
class Online:
    """Pseudocode 2 over the plans of a query, or what is left of it with a part taken out."""

    plans: tuple[Rectangle, ...]
    rule: Rule = least_time
    prunes: bool = True
    """Leave out plans that do not halve the work of the one kept before."""
    one_task: bool = False
    """At most one task a step, instead of as many as fit."""
    switches: bool = True
    backtracks: bool = True
    """Without, a change of plan loses what the others have done."""
    lazy: bool = True
    """Reconsider only when the allocation changes."""

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The plans that may run, smallest first."""
        candidates = half_work(self.plans) if self.prunes else sorted(self.plans)
        return tuple(self.plans.index(plan) for plan in candidates)

    @property
    def start(self) -> State:
        return State(tuple(plan.tasks for plan in self.plans))

    def tasks_a_step(self, plan: int, units: int) -> int:
        fit = units // self.plans[plan].size
        return min(fit, 1) if self.one_task else fit

    def choose(self, state: State, units: int) -> int | None:
        """The plan to run in a step that offers that many units."""
        fitting = [i for i in self.kept if self.plans[i].size <= units]
        if not self.switches and state.running is not None:
            fitting = [i for i in fitting if i == state.running]
        if not fitting:
            return None
        if self.lazy and units == state.given and state.running in fitting:
            return state.running
        return self.rule(self, state, fitting, units)

    def advance(self, state: State, units: int) -> State:
        """The state after a step that offers that many units."""
        chosen = self.choose(state, units)
        if chosen is None:
            return State(state.left, state.running, units, state.step + 1, state.spent)
        left = list(state.left)
        if not self.backtracks and chosen != state.running:
            left = [plan.tasks for plan in self.plans]
        done = min(left[chosen], self.tasks_a_step(chosen, units))
        left[chosen] -= done
        spent = state.spent + done * self.plans[chosen].size
        return State(tuple(left), chosen, units, state.step + 1, spent)

    def wasted(self, state: State) -> int:
        """Units spent on tasks that the plan which finished does not have."""
        assert state.running is not None and state.finished
        return state.spent - self.plans[state.running].work


def run(online: Online, allocation: Iterable[int]) -> State:
    """The state when the query ends, or at the end of the allocation."""
    state = online.start
    for units in allocation:
        if state.finished:
            break
        state = online.advance(state, units)
    return state
