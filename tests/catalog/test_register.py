"""Registering every kind of source: what is read equals what DuckDB reads, and bad sources are refused clearly."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import SourceError, TableChanged, UnknownTable
from qoop.catalog.sources.footer import plain_columns
from qoop.catalog.table import Table

DATA = pa.table({"k": [1, 2, 3], "s": ["x", None, "z"]})


@pytest.fixture
def catalog(tmp_path: Path):
    with Catalog(tmp_path / "cache") as catalog:
        yield catalog


def rows(table: Table) -> list[tuple[object, ...]]:
    source = table.scan([name for name, _ in table.columns], None)
    with duckdb.connect() as connection:
        if not isinstance(source, str):
            connection.register("source", source)
            source = "FROM source"
        attach = table.attach()
        if attach:
            connection.execute(f"ATTACH '{attach[1]}' AS {attach[0]} (READ_ONLY)")
        return sorted(connection.execute(source).fetchall(), key=repr)


def write_csv(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "source",
    [
        DATA,
        DATA.to_batches()[0],
        DATA.to_reader(),
        ds.dataset(DATA),
        DATA.to_pandas(),
        pl.from_arrow(DATA),
        duckdb.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL), (3, 'z')) v(k, s)"),
    ],
    ids=["table", "batch", "reader", "dataset", "pandas", "polars", "duckdb"],
)
def test_data_in_memory(catalog: Catalog, source: object) -> None:
    table = catalog.register("t", source)
    assert [name for name, _ in table.columns] == ["k", "s"]
    assert dict(table.columns)["s"] == "VARCHAR"
    assert rows(table) == [(1, "x"), (2, None), (3, "z")]
    assert table.rows == 3


def test_types_follow_the_data_where_schemas_are_equal(catalog: Catalog) -> None:
    for query in (
        "SELECT 'x'::ENUM('x', 'y') e",
        "SELECT 'z'::ENUM('z') e",
        "SELECT 1 a",
        "SELECT 2 a",
        "SELECT 1.5 a",
    ):
        with duckdb.connect() as connection:
            relation = connection.sql(query)
            data = relation.to_arrow_table()
            read = connection.from_arrow(data)
            assert catalog.register("t", data).columns == tuple(zip(read.columns, map(str, read.types), strict=True))
    lossless = [pa.field("a", pa.int8(), metadata=about) for about in (None, {"ARROW:extension:name": "arrow.bool8"})]
    found = [catalog.register("t", pa.table({"a": [1]}, schema=pa.schema([field]))).columns for field in lossless]
    assert found == [(("a", "TINYINT"),), (("a", "BOOLEAN"),)]


def test_a_pandas_index_is_not_a_column(catalog: Catalog) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=["p", "q"])
    assert catalog.register("t", frame).columns == (("a", "BIGINT"),)


def test_types_are_duckdbs(catalog: Catalog, tmp_path: Path) -> None:
    select = "SELECT 1::HUGEINT h, 1.5::DECIMAL(7,2) d, DATE '2020-01-01' t, [1, 2] l, {'a': 1} s, true b"
    duckdb.connect().execute(f"COPY ({select}) TO '{tmp_path}/t.parquet'")
    table = catalog.register("t", str(tmp_path / "t.parquet"))
    expected = duckdb.execute(f"DESCRIBE SELECT * FROM '{tmp_path}/t.parquet'").fetchall()
    assert table.columns == tuple((row[0], row[1]) for row in expected)


def test_a_folder_of_tables(catalog: Catalog, tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "one.parquet")
    (tmp_path / "two").mkdir()
    pq.write_table(DATA, tmp_path / "two" / "0.parquet")
    pq.write_table(DATA, tmp_path / "two" / "1.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    assert [(table.name, table.rows) for table in catalog.register_folder(tmp_path)] == [("one", 3), ("two", 6)]


def test_hive_folders_are_columns_of_one_type_in_every_split(catalog: Catalog, tmp_path: Path) -> None:
    for year, value in (("2001", 1), ("2002", 2), ("unknown", 3)):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"x": [value]}), tmp_path / f"year={year}" / "f.parquet")
    table = catalog.register("t", tmp_path)
    assert table.columns == (("x", "BIGINT"), ("year", "VARCHAR"))
    for split in table.split(3):
        described = duckdb.execute(f"DESCRIBE {table.scan(['x', 'year'], split)}").fetchall()
        assert [row[1] for row in described] == ["BIGINT", "VARCHAR"]
    assert rows(table) == [(1, "2001"), (2, "2002"), (3, "unknown")]


def test_hive_values_belong_to_the_version(catalog: Catalog, tmp_path: Path) -> None:
    versions = set()
    for year in (2001, 2002):
        folder = tmp_path / str(year) / f"year={year}"
        folder.mkdir(parents=True)
        pq.write_table(DATA, folder / "f.parquet")
        versions.add(catalog.register("t", tmp_path / str(year)).version)
    assert len(versions) == 2


def test_hive_folders_of_csv(catalog: Catalog, tmp_path: Path) -> None:
    write_csv(tmp_path / "y=1" / "f.csv", "a\n10\n")
    write_csv(tmp_path / "y=2" / "f.csv", "a\n20\n")
    table = catalog.register("t", tmp_path)
    assert (table.columns, rows(table)) == ((("a", "BIGINT"), ("y", "BIGINT")), [(10, 1), (20, 2)])


def test_csv_types_are_those_of_all_files_in_every_split(catalog: Catalog, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", "x,d\n1,2020-01-01\n007,2020-01-02\n")
    write_csv(tmp_path / "b.csv", "x,d\n1.5,2020-01-03\nfoo,2020-01-04\n")
    table = catalog.register("t", str(tmp_path / "*.csv"))
    assert table.columns == (("x", "VARCHAR"), ("d", "DATE"))
    for split in table.split(2):
        described = duckdb.execute(f"DESCRIBE {table.scan(['x', 'd'], split)}").fetchall()
        assert [row[1] for row in described] == ["VARCHAR", "DATE"]
    assert [x for x, _ in rows(table)] == ["007", "1", "1.5", "foo"]


def test_a_late_value_decides_the_type_of_a_csv_column(catalog: Catalog, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "x\n" + "1\n" * 50_000 + "late\n")
    assert catalog.register("t", path).columns == (("x", "VARCHAR"),)


def test_csv_files_may_differ_in_dialect_and_order_but_not_in_columns(catalog: Catalog, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", "x,y,d\n1,a,2020-03-25\n")
    write_csv(tmp_path / "b.csv", "y;x;d\n'b;b';2;26/03/2020\n")
    table = catalog.register("t", str(tmp_path / "*.csv"))
    assert [(x, y, str(d)) for x, y, d in rows(table)] == [(1, "a", "2020-03-25"), (2, "b;b", "2020-03-26")]
    write_csv(tmp_path / "c.csv", "x,z\n1,2\n")
    with pytest.raises(SourceError, match=r"a\.csv has the columns"):
        catalog.register("t", str(tmp_path / "*.csv"))


def test_json_lines_and_arrays(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1, "n": {"x": 1}}\n{"a": 2.5}\n')
    (tmp_path / "b.json").write_text('[{"a": 3}]')
    table = catalog.register("t", tmp_path)
    assert table.columns == (("a", "DOUBLE"), ("n", "STRUCT(x BIGINT)"))
    assert rows(table) == [(1.0, {"x": 1}), (2.5, None), (3.0, None)]
    (tmp_path / "c.json").write_text('[{"a": 3, "t": "05-13-2020 11:00:00 PM"}]')
    with pytest.raises(SourceError, match="not in ISO form"):
        catalog.register("t", tmp_path / "c.json")


def test_json_keys_that_differ_in_case_alone_are_refused(catalog: Catalog, tmp_path: Path) -> None:
    """DuckDB calls their columns a and A_1; read by that name, the second one would be NULL."""
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "b.json").write_text('{"A": 2}')
    with pytest.raises(SourceError, match="differ in case alone, which are the columns A_1"):
        catalog.register("t", tmp_path / "*.json")
    (tmp_path / "b.json").write_text('{"a": 3, "A_1": 4, "a_2": null}')
    assert rows(catalog.register("t", tmp_path / "*.json")) == [(1, None, None), (3, 4, None)]


def test_every_table_of_a_duckdb_file(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE \"odd name\" AS SELECT 1 a, 'x'::ENUM('x', 'y') e; CREATE SCHEMA s")
        database.execute("CREATE TABLE s.u AS SELECT 2 b; CREATE VIEW v AS SELECT 1")
    tables, _ = catalog.register_database(path)
    assert [table.name for table in tables] == ["odd name", "s.u"]
    assert rows(tables[0]) == [(1, "x")]
    assert tables[0].columns[1][1] == "ENUM('x', 'y')"
    duckdb.connect(str(path)).close()  # nothing of ours keeps the file open


def test_a_duckdb_file_open_for_writing(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 1 a")
        with pytest.raises(SourceError, match=r"d\.duckdb: it is already open for writing in this process"):
            catalog.register_database(path)
    assert len(catalog.register_database(path)[0]) == 1


@pytest.mark.parametrize("name", ["a[1]", "a*b", "it's", "a b?", 'q"q', "ü"])
def test_odd_paths(catalog: Catalog, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    path = tmp_path / name / f"{name}.parquet"
    pq.write_table(DATA, path)
    pq.write_table(DATA.slice(0, 1), tmp_path / name / "a1.parquet")
    table = catalog.register("t", path)
    assert len(rows(table)) == 3
    assert catalog.register("t", tmp_path / name).rows == 4


def test_parquet_files_of_different_types_read_as_the_first(catalog: Catalog, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": pa.array([2], pa.int32())}), tmp_path / "1.parquet")
    table = catalog.register("t", tmp_path)
    assert rows(table) == [(1, "x"), (2, "y")]
    described = duckdb.execute(f"DESCRIBE {table.scan(['a'], table.split(2)[1])}").fetchall()
    assert described[0][1] == "BIGINT"


def test_a_column_called_like_the_row_number(catalog: Catalog, tmp_path: Path) -> None:
    pq.write_table(pa.table({"file_row_number": list(range(10))}), tmp_path / "t.parquet", row_group_size=2)
    table = catalog.register("t", tmp_path / "t.parquet")
    assert (table.max_parts(), len(rows(table))) == (1, 10)


def damaged(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(DATA, path)
    content = path.read_bytes()
    if kind == "cut":
        path.write_bytes(content[:-20])
    elif kind == "footer":
        path.write_bytes(content[:-40] + b"\xff" * 30 + content[-10:])
    elif kind == "empty":
        path.write_bytes(b"")
    return path


@pytest.mark.parametrize("kind", ["cut", "footer", "empty"])
def test_a_damaged_parquet_file_is_named(catalog: Catalog, tmp_path: Path, kind: str) -> None:
    with pytest.raises(SourceError, match=r"t\.parquet"):
        catalog.register("t", damaged(tmp_path, kind))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.parquet", r"missing\.parquet: no such file or folder"),
        ("*.parquet", r"no file matches .*\*\.parquet"),
        ("empty", "holds no Parquet, CSV or JSON files"),
        ("mixed", "mixes kinds of files"),
        ("x.txt", r"the format of .*x\.txt is unknown"),
        ("gs://bucket/x.parquet", "only files and s3:// are supported"),
        (42, "cannot make table t of a int"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than one column a"),
        (pa.table({}), "has no columns"),
        (pa.table({"a": pa.array([None], pa.float16())}), "cannot read table t"),
    ],
    ids=str,
)
def test_what_cannot_be_registered_says_why(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: object, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_csv(tmp_path / "mixed" / "a.csv", "a\n1\n")
    (tmp_path / "mixed" / "b.json").write_text("{}")
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(SourceError, match=message):
        catalog.register("t", source)
    assert not catalog.tables()


def test_a_folder_without_tables(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no tables"):
        catalog.register_folder(tmp_path)
    with pytest.raises(SourceError, match="nowhere"):
        Catalog.from_folder(tmp_path / "nowhere")
    write_csv(tmp_path / "a.csv", "a\n1\n")
    with pytest.raises(SourceError, match=r"a table by itself: .*a\.csv"):
        catalog.register_folder(tmp_path)


def test_names_ignore_case_and_misses_name_the_nearest(catalog: Catalog) -> None:
    for name in ("store_sales", "Customer"):
        catalog.register(name, DATA)
    assert catalog.table("CUSTOMER").name == "Customer"
    with pytest.raises(UnknownTable, match="did you mean store_sales"):
        catalog.table("store_sale")
    catalog.drop("customer")
    assert list(catalog.tables()) == ["store_sales"]
    with pytest.raises(UnknownTable, match="there are store_sales"):
        catalog.drop("qqq")


def test_a_changed_parquet_file_is_another_version(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(DATA, path)
    table = catalog.register("t", path)
    table.check()
    pq.write_table(DATA.slice(1), path)
    with pytest.raises(TableChanged, match=r"t\.parquet changed"):
        table.check()
    assert catalog.register("t", path).version != table.version
    path.unlink()
    with pytest.raises(SourceError, match=r"t\.parquet: No such file"):
        table.check()


def test_a_file_of_a_share_is_known_by_what_it_holds(catalog: Catalog, tmp_path: Path) -> None:
    path, copy = tmp_path / "t.parquet", tmp_path / "copy.parquet"
    pq.write_table(DATA, path, write_statistics=False)
    table = catalog.register("t", path.as_uri())
    shutil.copy(path, copy)
    assert catalog.register("copy", copy.as_uri()).version == table.version != catalog.register("t", path).version
    [t] = [one for one in catalog.register_folder(tmp_path.as_uri()) if one.name == "t"]
    assert t.version == table.version and rows(t) == rows(table)
    path.write_bytes(path.read_bytes())
    table.check()
    assert catalog.refresh("t") is None
    rewrite(path, pa.table({"k": [1, 2, 4], "s": ["x", None, "z"]}))
    with pytest.raises(TableChanged):
        table.check()


def rewrite(path: Path, rows: pa.Table) -> None:
    """In place, of the same size and with the same footer."""
    before = path.stat().st_size, pq.read_metadata(path)
    pq.write_table(rows, path, write_statistics=False)
    assert (path.stat().st_size, pq.read_metadata(path)) == before


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_a_text_file_changed_in_place_is_noticed_at_once(catalog: Catalog, tmp_path: Path, name: str) -> None:
    first, second = ("a\n1\n", "a\n2\n") if name == "t.csv" else ('{"a":1}\n', '{"a":2}\n')
    (tmp_path / name).write_text(first)
    table = catalog.register("t", tmp_path / name)
    (tmp_path / name).write_text(second)  # of the same size
    with pytest.raises(TableChanged):
        table.check()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_write_within_one_tick_of_the_clock_is_noticed(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("qoop.catalog.sources.file_stamp.os", SimpleNamespace(stat=coarse_stat))
    path = tmp_path / f"t.{kind}"
    for number in range(10, 20):
        duckdb.connect().execute(f"COPY (SELECT {number} AS a) TO '{path}'")
        table = catalog.register("t", path)
        duckdb.connect().execute(f"COPY (SELECT {number + 1} AS a) TO '{path}'")
        with pytest.raises(TableChanged):
            table.check()


def coarse_stat(path: str) -> SimpleNamespace:
    """As of a system whose clock ticks every 10 ms, and a file that is always written in place."""
    stat, tick = os.stat(path), 10_000_000
    times = {name: getattr(stat, name) // tick * tick + 1 for name in ("st_mtime_ns", "st_ctime_ns")}
    return SimpleNamespace(st_size=stat.st_size, st_ino=1, **times)


def test_a_file_that_stands_still_is_not_read_again(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    table = catalog.register("t", tmp_path / "t.csv")
    monkeypatch.setattr("builtins.open", lambda *_args, **_kwargs: pytest.fail("read again"))
    table.check()


def test_any_write_to_a_duckdb_file_is_another_version(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 1 a; CREATE TABLE u AS SELECT 1 a")
    (table, other), _ = catalog.register_database(path)
    assert table.version != other.version
    table.check()
    with duckdb.connect(str(path)) as database:
        database.execute("UPDATE t SET a = 2")
    with pytest.raises(TableChanged):
        table.check()
    (table, _), _ = catalog.register_database(path)
    with duckdb.connect(str(path)) as database:
        database.execute("SET checkpoint_threshold = '1TB'; PRAGMA disable_checkpoint_on_shutdown; UPDATE t SET a = 3")
    assert Path(f"{path}.wal").exists()
    with pytest.raises(TableChanged):
        table.check()


def test_a_check_of_a_split_looks_at_its_files_only(catalog: Catalog, tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(DATA, tmp_path / f"{number}.parquet")
    table = catalog.register("t", tmp_path)
    first, second = table.split(2)
    (tmp_path / "1.parquet").unlink()
    table.check(first)
    with pytest.raises(SourceError):
        table.check(second)


def test_data_in_memory_never_has_the_same_version_and_stays_in_its_process(catalog: Catalog) -> None:
    table = catalog.register("t", DATA)
    assert catalog.register("t", DATA).version != table.version
    with pytest.raises(SourceError, match="memory of another process"):
        pickle.loads(pickle.dumps(table)).check()


def test_versions_agree_between_processes(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(DATA, path)
    code = "import sys; from qoop.catalog.catalog import Catalog; print(Catalog().register('x', sys.argv[1]).version)"
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == catalog.register("t", path).version


PLAIN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
    "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_MS", "DECIMAL(4,1)", "DECIMAL(18,3)",
    "DECIMAL(38,4)",
)  # fmt: skip
OTHERS = ("BLOB", "TIME", "UUID", "JSON", "TIMESTAMP_NS", "HUGEINT", "INTEGER[]", "STRUCT(a INTEGER)")


@pytest.mark.parametrize("writer", ["DuckDB", "1.0", "2.6"])
def test_columns_of_plain_types_follow_from_the_footer_as_duckdb_reads_them(writer: str, tmp_path: Path) -> None:
    """writer: DuckDB, or Arrow with that version of the format."""
    for place, type_ in enumerate(PLAIN + OTHERS):
        path = tmp_path / f"{place}.parquet"
        row = duckdb.sql(f"SELECT NULL::{type_} AS C, 1 AS d")
        if writer == "DuckDB":
            row.write_parquet(str(path))
        else:
            pq.write_table(row.to_arrow_table(), path, version=writer)
        found = plain_columns(pq.read_metadata(path))
        assert (found is not None) >= (type_ in PLAIN)
        assert found is None or list(found) == [row[:2] for row in duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()]


@pytest.mark.parametrize("columns", ["{'b': 1} AS a", "1 AS a, 'x'::BLOB AS b", "[1] AS a"])
def test_of_other_columns_duckdb_is_asked(columns: str, tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(f"SELECT {columns}").write_parquet(str(path))
    assert plain_columns(pq.read_metadata(path)) is None
    assert catalog.register("t", path).columns == tuple(
        row[:2] for row in duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()
    )
