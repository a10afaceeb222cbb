"""Profiles drawn by chance for one job on one machine: a share that goes from level to level at random.

All other levels are equally likely next, and how long the share stays at one is exponential, which is the model that a
forecast assumes (:mod:`qoop.replanning.moves`); its rates it has to learn.
"""

from __future__ import annotations

import random

from qoop.planner.plan import Resources
from qoop.replanning.moves import Moves
from qoop.tpcds.scenarios.scenario import Scenario, Steps

LENGTH = 20.0
"""The length of a walk, in times of the undisturbed query; its last level stays."""


def walk(scenario: Scenario, stay: float, chance: random.Random) -> Steps:
    """Over 1, 2, 4 … slots, beginning anywhere. stay: mean seconds at a level, in times of the undisturbed query."""
    levels = [1]
    while levels[-1] < scenario.slots:
        levels.append(min(2 * levels[-1], scenario.slots))
    at, slots, changes = 0.0, chance.choice(levels), list[tuple[float, int, float]]()
    while at < LENGTH * scenario.undisturbed:
        changes.append((at, slots, scenario.memory))
        at += chance.expovariate(1.0 / (stay * scenario.undisturbed))
        slots = chance.choice([level for level in levels if level != slots])
    return Steps(tuple(changes))


def seen(scenario: Scenario, stay: float, chance: random.Random, walks: int = 20) -> Moves:
    """The moves of the share that a number of walks show."""
    return sum((_moves(walk(scenario, stay, chance)) for _ in range(walks)), Moves())


def _moves(steps: Steps) -> Moves:
    path = [(at, Resources(slots, slots * memory)) for at, slots, memory in steps.changes]
    return Moves.of(path, path[-1][0])
