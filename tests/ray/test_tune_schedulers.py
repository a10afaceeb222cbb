"""Schedulers of Ray Tune decide about the trials of a sweep, as they do in Ray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import qoop
from qoop.catalog.errors import ConfigError, ExecutionError

pytestmark = pytest.mark.ray

STEP = "SELECT x - $rate * 2 * (x - 3.0) AS x FROM former"
OPTIONS = {"metric": "SELECT (x - 3.0) ^ 2 FROM former", "start": "SELECT 9.0::DOUBLE AS x", "direction": "minimize"}
RATES = [0.45, 0.3, 0.2, 0.1, 0.05, 0.01, 0.005, 0.001]


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="300MB") as made:
        yield made


def by_hand(scheduler: Any, most: int) -> list[int]:
    """The steps of each trial, one trial after the other, by the decisions of a scheduler on the true metrics."""
    from types import SimpleNamespace

    steps = []
    for number, rate in enumerate(RATES):
        trial, x = SimpleNamespace(trial_id=str(number)), 9.0
        scheduler.on_trial_add(None, trial)
        for step in range(1, most + 1):
            x -= rate * 2 * (x - 3.0)
            found = scheduler.on_trial_result(None, trial, {"training_iteration": step, "value": (x - 3.0) ** 2})
            if found == "STOP" or step == most:
                break
        steps.append(step)
    return steps


def test_asha_stops_the_same_trials_at_the_same_steps(session: qoop.Session) -> None:
    from ray.tune.schedulers import ASHAScheduler

    def asha(**named: str) -> ASHAScheduler:
        return ASHAScheduler(max_t=20, grace_period=2, reduction_factor=2, **named)

    sweep = session.sweep(STEP, {"rate": RATES}, scheduler=asha(), most=9, **OPTIONS)
    assert sweep.wait(60) and sweep.best_params == {"rate": 0.45}
    expected = by_hand(asha(metric="value", mode="min"), 9)
    assert [one.steps for one in sweep.trials] == expected and 2 in expected and 9 in expected
    assert [one.state for one in sweep.trials] == ["PRUNED" if n < 9 else "COMPLETE" for n in expected]


def test_a_scheduler_with_names_of_its_own_and_one_that_needs_more_of_ray(session: qoop.Session) -> None:
    from ray.tune.schedulers import ASHAScheduler, HyperBandScheduler, MedianStoppingRule

    named = ASHAScheduler(metric="loss", mode="min", max_t=9, grace_period=2)
    assert session.sweep(STEP, {"rate": RATES}, scheduler=named, most=9, **OPTIONS).wait(60)
    with pytest.raises(ConfigError, match="has mode=max, and the sweep minimize"):
        session.sweep(STEP, {"rate": RATES}, scheduler=ASHAScheduler(metric="loss", mode="max"), **OPTIONS)
    median = MedianStoppingRule(grace_period=0, min_samples_required=2)
    assert session.sweep(STEP, {"rate": RATES}, scheduler=median, most=9, **OPTIONS).wait(60)
    study = session.sweep(STEP, {"rate": RATES}, scheduler=HyperBandScheduler(max_t=9), most=9, **OPTIONS)
    with pytest.raises(ExecutionError, match="HyperBandScheduler cannot decide about trials of a sweep"):
        study.wait(60)
