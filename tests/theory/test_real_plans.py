"""The bound of the theory on real plans: a run that may change plan, and one that may not, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_plan_runs import Scenario, Steps

from qoop.adaptive.replanning.decision import DecisionInput, Stay
from qoop.adaptive.replanning.greedy import Greedy
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Grid
from qoop.session.opening import connect
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import at_scale

MEMORY = 1e9


class Stubborn:
    """Never changes plan."""

    def decide(self, question: DecisionInput) -> Stay:
        return Stay("it never does", question.remaining)


@pytest.fixture(scope="module")
def scenario(tpcds_small: Path, benchmark_texts: None) -> Scenario:
    """TPC-DS query 95, as at scale 1000, with plans for 16 slots of 1 GB and less."""
    with connect(slots=2, statistics="full") as session:
        session.register_folder(tpcds_small)
        prepared = at_scale(session.prepare(text(95)), 1000)
        kept = keep(pool(prepared.planning(), Grid.of((1, 4, 16), (MEMORY / 4, MEMORY), threads=1))).kept
    assert len(kept) > 1
    return Scenario(kept, prepared.tables, slots=16, memory=MEMORY)


def test_with_nothing_changing_the_adaptive_run_takes_what_the_best_plan_takes(scenario: Scenario) -> None:
    calm = scenario.calm
    hysteresis = Greedy().hysteresis
    assert scenario.run(calm).seconds <= scenario.hindsight(calm) / (1 - hysteresis) + 0.02


def test_a_policy_that_never_changes_plan_takes_what_its_launch_plan_takes(scenario: Scenario) -> None:
    pinned = Scenario(scenario.plans, scenario._tables, 16, MEMORY, policy=Stubborn())
    for steps in (Steps(((0.0, 16, MEMORY), (0.0001, 1, MEMORY))), Steps(((0.0, 1, MEMORY),))):
        assert pinned.run(steps).seconds == pinned.run(steps, 0).seconds
