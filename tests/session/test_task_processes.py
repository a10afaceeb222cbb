"""Sessions whose tasks run in child processes: their answers, and the end of such a process in the midst of a query."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import until

import qoop
from qoop.engine.backends.local import LocalBackend
from qoop.engine.backends.local_attempt import LocalAttempt
from qoop.engine.history import Regranted, Started
from qoop.engine.processes import pool
from qoop.session import parts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are limited on Linux alone")

ROWS = 60_000
TEXTS = (
    "SELECT k % 7 AS r, sum(v) AS s, count(DISTINCT name) AS n FROM facts JOIN items USING (k) GROUP BY r ORDER BY r",
    "SELECT k, v, name FROM facts JOIN items USING (k) WHERE v % 1000 = 3 ORDER BY v, k",
    "SELECT count(*) FROM facts",
    "SELECT DISTINCT name FROM items WHERE k < 10 ORDER BY name",
)
LONGER = "SELECT count(*) AS n, min(v) AS least FROM facts"
LONG = "SELECT sum(a.v * b.v % 7) AS s FROM facts a, facts b WHERE a.v + b.v > 5"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "facts.parquet"
    pq.write_table(pa.table({"k": [i % 500 for i in range(ROWS)], "v": range(ROWS)}), path, row_group_size=8192)
    return path


@pytest.fixture(scope="module")
def items() -> pa.Table:
    return pa.table({"k": range(500), "name": [f"item {i % 90}" for i in range(500)]})


@pytest.fixture(params=[False, True], ids=["DuckDB's plan", "staged"])
def session(request: pytest.FixtureRequest, facts: Path, items: pa.Table) -> Iterator[qoop.Session]:
    with qoop.connect(facts, slots=2, memory="1GB", isolation="process", staged=request.param) as made:
        made.register("items", items)
        yield made


def processes(session: qoop.Session) -> list[int]:
    """The child processes that run a task now."""
    assert isinstance(session.backend, LocalBackend)
    return [process.id for process in list(session.backend.processes._busy) if process.id]


def test_answers_are_those_of_duckdb(session: qoop.Session, facts: Path, items: pa.Table) -> None:
    assert isinstance(session.backend, LocalBackend)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW facts AS FROM '{facts}'")
        connection.register("items", items)
        for text in TEXTS:
            expected = connection.execute(text).fetchall()
            assert expected and session.sql(text).fetchall() == expected
    assert session.backend.used_by_children().memory > 0, "no task ran in a process"


def test_long_tasks_of_a_server_run_in_processes_unless_rows_are_in_memory(facts: Path, items: pa.Table) -> None:
    with qoop.connect(facts, slots=2, memory="1GB", staged=False) as session:
        session.register("items", items)
        assert isinstance(session.backend, LocalBackend)
        long: list[str] = []
        session.backend.let_short_go_first(lambda job: bool(long))

        def has_process(text: str) -> bool:
            assert session.sql(text).fetchall()
            return session.backend.used_by_children().memory > 0

        assert not has_process(TEXTS[2])
        long.append("all")
        start = session.backend.start
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session.backend, "start", lambda machine, spec: start(machine, replace(spec, extra=True)))
            assert not has_process(LONGER.replace("min(", "max("))
        assert not has_process(TEXTS[0]) and has_process(LONGER)


def test_functions_of_python_stay_in_the_process_of_the_session(session: qoop.Session) -> None:
    seen = set()

    def noted(number: int) -> int:
        seen.add(os.getpid())
        return 2 * number

    session.register_function("noted", noted, ["BIGINT"], "BIGINT")
    assert session.sql("SELECT sum(noted(v)) AS s FROM facts").fetchall() == [(ROWS * (ROWS - 1),)]
    assert seen == {os.getpid()}


def test_a_task_whose_process_is_killed_runs_again(
    session: qoop.Session,
) -> None:
    job = session.submit(LONG)
    [first, *_] = until(lambda: processes(session))
    os.kill(first, signal.SIGKILL)
    until(lambda: any("its process was killed" in str(record) for record in job.history()))
    until(lambda: set(processes(session)) - {first})
    assert not job.wait(0)
    job.cancel()
    assert session.sql(TEXTS[2]).fetchall() == [(ROWS,)]


def test_a_shrink_kills_the_process_of_a_task_before_anything_else(
    session: qoop.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above `memory.high` the kernel pauses whatever allocates, such as a thread that begins, or one that checks."""
    helped: list[str] = []

    def later(self: LocalBackend, work: object, *arguments: object, name: str) -> None:
        helped.append(name)

    job = session.submit(LONG)
    [first, *_] = until(lambda: processes(session))
    monkeypatch.setattr(LocalBackend, "_help", later)
    monkeypatch.setattr(LocalAttempt, "check", lambda self: None)
    session.resize(slots=0)
    assert helped.count("qoop-stop") >= 1
    until(lambda: not Path(f"/proc/{first}").exists())
    monkeypatch.undo()
    session.resize(slots=2)
    until(lambda: set(processes(session)) - {first})
    job.cancel()
    assert session.sql(TEXTS[2]).fetchall() == [(ROWS,)]


def test_a_process_that_crashes_fails_the_query_alone(session: qoop.Session) -> None:
    job = session.submit(LONG)
    os.kill(until(lambda: processes(session))[0], signal.SIGSEGV)
    with pytest.raises(qoop.ExecutionError, match="the process of the query has ended"):
        job.result()
    assert session.sql(TEXTS[2]).fetchall() == [(ROWS,)]


@pytest.mark.parametrize("limited", [False, True])
def test_long_tasks_run_in_processes_by_default_where_memory_is_limited(
    limited: bool, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "has_limited_memory", lambda: limited)
    monkeypatch.setattr(pool, "_WORTH_A_START", 1.0)
    with qoop.connect(facts, slots=2, memory="1GB") as session:
        assert isinstance(session.backend, LocalBackend)
        assert session.sql("SELECT count(*) FROM facts").fetchall() == [(ROWS,)]
        assert session.backend.used_by_children().memory == 0
        job = session.submit("SELECT sum(hash(range, range + 1) % 7) > 0 AS s FROM range(3000000000)")
        if limited:
            assert until(lambda: processes(session))
            until(lambda: job.history() and session.backend.used_by_children().seconds > 0.3)
            session.resize(slots=1)
            until(lambda: any(isinstance(record, Regranted) for record in job.history()))
        else:
            until(lambda: any(isinstance(record, Started) for record in job.history()))
            assert session.backend.used_by_children().memory == 0
        job.cancel()


def test_isolation_is_refused_where_there_are_no_child_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(qoop.ConfigError, match="isolation must be one of auto, thread, process, not 'container'"):
        qoop.connect(isolation="container")
    with pytest.raises(qoop.ConfigError, match="needs child processes: Linux, and no Ray"):
        qoop.connect(isolation="process", ray="auto")
