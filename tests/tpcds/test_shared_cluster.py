"""Jobs that come and go on a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.adaptive.profiles.shared import SLOTS, JobLifetimes, seconds
from qoop.catalog.errors import ConfigError
from qoop.planner.plan import Estimate, Plan, Stage, StageInput
from qoop.tpcds.simulate.shared_cluster import (
    APART,
    LOAD,
    SPREAD,
    SharedClusterOptions,
    calibrated,
    cluster,
    run,
    save,
    table,
)

COLUMNS = (("x", "INTEGER"),)
SHORT = SharedClusterOptions(Path(), (1,), hours=0.25, warm=0.0)


def plan(name: str, width: int, task_seconds: float) -> Plan:
    estimate = Estimate(task_seconds=task_seconds, task_memory=1e9)
    scan = Stage("scan", "", (), COLUMNS, width, f"{name}/scan", estimate=estimate)
    root = Stage("root", "", (StageInput("i", "scan", "all"),), COLUMNS, 1, f"{name}/root", estimate=estimate)
    return Plan((scan, root), COLUMNS)


def work(plan: Plan) -> float:
    return sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)


def test_the_work_is_calibrated_and_spread() -> None:
    before = {1: plan("a", 9, 1.0), 2: plan("b", 39, 2.0)}
    after = calibrated(before)
    assert (work(after[1]) + work(after[2])) / 2 == pytest.approx(LOAD * APART * SLOTS)
    assert work(after[2]) / work(after[1]) == pytest.approx((work(before[2]) / work(before[1])) ** SPREAD)


def test_a_cluster_says_when_its_jobs_came_and_ended(tmp_path: Path) -> None:
    plans = calibrated({1: plan("a", 2, 1.0), 2: plan("b", 9, 2.0)})
    lifetimes, again = (cluster(plans, 1, SHORT) for _ in range(2))
    assert lifetimes == again
    assert (lifetimes.begin, lifetimes.end) == (0, 900) and max(lifetimes.came) < 900 + 1800
    assert 80 < len(lifetimes.came) < 200  # 135 are to be expected
    assert all(ended > came for came, ended in zip(lifetimes.came, lifetimes.ended, strict=True))
    assert min(seconds(lifetimes)) > 0
    path = save({1: lifetimes, 2: again}, tmp_path / "lives.jsonl")
    assert len([JobLifetimes.from_json(line) for line in path.read_text().splitlines()]) == 2
    assert [line.split()[0] for line in table({1: lifetimes, 2: again}).splitlines()] == [
        "seed",
        "1",
        "2",
        "all",
        "paper",
    ]


def test_nothing_to_look_at_is_refused() -> None:
    for wrong in (
        SharedClusterOptions(Path(), ()),
        SharedClusterOptions(Path(), (1,), hours=0),
        SharedClusterOptions(Path(), (1,), warm=-1),
    ):
        with pytest.raises(ConfigError, match="time to look at"):
            run(wrong)
