"""`qoop bench resizes`: the limits of a control group change while queries run in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.bench.resizes import CPUS, MEMORY, Answered, GroupSize, KeptTimes, Report, Resized, drawn, table
from qoop.tpcds.control_groups import ControlGroup
from qoop.tpcds.results import read


@pytest.fixture
def needs_groups() -> None:
    try:
        ControlGroup(f"qoop-test-{os.getpid()}").close()
    except ConfigError as error:
        pytest.skip(str(error))


def test_sizes_are_drawn_over_the_whole_range_and_again_by_their_number() -> None:
    sizes = [drawn(7, number, 1000) for number in range(300)]
    assert drawn(7, 5, 1000) == sizes[5] != sizes[6]
    assert 250 <= min(size.memory for size in sizes) < 300 and 3300 < max(size.memory for size in sizes) <= 4000
    assert 0.5 <= min(size.cpus for size in sizes) < 0.6 and 1.9 < max(size.cpus for size in sizes) <= 2.0
    assert 120 < sum(size.memory < 1000 for size in sizes) < 180  # evenly by the logarithm


def test_a_report_states_kills_wrong_answers_reactions_and_the_ratio() -> None:
    size = GroupSize(10**9, 1.0)
    resized = [Resized(size, 0.2, True, False), Resized(size, 1.4, True, True), Resized(size, None, True, False)]
    courses = [((2.0, GroupSize(500, 1.0)), (3.0, GroupSize(500, 2.0))), ((6.0, GroupSize(2000, 0.5)),)]  # 1 and 0.6
    answers = [*(Answered(67, 6.0, 5.0, course) for course in courses), Answered(78, 1.0, error="rows differ")]
    kept = {67: KeptTimes(1000, {(memory, cpus): 5.0 / cpus for memory in MEMORY for cpus in CPUS})}
    text = table([Report("qoop", resized, answers, kept)])
    assert "3 resizes, 1 kills" in text and "2 answers right, 1 wrong or failed" in text
    assert "query 78: rows differ" in text
    assert "3 limits below the memory in use: 1 killed by them, 1 refused until the next" in text
    assert "1 after more than 1 s" in text and "1.10 times the time" in text
    assert Report("qoop", resized).failed and not Report("qoop", resized[:1]).failed


@pytest.mark.usefixtures("needs_groups", "benchmark_texts")
def test_queries_run_on_while_limits_change_and_a_run_goes_on(
    tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    command = ["bench", "resizes", str(tpcds_small), "--queries", "3,52", "--every", "0.5", "--memory", "2GB"]
    command += ["--only-resizes", "--results", str(results)]
    assert main([*command, "--count", "1", "--kinds", "qoop"]) == 0
    before = read(results).values["resize qoop 0"]
    assert main([*command, "--count", "2"]) == 0
    printed = capsys.readouterr().out
    assert "qoop: 2 resizes, 0 kills" in printed and "duckdb: 2 resizes, 0 kills" in printed
    values = read(results).values
    sizes = [values[f"resize qoop {number}"]["size"] for number in range(2)]
    assert values["resize qoop 0"] == before
    assert sizes == [values[f"resize duckdb {number}"]["size"] for number in range(2)]
    assert all(MEMORY[0] <= size["memory"] / 2e9 <= MEMORY[-1] for size in sizes)
    answered = [values[name] for name in values if name.startswith("answer qoop ")]
    assert answered and not any(one["error"] for one in answered)
