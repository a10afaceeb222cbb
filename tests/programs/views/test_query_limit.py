"""A query that takes longer than its limit is interrupted, one that ends sooner is not."""

import threading

import duckdb
import pytest

from qoop.programs.views.query_limit import QueryLimit


def test_only_a_query_that_takes_long_is_interrupted() -> None:
    limit = QueryLimit(0.05)
    with duckdb.connect(config={"threads": 1}) as quick, duckdb.connect(config={"threads": 1}) as slow:
        with limit.over(quick):
            assert quick.execute("SELECT 1").fetchall() == [(1,)]
        with limit.over(slow), pytest.raises(duckdb.InterruptException):
            slow.execute(
                "SELECT count(*) FROM range(10_000_000_000) a, range(1000) b WHERE hash(a.range) % 7 = b.range"
            )
        assert quick.execute("SELECT 2").fetchall() == [(2,)]


def test_the_thread_ends_when_there_are_no_queries_and_begins_again() -> None:
    limit = QueryLimit(0.01)
    with duckdb.connect() as connection:
        for _ in range(2):
            with limit.over(connection):
                thread = next(
                    one for one in threading.enumerate() if one.name == "qoop-query-limit" and one is limit._thread
                )
            thread.join(60)
            assert not thread.is_alive() and limit._thread is None
