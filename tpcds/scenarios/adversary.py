"""An adversary for real plans: the changes of capacity under which re-planning does worst.

For rectangles (paper section 5) greedy switching has a proven bound. For real plans no bound is known, so a search
looks for bad profiles of capacity, in virtual time and on the engine's core. It maximises the time of the adaptive run
over that of the best single plan in hindsight, with the whole profile known. The worst profile is then shrunk to few
events. The ratio is reported, not bounded. Below 1, switching was better than any single plan.

Estimates are true here (every task takes its estimate), so the policy alone is measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.replanning.greedy import Greedy
from qoop.tpcds.scenarios.scenario import Ran, Scenario, Steps

_SAME = 0.98
"""Part of the ratio that a shrunk profile must keep."""


@dataclass(frozen=True)
class Worst:
    """The worst that was found for one query.

    adaptive, hindsight, held: seconds of the adaptive run, of the best single plan, and of the launch plan alone.
    tried: profiles that were run. found: the ratio before the profile was shrunk. others: the ratio of each other
    of `POLICIES` on the same profile, which was not looked for against it.
    """

    steps: Steps
    adaptive: Ran
    hindsight: float
    held: float
    plans: int
    tried: int
    found: float
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.adaptive.seconds / self.hindsight

    def __str__(self) -> str:
        return (
            f"{self.ratio:.2f} x hindsight ({self.adaptive.seconds:.4g} s with {self.adaptive.switches} switches; best"
            f" of {self.plans} plans {self.hindsight:.4g} s; launch plan {self.held:.4g} s): slots {self.steps}"
        )


POLICIES: Mapping[str, Policy] = {"greedy": Greedy(), "naive": Greedy(0.0, 0.0, least_gain=0.0)}
"""The policies that the adversary may play against: the default, and the same without hysteresis."""


def worst(plain: Scenario, policy: str, seed: int, evaluations: int) -> Worst:
    """The worst profile found against one of `POLICIES`, and how the others do on it."""
    found = search(plain.against(POLICIES[policy]), seed, evaluations)
    others = {name: other for name, other in POLICIES.items() if name != policy}
    return replace(found, others={name: plain.against(other).ratio(found.steps) for name, other in others.items()})


def search(
    scenario: Scenario,
    seed: int,
    evaluations: int = 200,
    events: int = 6,
    progress: Callable[[str], None] = lambda _: None,
) -> Worst:
    """Breed profiles for the worst ratio: from random ones by hill climbing with restarts; then shrink the worst.

    evaluations: profiles tried in all. events: changes of capacity in a profile at most.
    """
    chance = random.Random(seed)
    best, best_ratio = _random(scenario, chance, events), 0.0
    here, here_ratio, stale = best, -inf, 0
    for _ in range(evaluations):
        tried = _mutated(scenario, here, chance, events) if here_ratio > -inf else here
        ratio = scenario.ratio(tried)
        stale = 0 if ratio > here_ratio else stale + 1
        if ratio >= here_ratio:
            here, here_ratio = tried, ratio
        if ratio > best_ratio:
            best, best_ratio = tried, ratio
            progress(f"{ratio:.2f} x: {tried}")
        if stale > evaluations // 5:
            here, here_ratio, stale = _random(scenario, chance, events), -inf, 0
    small = shrink(best, lambda steps: scenario.ratio(steps) >= _SAME * best_ratio)
    return Worst(
        small, scenario.run(small), scenario.hindsight(small), scenario.run(small, 0).seconds, len(scenario.plans),
        evaluations, best_ratio,
    )  # fmt: skip


def shrink(steps: Steps, still: Callable[[Steps], bool]) -> Steps:
    """As few changes as still do it: drop one after the other, as long as that is possible (Zeller's ddmin, coarse)."""
    while True:
        smaller = next((one for one in _smaller(steps) if still(one)), None)
        if smaller is None:
            return steps
        steps = smaller


def _smaller(steps: Steps) -> Iterator[Steps]:
    changes = steps.changes
    for place in range(1, len(changes)):
        yield Steps(changes[:place] + changes[place + 1 :])


def _levels(scenario: Scenario) -> list[tuple[int, float]]:
    """1, 2, 4 … slots, up to those there are at the start, with all, a quarter or a sixteenth of the memory."""
    slots = [1]
    while slots[-1] < scenario.slots:
        slots.append(min(2 * slots[-1], scenario.slots))
    return [(count, scenario.memory / part) for count in slots for part in (1, 4, 16)]


def _random(scenario: Scenario, chance: random.Random, events: int) -> Steps:
    count = chance.randint(1, events)
    moments = sorted(chance.uniform(0.0, 3.0) * scenario.undisturbed for _ in range(count))
    levels = _levels(scenario)
    return _tidy([*scenario.calm.changes, *((at, *chance.choice(levels)) for at in moments)])


def _mutated(scenario: Scenario, steps: Steps, chance: random.Random, events: int) -> Steps:
    changes = list(steps.changes)
    kind = chance.choice(("add", "drop", "move", "level", "level"))
    if kind == "add" and len(changes) <= events:
        changes.append((chance.uniform(0.0, 3.0) * scenario.undisturbed, *chance.choice(_levels(scenario))))
    elif kind == "drop" and len(changes) > 1:
        del changes[chance.randrange(1, len(changes))]
    elif kind == "move" and len(changes) > 1:
        place = chance.randrange(1, len(changes))
        changes[place] = (changes[place][0] * chance.uniform(0.7, 1.4), *changes[place][1:])
    elif len(changes) > 1:
        place = chance.randrange(1, len(changes))
        changes[place] = (changes[place][0], *chance.choice(_levels(scenario)))
    return _tidy(changes)


def _tidy(changes: Sequence[tuple[float, int, float]]) -> Steps:
    """In order of time, without changes that change nothing."""
    kept: list[tuple[float, int, float]] = []
    for change in sorted(changes):
        if not kept or kept[-1][1:] != change[1:]:
            kept.append(change)
    return Steps(tuple(kept))
