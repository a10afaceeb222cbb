"""Predicted against measured seconds of stages: what is compared, and how it is summed up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.tpcds.estimates.stage_cost import CostReport, StageCost, rank_correlation, table


def stage(predicted: float, measured: float) -> StageCost:
    return StageCost(1, "s1", "scan t", 1, predicted, measured, 10.0, 12)


REPORT = CostReport((stage(1.0, 2.0), stage(0.3, 0.2), stage(0.001, 0.001)), {})


def test_totals() -> None:
    totals = REPORT.totals()
    assert totals["all"]["stages"] == 3 and totals["longer"]["stages"] == 2
    assert totals["all"]["median_error"] == pytest.approx(0.5)
    assert totals["all"]["rank_correlation"] == 1.0
    assert table(REPORT, worst=1).splitlines()[1].split()[:4] == ["1", "s1", "1.000s", "2.000s"]


def test_ranks() -> None:
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert rank_correlation([1, 2, 2, 3], [10, 20, 20, 30]) == pytest.approx(1.0), "ties share a rank"
    assert rank_correlation([], []) is None


def test_every_stage_of_a_query(
    benchmark_texts: None, tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "report.json"
    arguments = ["tpcds", "cost", str(tpcds_small), "--queries", "3,7", "--repeat", "2", "--json", str(written)]
    assert main(arguments) == 0
    stages = json.loads(written.read_text())["stages"]
    assert {one["query"] for one in stages} == {3, 7}
    assert len({(one["query"], one["stage"]) for one in stages}) == len(stages), "of several runs one counts"
    assert all(one["predicted"] > 0 and one["measured"] > 0 for one in stages)
    assert "median error" in capsys.readouterr().out
