"""Adversaries: who chooses the units of the next step, knowing what the online algorithm has done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from theory_hindsight import copies_of_best_plan, copies_of_best_plans
from theory_model import Online, Rectangle, State

Adversary = Callable[[Online, State], int | None]
"""The units of the next step; None to stop."""


@dataclass(frozen=True)
class Game:
    """An online algorithm's run against an adversary.

    It is α-competitive there if fewer than α copies are done strictly before it ends: then the α-th copy does not end
    before it.
    """

    online: Online
    allocation: tuple[int, ...]
    held: tuple[int, ...]
    """Of the units offered in each step those that the tasks of the online algorithm held."""
    state: State

    @property
    def copies(self) -> Fraction:
        """Copies that the best single plan does before the online algorithm ends."""
        return copies_of_best_plan(self.online.plans, self.before_the_end(self.allocation))

    @property
    def copies_on_held(self) -> Fraction:
        """The same if that plan gets only the units held."""
        return copies_of_best_plan(self.online.plans, self.before_the_end(self.held))

    @property
    def copies_of_best_plans(self) -> Fraction:
        """The copies of the stronger optimum that may take another plan for every copy."""
        return copies_of_best_plans(self.online.plans, self.before_the_end(self.allocation))

    def before_the_end(self, units: Sequence[int]) -> Sequence[int]:
        return units[:-1] if self.state.finished else units


def play(online: Online, adversary: Adversary, steps: int = 200_000) -> Game:
    """A run until the query ends, the adversary stops or the steps are over."""
    state, allocation, held = online.start, list[int](), list[int]()
    while not state.finished and len(allocation) < steps:
        units = adversary(online, state)
        if units is None:
            break
        then = online.advance(state, units)
        allocation.append(units)
        held.append(then.spent - state.spent)
        state = then
    return Game(online, tuple(allocation), tuple(held), state)


def replay(units: Sequence[int]) -> Adversary:
    """Not an adversary: an allocation fixed beforehand."""
    return lambda _, state: units[state.step] if state.step < len(units) else None


class Starve:
    """The adversary of Theorem 2.1: makes each offer in turn, largest first, until a plan is one step short of done.

    That plan is starved: the next offer is the largest below its size. Where there is none the query is let finish on
    the smallest offer. It is good for one game.
    """

    def __init__(self, offers: Iterable[int]) -> None:
        self.offers = sorted(offers)

    def __call__(self, online: Online, state: State) -> int:
        while len(self.offers) > 1 and (short := self._one_step_short(online, state)) is not None:
            self.offers = [units for units in self.offers if units < short.size] or self.offers[:1]
        return self.offers[-1]

    def _one_step_short(self, online: Online, state: State) -> Rectangle | None:
        """The smallest plan that the present offer would finish."""
        short = (i for i in online.kept if state.left[i] <= online.tasks_a_step(i, self.offers[-1]))
        return next((online.plans[i] for i in short), None)


def starve(online: Online) -> Starve:
    """The adversary that offers the sizes of the plans."""
    return Starve(plan.size for plan in online.plans)


def dodge(choices: Sequence[int]) -> Adversary:
    """Offers what the choices say, over and over, unless it would end the query; stops when anything would."""

    def adversary(online: Online, state: State) -> int | None:
        offers = _offers(online.plans)
        first = choices[state.step % len(choices)]
        turned = (offers[(first + k) % len(offers)] for k in range(len(offers)))
        return next((units for units in turned if not online.advance(state, units).finished), None)

    return adversary


@cache
def _offers(plans: tuple[Rectangle, ...]) -> list[int]:
    """Sizes, their small multiples and one unit less than those, from the smallest plan's size on."""
    offers = {k * plan.size - less for plan in plans for k in (1, 2, 3) for less in (0, 1)}
    return sorted(units for units in offers if units >= min(plan.size for plan in plans))
