"""The benchmark of what Ray costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray


def test_a_node_is_measured_against_this_process(tpcds: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "qoop", "bench", "ray", str(tpcds), "--queries", "3,7", "--repeat", "1"]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "cost.json")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "2 queries" in done.stdout and "more there" in done.stdout
    assert (tmp_path / "cost.json").exists()


def test_sessions_are_measured_with_agents_and_without(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "qoop", "bench", "queues", "--seconds", "4", "--nodes", "1"]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "queues.json")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    today, agents = json.loads((tmp_path / "queues.json").read_text())
    assert (today["way"], agents["way"]) == ("today", "agents")
    for one in (today, agents):
        assert one["waits"] and one["done"]["long"] > 0 and 0 < one["busy"][0] <= 1
    assert agents["done"]["short"] > 0  # without agents the long one may have kept the only slot
