"""The benchmark of told ends: what counts as half time, what as inside, and that queries are asked while they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.adaptive.cluster.job_status import RemainingTime
from qoop.tpcds.bench.eta import EtaReport, Prediction, at_half_time, table

ANSWERS = [
    (0.5, RemainingTime(9, 5, 20)),
    (4.9, RemainingTime(6, 4, 8)),
    (5.2, RemainingTime(3, 2, 4)),
    (9.0, RemainingTime(1, 0, 2)),
]


def test_what_was_said_nearest_to_half_time_is_held_against_what_was_left() -> None:
    told = at_half_time(7, 10.0, ANSWERS)
    assert told == Prediction(7, 10.0, 4.9, 6, 4, 8)
    assert isinstance(told, Prediction) and told.left == pytest.approx(5.1) and told.in_range
    late = at_half_time(8, 10.4, ANSWERS)
    assert isinstance(late, Prediction) and late.at == 5.2 and not late.in_range
    assert at_half_time(9, 2.0, ANSWERS) == 2.0  # nothing was said between 0.7 and 1.3
    assert at_half_time(9, 0.1, []) == 0.1


def test_the_summary_counts_both_sides() -> None:
    report = EtaReport(
        (
            Prediction(1, 10, 5, 5, 4, 6),
            Prediction(2, 10, 5, 9, 6, 12),
            Prediction(3, 10, 5, 2, 1, 3),
            Prediction(4, 0.2, 0.1, 0.1, 0, 1),
        ),
        {5: 0.01},
        {6: "gave up"},
    )
    totals = report.totals()
    assert (totals["all"]["queries"], totals["all"]["in_range"], totals["all"]["part"]) == (4, 2, 0.5)
    assert (totals["shown"]["queries"], totals["shown"]["sooner"], totals["shown"]["later"]) == (3, 1, 1)
    text = table(report)
    assert "2 of 4 queries (50%)" in text and "query 6 failed: gave up" in text and "1 queries had said nothing" in text


def test_the_command_asks_running_queries(benchmark_texts: None, tpcds_test: Path, tmp_path: Path) -> None:
    out = tmp_path / "eta.json"
    code = main(["bench", "eta", str(tpcds_test), "--queries", "3,67", "--slots", "2", "--json", str(out)])
    both = json.loads(out.read_text())
    assert code == 0 and list(both) == ["default", "staged"]
    for found in both.values():
        assert len(found["queries"]) + len(found["silent"]) == 2 and not found["failed"]
    for one in (one for found in both.values() for one in found["queries"]):
        assert 0 <= one["least"] <= one["likely"] <= one["most"] and 0 < one["at"] < one["seconds"]
