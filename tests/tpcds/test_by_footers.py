"""Plans from footers against plans from statistics: what is compared, run and printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.tpcds.estimates.by_footers import Compared, totals


def test_the_command_runs_both_plans(
    benchmark_texts: None, tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["tpcds", "footers", str(tpcds_small), "--queries", "3,21", "--slots", "2", "--json", str(report)]) == 0
    found = json.loads(report.read_text())["queries"]
    assert [one["query"] for one in found] == [3, 21]
    assert all(one["footers"] > 0 and one["full"] > 0 and one["reading"] > 0 for one in found)
    assert "plans are the same" in capsys.readouterr().out


def test_totals_compare_what_differs() -> None:
    same = Compared(1, True, 1.0, 0.5, 0.5, 0.01, 0.2)
    other = Compared(2, False, 4.0, 1.5, 0.5, 0.01, 0.2)
    lines = totals([same, other])
    assert "1 of 2 plans are the same" in lines and "worst 4.00" in lines and "2.0 : 1.0 = 2.000" in lines
