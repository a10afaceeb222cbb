"""The session from outside: what a user registers, asks and gets, with DuckDB as the oracle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import PATIENCE, until

import qoop
from qoop.catalog.interrupts import interruptible, interruptibly
from qoop.engine.history import Started
from qoop.query.statements.settings import options
from qoop.query.streams import EndedBySignal, ended_by_signals

FOREVER = "SELECT sum(a.i * b.i % 7) AS s FROM big a, big b WHERE a.i + b.i > 5"


def orders() -> pa.Table:
    return pa.table(
        {
            "item": ["tea", "tea", "rice", None],
            "price": pa.array([3, 4, None, 2], pa.int32()),
            "moment": pa.array([0, 10**15, 1, 2], pa.timestamp("us", tz="UTC")),
        }
    )


def big() -> pa.Table:
    return pa.table({"i": np.arange(1_000_000)})


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register("orders", orders())
        session.register("big", big())
        yield session


def duckdb_says(text: str, *settings: str) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("orders", orders())
    connection.register("big", big())
    for setting in settings:
        connection.execute(setting)
    return connection.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT NULL, 1 AS x, 2 AS x, count(*) FROM orders",
        "SELECT sum(price), sum(price) // 2, avg(price), item FROM orders GROUP BY item ORDER BY item NULLS FIRST",
        "FROM orders ORDER BY moment",
        "VALUES (1, 'a'), (2, 'b')",
        "WITH t AS (SELECT item FROM orders) SELECT count(DISTINCT item) FROM t",
        "SELECT * FROM orders WHERE false",
        "SELECT 'b'::ENUM('a', 'b') AS e, uuid() IS NULL AS u, [1::HUGEINT] AS l, {'k': 1} AS s",
        "PIVOT (SELECT item, price FROM orders) ON item IN ('tea', 'rice') USING sum(price)",
        "SELECT i % 10 AS d, count(*) AS n, sum(i) AS s FROM big GROUP BY ALL ORDER BY d DESC",
        "DESCRIBE orders",
        "SUMMARIZE SELECT price FROM orders",
        "SELECT max(moment) AS moment FROM orders",
    ],
)
def test_answers_names_and_types_are_duckdbs(session: qoop.Session, text: str) -> None:
    result, expected = session.sql(text), duckdb_says(text)
    assert result.columns == expected.columns
    assert result.types == [str(type_) for type_ in expected.types]
    assert result.fetchall() == expected.fetchall()
    assert result.arrow().schema.types == expected.to_arrow_table().schema.types


def test_tables_come_from_arrow_pandas_polars_files_folders_and_databases(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "two").mkdir()
    pq.write_table(table, tmp_path / "two" / "x.parquet")
    (tmp_path / "text.csv").write_text("a\n1\n2\n")
    with duckdb.connect(str(tmp_path / "file.duckdb")) as connection:
        connection.execute("CREATE TABLE inside AS SELECT unnest([1, 2]) AS a")
    with qoop.connect(slots=1) as session:
        session.register("arrow", table)
        session.register("pandas", pd.DataFrame({"a": [1, 2]}))
        session.register("polars", pl.DataFrame({"a": [1, 2]}))
        session.register("result", session.sql("FROM arrow"))
        session.register("csv", tmp_path / "text.csv")
        session.register_folder(tmp_path)
        session.register_database(tmp_path / "file.duckdb")
        names = [name for (name,) in session.sql("SHOW TABLES").fetchall()]
        assert names == ["arrow", "csv", "inside", "one", "pandas", "polars", "result", "two"] == list(session.tables())
        for name in names:
            assert session.sql(f"SELECT sum(a) FROM {name}").fetchall() == [(3,)], name


def test_registering_again_replaces(session: qoop.Session) -> None:
    session.register("again", pa.table({"a": [1]}))
    session.register("again", pa.table({"b": ["x", "y"]}))
    assert session.sql("SELECT * FROM again ORDER BY b").fetchall() == [("x",), ("y",)]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            "SET TimeZone = 'Asia/Tokyo'",
            "SELECT moment::VARCHAR AS text, hour(moment) AS h FROM orders ORDER BY moment",
        ),
        ("SET default_null_order = 'nulls_first'", "SELECT price FROM orders ORDER BY price"),
        ("SET default_order = 'desc'", "SELECT price FROM orders ORDER BY price NULLS LAST"),
        ("SET integer_division = true", "SELECT price / 2 AS half FROM orders ORDER BY 1 NULLS LAST"),
        ("SET ieee_floating_point_ops = false", "SELECT 1 / (price - price) AS x FROM orders ORDER BY moment"),
        ("SET default_collation = 'nocase'", "SELECT count(*) AS n FROM orders WHERE item = 'TEA'"),
    ],
)
def test_options_that_change_results_reach_every_task(setting: str, text: str) -> None:
    if "ieee" in setting and "error_on_division_by_zero" in options():
        pytest.skip("from DuckDB 2.0 on this makes the query fail")
    with qoop.connect(slots=2) as session:
        session.register("orders", orders())
        before = session.sql(text).fetchall()
        session.sql(setting)
        after = session.sql(text)
        assert after.fetchall() == duckdb_says(text, setting).fetchall() != before
        assert after.arrow().schema.types == duckdb_says(text, setting).to_arrow_table().schema.types
        session.sql("RESET " + setting.split()[1])
        assert session.sql(text).fetchall() == before


@pytest.mark.skipif(duckdb.__version__ < "2", reason="earlier versions list all options, or lack these")
@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("SET error_on_division_by_zero = false", "SELECT 1 / (price - price) AS x FROM orders ORDER BY moment"),
        ("SET regex_match_operator_semantics = 'full'", "SELECT item ~ 't' AS x FROM orders ORDER BY moment"),
    ],
)
def test_an_option_that_duckdb_has_and_does_not_list_is_set(setting: str, text: str) -> None:
    with qoop.connect(slots=2) as session:
        session.register("orders", orders())
        session.sql(setting)
        assert session.sql(text).fetchall() == duckdb_says(text, setting).fetchall() != []


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("SET TimeZone = 'America/New_York'",
         "SELECT count(*) AS n FROM orders WHERE extract(hour FROM to_timestamp(0)) = 19"),
        ("SET TimeZone = 'America/New_York'",
         "SELECT count(*) AS n FROM orders WHERE strftime(TIMESTAMPTZ '2020-02-05 03:00:00+00', '%d') = '04'"),
        ("SET integer_division = true", "SELECT count(*) AS n FROM orders WHERE 7 / 2 = 3"),
    ],
)  # fmt: skip
def test_constants_are_worked_out_under_the_options_of_the_session(setting: str, text: str) -> None:
    with qoop.connect(slots=2) as session:
        session.register("orders", orders())
        session.sql(setting)
        assert session.sql(text).fetchall() == duckdb_says(text, setting).fetchall() != [(0,)]


def test_one_of_several_rows_of_a_subquery_is_taken_where_that_is_allowed() -> None:
    with qoop.connect(slots=1) as session:
        session.register("orders", orders())
        session.sql("SET scalar_subquery_error_on_multiple_rows = false")
        assert session.sql("SELECT (SELECT 5 FROM orders) AS five").fetchall() == [(5,)]


def test_an_unknown_option_is_refused(session: qoop.Session) -> None:
    with pytest.raises(qoop.ConfigError, match="TimeZone"):
        session.sql("SET checkpoint_threshold = 4")
    with pytest.raises(qoop.ConfigError, match="cannot be"):
        session.set("TimeZone", "Atlantis")


def test_errors_in_the_text_are_explained(session: qoop.Session) -> None:
    with pytest.raises(qoop.ParseError):
        session.sql("SELEC 1")
    with pytest.raises(qoop.BindError, match=r"(?s)orders.*\^"):
        session.sql("SELECT * FROM ordes")
    with pytest.raises(qoop.BindError, match=r"(?s)price.*\^"):
        session.sql("SELECT prise FROM orders")
    with pytest.raises(qoop.QueryError, match="CREATE INDEX is not for a session: tables have no indexes"):
        session.sql("CREATE INDEX by_price ON orders (price)")


def test_a_failing_kernel_tells_duckdbs_message(session: qoop.Session) -> None:
    with pytest.raises(qoop.ExecutionError, match="tea"):
        session.sql("SELECT item::INTEGER FROM orders")
    assert session.sql("SELECT count(*) FROM orders").fetchall() == [(4,)]


def test_a_result_outlives_its_session() -> None:
    with qoop.connect(slots=1) as session:
        session.register("orders", orders())
        result = session.sql("SELECT item FROM orders ORDER BY moment")
    assert result.fetchone() == ("tea",)
    assert result.arrow().num_rows == len(result) == 4


def test_a_closed_session_refuses(tmp_path: Path) -> None:
    session = qoop.connect(slots=1)
    session.close()
    session.close()
    for call in (
        lambda: session.sql("SELECT 1"),
        lambda: session.sql("SHOW TABLES"),
        lambda: session.register("t", pa.table({"a": [1]})),
        lambda: session.explain("SELECT 1"),
        lambda: session.set("TimeZone", "UTC"),
    ):
        with pytest.raises(qoop.SessionClosed):
            call()
    assert "closed" in repr(session)


def test_a_job_tells_how_it_went(session: qoop.Session) -> None:
    job = session.submit("SELECT i % 3 AS r, count(*) AS n FROM big GROUP BY r")
    result = job.result(timeout=60)
    assert sorted(result.fetchall()) == [(0, 333334), (1, 333333), (2, 333333)]
    assert job.result() is result
    assert (job.state, job.wait(0)) == ("SUCCEEDED", True)
    assert job.progress().fraction == 1.0
    assert "succeeded" in str(job.history()[-1])
    reports = job.stage_reports()
    assert [report.stage for report in reports] == list(job.plan.stages)
    assert reports[-1].rows == 3 and all(report.tasks == report.stage.width for report in reports)
    assert reports[-1].longest_seconds > 0 and job.planning_seconds > 0


def test_several_jobs_run_at_once(session: qoop.Session) -> None:
    jobs = [session.submit(f"SELECT sum(i) + {n} AS s FROM big") for n in range(8)]
    assert [job.result().fetchall()[0][0] for job in jobs] == [499999500000 + n for n in range(8)]
    assert len({job.id for job in jobs}) == 8


def test_queries_from_several_threads(session: qoop.Session) -> None:
    found: list[int] = []

    def ask(n: int) -> None:
        session.register(f"mine{n}", pa.table({"a": [n]}))
        found.extend(row[0] for row in session.sql(f"SELECT a FROM mine{n}").fetchall())

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(6))


def test_cancel_stops_a_running_kernel_at_once(session: qoop.Session) -> None:
    job = session.submit(FOREVER)
    until(lambda: any(isinstance(record, Started) for record in job.history()))
    begun = time.process_time()
    job.cancel()
    assert job.wait(PATIENCE)
    assert time.process_time() - begun < 1.0
    assert job.state == "CANCELLED"
    with pytest.raises(qoop.Cancelled):
        job.result()


def test_waiting_can_be_limited_without_ending_the_job(session: qoop.Session) -> None:
    job = session.submit(FOREVER)
    with pytest.raises(qoop.Timeout, match="goes on"):
        job.result(timeout=0.1)
    until(lambda: job.state == "RUNNING")
    job.cancel()


def test_a_job_can_be_given_a_time_limit(session: qoop.Session) -> None:
    with pytest.raises(qoop.Timeout, match=r"(did not end within|has taken more than) 0\.[23]\d* s"):
        session.submit(FOREVER, timeout=0.3).result(PATIENCE)  # on a busy machine it may not have begun by then


def test_a_job_can_resume_from_the_checkpoints_of_another_session(tmp_path: Path) -> None:
    pq.write_table(big(), tmp_path / "big.parquet")
    text = "SELECT i % 5 AS r, count(*) AS n FROM big GROUP BY r ORDER BY r"

    def run(resume: bool) -> tuple[list[tuple[int, int]], int]:
        with qoop.connect(slots=2, checkpoints=tmp_path / "checkpoints") as session:
            session.register("big", tmp_path / "big.parquet")
            job = session.submit(text, resume=resume)
            return job.result().fetchall(), sum(report.tasks for report in job.stage_reports())

    first, fresh, resumed = run(False), run(False), run(True)
    assert first[0] == fresh[0] == resumed[0]
    assert first[1] == fresh[1] > resumed[1] == 0


def test_explain_shows_the_plan_without_running_it(session: qoop.Session) -> None:
    text = session.explain(FOREVER)
    assert "big" in text
    assert session.sql("EXPLAIN " + FOREVER).fetchall() == [("physical_plan", text)]


def test_explain_analyze_says_what_was_seen(session: qoop.Session) -> None:
    [(key, text)] = session.sql("EXPLAIN ANALYZE SELECT count(*) FROM orders").fetchall()
    assert key == "analyzed_plan" and "seen: 1 rows" in text


def test_a_statement_after_another(session: qoop.Session) -> None:
    text = "SELECT 1; SELECT price FROM orders ORDER BY moment LIMIT 1;"
    assert session.sql(text).fetchall() == session.execute(text).fetchall() == [(3,)]


def test_closing_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    code = f"""
import os, tempfile, threading
tempfile.tempdir = {str(tmp_path)!r}
import qoop, pyarrow as pa
before = threading.active_count()
with qoop.connect(slots=2, memory="200MB") as session:
    session.register("big", pa.table({{"i": range(100000)}}))
    session.sql("SELECT count(*) FROM big").fetchall()
    session.submit({FOREVER!r})
print(threading.active_count() - before, os.listdir({str(tmp_path)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "0 []"


@pytest.mark.parametrize("way", ["fetchall", "to_arrow_table"])
def test_ctrl_c_while_duckdb_works_for_this_thread_is_a_keyboard_interrupt(way: str) -> None:
    connection = duckdb.connect()
    connection.register("big", big())
    relation = connection.sql(FOREVER)
    threads = set(threading.enumerate())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

    def work() -> object:
        timer.start()
        return getattr(relation, way)()

    with pytest.raises(KeyboardInterrupt):
        interruptibly(connection, work)
    timer.join()
    assert not set(threading.enumerate()) - threads  # those of earlier sessions may end meanwhile
    assert interruptibly(connection, lambda: connection.sql("SELECT 7").fetchall()) == [(7,)]
    with pytest.raises(ZeroDivisionError):
        interruptibly(connection, lambda: 1 / 0)


def test_an_alarm_of_the_program_ends_the_wait_for_a_query() -> None:
    def late(*_: object) -> None:
        raise TimeoutError("the alarm of the program")

    before = signal.signal(signal.SIGUSR1, late)
    try:
        with qoop.connect(slots=1, memory="200MB") as session:
            session.register("big", big())
            job = session.submit(FOREVER)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(TimeoutError, match="of the program"):
                job.wait(60)
            job.cancel()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.skipif(duckdb.__version__ >= "2", reason="DuckDB 2 does not look for signals while it executes a query")
def test_duckdbs_own_word_for_ctrl_c_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise RuntimeError("Query interrupted")
    with pytest.raises(TimeoutError), interruptible():  # as of an alarm of the program
        raise RuntimeError("Query interrupted") from TimeoutError()
    connection = duckdb.connect()
    with pytest.raises(EndedBySignal, match="SIGHUP"), ended_by_signals(), interruptible():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGHUP)).start()
        connection.execute(f"WITH big AS (SELECT range AS i FROM range(1000000)) {FOREVER}")
    connection.interrupt()  # or it would go on
    connection.close()
    with pytest.raises(RuntimeError, match="other"), interruptible():
        raise RuntimeError("other")


def test_ctrl_c_cancels_and_the_session_goes_on(tmp_path: Path) -> None:
    code = f"""
import threading, time, pyarrow as pa, qoop
from qoop.engine.history import Started
with qoop.connect(slots=2) as session:
    session.register("big", pa.table({{"i": range(1000000)}}))

    def tell():
        while not any(isinstance(one, Started) for job in session.cluster.jobs() for one in job.news(0)):
            time.sleep(0.01)
        print("it runs", flush=True)

    threading.Thread(target=tell).start()
    try:
        session.sql({FOREVER!r})
    except KeyboardInterrupt:
        print(session.sql("SELECT 7 AS x").fetchall(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "it runs\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "[(7,)]\n"
    assert process.returncode == 0


@pytest.mark.parametrize("busy", [False, True])
def test_a_session_left_open_is_closed_with_the_interpreter(busy: bool, tmp_path: Path) -> None:
    script = "import qoop; session = qoop.connect(slots=2)"
    if busy:
        script += "; session.submit('SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range % 7 = 3')"
    environment = {**os.environ, "QOOP_SPILL": str(tmp_path)}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_a_pivot_that_cannot_be_parsed_is_an_error_of_ours_wherever_it_is_asked_about() -> None:
    with qoop.connect(slots=1, memory="200MB") as session:
        session.register("t", pa.table({"a": [1], "b": [2], "c": ["x"]}))
        for ask in (session.alternatives, session.explain, session.sql, session.prepare):
            with pytest.raises(qoop.ParseError, match="BY"):
                ask("PIVOT t ON c IN ('x') USING sum(b) GROUP_BY BY a")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT price, sum(CAST(word AS INT))\nFROM words GROUP BY 1", "line 1: SELECT price, sum(CAST(word AS INT))"),
        ("SELECT price\nFROM words WHERE w.word::DATE > '2020-01-01'".replace("words", "words w"), "::DATE >"),
        ("SELECT count(*) FROM words\nWHERE price = word", "line 2: WHERE price = word"),
    ],
)
def test_a_task_that_failed_points_at_the_text_that_was_typed(text: str, line: str) -> None:
    with qoop.connect(slots=1, memory="500MB", staged=True) as staged:
        staged.register("words", pa.table({"word": ["1", "three"], "price": [1, 2]}))
        with pytest.raises(qoop.ExecutionError, match="source column word") as caught:
            staged.sql(text)
    [note] = caught.value.__notes__
    *_, shown, marks = note.split("\n")
    assert line in shown and shown[marks.index("^") :].startswith(("CAST", "w.word", "word"))
    assert (
        "LINE 1" not in str(caught.value) and "SELECT" not in str(caught.value) and "SELECT" in (caught.value.sql or "")
    )


def test_duckdbs_own_plan_that_failed_points_at_the_text_as_duckdb_does(tmp_path: Path) -> None:
    pq.write_table(pa.table({"word": ["1", "three"]}), tmp_path / "words.parquet")
    with qoop.connect(slots=1, memory="500MB", staged=False) as session:
        session.register_folder(tmp_path)
        with pytest.raises(qoop.ExecutionError, match="LINE 1: SELECT sum") as caught:
            session.sql("SELECT sum(CAST(word AS INT)) FROM words")
    assert str(caught.value).count("SELECT") == 1


def test_a_term_of_jobs_that_there_is_not_is_an_error_that_names_those_there_are() -> None:
    with (
        qoop.connect(slots=1, memory="200MB") as session,
        pytest.raises(qoop.ConfigError, match="there is no option wieght; the terms of a job are weight, tenant"),
    ):
        session.submit("SELECT 1", wieght=2.0)  # type: ignore[call-arg]
