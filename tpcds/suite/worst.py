"""The changes of capacity under which each policy does worst, for some queries: what the adversary finds, as items.

The evaluation of the paper has nothing like it: what :mod:`~qoop.tpcds.scenarios.adversary` breeds against a policy
shows how bad it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from qoop.tpcds.scenarios import adversary
from qoop.tpcds.scenarios.adversary import POLICIES
from qoop.tpcds.scenarios.scenario import Scenario, scenarios

QUERIES, QUICK_QUERIES = 10, 2
TRIES, QUICK_TRIES = 200, 40
"""Profiles that are run for a policy and a query."""
STATS_SCALE, SLOTS = 100.0, 16
"""Rows are as at that scale, for tables of scale 1; the slots at the start."""


@dataclass(frozen=True, slots=True)
class Duel:
    """The adversary against one policy on one query. directory: tables of scale 1. tries: profiles it may run."""

    directory: Path
    query: int
    policy: str
    seed: int
    tries: int


def items(directory: Path, queries: Sequence[int], seed: int, tries: int) -> dict[str, Duel]:
    """Every policy on every query, by name, the first query before the second."""
    return {
        f"{tries} tries: {policy}, query {query}": Duel(directory, query, policy, seed, tries)
        for query in queries
        for policy in POLICIES
    }


def measure(duel: Duel) -> dict[str, Any]:
    """The worst that was found, as JSON values.

    ratio: of the adaptive run to the best single plan in hindsight; held: of the launch plan on the same profile;
    others: of each other policy there. switches: of the adaptive run.
    """
    worst = adversary.worst(_scenario(duel.directory, duel.query), duel.policy, duel.seed, duel.tries)
    return {
        "policy": duel.policy,
        "query": duel.query,
        "ratio": worst.ratio,
        "held": worst.held / worst.hindsight,
        "switches": worst.adaptive.switches,
        "plans": worst.plans,
        "others": dict(worst.others),
    }


@lru_cache(maxsize=2)
def _scenario(directory: Path, query: int) -> Scenario:
    """The query with the plans that it keeps, also for the next policy: to find them takes seconds."""
    ((_, scenario),) = scenarios(directory, (query,), STATS_SCALE, SLOTS)
    return scenario
