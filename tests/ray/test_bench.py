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
    command = [sys.executable, "-m", "qoop", "bench", "queues", "--seconds", "10", "--nodes", "1"]  # a task takes 5
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "queues.json")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    today, agents = json.loads((tmp_path / "queues.json").read_text())
    assert (today["way"], agents["way"]) == ("today", "agents")
    for one in (today, agents):
        assert one["waits"] and one["done"]["long"] > 0 and 0 < one["busy"][0] <= 1
    assert agents["done"]["short"] > 0  # without agents the long one may have kept the only slot


def test_ways_to_pull_are_measured_on_shaped_links_while_nodes_come_and_go(tpcds: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "qoop", "bench", "ray-links", str(tpcds), "--nodes", "2", "--repeat", "1"]
    done = subprocess.run(
        [*command, "--ways", "in-turn,at-once", "--queries", "group", "--slow", "--json", str(tmp_path / "links.json")],
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "links.json").read_text())
    assert [one["way"] for one in found["timed"]] == ["in-turn", "at-once"]
    assert all(one["moved"] > 0 for one in found["timed"]), "something went over the links"
    assert found["chaos"] == {"group": 1}
