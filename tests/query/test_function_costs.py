"""The seconds of functions of Python: believed, seen, and the plans that follow. Rows are counted, not seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from waits import PATIENCE, until

import qoop
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.engine.history import Decided
from qoop.planner.estimate import calls

ROWS, KEYS = 100_000, 1_000
REDUCED = "SELECT count(*), sum(k) FROM t JOIN d ON k = i WHERE odd(x)"
FULL = "SELECT count(*), sum(n) FROM t JOIN d ON k = i % 1000 WHERE odd(x)"
EXPECTED = [(428, sum(i for i in range(0, ROWS, 100) if i % 7 % 2))]


class Counted:
    """A function that counts the rows that it is called for. row_seconds: that it sleeps for each. most: with more rows
    it waits until `released`."""

    def __init__(self, row_seconds: float = 0.0, most: int = 10 * ROWS) -> None:
        self.rows, self.row_seconds, self.most = 0, row_seconds, most
        self.released = threading.Event()

    def __call__(self, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
        self.rows += len(numbers)
        assert self.rows <= self.most or self.released.wait(PATIENCE)
        time.sleep(self.row_seconds * len(numbers))
        return pc.equal(pc.bit_wise_and(numbers, 1), 1)


Opened = Callable[[Counted], qoop.Session]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    sessions = []

    def open_(function: Counted) -> qoop.Session:
        session = qoop.connect(slots=1, memory="1GB", trace=tmp_path / "trace.jsonl")
        sessions.append(session)
        keys = pa.table({"k": range(0, ROWS, ROWS // KEYS), "n": range(KEYS)})
        session.register("t", pa.table({"i": range(ROWS), "x": [i % 7 for i in range(ROWS)]}))
        session.register("d", keys)
        session.register_function("odd", function, ["BIGINT"], "BOOLEAN", vectorised=True, version="1")
        return session

    yield open_
    for session in sessions:
        session.close()


def believe(monkeypatch: pytest.MonkeyPatch, row_seconds: float) -> None:
    monkeypatch.setattr(calls, "VECTORISED_ROW", row_seconds)


def decisions(job: qoop.Job) -> list[Decided]:
    return [record for record in job.history() if isinstance(record, Decided)]


def test_a_function_that_is_dearer_than_believed_moves_above_the_join_while_it_runs(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Below the join it would take 20 s."""
    believe(monkeypatch, 1e-10)
    function = Counted(2e-4, most=ROWS // 8)
    with opened(function) as session:
        job = session.submit(REDUCED)
        until(lambda: any(one.switched for one in decisions(job)))
        function.released.set()
        assert job.result().fetchall() == EXPECTED
        [switch] = [one for one in decisions(job) if one.switched]
        assert "odd takes" in switch.cause and function.rows < ROWS / 4

        function.rows = 0
        job = session.submit(REDUCED)
        assert job.result().fetchall() == EXPECTED
        assert function.rows == KEYS and not any(one.switched for one in decisions(job)), "the next begins with it"
        [(_, call, vectorised, deterministic, seconds)] = session.sql("SHOW FUNCTIONS").fetchall()
        assert (call, vectorised, deterministic) == ("odd(BIGINT) -> BOOLEAN", True, True) and seconds > 1e-4
    again = rerun(read_trace(tmp_path / "trace.jsonl"))
    assert again.difference is None and again.decisions > 0


def test_a_cheap_selective_function_is_pushed_below_the_join(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    believe(monkeypatch, 1e-10)
    function = Counted()
    with opened(function) as session:
        assert session.sql(REDUCED).fetchall() == EXPECTED
        assert function.rows == ROWS


def test_a_function_stays_below_a_join_that_leaves_all_rows(opened: Opened) -> None:
    function = Counted()
    with opened(function) as session:
        plans = session.alternatives(FULL).kept
        assert all(plan.finish.calling() == plans[0].finish.calling() > 0 for plan in plans)
        assert session.sql(FULL).fetchall() != [] and function.rows == ROWS


@pytest.mark.parametrize(("belief", "best"), [(1e-10, ROWS), (1e-6, KEYS)])
def test_both_places_are_kept_and_the_belief_decides(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, belief: float, best: int
) -> None:
    believe(monkeypatch, belief)
    with opened(Counted()) as session:
        kept = session.alternatives(REDUCED).kept
        rows = [sum(s.width * call.rows for s in one.plan.stages for call in s.estimate.calls) for one in kept]
        assert max(rows) == pytest.approx(ROWS) and min(rows) == pytest.approx(KEYS, rel=0.1)
        share = session.planning.usable
        first = min(range(len(kept)), key=lambda place: kept[place].finish.seconds(share))
        assert rows[first] == pytest.approx(best, rel=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*), sum(i) FROM t WHERE odd(x) AND i IN (SELECT k FROM d)",
        "SELECT count(*), sum(i) FROM t WHERE odd(x) AND i NOT IN (SELECT k FROM d WHERE k < 90000)",
        "SELECT count(*), sum(i), sum(n) FROM t LEFT JOIN d ON k = i WHERE odd(x) AND i % 50 = 0",
        "SELECT count(*), sum(t.i) FROM t JOIN d ON k = t.i JOIN t AS u ON u.i = n WHERE odd(t.x) AND odd(u.x)",
        "SELECT n % 10 AS g, count(*) FROM t JOIN d ON k = i AND odd(n + x) WHERE odd(x) GROUP BY g ORDER BY g",
        "WITH w AS (FROM t WHERE odd(x)) SELECT count(*), sum(k) FROM w AS a JOIN d ON k = i JOIN w AS b ON b.i = n",
        "SELECT i FROM t JOIN d ON k = i WHERE odd(x) UNION ALL SELECT n FROM d WHERE odd(n) ORDER BY 1 LIMIT 7",
    ],
)
def test_rows_are_the_same_wherever_the_function_is_called(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    import duckdb

    believe(monkeypatch, 1e-3)
    with opened(Counted()) as session, duckdb.connect() as oracle:
        for name in ("t", "d"):
            oracle.register(name, session.tables()[name].source.data)
        oracle.create_function("odd", Counted(), ["BIGINT"], "BOOLEAN", type="arrow")
        assert session.sql(text).fetchall() == oracle.sql(text).fetchall() != []


def test_the_order_in_which_predicates_are_written_is_no_reason_to_change_plan(opened: Opened) -> None:
    rows, calls = 2 * ROWS, 0

    def dear(number: int) -> bool:
        time.sleep(20e-6)
        return number % 11 != 0

    def cheap(number: int) -> bool:
        nonlocal calls
        calls += 1
        return number % 100 == 3

    with opened(Counted()) as session:
        session.register("u", pa.table({"i": range(rows)}))
        for function in (dear, cheap):
            session.register_function(function.__name__, function, ["BIGINT"], "BOOLEAN")
        job = session.submit("SELECT count(*) FROM u WHERE dear(i) AND cheap(i)")
        assert job.result().fetchall() == [(sum(i % 11 != 0 and i % 100 == 3 for i in range(rows)),)] != [(0,)]
        decided = [record for record in job.history() if isinstance(record, Decided)]
    assert decided and not any(record.switched for record in decided), "what dear takes is a reason to decide"
    assert calls <= rows
