"""The estimates of a table from footers alone, against exact values by DuckDB; no row is read for them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import SourceError, TableChanged
from qoop.catalog.statistics import collect as collecting
from qoop.catalog.statistics import parquet_chunks
from qoop.catalog.statistics.footers import from_footers
from qoop.catalog.statistics.stats import ColumnStats, TableStats

ROWS = 200_000
COLUMNS = """
    i AS id, i // 12 AS ticket, (hash(i // 12) % 60000)::INTEGER AS customer, (i * 7919 % 1000)::SMALLINT AS item,
    CASE WHEN i % 4 = 0 THEN NULL ELSE (hash(i) % 100)::INTEGER END AS quarter_null,
    'v' || (hash(i, 2) % 5000)::VARCHAR AS name, (hash(i, 3) % 5000 / 100)::DECIMAL(9, 2) AS price,
    DATE '2000-01-01' + (i // 1000)::INTEGER AS day, TIMESTAMP '2000-01-01' + INTERVAL 1 MINUTE * (i % 500) AS moment,
    i % 3 = 0 AS flag, (hash(i, 4) % 7)::DOUBLE AS real, [i] AS list, NULL::INTEGER AS nothing
"""


@pytest.fixture(scope="module", params=["pyarrow", "zstd", "duckdb", "plain"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows by several writers: with dictionaries, compressed or not, or without them."""
    path: Path = tmp_path_factory.mktemp("footers") / "t.parquet"
    rows = duckdb.connect().sql(f"SELECT {COLUMNS} FROM range({ROWS}) r(i)")  # one that no other test has used
    if request.param == "duckdb":
        rows.write_parquet(str(path), row_group_size=40_960)
        return path
    codec = "zstd" if request.param == "zstd" else "none"
    pq.write_table(
        rows.to_arrow_table(), path, row_group_size=50_000, compression=codec, use_dictionary=request.param != "plain"
    )
    return path


@pytest.fixture
def no_rows_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(*_: object) -> TableStats:
        raise AssertionError("rows are read")

    monkeypatch.setattr(collecting, "collect", collect)


def known(path: Path, cache: Path, *columns: str) -> TableStats:
    with Catalog(cache) as catalog:
        table = catalog.register("t", path)
        return catalog.known_stats("t", columns or [name for name, _ in table.columns])


@pytest.mark.usefixtures("no_rows_read")
def test_footers_tell_nulls_extremes_and_about_how_many_values(example: Path, tmp_path: Path) -> None:
    stats = known(example, tmp_path)
    assert stats.rows == ROWS and stats.guessed == stats.columns.keys() and "list" not in stats.columns
    blind = {"name", "real", "moment"} if not _has_dictionaries(example) else set()
    for name, column in stats.columns.items():
        [(nulls, distinct)] = (
            duckdb.connect().sql(f"SELECT count(*) - count({name}), count(DISTINCT {name}) FROM '{example}'").fetchall()
        )
        assert column.nulls == nulls, name
        if name not in blind | {"customer", "ticket"}:
            assert column.distinct == pytest.approx(distinct, rel=0.05), name
    assert (stats.columns["id"].minimum, stats.columns["id"].maximum) == (0, ROWS - 1)
    assert (stats.columns["price"].minimum, stats.columns["price"].maximum) == (0, 49.99)
    assert stats.columns["name"].maximum == "v999"
    assert stats.keys == {frozenset({"id"})}


def _has_dictionaries(path: Path) -> bool:
    return bool(pq.read_metadata(path).row_group(0).column(3).has_dictionary_page)


@pytest.mark.usefixtures("no_rows_read")
def test_row_groups_that_hold_different_values_are_told_from_those_that_hold_the_same(tmp_path: Path) -> None:
    """Of either column a row group holds a twelfth of the values of its range."""
    rows = (
        duckdb.connect()
        .sql(
            "SELECT (hash(i // 12) % 60000)::INTEGER AS own, (hash(i % 4000) % 60000)::INTEGER AS shared "
            f"FROM range({ROWS}) r(i)"
        )
        .to_arrow_table()
    )
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=50_000)
    stats = known(tmp_path / "t.parquet", tmp_path)
    for name in ("own", "shared"):
        distinct = len(set(rows[name].to_pylist()))
        assert stats.columns[name].distinct == pytest.approx(distinct, rel=0.1)


@pytest.mark.usefixtures("no_rows_read")
def test_values_after_a_dictionary_that_became_too_large_count(tmp_path: Path) -> None:
    rows = pa.table({"id": [str(i) for i in range(100_000)]})
    pq.write_table(rows, tmp_path / "t.parquet", dictionary_pagesize_limit=10_000)
    assert known(tmp_path / "t.parquet", tmp_path).columns["id"].distinct == pytest.approx(100_000, rel=0.1)


@pytest.mark.usefixtures("no_rows_read")
def test_folders_tell_the_values_of_their_columns(tmp_path: Path) -> None:
    for year, rows in ((2000, 10), (2001, 30)):
        folder = tmp_path / "t" / f"year={year}" / "kind=a%20b"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"i": range(rows)}), folder / "f.parquet")
    stats = known(tmp_path / "t", tmp_path)
    assert stats.columns["year"].common == ((2001.0, 0.75), (2000.0, 0.25))
    assert (stats.columns["year"].distinct, stats.columns["kind"].distinct) == (2, 1)
    assert stats.columns["kind"].common == (("a b", 1.0),)


@pytest.mark.usefixtures("no_rows_read")
def test_a_footer_that_says_little(tmp_path: Path) -> None:
    rows = pa.table({"i": pa.array(range(1000)), "s": ["a"] * 1000})
    pq.write_table(rows, tmp_path / "t.parquet", write_statistics=False, use_dictionary=False)
    stats = known(tmp_path / "t.parquet", tmp_path)
    assert stats.columns["i"] == ColumnStats(0.0, 1000.0, width=8.0) and stats.keys == frozenset()


def test_what_was_collected_wins_by_column(example: Path, tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.register("t", example)
        collected = catalog.stats("t", ["price", "name"])
        both = catalog.known_stats("t", ["id", "price", "name"])
        assert both.guessed == {"id"} and both.columns["price"] == collected.columns["price"]
        assert catalog.collected("t") == {"price", "name"}
    assert known(example, tmp_path, "price").guessed == frozenset()  # another process finds them


def test_without_footers_statistics_are_collected(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.register("t", pa.table({"i": [1, 2, 2]}))
        stats = catalog.known_stats("t", ["i"])
    assert stats.guessed == frozenset() and stats.columns["i"].distinct == 2


def test_a_file_that_changed_or_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"i": range(1000)}), path)
    with Catalog(tmp_path) as catalog:
        catalog.register("t", path)
        pq.write_table(pa.table({"i": range(2000)}), path)
        with pytest.raises(TableChanged):
            catalog.known_stats("t", ["i"])
        path.unlink()
        with pytest.raises(SourceError):
            catalog.known_stats("t", ["i"])


def test_a_large_table_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_chunks, "MOST_GROUPS", 5)
    pq.write_table(pa.table({"i": range(20_000), "k": [i % 50 for i in range(20_000)]}), tmp_path / "t.parquet",
                   row_group_size=1000)  # fmt: skip
    with Catalog(tmp_path) as catalog:
        stats = from_footers(catalog.register("t", tmp_path / "t.parquet"), ["i", "k"])
    assert stats.columns["i"].distinct == 20_000 and stats.columns["k"].distinct == 50
    assert stats.columns["i"].maximum == 19_999


@pytest.mark.usefixtures("no_rows_read")
def test_dictionaries_tell_how_many_neighbouring_rows_have_one_value(example: Path, tmp_path: Path) -> None:
    """The lines of a ticket have one customer; where each row group has all values, only encoded runs are known."""
    columns = known(example, tmp_path).columns
    if _has_dictionaries(example):
        assert columns["customer"].run == pytest.approx(12, rel=0.2)
        assert columns["day"].run == pytest.approx(1000, rel=0.2)
    assert all(columns[name].run == pytest.approx(1.0, abs=0.1) for name in ("id", "item", "price", "quarter_null"))
