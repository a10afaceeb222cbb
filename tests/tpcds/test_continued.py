"""`qoop bench continue`: a process is killed at a part of its work, and what the next one saves is reckoned."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.bench import continued
from qoop.tpcds.bench.contest import Killed, Outcome, SystemUnderTest
from qoop.tpcds.bench.continued import ContinuedOptions, QueryResult, Second, Taken
from qoop.tpcds.bench.system_under_test import Size, Task
from qoop.tpcds.bench_cli import _points

LONG = "SELECT count(*) FROM range(20000) a, range(200000) b WHERE a.range * b.range % 7 = 3"


def result(query: int = 67, second: float = 4.0, without: float = 10.0) -> QueryResult:
    """A run of 10 s with checkpoints, killed at 60 % of its 16 processor seconds."""
    undisturbed = {"without": [Taken(without, 15.0)], "with": [Taken(10.0, 16.0)]}
    return QueryResult(query, undisturbed, {0.6: [Second(9.6, Taken(second, 8.0))]})


def test_what_is_saved_is_reckoned_against_a_whole_run_and_what_was_done() -> None:
    one = result()
    assert one.done(0.6) == pytest.approx(0.6)
    assert one.saved(0.6) == pytest.approx(0.6) and one.of_done(0.6) == pytest.approx(1.0)
    assert one.of_done(0.6, "cpu") == pytest.approx(0.5 / 0.6)
    assert result(second=12.0).of_done(0.6) == pytest.approx(-0.2 / 0.6)  # a second run that takes longer saves less
    assert result(without=8.0).ratio == pytest.approx(1.25)


def test_the_table_tells_the_mode_and_both_goals() -> None:
    short = QueryResult(3, {"without": [Taken(1.0, 1.0)], "with": [Taken(1.0, 1.0)]})
    failed = QueryResult(4, {"without": [], "with": []}, error="it died")
    told = continued.table([result(), result(78, second=7.0), short, failed], ContinuedOptions(Path()))
    assert "default options" in told
    assert "2 queries of 10 s or more, killed: saved 0.75 of what was done" in told and "goal: 0.8" in told
    assert "at  60%: 0.75, the least 0.50" in told
    assert "3 queries undisturbed" in told and "goal: 1.03" in told
    assert "wrong or failed: 4 (it died)" in told
    assert "staged=True" in continued.table([result()], ContinuedOptions(Path(), staged=True))
    assert list(short.lines())[-1] == "  too short to be killed"


def test_a_process_is_killed_once_it_has_done_that_much(tpcds_small: Path, tmp_path: Path) -> None:
    task = Task("running", str(tpcds_small), LONG, Size(1, 10**9), str(tmp_path / "answer.arrow"))
    with SystemUnderTest(task, tmp_path) as system:
        system.ready()
        begun = time.monotonic()
        end = system.go_until(0.2)
    assert isinstance(end, Killed) and 0.2 <= end.cpu <= 0.2 + time.monotonic() - begun
    short = Task("running", str(tpcds_small), "SELECT 1", Size(1, 10**9), str(tmp_path / "answer.arrow"))
    with SystemUnderTest(short, tmp_path) as system:
        system.ready()
        assert isinstance(system.go_until(60.0), Outcome)  # it ended


@pytest.mark.slow
def test_a_query_is_killed_and_goes_on_and_a_second_bench_takes_up_the_results(
    tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.json"
    arguments = ["bench", "continue", str(tpcds_small), "--queries", "67", "--points", "0.3", "--least", "0"]
    assert main([*arguments, "--results", str(results)]) == 0
    told = capsys.readouterr().out
    assert "killed at" in told and "of what was done" in told and "wrong or failed: none" in told
    kept = results.read_text()
    assert len(kept.splitlines()) == 4  # settings, two undisturbed runs, one that was killed and its second
    assert main([*arguments, "--results", str(results)]) == 0
    assert capsys.readouterr().out == told and results.read_text() == kept


def test_points_are_parts_of_the_work() -> None:
    assert _points("0.3,0.9") == (0.3, 0.9)
    for text in ("0", "1", "0.5,2", "half", ""):
        with pytest.raises(ConfigError, match="--points wants numbers above 0 and below 1"):
            _points(text)
