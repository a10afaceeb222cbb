"""Answers that serve although files were written again: where the columns that a text reads hold what they held."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import PATIENCE

import qoop
from qoop.engine.history import Started
from qoop.query.job import Job
from qoop.session.session import Session

COLUMNS = {"k": "i % 7", "a": "i", "b": "i * 3 % 11", "c": "CASE WHEN i % 9 > 0 THEN 'x' || i % 5 END"}
ROWS = 1000


def write(folder: Path, table: str = "t", rows: int = ROWS, **others: str) -> None:
    """Write a table again. others: columns with other values."""
    columns = ", ".join(f"{text} AS {name}" for name, text in {**COLUMNS, **others}.items())
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns} FROM range({rows}) AS r(i)) TO '{folder / table}.parquet'")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for table in ("t", "u"):
        write(tmp_path, table)
    return tmp_path


@pytest.fixture
def session(as_installed: None, folder: Path) -> Iterator[Session]:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register_folder(folder)
        yield session


def was_there(session: Session, text: str) -> bool:
    jobs: list[Job] = []
    session.sql(text, watch=jobs.append)
    wait_for_digests(session)
    return not any(isinstance(record, Started) for record in jobs[-1].history())


def wait_for_digests(session: Session) -> None:
    """The thread of low priority does one work after the other."""
    done = threading.Event()
    session.planning._background.ask(lambda: None, lambda _: done.set())
    assert done.wait(PATIENCE)


def by_duckdb(folder: Path, text: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for table in ("t", "u"):
            connection.execute(f"CREATE VIEW {table} AS FROM '{folder / table}.parquet'")
        return connection.execute(text).fetchall()


def test_an_answer_serves_while_the_columns_that_it_reads_are_the_same(session: Session, folder: Path) -> None:
    text = "SELECT k, sum(a) AS s FROM t GROUP BY k ORDER BY k"
    assert [was_there(session, text) for _ in range(2)] == [False, True]
    for others in ({"b": "i + 1"}, {"c": "'y'"}, {}):
        write(folder, **others)
        assert was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)
    write(folder, a="i + 1")
    assert not was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)
    write(folder)  # as at first
    assert was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)


def test_another_writer_leaves_the_same_content(session: Session, folder: Path) -> None:
    text = "SELECT max(c) AS c, count(d) AS n, sum(a) AS s FROM t"
    write(folder, d="CASE WHEN i % 3 > 0 THEN i END")
    assert [was_there(session, text) for _ in range(2)] == [False, True]
    rows = pq.read_table(folder / "t.parquet")
    types = {"c": pa.large_string(), "d": pa.int64()}
    hidden = pa.array(range(ROWS), mask=np.array([i % 3 == 0 for i in range(ROWS)]))  # has values below its NULLs
    rows = rows.set_column(rows.schema.get_field_index("d"), "d", hidden)
    others = [pa.field(one.name, types.get(one.name, one.type)) for one in rows.schema]
    pq.write_table(rows.cast(pa.schema(others)), folder / "t.parquet", row_group_size=300)
    assert was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)
    write(folder, d="CASE WHEN i % 3 > 1 THEN i END")
    assert not was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)


def test_files_whose_columns_differ_are_not_compared(as_installed: None, tmp_path: Path) -> None:
    text = "SELECT count(c) AS n, sum(k) AS s FROM t"
    pq.write_table(pa.table({"k": [1, 2], "c": [1, 2]}), tmp_path / "1.parquet")
    with qoop.connect(slots=2, memory="1GB") as session, duckdb.connect() as oracle:
        for first, second in (("C", 1), ("C", None), ("c", 1)):
            pq.write_table(pa.table({"k": [1, 2], first: [1, second]}), tmp_path / "2.parquet")
            session.register("t", str(tmp_path / "*.parquet"))
            files = f"read_parquet('{tmp_path}/*.parquet', union_by_name = true)"
            for _ in range(2):
                assert (
                    session.sql(text).fetchall() == oracle.execute(text.replace("FROM t", f"FROM {files}")).fetchall()
                )
            wait_for_digests(session)


def test_a_column_that_would_be_large_without_its_compression_is_not_compared(session: Session, folder: Path) -> None:
    text = "SELECT max(length(c)) AS n FROM t"
    write(folder, c="repeat('x', 100_000)")
    assert (folder / "t.parquet").stat().st_size < 1 << 20
    assert [was_there(session, text) for _ in range(2)] == [False, True]
    write(folder, c="repeat('x', 100_000)", b="i + 1")
    assert not was_there(session, text) and session.sql(text).fetchall() == by_duckdb(folder, text)


def test_it_does_not_where_rows_came_or_went_or_have_another_order_or_type(session: Session, folder: Path) -> None:
    text = "SELECT k FROM t ORDER BY ALL"
    counted = "SELECT count(*) AS n FROM t"
    for one in (text, counted):
        assert [was_there(session, one) for _ in range(2)] == [False, True]
    for change in ({"rows": ROWS + 7}, {"rows": ROWS - 7}, {"k": "(i + 1) % 7"}, {"k": "(i % 7)::INTEGER"}):
        write(folder, **change)
        assert not was_there(session, text)
        assert session.sql(text).fetchall() == by_duckdb(folder, text)
        assert session.sql(counted).fetchall() == by_duckdb(folder, counted)


TEXTS = (
    "SELECT * FROM t ORDER BY 2",
    "SELECT count(*) AS n FROM (SELECT DISTINCT * FROM t)",
    "FROM t ORDER BY 2",
    "SELECT count(*) AS n FROM (TABLE t)",
    "SELECT max(t)::VARCHAR AS n FROM t",
    "SELECT min(x)::VARCHAR AS n FROM t AS x",
    "SELECT max(hash(COLUMNS('b|c'))) FROM t",
    "SELECT count(*) AS n FROM t NATURAL JOIN u",
    "SELECT count(*) AS n FROM t JOIN u USING (b)",
    'SELECT sum("B") AS n FROM t WHERE "k" > 2',
    "SELECT max(#2) AS n, max(k) FROM t",
    "WITH t AS (SELECT k FROM u) SELECT sum(k) AS n FROM t",
    "WITH v AS (SELECT * FROM t) SELECT sum(k) AS n FROM v WHERE c > 'x2'",
    "SELECT (SELECT count(*) FROM u WHERE u.b < t.b AND u.k = 3) AS n FROM t WHERE a < 5 ORDER BY a",
    "SELECT k FROM t EXCEPT ALL (SELECT b FROM u) ORDER BY 1",
    "SELECT max(x)::VARCHAR AS n FROM (SELECT t FROM t) AS y(x)",
    "SELECT count(*) AS n FROM (SUMMARIZE t)",
    "SELECT a FROM t SEMI JOIN (SELECT * EXCLUDE (a, k) FROM u WHERE k = 1) AS v ON v.b = t.a ORDER BY t.a",
    "SELECT count(*) AS n FROM (PIVOT t ON k USING sum(a) GROUP BY b)",
)


def test_no_answer_is_stale_whatever_reads_a_column(session: Session, folder: Path) -> None:
    for text in TEXTS:
        assert [was_there(session, text) for _ in range(2)] == [False, True]
    for column, table in product(COLUMNS, ("t", "u")):
        write(folder, table, **{column: "'z' || i % 3" if column == "c" else "i % 4 + 2"})
        for text in TEXTS:
            assert session.sql(text).fetchall() == by_duckdb(folder, text), (text, column, table)


def test_users_still_have_their_own_answers_only(session: Session, folder: Path) -> None:
    text = "SELECT sum(a) AS s FROM t"
    for user, there in (("ann", False), ("ann", True), ("bob", False), ("bob", True)):
        job = session.submit(text, user=user, tenant="a")
        job.result()
        assert there != any(isinstance(record, Started) for record in job.history())
    wait_for_digests(session)
    write(folder, b="1")
    job = session.submit(text, user="eve", tenant="a")
    assert job.result().fetchall() == by_duckdb(folder, text)
    assert any(isinstance(record, Started) for record in job.history())
