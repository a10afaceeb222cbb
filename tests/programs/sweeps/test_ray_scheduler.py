"""An object with Ray Tune's `on_trial_result` decides about the trials of a sweep; tests/ray has Ray's own ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import qoop
from qoop.catalog.errors import ConfigError, ExecutionError, QoopError


class Halving:
    """Stops the trials above 3 after two steps, lets the first wait once, and keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, float]] = []

    def on_trial_result(self, controller: object, trial: Any, result: Mapping[str, Any]) -> str:
        self.seen.append((trial.trial_id, result["training_iteration"], result["value"]))
        if result["training_iteration"] == 2 and result["config"]["to"] > 3:
            return "STOP"
        return "PAUSE" if self.seen[-1][:2] == ("0", 1) else "CONTINUE"


def test_it_sees_each_step_and_its_decisions_hold() -> None:
    options = {"metric": "x", "start": "SELECT 0.0::DOUBLE AS x", "most": 4}
    with qoop.connect(slots=1, memory="300MB") as session:
        halving = Halving()
        study = session.sweep("SELECT x + $to AS x FROM former", {"to": [1, 5, 3]}, scheduler=halving, **options)
        assert study.wait(60)
        assert [(one.state, one.steps) for one in study.trials] == [("COMPLETE", 4), ("PRUNED", 2), ("COMPLETE", 4)]
        assert halving.seen[:4] == [("0", 1, 1.0), ("1", 1, 5.0), ("1", 2, 10.0), ("2", 1, 3.0)], "trial 0 waits"
        assert study.best_value == 12 and len(halving.seen) == 8, "the last step needs no decision"
        for scheduler, error, message in (
            (3, ConfigError, "scheduler must be a name or a scheduler of Ray Tune, not int"),
            (Wrong("GO"), ExecutionError, "must return one of CONTINUE, PAUSE, STOP, not 'GO'"),
            (Wrong(None), ExecutionError, "the scheduler Wrong cannot decide about trials of a sweep: KeyError"),
        ):
            with pytest.raises(error, match=message):
                session.sweep("SELECT x + $to AS x FROM former", {"to": [1]}, scheduler=scheduler, **options).wait(60)
        with pytest.raises(QoopError, match="cannot be continued: leave name out"):
            session.sweep("FROM former, (SELECT $to)", {"to": [1]}, scheduler=Halving(), name="a", **options)


class Wrong:
    """answer: of each decision; None: an error."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    def on_trial_result(self, controller: object, trial: Any, result: Mapping[str, Any]) -> str:
        return self.answer if self.answer is not None else str(result["missing"])
