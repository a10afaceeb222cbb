"""The benchmark of the core counts what it says and is the same with the same seed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.tpcds.bench.core_speed import measured, plan_of


def test_a_task_that_succeeds_is_two_events() -> None:
    one, again = measured(3, 40, seed=1), measured(3, 40, seed=1)
    assert one.events == 2 * one.tasks > 200
    assert (one.events, one.seconds) == (again.events, again.seconds)
    assert measured(3, 40, seed=2).seconds != one.seconds


def test_plans_have_about_the_tasks_that_were_asked_for_and_are_trees() -> None:
    for seed in range(20):
        plan = plan_of("p", 1000, random.Random(seed))
        assert 900 <= sum(stage.width for stage in plan.stages) <= 1100
        read = [item.stage for stage in plan.stages for item in stage.stage_inputs]
        assert sorted(read) == sorted(stage.id for stage in plan.stages if stage is not plan.root)


def test_the_command_prints_a_line_for_each_number_of_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "speed.json"
    assert main(["bench", "core", "--jobs", "1,4", "--tasks", "60", "--json", str(file)]) == 0
    assert [line.split("jobs")[0].strip() for line in capsys.readouterr().out.splitlines()] == ["1", "4"]
    assert [one["jobs"] for one in json.loads(file.read_text())["speeds"]] == [1, 4]
