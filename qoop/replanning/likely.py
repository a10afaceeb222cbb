"""The shares that a job is likely to be given: what a plan that is chosen once should be good on.

    Moves of the past + shares told so far ──> seconds at each level ─┐
    the share at hand × 1/4 … 4, within the shares that plans were made for ──> a spread ─┴─> (share, weight) …

Nobody who starts a query knows what will come. Where nothing is known of such shares from before, they are taken to lie
around the one at hand, on either side alike by factors, and never beyond what plans were looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from qoop.catalog.value import value
from qoop.planner.plan import Resources
from qoop.replanning.moves import Moves, like

Weighted = tuple[tuple[Resources, float], ...]

SPREAD = ((0.25, 1.0), (0.5, 2.0), (1.0, 4.0), (2.0, 2.0), (4.0, 1.0))
"""Shares relative to the one at hand, and how much each counts: half as much for every factor of two."""


@value
class Likely:
    """A distribution of shares.

    shares: those that count, all alike, whatever is at hand; empty: as the past and the spread have it.
    history: what is known of such shares from before. spread: factors of the share at hand, with their weights.
    """

    shares: tuple[Resources, ...] = ()
    history: Moves = field(default_factory=Moves)
    spread: tuple[tuple[float, float], ...] = SPREAD

    def around(self, at_hand: Resources, most: float) -> Weighted:
        """The shares with their weights, which add up to 1; none is above `most` slots, unless it is the one at hand.

        >>> [(share.cpu, round(weight, 2)) for share, weight in Likely().around(Resources(2), 4)]
        [(1.0, 0.3), (2, 0.4), (4.0, 0.3)]
        """
        if self.shares:
            return _together([(share, 1.0) for share in self.shares])
        past = self.history.merged().seconds
        if sum(past.values()) > 0:
            return _together([(like(share, at_hand), seconds) for share, seconds in past.items() if share.cpu >= 1])
        most = max(most, at_hand.cpu)
        slots = [(min(max(1.0, at_hand.cpu * factor), most), weight) for factor, weight in self.spread]
        return _together([(_on(at_hand, cpu), weight) for cpu, weight in slots])


def _together(found: Sequence[tuple[Resources, float]]) -> Weighted:
    """The same with one weight for each share, relative to all."""
    weights: dict[Resources, float] = {}
    for share, weight in found:
        weights[share] = weights.get(share, 0.0) + weight
    total = sum(weights.values())
    return tuple((share, weight / total) for share, weight in weights.items())


def _on(at_hand: Resources, cpu: float) -> Resources:
    """As many slots, with the memory and the network that go with each."""
    if cpu == at_hand.cpu:
        return at_hand
    part = cpu / max(1.0, at_hand.cpu)
    return replace(at_hand, cpu=cpu, memory=at_hand.memory * part, network=at_hand.network * part)
