"""Sweeps for real, next to Optuna, on few rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.tpcds.bench.real_sweeps import WORKLOADS, RealOptions, run


def test_all_sides_reach_the_same_target_and_runs_are_kept(tmp_path: Path) -> None:
    said: list[str] = []
    few = tuple(replace(workload, most=6) for workload in WORKLOADS)
    small = RealOptions(rows=300, trials=3, orders=1, sides=("none", "optuna"), workloads=few)
    options = replace(small, results=tmp_path / "sweeps.json")
    found = run(options, said.append)
    assert found.keys() == {"logistic", "kmeans"} and len(said) == 6
    for runs in found.values():
        assert all(one["reached"] and one["seconds"] > 0 for of_side in runs.values() for one in of_side)
        assert 0 < runs["none"][0]["steps"] <= 3 * 6 and runs["optuna"][0]["steps"] > 0
    assert run(options, said.append) == found, "nothing runs twice"
    with pytest.raises(ConfigError, match="there is no side best; there are pop, asha"):
        run(RealOptions(sides=("best",)), said.append)
    with pytest.raises(ConfigError, match="other settings"):
        run(replace(options, rows=301), said.append)
