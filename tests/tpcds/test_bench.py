"""The runner: what it reports, that a failing query does not end the run, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from waits import until

from qoop.__main__ import main
from qoop.tpcds import oracle_process
from qoop.tpcds.bench import cold, report
from qoop.tpcds.bench import side_by_side as bench
from qoop.tpcds.bench.side_by_side import BenchReport, QueryReport
from qoop.tpcds.memory import PeakMemory, anonymous_bytes
from qoop.tpcds.oracle_process import OracleError, OracleProcess
from qoop.tpcds.quantiles import quantile, quantile_if_any

RIGHT = QueryReport(
    1, 0.2, 0.1, 0.02, 5, True, 3, 6, 2, 0.1, 0, empty=False, peak_memory=10**8, task_seconds=(0.1, 0.05)
)
WRONG = QueryReport(2, 0.9, 0.1, 0.03, 5, False, 1, 1, 1, 0.9, 1, all_opaque=True, error="1 missing\nmissing:\n (3,)")
FAILED = QueryReport(3, duckdb_seconds=0.5, error="ExecutionError: stage s1: broken")


def test_totals() -> None:
    totals = BenchReport((RIGHT, WRONG, FAILED), {}, {}).totals()
    assert (totals["queries"], totals["correct"], totals["wrong"], totals["failed"]) == (3, 1, [2], [3])
    assert totals["ratio"] == pytest.approx(1.1 / 0.2), "a query that failed counts on neither side"
    assert totals["slow"] == [2]
    assert (totals["wider_than_one"], totals["without_opaque_stage"], totals["all_opaque"]) == (1, 1, [2])


def test_quantiles() -> None:
    assert quantile_if_any([], 0.5) is None
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile(range(1, 101), 0.95) == pytest.approx(95.05)
    assert quantile([7], 0.99) == 7


def test_the_report_for_people() -> None:
    run = BenchReport((RIGHT, WRONG, FAILED), {"memory": 2 * 10**9}, {})
    assert report.line(RIGHT).endswith("right")
    assert "WRONG: 1 missing" in report.line(WRONG)
    assert "FAILED: ExecutionError: stage s1" in report.line(FAILED)
    text = report.totals(run)
    assert "1 of 3 right; wrong: 2; failed: 3" in text
    assert "5.50 x" in text
    assert "limit of the session 2.00 GB" in text


def test_the_peak_of_memory_is_seen() -> None:
    if anonymous_bytes() is None:
        pytest.skip("this system does not tell")
    with PeakMemory() as before:
        pass
    with PeakMemory() as during:
        block = b"x" * 200_000_000
        until(lambda: during.peak is not None and before.peak is not None and during.peak > before.peak + 150_000_000)
        del block


def test_the_oracle_in_its_own_process(tpcds_small: Path) -> None:
    with OracleProcess(tpcds_small, 1) as oracle:
        table, seconds = oracle.answer("SELECT count(*) AS n FROM reason")
        assert table.column_names == ["n"]
        assert seconds > 0
        with pytest.raises(OracleError, match="nonesuch"):
            oracle.answer("SELECT nonesuch FROM reason")
        assert oracle.answer("SELECT 1 AS one")[0]["one"].to_pylist() == [1]
        oracle._process.kill()
        with pytest.raises(OracleError, match="has ended"):
            oracle.answer("SELECT 1")


def test_the_command_line(
    benchmark_texts: None, tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    code = main(
        ["tpcds", "run", str(tpcds_small), "--queries", "3,96", "--slots", "1", "--check", "--json", str(target)]
    )
    assert code == 0, capsys.readouterr().out
    assert "2 of 2 right" in capsys.readouterr().out
    content = json.loads(target.read_text())
    assert [query["query"] for query in content["queries"]] == [3, 96]
    wanted = {
        "query", "seconds", "duckdb_seconds", "planning_seconds", "rows", "correct", "stages", "tasks", "max_width",
        "longest_task_seconds", "opaque_stages",
    }  # fmt: skip
    assert wanted <= set(content["queries"][0])
    assert all(query["correct"] is True for query in content["queries"])
    assert content["totals"]["correct"] == 2
    assert content["settings"]["scale"] == 0.01
    assert content["versions"]["duckdb"]


def test_a_query_that_fails_is_reported_and_the_run_goes_on(
    benchmark_texts: None, tpcds_small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = bench.texts

    def broken(suite: str, directory: Path) -> dict[int, str]:
        return {**real(suite, directory), 3: "SELECT error('on purpose') FROM reason"}

    monkeypatch.setattr(bench, "texts", broken)
    assert main(["tpcds", "run", str(tpcds_small), "--queries", "3,96", "--slots", "1"]) == 1
    said = capsys.readouterr().out
    assert "FAILED" in said
    assert "1 of 2 right; failed: 3" in said


def test_a_wrong_answer_is_reported(
    benchmark_texts: None, tpcds_small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(self: OracleProcess, text: str) -> tuple[pa.Table, float]:
        return pa.table({"count_star()": [-1]}), 0.1

    monkeypatch.setattr(oracle_process.OracleProcess, "answer", answer)
    assert main(["tpcds", "run", str(tpcds_small), "--queries", "96", "--slots", "1"]) == 1
    assert "WRONG" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queries", "0"], "queries 1 to 99"),
        (["--repeat", "0"], "--repeat must be at least 1"),
        (["--json", "/nonesuch/out.json"], "cannot write the report"),
    ],
)
def test_wrong_options(
    benchmark_texts: None, tpcds_small: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tpcds", "run", str(tpcds_small), *words]) == 1
    assert said in capsys.readouterr().err


def test_an_empty_folder(benchmark_texts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tpcds", "run", str(tmp_path), "--queries", "1"]) == 1
    assert "qoop:" in capsys.readouterr().err


@pytest.mark.slow
def test_cold_runs_are_processes_with_an_empty_cache(
    tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "cold.json"
    words = ["tpcds", "run", str(tpcds_small), "--cold", "--queries", "96", "--slots", "2", "--json", str(target)]
    assert main(words) == 0
    header, line, total = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["query", "ms", "DuckDB"] and line.split()[0] == "96"
    assert "s a query" in total
    (query,), totals = json.loads(target.read_text()).values()
    assert totals["ratio"] == pytest.approx(query["seconds"] / query["duckdb_seconds"])
    assert totals["difference"] == pytest.approx(query["seconds"] - query["duckdb_seconds"])


def test_a_cold_run_that_fails_counts_on_neither_side() -> None:
    failed = cold.ColdQuery(2, error="qoop: no such table")
    done = cold.ColdReport((cold.ColdQuery(1, 0.5, 0.25), failed))
    assert (done.totals()["ratio"], done.totals()["difference"], done.totals()["failed"]) == (2.0, 0.25, [2])
    assert "no such table" in cold.line(failed) and "failed: 2" in cold.totals(done)
    assert not done.all_answered


def test_cold_runs_compare_no_answers(tpcds_small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tpcds", "run", str(tpcds_small), "--cold", "--check"]) == 1
    assert "--check" in capsys.readouterr().err


def test_the_benchmarks_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--help"])
    listed = capsys.readouterr().out
    groups = {group.partition(":\n")[0]: group for group in listed.split("\n\n")}
    expected = {
        "on this machine, next to DuckDB": ["shrink", "continue", "interrupt", "overhead", "eta"],
        "in virtual time": ["core", "queues", "exchanges", "load", "grow"],
        "the paper's evaluation, in virtual time": ["measure", "suite", "report", "map", "paper"],
    }
    for title, names in expected.items():
        assert all(f"\n  {name} " in groups[title] for name in names)
    assert main(["bench", "suite", "DIR", "--parts", "toys"]) == 1
    assert "there is no part 'toys'; there are fidelity, profiles, toy" in capsys.readouterr().err
