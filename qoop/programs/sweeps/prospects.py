"""The chance that a curve of scores reaches a level within some more steps.

A bank of curves is drawn once. Each is weighted by how well it fits the scores so far, the late ones most; the chance
is their weighted mean (importance sampling). The priors are those of learning curves: they rise, and fall off in pace.
Source: Domhan, Springenberg and Hutter, IJCAI 2015, whose curves and likelihood these are, without their sampler.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from qoop.catalog.value import value
from qoop.programs.sweeps.messages import Predict, Predicted

if TYPE_CHECKING:
    from collections.abc import Sequence

CURVES, _FEWEST_CURVES = 20_000, 2_000
"""Of a bank. With 6,000 a trial that reaches the target late is taken for a poor one in one set of eight."""
_VALUES = 2_560_000
"""Of a bank, at most: a longer one has fewer curves."""
_NOISE = 0.012
_SHARPNESS = 0.35
_SEED = 20170
_START, _LEVEL = 0.1, 0.7
"""The places, among curves from 0 to 1, of the first score and the level, where scores are not between 0 and 1."""
_NORMAL = 1.702
"""The logistic curve of this steepness is within 0.01 of the normal distribution."""
_LEAST_WEIGHT = 1e-6
"""Curves with less, relative to the best, are left out."""


@value
class Prospect:
    """p: the chance of the level within the steps ahead. steps: the sum of steps weighted by the chance that the level
    is first reached there; it is not divided by p (HyperDrive, algorithm 1)."""

    p: float
    steps: float


def prospect(scores: Sequence[float], level: float, ahead: int) -> Prospect | None:
    """The chance that later scores reach a level; None if the scores cannot tell.

    scores: at least one, higher is better. ahead: the number of further steps, at least 1.
    """
    import numpy as np

    known = np.asarray(scores, dtype="float64")
    scaled = _scaled(known, level)
    if scaled is None:
        return None
    known, level = scaled
    number = len(known)
    curves = _bank(_rounded(number + ahead))
    late = 10.0 ** (np.arange(number) / number) * (_SHARPNESS / 2)
    # einsum: products of matrices would take threads of BLAS, which wait for one another while the slots are busy
    misfit = np.einsum("ij,j->i", ((curves[:, :number] - known.astype("float32")) / _NOISE) ** 2, late)
    least = misfit.min()
    coarse = max(1.0, least / late.sum())  # the variance of scores that no curve of the bank is close to
    weights = np.exp((least - misfit) / coarse)
    likely = weights > _LEAST_WEIGHT
    weights = weights[likely] / weights[likely].sum()
    later = curves[likely, number : number + ahead]
    distance = np.clip(_NORMAL * (level - later) / (_NOISE * coarse**0.5), -60.0, 60.0)
    chances = np.einsum("i,ij->j", weights, 1.0 / (1.0 + np.exp(distance)))
    chances = np.maximum.accumulate(chances)
    first = np.diff(chances, prepend=0.0)
    return Prospect(float(chances[-1]), float(first @ np.arange(1, ahead + 1)))


def predicted(order: Predict, scores: Sequence[float]) -> Predicted:
    """The answer to an order. scores: of the trial so far."""
    found = prospect(scores, order.level, order.ahead)
    p, steps = (found.p, found.steps) if found is not None else (-1.0, 0.0)
    return Predicted(order.trial, order.number, p, steps)


def _scaled(scores: Any, level: float) -> tuple[Any, float] | None:
    """Scores and level as those of the bank, between 0 and 1."""
    if scores.min() >= 0.0 and scores.max() <= 1.0 and 0.0 < level <= 1.0:
        return scores, level
    span = level - scores[0]
    if span <= 0 or not (abs(span) < float("inf")):
        return None
    return _START + (_LEVEL - _START) * (scores - scores[0]) / span, _LEVEL


def _rounded(steps: int) -> int:
    """The length of the bank for a number of steps, so that few lengths are made."""
    length = 128
    while length < steps:
        length *= 2
    return length


@cache
def _bank(steps: int) -> Any:
    """Curves by rows: a third each of Weibull, MMF and power curves."""
    import numpy as np

    random, curves = np.random.default_rng(_SEED), min(CURVES, max(_FEWEST_CURVES, _VALUES // steps))
    x = np.arange(1, steps + 1, dtype="float64")[None, :]
    start, shape = random.uniform(0, 0.2, (curves, 1)), random.uniform(0.4, 1.6, (curves, 1))
    end = np.maximum(random.uniform(0.1, 1.0, (curves, 1)), start)
    scale = np.exp(random.uniform(np.log(2.0), np.log(400.0), (curves, 1)))
    third = curves // 3
    part = np.concatenate(
        [
            np.exp(-((x / scale[:third]) ** shape[:third])),
            1 / (1 + (x / scale[third : 2 * third]) ** shape[third : 2 * third]),
            (1 + x / scale[2 * third :]) ** -shape[2 * third :],
        ]
    )
    return (end - (end - start) * part).astype("float32")
