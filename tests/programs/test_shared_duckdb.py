"""The DuckDBs that the views of a session share, with copies of the tables that they read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.errors import TableChanged
from qoop.catalog.table import Table
from qoop.programs import shared_duckdb
from qoop.programs.parts import Part, Parts
from qoop.programs.shared_duckdb import SharedDuckDB

DIM = "SELECT i AS k, 'n' || i % 4 AS name, i % 2 AS side FROM range(9) t(i)"
VIEWS = {
    f"v{place}": f"SELECT {column}, sum(v) AS s FROM sales JOIN dim USING (k) WHERE v > {place} GROUP BY {column}"
    for place, column in enumerate(("name", "side", "name", "side"))
}


class Changed(Table):
    """A table whose file changes while it is read."""

    def check(self, split: object = None) -> None:
        raise TableChanged("changed")


@pytest.fixture
def table() -> Table:
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("dim", pa.table({"k": [1, 2], "name": ["a", "b"]}))
        return session.materialized._session.tables.catalog.table("dim")


def test_a_copy_has_the_columns_of_all_its_readers_and_ends_with_the_last(table: Table) -> None:
    shared = SharedDuckDB()
    one, other, copies = shared.connection(()), shared.connection(()), shared.copies(())

    def scan(columns: object) -> str:
        return f"SELECT {', '.join(sorted(columns))} FROM (VALUES (1, 'a')) t(k, name)"

    name = copies.take("one", one, table, ["k"], scan)
    assert copies.take("other", other, table, ["name"], scan) == name
    assert one.execute(f"SELECT k, name FROM {name}").fetchall() == [(1, "a")]
    assert copies.take("other", other, table, ["k"], None) == name, "it is there"
    copies.leave("one", one, "dim", table.version)
    assert other.execute(f"FROM {name}").fetchall()
    copies.leave("other", other, "DIM", table.version)
    assert other.execute("FROM duckdb_tables()").fetchall() == []
    shared.close()


def test_a_copy_that_fails_leaves_the_rows_of_its_version(table: Table) -> None:
    shared = SharedDuckDB()
    connection, copies = shared.connection(()), shared.copies(())
    name = copies.take("one", connection, table, ["k"], lambda columns: "SELECT 1 AS k")
    changed = Changed(table.name, table.columns, table.version, table.source, table.rows)
    with pytest.raises(TableChanged):
        copies.take("other", connection, changed, ["k", "name"], lambda columns: "SELECT 2 AS k, 'b' AS name")
    assert connection.execute(f"FROM {name}").fetchall() == [(1,)]
    shared.close()


def test_further_views_open_no_duckdb_and_copy_no_dimension_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales, dim, opened = tmp_path / "sales", tmp_path / "dim.parquet", []
    original = shared_duckdb.opened
    monkeypatch.setattr(shared_duckdb, "opened", lambda *some, **named: opened.append(1) or original(*some, **named))
    sales.mkdir()

    def put(number: int) -> None:
        duckdb.sql("SELECT i % 9 AS k, i AS v FROM range(20) t(i)").write_parquet(str(sales / f"{number}.parquet"))

    put(0)
    duckdb.sql(DIM).write_parquet(str(dim))
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as oracle:
        session.register("sales", sales)
        session.register("dim", dim)
        oracle.execute(f"CREATE VIEW sales AS FROM '{sales}/*.parquet'; CREATE VIEW dim AS FROM '{dim}'")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for number, text in enumerate((DIM, DIM.replace("'n'", "'m'")), 1):
            put(number)
            duckdb.sql(text).write_parquet(str(dim))
            for name, query in VIEWS.items():
                session.sql(f"REFRESH MATERIALIZED VIEW {name}")
                found = Counter(session.sql(f"FROM {name}").fetchall())
                assert found and found == Counter(oracle.execute(query).fetchall())
        copies = session.materialized._session.leaves.copies(session.materialized._views["v0"].refreshing._shape[0])
        assert len(opened) == 2 and len(copies._copies) == 1
        session.sql("DROP MATERIALIZED VIEW v0")
        put(3)
        session.sql("REFRESH MATERIALIZED VIEW v1")
        assert (
            session.sql("SELECT sum(s) FROM v1").fetchall()
            == oracle.execute(f"SELECT sum(s) FROM ({VIEWS['v1']})").fetchall()
        )


def test_parts_of_few_rows_take_the_memory_of_these() -> None:
    parts = Parts(None)
    rows = pa.table({"a": pa.array(range(3000))}).slice(10, 5)
    kept = parts.put("x", Part(rows, (("a", "BIGINT"),))).rows
    assert kept.equals(rows) and parts.get("x").rows.get_total_buffer_size() == 40
