"""The order of expensive predicates, counted by the rows that each function sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.engine.functions.ordering import ORDER, PASSED, PredicateCounts, best, filters_of, in_orders, orders_of
from qoop.engine.history import Succeeded
from qoop.planner.plan import MARKS

VECTOR = 2048
ROWS = 40 * VECTOR
SPIN = 200


class Counted:
    """Functions that count the rows they see."""

    def __init__(self, session: qoop.Session) -> None:
        self.rows: Counter[str] = Counter()
        self.session = session

    def add(self, name: str, spins: int, function: Callable[[int], Any], result: str = "BOOLEAN") -> None:
        def counted(number: int) -> Any:
            self.rows[name] += 1
            for _ in range(spins):
                pass
            return function(number)

        self.session.register_function(name, counted, ["BIGINT"], result, version="1")


@pytest.fixture
def counted() -> Iterator[Counted]:
    with qoop.connect(slots=1, memory="1GB") as session:
        session.register("t", pa.table({"i": range(ROWS)}))
        yield Counted(session)


def answer(counted: Counted, where: str) -> int:
    counted.rows.clear()
    [(rows,)] = counted.session.sql(f"SELECT count(*) FROM t WHERE {where}").fetchall()
    return int(rows)


def test_the_dear_predicate_sees_what_the_cheap_one_leaves_in_both_orders_of_the_text(counted: Counted) -> None:
    counted.add("dear", SPIN, lambda i: i % 10 != 0)
    counted.add("cheap", 0, lambda i: i % 50, "BIGINT")
    left = ROWS // 50 + 1
    for where in ("dear(i) AND cheap(i) = 3", "cheap(i) = 3 AND dear(i)"):
        assert answer(counted, where) == sum(i % 10 != 0 for i in range(3, ROWS, 50)) > 0
        assert counted.rows["cheap"] <= ROWS
        assert counted.rows["dear"] <= left + 3 * VECTOR, "but for the vectors that told what it costs"
    assert counted.rows["dear"] == pytest.approx(left, abs=5), "a later query begins with what is known"


def test_some_hundred_rows_tell_the_order_of_plain_calls(counted: Counted) -> None:
    counted.add("dear", SPIN, lambda i: i % 10 != 0)
    counted.add("cheap", 0, lambda i: i % 50 == 3)
    left = ROWS // 50 + 1
    for where in ("dear(i) AND cheap(i)", "cheap(i) AND dear(i)"):
        assert answer(counted, where) == sum(i % 10 != 0 for i in range(3, ROWS, 50)) > 0
        assert counted.rows["cheap"] <= ROWS
        assert counted.rows["dear"] <= left + VECTOR, "but for the rows that told what it costs"
    counted.rows.clear()
    job = counted.session.submit("SELECT count(*) FROM t WHERE dear(i) AND cheap(i)")
    assert job.result().fetchall() == [(sum(i % 10 != 0 for i in range(3, ROWS, 50)),)]
    told = [one for record in job.history() if isinstance(record, Succeeded) for one in record.committed.called]
    assert {one.function.partition("@")[0]: one.rows for one in told} == counted.rows, "also those not timed"


@pytest.mark.parametrize("odd", [1, 0, "yes"])
def test_what_is_no_truth_value_is_for_duckdb_to_judge(counted: Counted, odd: object) -> None:
    counted.session.register_function("odd", lambda i: odd, ["BIGINT"], "BOOLEAN", version=f"{odd}")
    counted.add("few", 0, lambda i: i % 1000 == 0)
    with duckdb.connect() as connection:
        connection.create_function("odd", lambda i: odd, [duckdb.sqltype("BIGINT")], duckdb.sqltype("BOOLEAN"))
        text = f"SELECT count(*) FROM range({ROWS}) t(i) WHERE odd(i) AND i % 1000 = 0"
        [(expected,)] = connection.sql(text).fetchall()
    assert answer(counted, "few(i) AND odd(i)") == expected


def test_the_order_follows_the_data(counted: Counted) -> None:
    """The first half of the table fails one predicate, the second half the other."""
    counted.add("low", SPIN, lambda i: i < ROWS // 2)
    counted.add("high", SPIN, lambda i: i >= ROWS // 2)
    assert answer(counted, "low(i) AND high(i)") == 0
    assert counted.rows.total() < 1.7 * ROWS, "in any one order it is 1.5 or 2 vectors a vector"


def test_what_guards_a_function_still_guards_it(counted: Counted) -> None:
    """In another order the function raises, so the task runs again in that of the text."""

    def strict(number: int) -> bool:
        if number % 7 == 0:
            raise ValueError(f"{number} is not for me")
        return number % 100 == 1

    counted.add("guard", SPIN, lambda i: i % 7 != 0)
    counted.session.register_function("strict", strict, ["BIGINT"], "BOOLEAN")
    expected = sum(i % 7 != 0 and i % 100 == 1 for i in range(ROWS))
    assert answer(counted, "guard(i) AND strict(i)") == expected
    with pytest.raises(qoop.FunctionFailed, match=r"strict.*is not for me"):
        answer(counted, "strict(i) AND guard(i)")


def test_functions_go_below_inner_joins_as_in_duckdb(counted: Counted) -> None:
    counted.session.register("d", pa.table({"k": range(50)}))
    counted.add("small", SPIN, lambda k: k % 2 == 0)
    counted.add("fact", 0, lambda i: i % 5 == 0)
    counted.rows.clear()
    text = "SELECT count(*) FROM t JOIN d ON k = i % 100 WHERE small(k) AND fact(i)"
    assert counted.session.sql(text).fetchall() == [(sum(i % 100 < 50 and i % 10 == 0 for i in range(ROWS)),)]
    assert counted.rows["small"] == 50


def test_the_marks_of_a_stage() -> None:
    begin, between, end = MARKS
    sql = f"SELECT a FROM t WHERE b AND {begin}f(a){between}g(a){end}"
    assert filters_of(sql) == [("f(a)", "g(a)")]
    assert in_orders(sql, [[(1, 0)]]) == (
        'SELECT a FROM t WHERE b AND (CASE "order of predicates"(0::INTEGER) WHEN 0 THEN '
        "CASE WHEN g(a) THEN CASE WHEN f(a) THEN true ELSE false END ELSE false END ELSE "
        'CASE WHEN "rows that pass"(0::INTEGER, 1::INTEGER, g(a)) THEN '
        'CASE WHEN "rows that pass"(0::INTEGER, 0::INTEGER, f(a)) THEN true ELSE false END ELSE false END END)'
    )


def test_no_row_is_lost_if_the_answer_changes_between_two_whens() -> None:
    """DuckDB asks again for each WHEN, and threads of one task ask at once."""
    begin, between, end = MARKS
    sql = f"SELECT count(*) FROM range(20000) AS t(i) WHERE {begin}i % 2 = 0{between}i % 3 = 0{end}"
    answers, integer = cycle([1, 2, 0, 3, 3, 1, 2]), duckdb.sqltype("INTEGER")
    with duckdb.connect() as connection:
        connection.create_function(
            ORDER, lambda n: pa.repeat(pa.scalar(next(answers), pa.int32()), len(n)), [integer], integer, type="arrow",
            side_effects=True,
        )  # fmt: skip
        boolean = duckdb.sqltype("BOOLEAN")
        connection.create_function(
            PASSED, lambda n, p, flags: flags, [integer, integer, boolean], boolean, type="arrow"
        )
        found = connection.sql(in_orders(sql, [orders_of(2)])).fetchall()
    assert found == [(len(range(0, 20000, 6)),)]


def test_the_order_of_least_cost_is_that_of_the_rank() -> None:
    seen = [
        PredicateCounts(1e6, 9e5, 1e-3),
        PredicateCounts(1e6, 1e5, 1e-3),
        PredicateCounts(1e6, 5e5, 1e-6),
        PredicateCounts(1e6, 2e5, 1e-4),
    ]
    by_rank = sorted(range(4), key=lambda place: (seen[place].selectivity - 1) / (seen[place].seconds or 1))
    orders = orders_of(4, tuple(by_rank))
    assert orders[best(orders, seen)] == tuple(by_rank)
    assert orders[0] == tuple(by_rank) and orders[1] == (0, 1, 2, 3) and len(orders) == 5
