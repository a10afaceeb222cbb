"""Splits: every row exactly once, whatever the row groups, files and number of parts."""

from __future__ import annotations

import pickle
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import CatalogError
from qoop.catalog.table import Range, Split, Table, balanced_runs


def read(table: Table, columns: list[str], split: Split | None) -> pa.Table:
    rows = table.scan(columns, split)
    if not isinstance(rows, str):
        return rows
    if table.attach() is None:
        return duckdb.sql(rows).to_arrow_table()
    with duckdb.connect() as connection:
        attach = table.attach()
        if attach:
            connection.execute(f"ATTACH '{attach[1]}' AS {attach[0]} (READ_ONLY)")
        return connection.sql(rows).to_arrow_table()


def values(table: Table, split: Split | None) -> list[int]:
    return read(table, ["x"], split).column("x").to_pylist()


def assert_exactly_once(table: Table, parts: int, expected: list[int]) -> None:
    splits = table.split(parts)
    assert len(splits) == parts
    read_back = [value for split in splits for value in values(table, split)]
    assert sorted(read_back) == sorted(expected)
    assert sum(split.rows for split in splits) == table.rows == len(expected)
    assert sum(1 for split in splits if split.ranges) == min(parts, len(table.source.pieces()))


def write_groups(path: Path, first: int, groups: list[int]) -> list[int]:
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    rows = list(range(first, first + sum(groups)))
    with pq.ParquetWriter(path, schema) as writer:
        start = 0
        for size in groups:
            part = rows[start : start + size]
            writer.write_table(pa.table({"x": part, "s": [str(value) for value in part]}, schema=schema))
            start += size
    return rows


@settings(max_examples=15, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(1, 40), max_size=6), min_size=1, max_size=4),
    parts=st.integers(1, 12),
)
def test_parquet_splits_cover_every_row_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], parts: int
) -> None:
    folder = tmp_path_factory.mktemp("table")
    expected: list[int] = []
    for number, groups in enumerate(files):
        expected += write_groups(folder / f"{number}.parquet", len(expected), groups)
    with Catalog(folder) as catalog:
        table = catalog.register("t", folder)
        assert table.max_parts() == max(1, sum(len(groups) for groups in files))
        assert_exactly_once(table, parts, expected)
        assert values(table, None) == expected


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=7), parts=st.integers(1, 5))
def test_the_largest_run_is_as_small_as_it_can_be(sizes: list[int], parts: int) -> None:
    pieces = [Range(str(index), 0, size) for index, size in enumerate(sizes)]
    runs = balanced_runs(pieces, parts)
    assert [piece for run in runs for piece in run] == pieces
    largest = max(sum(piece.rows for piece in run) for run in runs)
    cuts = combinations_with_replacement(range(len(sizes) + 1), parts - 1)
    borders = ([0, *cut, len(sizes)] for cut in cuts)
    best = min(max(sum(sizes[a:b]) for a, b in pairwise(cut)) for cut in borders)
    assert largest == best


def test_a_cut_file_is_read_by_row_numbers_and_a_whole_one_without(tmp_path: Path) -> None:
    write_groups(tmp_path / "a.parquet", 0, [10, 10, 10])
    write_groups(tmp_path / "b.parquet", 30, [10])
    with Catalog(tmp_path) as catalog:
        table = catalog.register("t", tmp_path)
        first, second = table.split(2)
        assert str(first) == "a.parquet[0:10] + a.parquet[10:20]"
        assert "file_row_number >= 0 AND file_row_number < 20" in str(table.scan(["x"], first))
        assert "UNION ALL" in str(table.scan(["x"], second))
        assert "file_row_number" not in str(table.scan(["x"], table.split(1)[0]))


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_arrow_splits_are_slices_of_the_same_memory(tmp_path: Path, parts: int) -> None:
    expected = list(range(300_000))
    data = pa.table({"x": expected})
    with Catalog(tmp_path) as catalog:
        table = catalog.register("t", data)
        assert table.max_parts() == 3
        assert_exactly_once(table, parts, expected)
        address = data.column("x").chunk(0).buffers()[1].address
        assert table.scan(["x"], table.split(2)[1]).column("x").chunk(0).buffers()[1].address == address


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_duckdb_splits_skip_deleted_rows(tmp_path: Path, parts: int) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT i AS x FROM range(300000) r(i)")
        database.execute("DELETE FROM t WHERE x % 3 = 0 OR x > 299000")
    expected = [x for x in range(299_001) if x % 3]
    with Catalog(tmp_path) as catalog:
        (table,), _ = catalog.register_database(tmp_path / "d.duckdb")
        assert table.rows == len(expected)
        read_back = [value for split in table.split(parts) for value in values(table, split)]
        assert sorted(read_back) == expected


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_csv_splits_are_files(tmp_path: Path, parts: int) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("x\n" + "".join(f"{10 * number + i}\n" for i in range(10)))
    with Catalog(tmp_path) as catalog:
        assert_exactly_once(catalog.register("t", tmp_path / "*.csv"), parts, list(range(30)))


def test_an_empty_split_has_the_columns_and_no_rows(tmp_path: Path) -> None:
    write_groups(tmp_path / "t.parquet", 0, [5])
    with Catalog(tmp_path) as catalog:
        table = catalog.register("t", tmp_path / "t.parquet")
        empty = read(table, ["s", "x"], table.split(3)[2])
        assert (empty.num_rows, empty.schema.names, empty.schema.field("x").type) == (0, ["s", "x"], pa.int64())


def test_a_scan_without_columns_keeps_the_number_of_rows(tmp_path: Path) -> None:
    write_groups(tmp_path / "t.parquet", 0, [5, 5])
    with Catalog(tmp_path) as catalog:
        for table in (catalog.register("t", tmp_path / "t.parquet"), catalog.register("a", pa.table({"x": [1] * 10}))):
            assert read(table, [], None).num_rows == 10


def test_splits_are_the_same_in_another_process(tmp_path: Path) -> None:
    write_groups(tmp_path / "t.parquet", 0, [5, 9, 2, 7])
    with Catalog(tmp_path) as catalog:
        table = catalog.register("t", tmp_path / "t.parquet")
        assert pickle.loads(pickle.dumps(table)) == table
        assert pickle.loads(pickle.dumps(table)).split(3) == table.split(3)
        assert hash(pickle.loads(pickle.dumps(table.split(3)))) == hash(table.split(3))


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        table = catalog.register("t", pa.table({"x": [1]}))
        with pytest.raises(CatalogError, match="0 parts"):
            table.split(0)
        with pytest.raises(CatalogError, match="has no column y; it has x"):
            table.scan(["y"], None)
