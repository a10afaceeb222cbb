"""Estimate against count: what is counted, once and within its time, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from qoop.__main__ import main
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.relation import Aggregate, Scan
from qoop.tpcds.estimates import qerror
from qoop.tpcds.estimates.qerror import Counter, NodeError, QErrorOptions, QErrorReport

A = Column("a", "BIGINT")
SCAN = Scan("t", "1", (("a", A),))
REPORT = QErrorReport(
    (
        NodeError(1, "inner join", "(a = b)", 100.0, 10),
        NodeError(1, "inner join", "(a = c)", 10.0, 10),
        NodeError(2, "aggregate", "a", 5.0, None),
    ),
    {},
)


def test_totals_are_by_kind_and_over_all() -> None:
    totals = REPORT.totals()
    assert list(totals) == ["aggregate", "inner join", "all"]
    expected = {"nodes": 2, "not_counted": 0, "median": 5.5, "p90": 9.1, "p95": 9.55, "max": 10.0}
    assert totals["inner join"] == pytest.approx(expected)
    assert totals["aggregate"]["not_counted"] == 1 and totals["aggregate"]["median"] is None
    assert totals["all"]["nodes"] == 3 and totals["all"]["max"] == 10.0


def test_the_table_begins_with_the_worst() -> None:
    lines = qerror.table(REPORT, worst=1).splitlines()
    assert "(a = b)" in lines[1] and "(a = c)" not in "\n".join(lines)
    assert lines[-1].split() == ["all", "3", "1", "5.5", "9.1", "9.55", "10"]


def test_a_meaning_is_counted_once() -> None:
    asked: list[str] = []
    counter = Counter(lambda text: asked.append(text) or 7, lambda: None, 1.0)
    assert [counter.rows("x", SCAN), counter.rows("x", SCAN), counter.rows("y", Aggregate(SCAN, (A,), ()))] == [7] * 3
    assert len(asked) == 2


def test_a_count_that_takes_too_long_is_given_up() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE small AS FROM range(3) AS r(a)")
        connection.execute("CREATE VIEW t AS SELECT x.range AS a FROM range(1000000) x, range(1000000) y")

        def answer(text: str) -> int:
            return int(connection.execute(text).fetchall()[0][0])

        counter = Counter(answer, connection.interrupt, 0.2)
        slow = Aggregate(SCAN, (A,), ())
        assert counter.rows("slow", slow) is None
        assert counter.rows("small", Scan("small", "1", (("a", A),))) == 3, "what comes after it is not hit"


def test_all_joins_and_aggregates_of_a_query(
    benchmark_texts: None, tpcds_small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Query 3 joins three tables and groups once; the counts are those of DuckDB."""
    written = tmp_path / "report.json"
    assert main(["tpcds", "qerror", str(tpcds_small), "--queries", "3,96", "--json", str(written)]) == 0
    nodes = json.loads(written.read_text())["nodes"]
    joins = [node for node in nodes if node["query"] == 3 and node["kind"] == "inner join"]
    assert len(joins) == 2
    with duckdb.connect() as connection:
        for name in ("date_dim", "store_sales", "item"):
            connection.execute(f"CREATE VIEW {name} AS FROM '{tpcds_small}/{name}.parquet'")
        (ground_truth,) = connection.execute(
            "SELECT count(*) FROM date_dim, store_sales, item WHERE d_date_sk = ss_sold_date_sk"
            " AND ss_item_sk = i_item_sk AND i_manufact_id = 128 AND d_moy = 11"
        ).fetchall()[0]
    assert joins[0]["actual"] == ground_truth
    assert any(node["query"] == 96 and node["kind"] == "aggregate" and node["actual"] == 1 for node in nodes)
    assert "inner join" in capsys.readouterr().out


@pytest.mark.slow
def test_estimates_at_sf1_are_good_enough(benchmark_texts: None, benchmark_data) -> None:  # type: ignore[no-untyped-def]
    report = qerror.measure(QErrorOptions(benchmark_data("tpcds", 1.0)))
    totals = report.totals()["all"]
    assert not report.failed
    assert totals["median"] <= 2 and totals["p90"] <= 20
