"""Functions that tell the time: they mean one timestamp in all of a query, in its time zone."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.planner.algebra.query_timestamp import QueryTimestamp, is_of_the_moment

FUNCTIONS = (
    "now()", "current_timestamp", "get_current_timestamp()", "transaction_timestamp()", "current_date", "today()",
    "current_time", "get_current_time()", "localtimestamp", "current_localtimestamp()", "localtime",
    "current_localtime()",
)  # fmt: skip
ALIKE = (
    "now() - current_timestamp, now() = get_current_timestamp(), now() = transaction_timestamp(), "
    "current_date = now()::DATE, today() = current_date, current_time::VARCHAR = now()::TIMETZ::VARCHAR, "
    "localtimestamp = now()::TIMESTAMP, current_localtimestamp() = localtimestamp, "
    "localtime = localtimestamp::TIME, current_localtime() = localtime"
)


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/St_Johns"])
def test_all_that_tells_the_time_tells_the_same(zone: str | None) -> None:
    with qoop.connect(slots=2) as session, duckdb.connect() as oracle:
        session.register("t", pa.table({"i": range(3)}))
        oracle.execute("CREATE TABLE t AS SELECT range AS i FROM range(3)")
        if zone is not None:
            session.set("TimeZone", zone)
            oracle.execute(f"SET TimeZone = '{zone}'")
        text = f"SELECT i, {ALIKE} FROM t WHERE now() = current_timestamp ORDER BY i"
        expected = oracle.execute(text).fetchall()
        assert session.sql(text).fetchall() == expected and expected[0] == (0, timedelta(0), *[True] * 9)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_types_are_duckdbs(function: str) -> None:
    literal = QueryTimestamp.now().literal(function.removesuffix("()"))
    assert literal is not None and is_of_the_moment(function.removesuffix("()"))
    told = duckdb.execute(f"SELECT typeof({function}), typeof({literal})").fetchone()
    assert told is not None and told[0] == told[1] == literal.type
    assert QueryTimestamp.now().literal("random") is None and not is_of_the_moment("age")


def test_it_is_one_moment_within_other_functions_too() -> None:
    with qoop.connect(slots=2) as session:
        session.register("t", pa.table({"i": range(1000)}))
        text = (
            "SELECT count(DISTINCT m), min(m) = min(n) FROM (SELECT i % 7 AS k, max(now()) AS m, "
            "max(coalesce(NULL, now())) AS n FROM t GROUP BY k)"
        )
        assert session.sql(text).fetchall() == [(1, True)]
