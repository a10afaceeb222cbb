"""Texts that differ in constants alone: a summary answers them once enough have come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import Decided, Started
from qoop.session.session import Session

SCRIPT = """
CREATE TABLE sales AS SELECT i % 13 AS day, nullif(i % 17, 3) AS item, (i * 7919 % 1000)::DECIMAL(7, 2) AS price,
    CASE WHEN i % 11 > 0 THEN i % 7 END AS amount FROM range(30_000) r(i);
CREATE TABLE days AS SELECT i AS day_key, i % 4 AS month, 2000 + i // 4 AS year FROM range(12) r(i);
"""
BY_MONTH = (
    "SELECT item, sum(price) AS s, avg(amount) AS a FROM sales, days WHERE day = day_key AND month = {0} "
    "AND year = {1} AND amount BETWEEN {2} AND {2} + 2 GROUP BY item HAVING count(*) > 3 ORDER BY s DESC, item LIMIT 5"
)
CONSTANTS = [(month, year, amount) for month in range(3) for year in (2000, 2001) for amount in (0, 2, 3)]


@pytest.fixture(autouse=True)
def small_texts_count(as_installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.query.summaries.templates.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.summaries.templates.MOST_PART", 100.0)
    monkeypatch.setattr("qoop.query.summaries.templates.seconds_of", lambda stages: 0.0)


@pytest.fixture
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SCRIPT)
        yield connection


@pytest.fixture
def session(oracle: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[Session]:
    for (name,) in oracle.execute("SHOW TABLES").fetchall():
        write(oracle, tmp_path, name)
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register_folder(tmp_path)
        yield session


def write(oracle: duckdb.DuckDBPyConnection, folder: Path, table: str) -> None:
    pq.write_table(oracle.sql(f"FROM {table}").to_arrow_table(), folder / f"{table}.parquet", row_group_size=10_000)


def stages_run(session: Session, oracle: duckdb.DuckDBPyConnection, text: str) -> list[bool]:
    """Run a text, and compare its answer. For each stage of its plan: True if it ran, False if its output was there."""
    job = session.submit(text)
    assert job.result().fetchall() == oracle.sql(text).fetchall(), text
    ran = {record.attempt.task.stage for record in job.history() if isinstance(record, Started)}
    return [stage.id in ran for stage in job.plan.stages]


def test_later_constants_are_answered_from_the_groups_of_earlier_ones(session, oracle):
    ran = [stages_run(session, oracle, BY_MONTH.format(*constants)) for constants in CONSTANTS]
    assert ran[:2] == [[True], [True]]  # by DuckDB's own plan
    made = [place for place, stages in enumerate(ran) if len(stages) > 1 and any(stages[:-1])]
    assert made[0] < 5 and len(made) <= 3, "one for amounts, one for years, too, and one for months"
    assert all(stages == [False] * (len(stages) - 1) + [True] for stages in ran[made[-1] + 1 :])
    assert sum(bool(oracle.sql(BY_MONTH.format(*constants)).fetchall()) for constants in CONSTANTS) > 9


def test_a_changed_table_is_read_again(session, oracle, tmp_path):
    for number, constants in enumerate(CONSTANTS):
        if number % 7 == 6:
            oracle.execute("UPDATE sales SET price = price + 7 WHERE item = 5")
            write(oracle, tmp_path, "sales")
        stages_run(session, oracle, BY_MONTH.format(*constants))


def test_a_summary_is_made_once_the_texts_have_taken_as_long(session, oracle, monkeypatch):
    monkeypatch.setattr("qoop.query.summaries.templates.seconds_of", lambda stages: 1e9)
    ran = [stages_run(session, oracle, BY_MONTH.format(*constants)) for constants in CONSTANTS[:6]]
    assert ran == [[True]] * 6
    monkeypatch.setattr("qoop.query.summaries.templates.seconds_of", lambda stages: 0.0)
    assert len(stages_run(session, oracle, BY_MONTH.format(*CONSTANTS[6]))) > 1


def test_a_constant_that_is_computed_with_is_no_key(session, oracle):
    text = (
        "SELECT month, sum(CASE WHEN amount = {0} THEN price END) AS s FROM sales, days WHERE day = day_key GROUP BY 1"
    )
    for number in range(12):
        job = session.submit(text.format(number))
        assert sorted(job.result().fetchall()) == sorted(oracle.sql(text.format(number)).fetchall())
    assert len(job.plan.stages) == 1


def test_a_search_in_vain_is_not_repeated_for_other_constants(session):
    plans = session.planning._duckdb_plans
    first, other = (f"SELECT count(*) FROM sales WHERE item = {number}" for number in (1, 2))
    job = session.submit(first)
    job.result()
    for chosen, in_vain in (("A", True), ("B", False)):
        plans._learn_search(first, job.plans, [decided(chosen)])
        assert plans.is_searched_in_vain(other) is in_vain
    assert not plans.is_searched_in_vain("SELECT count(*) FROM days")


def decided(chosen: str) -> Decided:
    return Decided(0.1, "the alternatives became known", None, None, "A", chosen, "", (), (), 0.0, 0.01)
