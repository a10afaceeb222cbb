"""The cost of writing outputs: three sides in turn, and sums by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.tpcds.bench.checkpoint_cost import SIDES, QueryResult, Taken, ratio, table
from qoop.tpcds.oracle import Oracle


def result(**walls: list[float]) -> QueryResult:
    return QueryResult(
        1, {side: [Taken(wall, 2 * wall, 3, 5_000_000) for wall in some] for side, some in walls.items()}
    )


def test_sums_are_held_against_those_of_runs_that_write_nothing() -> None:
    done = [result(none=[1.0, 3.0], worthwhile=[1.0, 3.0], all=[2.0, 4.0]), QueryResult(7, error="it went wrong")]
    assert ratio(done[:1], "worthwhile", "cpu") == (1.0, 1.0, 1.0)
    assert ratio(done[:1], "all", "wall")[0] == 1.5
    shown = table(done).splitlines()
    assert shown[4].startswith("all             3 outputs,      5.0 MB; 3.00 s, cpu 6.00 s; wall 1.500 (")
    assert shown[5] == "failed: 7"
    assert "no query" in table(done[1:])


def test_all_is_written_or_nothing_of_short_queries(tpcds_small: Path, tmp_path: Path) -> None:
    words = ["bench", "checkpoints", str(tpcds_small), "--queries", "95", "--repeat", "2", "--slots", "2"]
    assert main([*words, "--json", str(tmp_path / "f.json")]) == 0
    both = json.loads((tmp_path / "f.json").read_text())
    assert list(both) == ["default", "staged"]
    for mode in both.values():
        (query,) = mode["queries"]
        runs = {side: [Taken(**one) for one in some] for side, some in query["taken"].items()}
        assert tuple(runs) == SIDES and all(len(some) == 2 for some in runs.values())
        assert all(one.outputs > 0 < one.bytes for one in runs["all"])
        assert not any(one.outputs for side in SIDES[:2] for one in runs[side])


def test_a_wrong_answer_is_told(
    tpcds_small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Oracle, "judge", lambda self, text, ours, theirs: "one row too many")
    assert main(["bench", "checkpoints", str(tpcds_small), "--queries", "3"]) == 1
    assert "none: one row too many" in capsys.readouterr().out
