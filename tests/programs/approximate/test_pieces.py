"""Pieces of a Parquet file: the rows that are read for them, and those that are left out."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.sources.pieces import PIECE, Cut, cut
from qoop.catalog.sources.probe import Probe
from qoop.catalog.sources.register import open_source

ROWS, GROUP = 1_000_000, 70_000


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    path = Path(tmp_path_factory.mktemp("pieces")) / "t.parquet"
    pq.write_table(pa.table({"i": range(ROWS)}), path, row_group_size=GROUP)
    found = cut(open_source(Probe(), "t", path), 256)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "chosen", [(3,), (0, 1, 2), (0, 128, 255), (0, 2, 40, 41, 100, 254, 255), tuple(range(0, 256, 2))]
)
def test_just_the_rows_of_the_pieces_are_read(pieces: Cut, chosen: tuple[int, ...]) -> None:
    size = pieces.files[0].size
    text = pieces.of(chosen).source.scan([("i", "BIGINT"), (PIECE, "INTEGER")], None)
    found = duckdb.sql(f"SELECT i, {PIECE} FROM ({text}) ORDER BY i").fetchall()
    wanted = [(row, piece) for piece in chosen for row in range(piece * size, min(ROWS, (piece + 1) * size))]
    assert found == wanted


def test_row_groups_without_a_piece_are_left_out(pieces: Cut) -> None:
    few, many = (pieces.of(chosen).source.scan([("i", "BIGINT")], None) for chosen in ((0, 1, 250), range(0, 256, 2)))
    assert isinstance(few, str) and isinstance(many, str)
    assert few.count("SELECT") == 2 and many.count("SELECT") == 1


def test_row_groups_of_one_size_are_pieces(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, pa.schema([("i", pa.int64())])) as writer:
        for group in range(50):
            writer.write_table(pa.table({"i": range(group * 1_000, group * 1_000 + 990 + group % 3)}))
    whole = cut(open_source(Probe(), "t", path), 1024)
    assert whole is not None and whole.in_row_groups and whole.count == 50
    text = whole.of((7, 8, 30)).source.scan([("i", "BIGINT"), (PIECE, "INTEGER")], None)
    found = duckdb.sql(f"SELECT i, {PIECE} FROM ({text}) ORDER BY i").fetchall()
    assert found == [(k * 1_000 + row, k) for k in (7, 8, 30) for row in range(990 + k % 3)]
    stretches = whole.of((7, 8, 30)).source.scan([("i", "BIGINT")], None)
    assert duckdb.sql(f"SELECT count(*) FROM ({stretches})").fetchall() == [(990 * 3 + 1 + 2 + 0,)]
    assert whole.of((1, 2)).version != whole.of((1, 3)).version != whole.of(range(50)).version


def test_row_groups_that_differ_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, pa.schema([("i", pa.int64())])) as writer:
        for group in range(60):
            writer.write_table(pa.table({"i": range(9_000 if group % 2 else 3_000)}))
    found = cut(open_source(Probe(), "t", path), 1024)
    assert found is not None and not found.in_row_groups and found.files[0].size < 3_000


def test_pieces_are_what_they_were_when_files_are_added(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()

    def versions(*chosen: int) -> list[str]:
        with Catalog(tmp_path / "cache") as catalog:
            table = catalog.register("t", folder)
            found = cut(table, table.rows // 250, 100)
        assert found is not None
        return [found.of([piece]).version for piece in chosen]

    duckdb.sql("SELECT i FROM range(1000) r(i)").write_parquet(str(folder / "a.parquet"))
    before = versions(0, 1)
    duckdb.sql("SELECT i FROM range(1000, 2000) r(i)").write_parquet(str(folder / "b.parquet"))
    after = versions(0, 1)
    duckdb.sql("SELECT -i AS i FROM range(1000) r(i)").write_parquet(str(folder / "a.parquet"))
    assert before == after and not set(before) & set(versions(0, 1)) and len(set(before)) == 2
