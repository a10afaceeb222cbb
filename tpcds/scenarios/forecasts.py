"""Greed and forecasts on profiles drawn by chance: how near does each come to the best single plan in hindsight?

The counterpart of :mod:`~qoop.tpcds.scenarios.adversary`, whose profiles are bred for the worst; here they are random
walks (:mod:`~qoop.tpcds.scenarios.walks`). A forecast learns their rates from its own run alone, or from walks before
it. Belief and truth are the same, so what is measured is the policy alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path

from qoop.replanning.decision import Policy
from qoop.replanning.forecast import Forecast
from qoop.replanning.greedy import Greedy
from qoop.tpcds.scenarios.scenario import Scenario, Steps, scenarios
from qoop.tpcds.scenarios.walks import gloom, seen, walk

STAYS = (0.1, 0.3, 1.0)
"""The mean time that the share stays at a level, in times of the undisturbed query."""


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """The runs to make. stats_scale: rows as at that scale. slots: at most. count: profiles for each query and stay."""

    directory: Path
    queries: tuple[int, ...]
    stats_scale: float = 100.0
    slots: int = 16
    count: int = 10
    seed: int = 1


@dataclass(frozen=True)
class Drawn:
    """The runs of one query under one profile, in seconds. stay: see `STAYS`. switches: by policy."""

    query: int
    stay: float
    hindsight: float
    seconds: Mapping[str, float]
    switches: Mapping[str, int]


def run(options: ForecastOptions, told: Callable[[str], None] = lambda line: None) -> list[Drawn]:
    """All queries under all profiles. Raises ConfigError, SourceError."""
    found: list[Drawn] = []
    for query, scenario in scenarios(options.directory, options.queries, options.stats_scale, options.slots):
        for stay in STAYS:
            chance = random.Random(f"{options.seed} {query} {stay}")
            policies = policies_for(scenario, stay, chance)
            found += [
                _drawn(query, scenario, stay, policies, walk(scenario, stay, chance)) for _ in range(options.count)
            ]
        told(f"query {query}: {len(scenario.plans)} plans")
    return found


def policies_for(scenario: Scenario, stay: float, chance: random.Random) -> dict[str, Policy]:
    """Greed, and forecasts that know nothing, what other profiles of the kind have shown, or what is wrong."""
    past = seen(scenario, stay, chance)
    return {
        "launch plan": Greedy.asking(1.0),
        "greed": Greedy(),
        "learning": Forecast(),
        "forecast": Forecast(past),
        "no guard": Forecast(past, risk=inf),
        "gloom": Forecast(gloom(scenario)),
        "gloom unguarded": Forecast(gloom(scenario), risk=inf),
    }


def table(found: Sequence[Drawn]) -> str:
    """By stay and policy: seconds by those of the best plan in hindsight, and how often it was not as greed."""
    lines = ["", "stay  policy          : hindsight (geometric mean, worst)   : greed   sooner  later   switches"]
    for stay in STAYS:
        here = [one for one in found if one.stay == stay]
        for name in here[0].seconds if here else ():
            lines.append(_line(stay, name, here))
    return "\n".join(lines)


def to_json(found: Sequence[Drawn]) -> list[dict[str, object]]:
    """The runs as JSON values."""
    return [
        {"query": one.query, "stay": one.stay, "hindsight": one.hindsight, "seconds": dict(one.seconds),
         "switches": dict(one.switches)}
        for one in found
    ]  # fmt: skip


def _drawn(query: int, scenario: Scenario, stay: float, policies: Mapping[str, Policy], steps: Steps) -> Drawn:
    runs = {name: scenario.against(policy).run(steps) for name, policy in policies.items()}
    seconds, switches = {n: one.seconds for n, one in runs.items()}, {n: one.switches for n, one in runs.items()}
    return Drawn(query, stay, scenario.hindsight(steps), seconds, switches)


def _line(stay: float, name: str, here: Sequence[Drawn]) -> str:
    ratios = [one.seconds[name] / one.hindsight for one in here]
    to_greed = [one.seconds[name] / one.seconds["greed"] for one in here]
    sooner, later = sum(one < 0.99 for one in to_greed), sum(one > 1.01 for one in to_greed)
    switches = sum(one.switches[name] for one in here) / len(here)
    return (
        f"{stay:4g}  {name:15} {_mean(ratios):6.3f} {max(ratios):6.2f}                      {_mean(to_greed):6.3f}"
        f"   {sooner / len(here):5.0%}   {later / len(here):5.0%}   {switches:4.2f}"
    )


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))
