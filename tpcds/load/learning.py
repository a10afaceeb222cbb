"""Weights for :class:`~qoop.schedulers.learned.Learned`: first imitated, then improved by chance in the simulator.

Imitation: from runs under the heuristic, for grants drawn at random, the job that it chose is told apart from the
others of its tenant (conditional logit, McFadden 1974). Improvement: evolution strategies (Salimans et al., "Evolution
Strategies as a Scalable Alternative to Reinforcement Learning", 2017): weights are moved towards those of pairs of
random steps under which runs went better. The runs are of seeds that no evaluation uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from qoop.engine.events import Grant
from qoop.engine.task import MachineId
from qoop.planner.packing import Available
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.learned import FEATURES, Learned, features
from qoop.schedulers.urgency import Urgency
from qoop.schedulers.waiting import Waiting
from qoop.tpcds.load import playing
from qoop.tpcds.load.measures import Summary
from qoop.tpcds.load.playing import Item

FIRST_SEED = 1001
"""Seeds from here on are for learning."""

Weights = tuple[float, ...]
Choice = tuple[Sequence[float], Sequence[Sequence[float]]]
"""The features of the job that was chosen, and of the others."""


@dataclass(eq=False)
class Watched(Scheduler):
    """The heuristic, which notes some of its choices. often: the part of them."""

    often: float
    seed: int
    choices: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._policy = Urgency()
        self._chance = random.Random(self.seed)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        grant = self._policy.next_grant(requests, availability, now)
        if grant is not None and self._chance.random() < self.often:
            self._note(grant, Waiting.of(requests), now)
        return grant

    def _note(self, grant: Grant, requests: Sequence[Request], now: float) -> None:
        chosen = next(one for one in requests if one.job == grant.job)
        others = [one for one in requests if one.tenant == chosen.tenant and one is not chosen]
        if others:
            self.choices.append((features(chosen, now), [features(one, now) for one in others]))


def imitated(items: Sequence[Item], often: float = 0.02, steps: int = 400, pull: float = 0.01) -> Weights:
    """Weights under which what the heuristic chose has the highest score. pull: of weights towards 0."""
    choices: list[Choice] = []
    for item in items:
        watched = Watched(often, item.seed)
        playing.summarised(item, watched)
        choices += watched.choices
    weights = np.zeros(len(FEATURES))
    for _ in range(steps):
        weights += 0.5 * (_mean_slope(choices, weights) - pull * weights)
    return normal(weights)


def _mean_slope(choices: Sequence[Choice], weights: np.ndarray) -> np.ndarray:
    """The slope of the likelihood of the choices in each weight."""
    return np.asarray(np.mean([_slope(choice, weights) for choice in choices], axis=0))


def _slope(choice: Choice, weights: np.ndarray) -> np.ndarray:
    rows = np.array([choice[0], *choice[1]])
    scores = rows @ weights
    likely = np.exp(scores - scores.max())
    return np.asarray(rows[0] - (likely / likely.sum()) @ rows)


def normal(weights: np.ndarray) -> Weights:
    """The same order of jobs, from weights whose absolute values sum to 1."""
    total = float(np.abs(weights).sum()) or 1.0
    return tuple(round(float(one) / total, 3) for one in weights)


@dataclass(frozen=True)
class Learning:
    """items: runs, each to be judged against the same under the heuristic. pairs: of steps a round. size: of a step."""

    items: Sequence[Item]
    rounds: int = 12
    pairs: int = 6
    size: float = 0.15
    seed: int = 1

    def improved(self, weights: Weights, told: Callable[[str], object], pool: Executor) -> Weights:
        """Better weights, if any are found. told: hears of each round."""
        chance = np.random.default_rng(self.seed)
        base = list(pool.map(playing.summarised, [replace(one, policy="urgency") for one in self.items]))
        best, least = weights, self._loss([weights], base, pool)[0]
        current = np.array(weights)
        for number in range(1, self.rounds + 1):
            steps = chance.normal(size=(self.pairs, len(FEATURES)))
            tries = [normal(current + sign * self.size * step) for step in steps for sign in (1, -1)]
            losses = self._loss(tries, base, pool)
            ranks = np.argsort(np.argsort(losses)) / (len(losses) - 1) - 0.5  # by rank: one bad run does not rule
            current -= self.size * sum(
                (ranks[2 * i] - ranks[2 * i + 1]) * step for i, step in enumerate(steps)
            ) / self.pairs  # fmt: skip
            found = [*zip(losses, tries, strict=True), (self._loss([normal(current)], base, pool)[0], normal(current))]
            if min(found)[0] < least:
                least, best = min(found)
            told(f"round {number}: {min(losses):.3f}, best so far {least:.3f} with {best}")
        return best

    def _loss(self, tries: Sequence[Weights], base: Sequence[Summary], pool: Executor) -> list[float]:
        items = [replace(one, policy=repr(Learned(weights=weights))) for weights in tries for one in self.items]
        found = list(pool.map(playing.summarised, items))
        size = len(self.items)
        return [
            fmean(loss(one, other) for one, other in zip(found[i * size : (i + 1) * size], base, strict=True))
            for i in range(len(tries))
        ]


def loss(one: Summary, base: Summary) -> float:
    """A run against the heuristic's: 0 if alike, below if better. Time, misses, unfairness count alike."""
    return (one.mean / base.mean - 1.0) + (base.met - one.met) + max(0.0, one.rho_tenant / base.rho_tenant - 1.0)
