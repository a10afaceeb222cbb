"""Dollars next to seconds: which plan to run, and on how many of the slots that could be had.

Slots are paid for while they are held, so a query costs price · slots · seconds. More slots end it sooner and leave
more of them idle; a plan with less work may take longer and cost less. What can be had for an option on a number of
slots is an :class:`Offer`; those that no other beats in both dollars and seconds are the Pareto line (:func:`pareto`),
and :class:`Priced` takes one of them: by what a second is worth, or the cheapest that meets a deadline. It goes by the
share at hand alone, whatever should come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from math import inf

from qoop.adaptive.replanning.decision import Decision, DecisionInput, Stay, switch_to
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.slowdown import finish_time
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.planner.finish import Done, Finish
from qoop.planner.plan import Resources


def on_slots(share: Resources, slots: float) -> Resources:
    """As many slots of the kind that the share is made of: memory and network in proportion."""
    factor = slots / share.cpu
    return replace(share, cpu=slots, memory=share.memory * factor, network=share.network * factor)


@value
class Offer:
    """A plan, by its place, on a number of slots: when it would end and what it would cost from now on."""

    place: int
    slots: float
    seconds: float
    dollars: float


def offers(
    finishes: Sequence[Finish], done: Sequence[Done], share: Resources, price: float, slowdown: float = 1.0
) -> tuple[Offer, ...]:
    """Every plan on 1, 2, 4 … slots and three quarters of these, up to all that the share has.

    price: dollars for a slot and second. slowdown: by which factor tasks take longer than estimated.
    """
    found = []
    for place, (finish, far) in enumerate(zip(finishes, done, strict=True)):
        for slots in _numbers(max(1.0, share.cpu)):
            seconds = finish_time(finish, far, on_slots(share, slots), slowdown)
            found.append(Offer(place, slots, seconds, slots * seconds * price))
    return tuple(found)


def pareto(found: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers that none is both as soon and as cheap as, cheapest first.

    >>> line = pareto([Offer(0, 1, 9.0, 1.0), Offer(0, 2, 5.0, 2.0), Offer(1, 2, 6.0, 3.0), Offer(1, 4, 5.0, 2.5)])
    >>> [(one.dollars, one.seconds) for one in line]
    [(1.0, 9.0), (2.0, 5.0)]
    """
    line: list[Offer] = []
    for one in sorted(found, key=lambda one: (one.dollars, one.seconds, one.place, one.slots)):
        if one.seconds < inf and (not line or one.seconds < line[-1].seconds):
            line.append(one)
    return tuple(line)


@value
class Priced:
    """The plan and the number of slots by their price.

    prices: dollars of a slot and second, (from which second of the job on, price), the first from 0.
    worth: dollars that it is worth to end a second sooner. deadline: seconds from the start of the job; if it is given,
    the cheapest offer that ends by then is taken, the one that ends first if there is none, and `worth` does not count.
    hysteresis: another plan must be better by this fraction, in dollars and dollars' worth of seconds, as for
        :class:`~qoop.adaptive.replanning.greedy.Greedy`. Slots may change without.
    """

    prices: tuple[tuple[float, float], ...]
    worth: float = 0.0
    deadline: float | None = None
    hysteresis: float = 0.15
    greedy: Greedy = field(default_factory=Greedy)

    def __post_init__(self) -> None:
        if not self.prices or self.prices[0][0] != 0 or any(price < 0 for _, price in self.prices):
            raise ConfigError("prices are given from 0 seconds on, and are at least 0")

    def price(self, now: float) -> float:
        """Dollars of a slot and second at a second of the job."""
        return self.prices[max(0, bisect_right(self.prices, now, key=lambda step: step[0]) - 1)][1]

    def decide(self, question: DecisionInput) -> Decision:
        found = self.offers(question)
        mine = self.best([one for one in found if one.place == question.running], question.now)
        best = self.best(found, question.now)
        if best is None or mine is None:
            return self.greedy.decide(question)
        if best.place == question.running or not self._much_better(best, mine, question.now):
            return replace(Stay(f"no other plan is worth its price; it takes {mine.slots:g} slots", question.remaining),
                           slots=mine.slots)  # fmt: skip
        return replace(switch_to(question, best.place), slots=best.slots)

    def offers(self, question: DecisionInput) -> tuple[Offer, ...]:
        """All that can be had from now on."""
        finishes = [option.candidate.finish for option in question.options]
        return offers(finishes, question.done, question.share, self.price(question.now), question.slowdown)

    def best(self, found: Sequence[Offer], now: float = 0.0) -> Offer | None:
        """The one to take; None if none of them would ever end."""
        ending = [one for one in found if one.seconds < inf]
        return min(ending, key=lambda one: (self._cost(one, now), one.seconds, one.place), default=None)

    def _cost(self, one: Offer, now: float) -> tuple[float, float]:
        """The quantity to make least: seconds past the deadline first, if there is one."""
        if self.deadline is None:
            return 0.0, one.dollars + self.worth * one.seconds
        return max(0.0, now + one.seconds - self.deadline), one.dollars

    def _much_better(self, best: Offer, mine: Offer, now: float) -> bool:
        (late, cost), (my_lateness, my_cost) = self._cost(best, now), self._cost(mine, now)
        return late < my_lateness or cost < (1.0 - self.hysteresis) * my_cost


def _numbers(most: float) -> list[float]:
    numbers = {most}
    power = 1
    while power < most:
        numbers |= {float(power), max(1.0, power * 3 // 4)}
        power *= 2
    numbers |= {max(1.0, most * 3 // 4)}
    return sorted(numbers)
