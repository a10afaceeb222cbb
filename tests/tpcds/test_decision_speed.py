"""The benchmark of decisions times as many as it says, of policies by name or by text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.bench.decision_speed import POLICIES, measured


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_is_asked_among_all_jobs_and_their_ready_tasks(policy: str) -> None:
    found = measured(policy, jobs=40, stages=5, decisions=60, seed=1)
    assert (found.number, round(found.jobs)) == (60, 40) and 180 < found.ready <= 200
    assert 0 < found.likely <= found.seldom and found.shares > 0


def test_the_command_prints_a_line_for_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, policies = tmp_path / "decisions.json", "max_min,EDF()"
    command = ["bench", "decisions", "--policies", policies, "--jobs", "4", "--stages", "2", "--decisions", "9"]
    assert main([*command, "--json", str(file)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["max_min", "EDF()"]
    assert [one["number"] for one in json.loads(file.read_text())["decisions"]] == [9, 9]
    with pytest.raises(ConfigError, match="describes no scheduler"):
        measured("fastest", 1, 1, 1, 1)
