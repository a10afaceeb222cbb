"""Optuna proposes the settings of a sweep: one when a trial begins. It learns of all trials."""

from __future__ import annotations

from collections.abc import Iterator

import optuna
import pytest
from optuna.trial import TrialState

import qoop
from qoop.catalog.errors import ConfigError, QueryError

STEP = "SELECT x - $rate * 2 * (x - 3.0) AS x FROM former"
OPTIONS = {"metric": "SELECT (x - 3.0) ^ 2 FROM former", "start": "SELECT 9.0::DOUBLE AS x", "direction": "minimize"}
SPACE = {"rate": qoop.log_uniform(0.001, 1), "kind": ["a", "b"], "k": qoop.int_uniform(1, 5)}


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="300MB") as made:
        yield made


@pytest.fixture
def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="minimize", sampler=optuna.samplers.RandomSampler(seed=1))


@pytest.mark.parametrize("scheduler", ["none", "pop"])
def test_optuna_knows_the_setting_and_the_result_of_every_trial(
    session: qoop.Session, study: optuna.Study, scheduler: str
) -> None:
    text = f"{STEP} WHERE $kind IN ('a', 'b') AND $k < 6"
    sweep = session.sweep(text, SPACE, sampler=study, trials=5, every=2, most=4, scheduler=scheduler, **OPTIONS)
    assert sweep.wait(60) and len(study.trials) >= 5
    last = {one.user_attrs["qoop_trial"]: one for one in study.trials}
    for status, curve in zip(sweep.trials, sweep.curves, strict=True):
        known = last[status.number]
        assert status.params == known.params and status.params.keys() == SPACE.keys()
        assert (known.state, known.value, len(curve)) == (TrialState.COMPLETE, status.value, 4)
    assert study.best_params == sweep.best_params and study.best_value == sweep.best_value
    first = {one.user_attrs["qoop_trial"]: one for one in reversed(study.trials)}
    for number, one in first.items():  # those that waited counted as pruned, with the metrics until then
        seen = [value for _, value in sorted(one.intermediate_values.items())]
        assert seen and seen == sweep.curves[number][: len(seen)]
    assert (TrialState.PRUNED in {one.state for one in study.trials}) == (scheduler == "pop")


def test_it_proposes_when_a_trial_begins_and_learns_of_failures_and_the_end(session: qoop.Session) -> None:
    known: list[int] = []

    class Sampler(optuna.samplers.RandomSampler):
        def sample_independent(self, study: optuna.Study, *of_trial: object) -> object:
            known.append(len(study.get_trials(states=(TrialState.COMPLETE, TrialState.FAIL))))
            return super().sample_independent(study, *of_trial)  # type: ignore[arg-type]

    study = optuna.create_study(direction="maximize", sampler=Sampler(seed=1))
    sweep = session.sweep(
        "SELECT CAST(CASE WHEN $x < 5 THEN 'none' ELSE '7' END AS INT) AS n",
        {"x": qoop.uniform(0, 10)}, sampler=study, trials=8, metric="n", scheduler="none",
    )  # fmt: skip
    assert sweep.wait(60) and sweep.best_value == study.best_value == 7
    found = {one.params["x"] < 5: one.state for one in study.trials}
    assert found == {True: TrialState.FAIL, False: TrialState.COMPLETE} and len(study.trials) == 8
    assert known[0] == 0 and known[-1] >= 6, "settings come one by one"


def test_it_learns_of_trials_that_a_target_cuts_short(session: qoop.Session, study: optuna.Study) -> None:
    sweep = session.sweep(STEP, {"rate": [0.4, 0.5]}, sampler=study, trials=30, most=9, target=1e-6, **OPTIONS)
    assert sweep.wait(60) and sweep.why == "the target was reached" and study.best_value == sweep.best_value
    assert TrialState.RUNNING not in {one.state for one in study.trials} and len(study.trials) < 30
    assert sweep.trials[-1].params == {} and sweep.trials[-1].state == "WAITING"


def test_what_does_not_fit_is_refused_and_leaves_no_trial_running(session: qoop.Session, study: optuna.Study) -> None:
    many = optuna.create_study(directions=["minimize", "maximize"])
    for options, message in (
        ({"sampler": 1}, "sampler must be an Optuna study, as of optuna.create_study, not int"),
        ({"sampler": many}, "the Optuna study has minimize, maximize, and the sweep minimize"),
        ({"sampler": study, "direction": "maximize"}, "the Optuna study has minimize, and the sweep maximize"),
        ({"sampler": study, "params": [{"rate": 1}]}, "params with sampler= must be values or ranges by name"),
        ({"sampler": study, "params": {"rate": "abc"}}, "rate must be a list of values or a range"),
        ({"sampler": study, "name": "rates"}, "cannot be continued: leave name out"),
        ({"sampler": study, "trials": 0}, "trials must be at least 1"),
        ({"sampler": study, "params": {"speed": [1]}}, "rate"),
    ):
        with pytest.raises((ConfigError, QueryError), match=message):
            session.sweep(STEP, **{"params": {"rate": [0.1]}, **OPTIONS, **options})
    assert TrialState.RUNNING not in {one.state for one in study.trials}
