"""Sweeps on curves of scores that are known: how long each policy takes until a trial reaches the target.

The program of :mod:`qoop.programs.sweeps` runs as it does in a session; steps take virtual time. The curves are those
of a small network on CIFAR-10 as the source of POP describes them (HyperDrive, Middleware 2017, section 6): a third
learn nothing, a fifth little, some of the rest reach 77 % in 120 steps. `late` ones are flat, and rise long after the
first boundary; some fall back. No curve of the predictor's bank does so.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Literal

from qoop.adaptive.program import Begin
from qoop.programs.sweeps.messages import Message, Predict, RunStep, TrialStepEnded
from qoop.programs.sweeps.policies import NAMES
from qoop.programs.sweeps.prospects import predicted
from qoop.programs.sweeps.sweep import Sweep, Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

TARGET, STEPS, HOURS = 0.77, 120, 24
_TRIALS, _FLAT, _NOISE = 100, 0.1, 0.006
_PREDICTION = 0.05 / 60
"""Minutes of a slot that a prediction takes."""
Kind = Literal["usual", "late"]


@dataclass(frozen=True)
class Curve:
    """scores: by step. minutes: of a step."""

    scores: Sequence[float]
    minutes: float


@dataclass(frozen=True)
class Figure:
    """hours: of the runs of a policy on one set, in its orders; those that fail take the whole limit.
    succeeded: the part that reached the target."""

    policy: str
    hours: tuple[float, ...]
    succeeded: float

    @property
    def mean(self) -> float:
        return mean(self.hours)

    @property
    def spread(self) -> float:
        return max(self.hours) - min(self.hours)

    def __str__(self) -> str:
        return _line(self.policy, self.mean, self.spread, self.succeeded)


def _line(policy: str, hours: float, spread: float, succeeded: float) -> str:
    return f"{policy:10} {hours:6.2f} h, {spread:6.2f} between orders, {succeeded:4.0%} succeed"


def curves(seed: int, kind: Kind = "usual") -> list[Curve]:
    """A set of trials."""
    import numpy as np

    source = np.random.default_rng(seed)
    draw = partial(_usual, source) if kind == "usual" else partial(_late, source)
    steps = np.arange(1, STEPS + 1)
    return [
        Curve(
            np.clip(draw(steps) + source.normal(0, _NOISE, STEPS), 0, 1).tolist(),
            float(np.exp(source.normal(0, 0.15))),
        )
        for _ in range(_TRIALS)
    ]


def _usual(source: np.random.Generator, steps: np.ndarray) -> np.ndarray:
    import numpy as np

    kind = source.random()
    if kind < 0.32:
        return np.full(len(steps), _FLAT)
    if kind < 0.54:
        end, scale, shape = source.uniform(0.12, 0.22), source.uniform(5, 60), 1.0
    else:
        end = min(0.785, 0.22 + 0.60 * source.beta(1.5, 1.1))
        scale, shape = np.exp(source.normal(np.log(14), 0.8)), source.uniform(0.5, 1.1)
    return end - (end - _FLAT) * np.exp(-((steps / scale) ** shape))


def _late(source: np.random.Generator, steps: np.ndarray) -> np.ndarray:
    import numpy as np

    kind = source.random()
    if kind < 0.5:
        return np.full(len(steps), _FLAT)
    end, middle = source.uniform(0.3, 0.8), source.uniform(25, 80)
    risen = _FLAT + (end - _FLAT) / (1 + np.exp(-(steps - middle) / 4))
    falls = kind < 0.65
    return np.where(steps > middle + source.uniform(5, 30), _FLAT, risen) if falls else risen


def reachable(trials: Sequence[Curve]) -> int:
    """The number of trials that reach the target."""
    return sum(max(one.scores) >= TARGET for one in trials)


def simulated(policy: str, trials: Sequence[Curve], slots: int, every: int = 10) -> tuple[float, Sweep]:
    """Run a sweep in virtual time. Returns its hours and its last state."""
    states = tuple(Trial(turn=number) for number in range(len(trials)))
    sweep, orders = Sweep(policy, states, slots, every, STEPS, TARGET, 60.0 * HOURS).after(Begin())
    events: list[tuple[float, int, Message]] = []
    now, number = 0.0, 0
    while True:
        for order in orders:
            match order:
                case RunStep(trial, step):
                    took = trials[trial].minutes
                    ended: Message = TrialStepEnded(trial, step, trials[trial].scores[step], took, now + took)
                    heapq.heappush(events, (now + took, number, ended))
                case Predict(trial):
                    found = predicted(order, sweep.trials[trial].scores)
                    heapq.heappush(events, (now + _PREDICTION, number, found))
            number += 1
        if sweep.state == "ended":
            return min(now / 60, float(HOURS)), sweep
        now, _, message = heapq.heappop(events)
        sweep, orders = sweep.after(message)


def compared(trials: Sequence[Curve], slots: int, orders: int, policies: Sequence[str] = NAMES) -> list[Figure]:
    """Every policy on the same trials, in the same orders."""
    return [_figure(policy, trials, slots, orders) for policy in policies]


def _figure(policy: str, trials: Sequence[Curve], slots: int, orders: int) -> Figure:
    hours, succeeded = [], 0
    for order in range(orders):
        shuffled = list(trials)
        random.Random(order).shuffle(shuffled)
        took, sweep = simulated(policy, shuffled, slots)
        succeeded += sweep.why == "the target was reached"
        hours.append(took)
    return Figure(policy, tuple(hours), succeeded / orders)


def means(policy: str, figures: Sequence[Figure]) -> str:
    """The means over sets, as a line."""
    return _line(
        policy, *(mean(found) for found in zip(*((o.mean, o.spread, o.succeeded) for o in figures), strict=True))
    )


def run(sets: int, orders: int, slots: int, kind: Kind, tell: Callable[[str], object]) -> dict[str, list[Figure]]:
    """Every policy on sets of trials one of which can reach the target at least; figures by policy."""
    found: dict[str, list[Figure]] = {policy: [] for policy in NAMES}
    seed = done = 0
    while done < sets:
        trials = curves(seed, kind)
        seed += 1
        if not reachable(trials):
            continue
        done += 1
        tell(f"set {done}: {reachable(trials)} of {len(trials)} trials can reach {TARGET}, {slots} slots")
        for figure in compared(trials, slots, orders):
            tell(f"  {figure}")
            found[figure.policy].append(figure)
    return found
