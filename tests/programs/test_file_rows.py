"""Rows of files are read once for several views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.catalog import Catalog
from qoop.catalog.table import Table
from qoop.programs import file_rows
from qoop.programs.file_rows import FileRows


class Reader:
    """Reads files, and counts that."""

    def __init__(self, rows: FileRows, table: Table, *columns: str) -> None:
        self.reads = 0
        self._rows, self.columns = rows, columns
        rows.note(self, table.columns, columns)

    def read(self, sql: str) -> pa.Table:
        self.reads += 1
        return duckdb.sql(sql).to_arrow_table()

    def rows(self, table: Table) -> list[tuple[object, ...]]:
        found = self._rows.rows(table, self.columns, self.read)
        assert found.column_names == list(self.columns)
        return [tuple(row.values()) for row in found.to_pylist()]


def put(folder: Path, name: str, first: int, rows: int = 5) -> None:
    sql = f"SELECT i AS a, 'x' || i AS b, i::DECIMAL(9,2) AS c, i::DOUBLE AS d FROM range({first}, {first + rows}) t(i)"
    duckdb.sql(sql).write_parquet(str(folder / f"{name}.parquet"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    for number in range(3):
        put(tmp_path, str(number), 10 * number)
    with Catalog() as found:
        found.register("t", tmp_path)
        yield found


def expected(folder: Path, columns: Sequence[str]) -> list[tuple[object, ...]]:
    return duckdb.sql(f"SELECT {', '.join(columns)} FROM read_parquet('{folder}/*.parquet')").fetchall()


def test_a_file_is_read_once_for_all_and_again_after_a_change(catalog: Catalog, tmp_path: Path) -> None:
    rows, table = FileRows(), catalog.table("t")
    readers = [Reader(rows, table, *columns) for columns in ("ab", "ca", "b")]
    for _ in range(2):
        assert [one.rows(table) for one in readers] == [expected(tmp_path, one.columns) for one in readers]
    assert [one.reads for one in readers] == [1, 0, 0]
    put(tmp_path, "1", 70, rows=8)
    catalog.refresh("t")
    assert [one.rows(catalog.table("t")) for one in readers] == [expected(tmp_path, one.columns) for one in readers]
    assert [one.reads for one in readers] == [2, 0, 0]


def test_old_rows_are_forgotten(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "_BYTES", 200)
    rows, table = FileRows(), catalog.table("t")
    readers = [Reader(rows, table, *columns) for columns in ("ab", "ac")]
    for _ in range(2):
        assert [one.rows(table) for one in readers] == [expected(tmp_path, one.columns) for one in readers]
    assert all(one.reads == 2 for one in readers)


def test_rows_are_kept_for_several_readers_of_plain_columns(catalog: Catalog) -> None:
    rows, table = FileRows(), catalog.table("t")
    one = Reader(rows, table, "a")
    assert not rows.serves(table, one.columns)
    other = Reader(rows, table, "b", "d")
    assert rows.serves(table, one.columns) and not rows.serves(table, other.columns)
    assert not rows.serves(table, [])
    del other
    assert not rows.serves(table, one.columns)


def test_views_of_a_folder_read_a_new_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, known = list[str](), FileRows.rows
    monkeypatch.setattr(
        FileRows, "rows",
        lambda self, pieces, columns, one: known(self, pieces, columns, lambda sql: (read.append(sql), one(sql))[1]),
    )  # fmt: skip
    queries = [
        f"SELECT a % 2 AS k, sum({column}) AS s, count(*) AS c FROM t WHERE a > 3 GROUP BY 1" for column in "acd"
    ]
    put(tmp_path, "0", 0)
    with qoop.connect(slots=1) as session:
        session.register("t", tmp_path)
        for place, query in enumerate(queries):
            session.sql(f"CREATE MATERIALIZED VIEW v{place} AS {query}")
        for number in (1, 2):
            put(tmp_path, str(number), 10 * number)
            for place in range(3):
                session.sql(f"REFRESH MATERIALIZED VIEW v{place}")
        found = [session.sql(f"FROM v{place} ORDER BY k").fetchall() for place in range(3)]
    t = duckdb.sql(f"FROM read_parquet('{tmp_path}/*.parquet')")
    assert found == [t.query("t", f"{query} ORDER BY k").fetchall() for query in queries]
    assert len(read) == 2  # the sums of floats are read apart
