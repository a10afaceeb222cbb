"""Texts that a session binds and runs in child processes: their answers, errors and ends are those of DuckDB's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from waits import PATIENCE, until

import qoop
from qoop.catalog.errors import ProcessEnded
from qoop.engine.backends.local import LocalBackend
from qoop.planner.plan import ISOLATED
from qoop.query.isolation.fair_turns import FairTurns
from qoop.query.isolation.text_isolation import Caller, bound_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are limited on Linux alone")

HEAVY = [
    "SELECT len(range(7)) AS n, 'x' AS \"Text\"",
    "SELECT median(price) AS m, list(id ORDER BY id) AS ids FROM sales GROUP BY id % 3 ORDER BY m",
    "SELECT repeat(name, 2) AS r, x FROM here JOIN sales ON id = x WHERE x < 4 ORDER BY ALL",
    "SELECT list_transform([1, 2], lambda v: v + x) AS l FROM here ORDER BY x LIMIT 3",
    "SELECT len(range(id)) AS n, label FROM cheap ORDER BY n",
    "FROM range(3) t(i)",
    "SELECT id, lpad(name, 12, '.') AS p FROM sales WHERE id IN (" + ", ".join(map(str, range(4000))) + ") ORDER BY id",
    "SELECT id FROM sales WHERE name = rpad('n', 4, '9')",
    "SELECT list(d) AS l FROM (SELECT DATE '2024-01-02' AS d), (SELECT 1::HUGEINT AS h) GROUP BY h",
    "PIVOT (SELECT id % 2 AS even, list_sum(range(id)) AS s FROM sales) ON even USING sum(s)",
]
VIEW = "SELECT id, name AS label FROM sales WHERE price < 30"


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("isolation") / "sales.parquet"
    rows = "SELECT range AS id, 'n' || range AS name, range * 1.5 AS price FROM range(5000)"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    return path


@pytest.fixture(scope="module")
def session(sales: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="1256MB", locked=True) as session:  # of which this process counts with 256 MB
        session.register("sales", sales)
        session.register("here", pa.table({"x": list(range(10))}))
        session.sql(f"CREATE VIEW cheap AS {VIEW}")
        assert isinstance(session.backend, LocalBackend)
        session.isolate(session.backend.processes)
        yield session


@pytest.fixture(scope="module")
def oracle(sales: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE sales AS FROM '{sales}'")
        connection.execute("CREATE TABLE here AS SELECT range AS x FROM range(10)")
        connection.execute(f"CREATE VIEW cheap AS {VIEW}")
        yield connection


@pytest.mark.parametrize("text", HEAVY)
def test_an_answer_of_a_child_process_is_that_of_duckdb(
    session: qoop.Session, oracle: duckdb.DuckDBPyConnection, text: str
) -> None:
    expected = oracle.sql(text)
    found = session.sql(text)
    assert (list(found.columns), list(found.types)) == (expected.columns, list(map(str, expected.types)))
    rows = expected.fetchall()
    assert found.fetchall() == rows != []


def test_a_heavy_text_runs_whole_in_a_process_of_its_own(session: qoop.Session) -> None:
    plan = session.planning.plan("SELECT median(price) FROM sales").plan
    assert [stage.opaque for stage in plan.stages] == [ISOLATED]
    assert session.planning.plan("SELECT sum(price) FROM sales").plan.root.opaque != ISOLATED
    [[_, text]] = session.sql("EXPLAIN SELECT median(price) FROM sales").fetchall()
    assert "in a process of its own" in text
    [[_, text]] = session.sql("EXPLAIN ALTERNATIVES SELECT median(price) FROM sales").fetchall()
    assert "1 plan of 1 shape kept" in text
    [only] = session.alternatives("SELECT median(price) FROM sales").kept
    assert only.plan == session.planning.plan("SELECT median(price) FROM sales").plan


def test_a_text_that_comes_again_is_not_described_again(session: qoop.Session) -> None:
    isolation = session.isolation
    assert isolation is not None
    text, turns = "SELECT median(id) + 1 AS m FROM sales", []
    for _ in range(2):
        assert session.sql(text).fetchall() == [(2500.5,)]
        turns.append(isolation._quick._count + isolation._unknown._count)
    assert turns[0] == turns[1]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT nope(range(3))", qoop.BindError, "nope does not exist"),
        ("SELECT len(range(3)) FROM nowhere", qoop.Forbidden, "'nowhere' is not a registered table"),
        ("SELECT repeat(getenv('HOME'), 2)", qoop.Forbidden, r"getenv\(\) is refused"),
        ("SELECT repeat(content, 2) FROM read_text('/etc/hostname')", qoop.Forbidden, r"read_text\(\) is refused"),
        ("SELECT repeat(column0, 2) FROM '/etc/hostname'", qoop.Forbidden, "not a registered table"),
        ("SELECT list(CAST(name AS INT)) FROM sales", qoop.ExecutionError, "Could not convert string 'n0'"),
        ("SELECT list(id FROM sales", qoop.ParseError, "syntax error"),
    ],
)
def test_the_errors_are_those_of_the_session(
    session: qoop.Session, text: str, error: type[qoop.QoopError], message: str
) -> None:
    with pytest.raises(error, match=message):
        session.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT len(list_transform(range(100000000), lambda x: x::VARCHAR || 'abc'))",
        "SELECT sum(length(repeat('x', x * 300000000))) FROM here",
        "SELECT median(a.id + b.id) FROM sales a, sales b, here",
    ],
)
def test_a_query_beyond_its_memory_fails_alone(session: qoop.Session, text: str) -> None:
    with pytest.raises(qoop.ExecutionError, match=r"memory|process of the query has ended"):
        session.sql(text)
    assert session.sql("SELECT len(range(3))").fetchall() == [(3,)]


def test_a_function_that_cannot_be_interrupted_is_cancelled_at_once(session: qoop.Session) -> None:
    job = session.submit("SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))")
    until(lambda: bool(session.backend.processes._busy))
    begun = time.monotonic()
    job.cancel()
    with pytest.raises(qoop.Cancelled):
        job.result()
    assert time.monotonic() - begun < PATIENCE  # it takes minutes


def test_a_text_that_binds_for_long_is_given_up_when_its_caller_says_so(session: qoop.Session) -> None:
    begun = time.monotonic()

    def check() -> None:
        if time.monotonic() - begun > 0.1:
            raise qoop.Timeout("too long")

    text = "SELECT list(id) FROM sales WHERE " + " AND ".join(f"id <> {number}" for number in range(20_000))
    with bound_for(Caller(check)), pytest.raises(qoop.Timeout, match="too long"):
        session.planning.plan(text)
    assert session.sql("SELECT len(range(3))").fetchall() == [(3,)]


def test_a_table_that_comes_later_is_known_to_the_child_processes(session: qoop.Session) -> None:
    session.register("later", pa.table({"y": [4, 5]}))
    assert session.sql("SELECT list(y) FROM later").fetchall() == [([4, 5],)]
    session.register("later", pa.table({"y": ["a"]}))
    assert session.sql("SELECT list(y) FROM later").fetchall() == [(["a"],)]
    session.unregister("later")
    with pytest.raises(qoop.Forbidden, match="'later' is not a registered table"):
        session.sql("SELECT list(y) FROM later")


def test_a_large_answer_comes_in_pieces(session: qoop.Session) -> None:
    found = session.sql("SELECT i, repeat('x', 50) AS r FROM range(500000) t(i) ORDER BY i")
    assert len(found) == 500_000
    assert found.fetchmany(2) == [(0, 50 * "x"), (1, 50 * "x")]


def test_a_row_has_at_most_32_megabytes(session: qoop.Session) -> None:
    with pytest.raises(qoop.ExecutionError, match="a row of the answer has 40 MB"):
        session.sql("SELECT repeat('x', 40000000)")


def test_options_of_the_session_hold_in_child_processes(session: qoop.Session) -> None:
    session.sql("SET default_null_order = 'nulls_first'")
    try:
        rows = session.sql("SELECT unnest([1, NULL]) AS a, len(range(2)) ORDER BY a").fetchall()
        assert rows == [(None, 2), (1, 2)]
    finally:
        session.sql("RESET default_null_order")


def test_a_process_spills_for_one_query_after_the_other_and_leaves_nothing(session: qoop.Session) -> None:
    text = "SELECT repeat('x', 9) AS r, i FROM range(5000000) t(i) ORDER BY hash(i), i"
    for offset in (0, 1):
        assert len(session.sql(f"{text} LIMIT 4000000 OFFSET {offset}").fetchmany(2)) == 2
    folder = session.backend._scratch.path / "processes"

    def spilled() -> bool:
        return any(path.is_file() for path in folder.rglob("*"))

    job = session.submit(text)
    until(lambda: bool(session.backend.processes._busy))
    job.cancel()
    with pytest.raises(qoop.Cancelled):
        job.result()
    until(lambda: not spilled())


def test_a_short_text_waits_for_none_that_is_bound_for_long(session: qoop.Session) -> None:
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise qoop.Cancelled("enough")

    def bind(number: int) -> None:
        text = f"SELECT list(id) FROM sales WHERE {' AND '.join(f'id <> {number}{one}' for one in range(20_000))}"
        with bound_for(Caller(check, "bombs")), pytest.raises(qoop.Cancelled):
            session.planning.plan(text)

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    try:
        isolation = session.isolation
        assert isolation is not None
        until(lambda: isolation._slow._free == 0)
        with bound_for(Caller(lambda: None, "dashboards")):
            assert session.sql("SELECT len(range(3)) AS n").fetchall() == [(3,)]
        assert isolation._slow._free == 0 and all(thread.is_alive() for thread in threads)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("kills", [1, 2])
def test_a_text_whose_process_is_killed_while_it_is_bound_has_one_more(session: qoop.Session, kills: int) -> None:
    given_up, errors = threading.Event(), list[Exception]()

    def check() -> None:
        if given_up.is_set():
            raise qoop.Cancelled("enough")

    def bind() -> None:
        text = f"SELECT list(id) FROM sales WHERE {' AND '.join(f'id <> {kills}{one}' for one in range(20_000))}"
        with bound_for(Caller(check)), pytest.raises(qoop.QoopError) as raised:
            session.planning.plan(text)
        errors.append(raised.value)

    isolation, killed = session.isolation, set[int]()
    assert isolation is not None
    thread = threading.Thread(target=bind)
    thread.start()
    until(lambda: isolation._slow._free == 1)
    for _ in range(kills):
        killed |= kill_one(session, killed)
    if kills == 1:
        until(lambda: working(session) - killed)
        assert not errors, "another process binds it"
        given_up.set()
    thread.join()
    assert isinstance(errors[0], qoop.Cancelled if kills == 1 else ProcessEnded)
    assert session.sql("SELECT len(range(3)) AS n").fetchall() == [(3,)]


@pytest.mark.parametrize("kills", [1, 2])
def test_a_query_whose_process_is_killed_runs_once_more(session: qoop.Session, kills: int) -> None:
    job = session.submit(f"SELECT levenshtein(repeat('a', 40000{kills}), repeat('b', 400000))")
    killed = set[int]()
    for _ in range(kills):
        killed |= kill_one(session, killed)
    if kills == 1:
        until(lambda: working(session) - killed)
        assert not job.wait(0)
        job.cancel()
    with pytest.raises(qoop.Cancelled if kills == 1 else ProcessEnded):
        job.result()


def working(session: qoop.Session) -> set[int]:
    """The child processes that have a call now."""
    return {process.id for process in list(session.backend.processes._busy) if process.id}


def kill_one(session: qoop.Session, killed: set[int]) -> set[int]:
    """Kill a child process that has a call, and was not killed before. Returns its number."""
    process = min(until(lambda: working(session) - killed))
    os.kill(process, signal.SIGKILL)
    return {process}


def test_a_text_that_is_bound_for_long_takes_no_time_of_quick_ones_again(session: qoop.Session) -> None:
    """Nor does the first such text of a tenant, or another one after it: these have lanes of their own."""
    isolation = session.isolation
    assert isolation is not None
    taken = []
    for column in (9, 9, 8):
        text = "SELECT list(id) FROM sales WHERE " + " AND ".join(f"id <> {column}{one}" for one in range(20_000))
        lanes = isolation._quick, isolation._unknown, isolation._doubtful
        begun = [lane._count for lane in lanes]
        given_up = threading.Event()

        def check(given_up: threading.Event = given_up) -> None:
            if given_up.is_set():
                raise qoop.Cancelled("enough")

        def bind(text: str = text, check: Callable[[], None] = check) -> None:
            with bound_for(Caller(check, "long texts")), pytest.raises(qoop.Cancelled):
                session.planning.plan(text)

        thread = threading.Thread(target=bind)
        thread.start()
        until(lambda: isolation._slow._free == 1)
        given_up.set()
        thread.join()
        taken.append([lane._count > before for lane, before in zip(lanes, begun, strict=True)])
    assert taken == [[False, True, False], [False, False, False], [False, False, True]]
    assert isolation._tenants.rank("long texts") > isolation._tenants.rank("dashboards")


def test_tenants_take_turns() -> None:
    turns, order, go = FairTurns(1), list[str](), threading.Event()

    def take(tenant: str) -> None:
        with turns.turn(tenant, lambda: None):
            go.wait()
            order.append(tenant)

    threads = []
    for count, tenant in enumerate(["a", "a", "a", "b", "a", "b"]):
        threads.append(threading.Thread(target=take, args=(tenant,)))
        threads[-1].start()
        until(lambda count=count: len(turns._waiting) == count)
    go.set()
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "a", "b", "a", "a"]
