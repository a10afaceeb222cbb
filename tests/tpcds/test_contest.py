"""Contests with real processes: they lose resources, they are killed, and their answers are judged."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.tpcds.bench import interrupt, resized
from qoop.tpcds.bench.contest import Change, SystemUnderTest, judge
from qoop.tpcds.bench.system_under_test import KINDS, Size, Task
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import parse_names
from qoop.tpcds.results import Results

QUERY = "SELECT d_year, count(*) AS n FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY d_year"
LONG = "SELECT count(*) FROM range(20000) a, range(200000) b WHERE a.range * b.range % 7 = 3"
AVAILABLE = Size(2, 10**9)


def task(directory: Path, kind: str, scratch: Path, text: str = QUERY) -> Task:
    return Task(kind, str(directory), text, AVAILABLE, str(scratch / "answer.arrow"))


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_system_under_test_gives_the_right_answer_though_its_resources_change(
    kind: str, tpcds_small: Path, tmp_path: Path
) -> None:
    with SystemUnderTest(task(tpcds_small, kind, tmp_path), tmp_path) as system:
        system.ready()
        outcome = system.go([Change(0.001, Size(1, 5 * 10**8)), Change(0.01, AVAILABLE)], limit=60)
    assert outcome.error is None and outcome.facts["rows"] > 1
    with Oracle(tpcds_small) as oracle:
        theirs = oracle.answer(QUERY)
    assert judge(tpcds_small, QUERY, tmp_path / "answer.arrow", theirs) is None
    assert judge(tpcds_small, QUERY, tmp_path / "answer.arrow", theirs.slice(1)) is not None


@pytest.mark.slow
def test_duckdb_starts_again_when_it_loses_resources(tpcds_small: Path, tmp_path: Path) -> None:
    short = LONG.replace("200000", "20000")
    with SystemUnderTest(task(tpcds_small, "restarted", tmp_path, short), tmp_path) as system:
        system.ready()
        outcome = system.go([Change(0.05, Size(1, 10**9))], limit=120)
    assert outcome.error is None and outcome.facts["attempts"] == 2


def test_duckdb_finds_in_a_new_process_what_it_kept(tpcds_small: Path, tmp_path: Path) -> None:
    years = f"WITH years AS ({QUERY}) SELECT a.d_year, b.n FROM years AS a JOIN years AS b USING (d_year)"
    kept = str(tmp_path / "kept")
    first = Task("keeping", str(tpcds_small), years, AVAILABLE, str(tmp_path / "answer.arrow"), kept)
    with SystemUnderTest(first, tmp_path) as system:
        system.ready()
        assert system.go(limit=60).error is None
    with duckdb.connect(str(Path(kept) / "kept.duckdb")) as connection:
        connection.execute('UPDATE "kept years" SET n = -1')
    with SystemUnderTest(first, tmp_path) as system:
        system.ready()
        assert system.go(limit=60).facts["rows"] > 1
    with pa.memory_map(first.answer) as source:
        assert set(pa.ipc.open_file(source).read_all()["n"].to_pylist()) == {-1}


def test_a_system_under_test_is_killed_for_good(tpcds_small: Path, tmp_path: Path) -> None:
    with SystemUnderTest(task(tpcds_small, "running", tmp_path, LONG), tmp_path) as system:
        system.ready()
        assert system.go(limit=0.1).limited
        process = system._process.pid
    assert gone(process)


def test_what_goes_wrong_is_told(tpcds_small: Path, tmp_path: Path) -> None:
    with SystemUnderTest(task(tpcds_small, "qoop", tmp_path, "SELECT nothing"), tmp_path) as system:
        system.ready()
        outcome = system.go(limit=60)
    assert outcome.error is not None and "nothing" in outcome.error
    empty = tmp_path / "empty"
    empty.mkdir()
    with (
        SystemUnderTest(task(empty, "qoop", tmp_path), tmp_path) as system,
        pytest.raises(ExecutionError, match="qoop died"),
    ):
        system.ready()


@pytest.mark.slow
def test_a_shrink_run_keeps_what_it_has(tpcds_small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = resized.ResizedOptions(tpcds_small, queries=(3,), repeat=1, results=tmp_path / "kept.json")
    (one,) = resized.run(options, lambda _: None)
    assert not one.errors and set(one.seconds) == set(KINDS)
    monkeypatch.setattr(resized, "SystemUnderTest", None)  # nothing is run again
    assert resized.run(options, lambda _: None) == [one]
    assert "more than 5 % behind" in resized.table([one])


@pytest.mark.slow
def test_a_run_that_is_given_more_is_compared_with_a_schedule_that_knew(tpcds_small: Path) -> None:
    options = resized.ResizedOptions(tpcds_small, resized.ARRIVE, (3,), repeat=1, kinds=("qoop", "restarted"))
    (one,) = resized.run(options, lambda _: None)
    assert not one.errors and one.clairvoyant is not None and one.clairvoyant > 0
    assert "qoop : clairvoyant" in resized.table([one])


@pytest.mark.parametrize(("small", "large", "expected"), [(4.0, 2.0, 2.5), (0.5, 0.3, 0.5)])
def test_the_clairvoyant_schedule_loses_nothing(
    tpcds_small: Path, monkeypatch: pytest.MonkeyPatch, small: float, large: float, expected: float
) -> None:
    options = resized.ResizedOptions(tpcds_small, resized.ARRIVE)
    taken = {resized.SMALL: small, resized.FULL: large}
    monkeypatch.setattr(resized, "_undisturbed", lambda task, *_: taken[task.size])
    assert resized.clairvoyant(options, "SELECT 1", 3.0, Path()) == expected  # 1 s of 4 on one slot, the rest on two


@pytest.mark.slow
def test_kills_hit_both_sides_alike_and_the_answer_is_right(tpcds_small: Path, tmp_path: Path) -> None:
    options = interrupt.InterruptOptions(tpcds_small, (3,), seeds=1, means=(0.6,), results=tmp_path / "kept.json")
    trials = interrupt.run(options, lambda _: None)
    assert [trial.side for trial in trials] == list(interrupt.SIDES)
    assert all(trial.error is None for trial in trials)
    assert "0.6" in interrupt.table(trials)
    assert not list(tmp_path.glob("**/*.arrow"))


def test_a_run_ends_with_its_minutes_and_goes_on_from_its_results(
    tpcds_small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    every = interrupt.InterruptOptions(tpcds_small, (3, 7), seeds=3, means=(2.0,), sides=("qoop", "running"))
    monkeypatch.setattr(interrupt, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(interrupt._Bench, "undisturbed", lambda *_: 1.0)
    made: list[interrupt.TrialKey] = []

    def run(_: object, key: interrupt.TrialKey) -> interrupt.Trial:
        made.append(key)
        now[0] += 60.0
        return interrupt.Trial(key.query, key.side, key.mean, key.seed, 1.0, 1.0 + (key.side == "running"), 0, True)

    monkeypatch.setattr(interrupt._Bench, "_run", run)
    part = replace(every, minutes=5.0, results=tmp_path / "kept.jsonl")
    assert len(interrupt.run(part, lambda _: None)) == 5
    assert len(interrupt.run(part, lambda _: None)) == 10
    trials = interrupt.run(part, lambda _: None)
    assert len(trials) == len(made) == len(set(made)) == 12
    assert "2.00 – 2.00    1.9, from above 1.3 on: met" in interrupt.table(trials)


def test_a_life_in_which_duckdb_has_no_hope_counts_without_being_run(
    tpcds_small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifetimes: list[float] = []

    def live(task: object, seconds: float, scratch: Path) -> tuple[None, float]:
        lifetimes.append(seconds)
        return None, seconds

    monkeypatch.setattr(interrupt, "intervals", lambda *_: iter([0.4, 0.8, 0.1] * 10))
    monkeypatch.setattr(interrupt, "_live", live)
    options = interrupt.InterruptOptions(tpcds_small, (3,), seeds=1, means=(0.6,))
    ours, staged, theirs, keeping = interrupt.run(options, lambda _: None)
    assert not ours.ended and not theirs.ended
    assert ours.kills == staged.kills == theirs.kills == keeping.kills == 22
    assert ours.seconds == staged.seconds == theirs.seconds == keeping.seconds == pytest.approx(10 * ours.undisturbed)
    every = [0.4, 0.8, 0.1] * 7 + [0.4, 0.5]
    assert [round(life / ours.undisturbed, 1) for life in lifetimes] == [*every, *every, *[0.8] * 7, 0.5, *every]


def test_only_sides_that_there_are_can_be_asked_for() -> None:
    assert parse_names("qoop, running", interrupt.SIDES, "side") == ("qoop", "running")
    with pytest.raises(ConfigError, match="there is no side 'duckdb'; there are qoop, staged, running, keeping"):
        parse_names("qoop,duckdb", interrupt.SIDES, "side")


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    Results(path, {"repeat": 1}).put("a", [1, 2])
    assert Results(path, {"repeat": 1}).get("a") == [1, 2]
    with pytest.raises(ConfigError, match="other settings"):
        Results(path, {"repeat": 2})
    path.write_text("{}\n")
    with pytest.raises(ConfigError, match="name another file"):
        Results(path, {"repeat": 1})


def test_a_result_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    kept = Results(path, {})
    kept.put("a", 1)
    kept.put("a", 2)
    kept.put("b", 3)
    path.write_text(path.read_text()[:-3])
    taken_up = Results(path, {})
    assert taken_up.values == {"a": 2}
    taken_up.put("b", 4)
    assert Results(path, {}).values == {"a": 2, "b": 4}


def test_results_of_the_first_version_are_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"format": "qoop-results", "version": 1, "settings": {}, "values": {"a": 1}}, indent=1))
    kept = Results(path, {})
    kept.put("b", 2)
    assert Results(path, {}).values == {"a": 1, "b": 2}


def test_wrong_options_are_refused(tpcds_small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["shrink", "--kinds", "qoop,spark"], ["interrupt", "--means", "0"], ["shrink", "--repeat", "0"]):
        assert main(["bench", words[0], str(tpcds_small), *words[1:]]) == 1
    errors = capsys.readouterr().err
    assert "spark" in errors and "--means" in errors and "--repeat" in errors
