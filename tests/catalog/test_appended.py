"""A table that files are added to keeps its statistics: only the new files are looked at."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.statistics import collect as collecting
from qoop.catalog.statistics.stats_cache import StatsCache
from qoop.catalog.table import Table

COLUMNS = "i AS id, i // 100 AS day, (i * 7919 % 1000)::INTEGER AS v, 'n' || i % 7 AS name"


def write(folder: Path, number: int, rows: int = 20_000, suffix: str = "parquet") -> None:
    """One more file, whose rows go on from the one before."""
    folder.mkdir(exist_ok=True)
    rows_of = duckdb.sql(f"SELECT {COLUMNS} FROM range({number * 20_000}, {number * 20_000 + rows}) r(i)")
    path = str(folder / f"part{number}.{suffix}")
    rows_of.write_parquet(path) if suffix == "parquet" else rows_of.write_csv(path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """The rows of the tables that statistics were collected of, and the columns."""
    found: list[tuple[int, tuple[str, ...]]] = []
    plainly = collecting._collect

    def noting(cursor: duckdb.DuckDBPyConnection, table: Table, columns: tuple[tuple[str, str], ...]) -> object:
        found.append((table.rows, tuple(name for name, _ in columns)))
        return plainly(cursor, table, columns)

    monkeypatch.setattr(collecting, "_collect", noting)
    return found


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_only_new_files_are_read(tmp_path: Path, read: list[tuple[int, tuple[str, ...]]], suffix: str) -> None:
    for number in range(3):
        write(tmp_path / "t", number, suffix=suffix)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        catalog.stats("t", ["id", "v"])
        write(tmp_path / "t", 3, suffix=suffix)
        assert catalog.refresh("t") is not None
        found = catalog.stats("t", ["v"])
        assert read == [(60_000, ("id", "v")), (20_000, ("id", "v"))]  # what was known of `id` stays known
        assert found.rows == 80_000 and found.columns["id"].maximum == 79_999.0
        assert found.columns["v"].distinct == pytest.approx(1000, rel=0.01) and frozenset({"id"}) in found.keys
        catalog.stats("t", ["day"])
        assert read[2:] == [(80_000, ("day",))]


def test_a_plan_knows_at_once(tmp_path: Path, read: list[tuple[int, tuple[str, ...]]]) -> None:
    for number in range(3):
        write(tmp_path / "t", number)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        before = catalog.stats("t", ["v", "name"])
        write(tmp_path / "t", 3)
        catalog.refresh("t")
        after = catalog.known_stats("t", ["v", "name", "day"])
        assert read == [(60_000, ("v", "name"))]
        assert after.guessed == {"day"} and catalog.collected("t") == {"v", "name"} and after.rows == 80_000
        assert after.columns["v"].bounds and len(after.columns["name"].common) == len(before.columns["name"].common)


def test_pilots_of_before_count(tmp_path: Path) -> None:
    path = tmp_path / "t" / "part0.parquet"
    path.parent.mkdir()
    duckdb.sql(f"SELECT {COLUMNS} FROM range(60000) r(i)").write_parquet(str(path), row_group_size=2048)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", path.parent)
        assert catalog.run_pilots({"t": ["v"]}, 1.0) == ["t"]
        write(path.parent, 3)
        catalog.refresh("t")
        assert catalog.collected("t") == {"v"} and catalog.known_stats("t", ["v"]).columns["v"].bounds
        assert catalog.run_pilots({"t": ["v", "name"]}, 1.0) == ["t"]
        assert catalog.collected("t") == {"v", "name"}


def test_another_process_knows_and_so_does_the_next_file(
    tmp_path: Path, read: list[tuple[int, tuple[str, ...]]]
) -> None:
    for number in range(3):
        write(tmp_path / "t", number)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        catalog.stats("t", ["v"])
    for number in (3, 4):
        write(tmp_path / "t", number)
        with Catalog(tmp_path / "cache") as other:
            other.register("t", tmp_path / "t")
            assert other.collected("t") == {"v"}
            assert other.stats("t", ["v"]).rows == 20_000 * (number + 1)
    assert [rows for rows, _ in read] == [60_000, 20_000, 20_000]


def test_files_that_were_replaced_are_read_again(tmp_path: Path, read: list[tuple[int, tuple[str, ...]]]) -> None:
    for number in range(2):
        write(tmp_path / "t", number)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        catalog.stats("t", ["v"])
        write(tmp_path / "t", 1, rows=10_000)
        write(tmp_path / "t", 2)
        catalog.refresh("t")
        assert catalog.collected("t") == ()
        catalog.stats("t", ["v"])
    assert [rows for rows, _ in read] == [40_000, 50_000]


def test_a_table_that_more_came_to_than_there_was_is_read_as_a_new_one(tmp_path: Path) -> None:
    write(tmp_path / "t", 0)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        catalog.stats("t", ["v"])
        for number in (1, 2):
            write(tmp_path / "t", number)
        catalog.refresh("t")
        assert catalog.collected("t") == () and catalog.known_stats("t", ["v"]).guessed == {"v"}
        assert catalog.stats("t", ["v"]).columns["v"].distinct == pytest.approx(1000, rel=0.01)


def test_a_note_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    write(tmp_path / "t", 0)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t")
        catalog.stats("t", ["v"])
        [note] = (tmp_path / "cache" / "statistics" / "places").iterdir()
        note.write_text(note.read_text().replace('"format": 1', '"format": 1 '))
        write(tmp_path / "t", 1)
        catalog.refresh("t")
        assert StatsCache(tmp_path / "cache").before(catalog.table("t")) is None
