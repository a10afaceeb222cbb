"""A process that is killed, with default options, and the one that goes on with its query."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.engine.history import Started
from qoop.engine.notices import Continued

QUERY = """
SELECT u.b % 7 AS k, count(*) AS n, sum(hash(t.a + u.a) % 5) AS s, max(t.c) AS m
FROM t JOIN t AS u ON t.b = u.b AND t.c <> u.c WHERE u.a < 4000 GROUP BY k ORDER BY k
"""
OPTIONS = {"slots": 2, "memory": "1GB"}

COMMITTED = 32 * "?" + ".json"
"""The names of manifests. While one is written it has a longer name."""

ALL_LONG = """
import qoop.query.output_losses, qoop.query.planning
qoop.query.planning.SHORT_SECONDS = qoop.query.output_losses.KEEPING_SECONDS = 0.0
qoop.query.output_losses.SURVIVING = 1e9
"""
PROGRAM = """
import sys, qoop
with qoop.connect(slots=2, memory="1GB", checkpoints=sys.argv[2]) as session:
    session.register_folder(sys.argv[1])
    session.sql(sys.argv[3])
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = "SELECT i AS a, i % 500 AS b, hash(i) % 1000 AS c FROM range(2_000_000) AS r(i)"
    duckdb.sql(rows).write_parquet(str(folder / "t.parquet"), row_group_size=100_000)
    return folder


@pytest.fixture
def no_query_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the program: no work is short enough to be lost."""
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.output_losses.KEEPING_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.output_losses.SURVIVING", 1e9)
    monkeypatch.setenv("QOOP_STAGED", "0")


def begun(job: qoop.Job) -> int:
    return sum(isinstance(one, Started) for one in job.history())


def killed_once(happens: Callable[[], bool], program: str, data: Path, kept: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", program, str(data), str(kept), QUERY]) as process:
        while not happens() and process.poll() is None:
            time.sleep(0.002)
        process.kill()


def killed_once_something_is_kept(data: Path, kept: Path) -> None:
    killed_once(lambda: len(list(kept.glob(COMMITTED))) >= 3, ALL_LONG + PROGRAM, data, kept)


def test_the_next_process_goes_on_from_what_was_kept(
    data: Path, tmp_path: Path, no_query_is_short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.query.planning.GOES_ON_PART", inf)  # lives of milliseconds would need shorter tasks
    kept = tmp_path / "kept"
    with qoop.connect(**OPTIONS, checkpoints=tmp_path / "whole") as session:
        session.register_folder(data)
        whole = session.submit(QUERY)
        expected = whole.result().fetchall()
    killed_once_something_is_kept(data, kept)
    with qoop.connect(**OPTIONS, checkpoints=kept) as session:
        session.register_folder(data)
        job = session.submit(QUERY)
        assert job.result().fetchall() == expected == duckdb_answer(data)
        assert not job.plan.root.whole
        assert begun(job) < begun(whole), "it begins fewer tasks than a whole run"
        [first] = [one for one in job.history() if isinstance(one, Continued)]
        assert first.found >= 3


def test_an_answer_of_duckdbs_plan_is_found_before_anything_is_planned(
    data: Path, tmp_path: Path, no_query_is_short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.query.output_losses.OutputLosses.tolerance", lambda *_: 0.0)
    answers = []
    for number in range(2):
        with qoop.connect(**OPTIONS, checkpoints=tmp_path / "kept") as session:
            session.register_folder(data)
            if number:
                monkeypatch.setattr("qoop.query.planning.QueryPlanning._quick_plans", None)  # a quick search would fail
            job = session.submit(QUERY)
            answers.append(job.result().fetchall())
            assert job.plan.root.whole
            assert begun(job) == 1 - number
    assert answers == [duckdb_answer(data)] * 2


def test_outputs_of_a_table_that_has_changed_are_not_used(data: Path, tmp_path: Path, no_query_is_short: None) -> None:
    killed_once_something_is_kept(data, tmp_path / "kept")
    duckdb.sql("SELECT i AS a, i % 40 AS b, 7 + i % 3 AS c FROM range(9_000) AS r(i)").write_parquet(
        str(data / "t.parquet")
    )
    with qoop.connect(**OPTIONS, checkpoints=tmp_path / "kept") as session:
        session.register_folder(data)
        assert session.submit(QUERY).result().fetchall() == duckdb_answer(data)


def test_a_query_whose_run_was_killed_is_not_taken_for_short(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QOOP_STAGED", "0")
    monkeypatch.setattr("qoop.query.output_losses.SURVIVING", 1e9)
    kept = tmp_path / "kept"

    def begins_whole() -> bool:
        with qoop.connect(**OPTIONS, checkpoints=kept) as session:
            session.register_folder(data)
            return session.planning.plan(QUERY).plan.root.whole

    assert begins_whole(), "by its footers it should take DuckDB some milliseconds"
    killed_once(lambda: bool(list((kept / "runs").glob("*.json"))), PROGRAM, data, kept)
    assert not begins_whole()


def duckdb_answer(data: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.read_parquet(str(data / "t.parquet")).create_view("t")
        found = connection.sql(QUERY).fetchall()
    assert len(found) == 7
    return found


def test_a_short_query_that_may_try_all_pairs_of_rows_begins_at_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a folder: what is lost with its process is less than a comparison of plans takes."""
    monkeypatch.setenv("QOOP_STAGED", "0")
    monkeypatch.setattr("qoop.query.planning.may_pair_rows", lambda _: True)
    monkeypatch.setattr("qoop.query.planning.QueryPlanning._after_quick_search", None)
    with qoop.connect(**OPTIONS, checkpoints=tmp_path) as session:
        session.register_folder(data)
        assert session.planning.plan(QUERY).plan.root.whole
