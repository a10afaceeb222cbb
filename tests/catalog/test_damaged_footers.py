"""Footers that lie or are damaged: DuckDB reads the file, or the error is ours and names it; the process stays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import qoop
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import SourceError
from qoop.catalog.sources import footer
from qoop.catalog.sources.parquet import footer_bytes

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

COLUMNS = """i AS id, i % 7 AS k, 's' || (i % 50) AS s, i * 1.5 AS d, DATE '2000-01-01' + (i % 100)::INTEGER AS day,
    CASE WHEN i % 5 = 0 THEN NULL ELSE i END AS n, [i] AS l"""
MUTATIONS = 150


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "t.parquet"
    duckdb.sql(f"COPY (SELECT {COLUMNS} FROM range(6000) r(i)) TO '{path}' (ROW_GROUP_SIZE 2048)")
    return path.read_bytes()


def _footer(data: bytes) -> int:
    """The place where the footer begins."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _known(path: Path, catalog: Catalog) -> bool:
    """True if there are statistics of the file, False if it cannot be read."""
    try:
        table = catalog.register("t", path)
        catalog.known_stats("t", [name for name, _ in table.columns])
        table.source.extremes([name for name, _ in table.columns])
        return True
    except SourceError as error:
        assert path.name in str(error) or "table t" in str(error)
        return False


def test_any_byte_of_a_footer_or_of_a_page_may_be_another(whole: bytes, tmp_path: Path) -> None:
    random_ = random.Random(0)
    known = []
    with Catalog(tmp_path / "cache") as catalog:
        for number in range(MUTATIONS):
            data = bytearray(whole)
            for _ in range(random_.choice((1, 1, 2, 4))):
                place = random_.randrange(4 if random_.random() < 0.3 else _footer(whole), len(data) - 8)
                data[place] = random_.choice((0, 1, 127, 128, 255, data[place] ^ (1 << random_.randrange(8))))
            path = tmp_path / f"{number}.parquet"
            path.write_bytes(data)
            known.append(_known(path, catalog))
    assert set(known) == {True, False}


@pytest.mark.parametrize(
    ("written", "instead"), [(b"\x1c\x15\x04", b"\x1c\x15\x02"), (b"\x15\x02\x16", b"\x15\x7e\x16")]
)
def test_a_column_chunk_of_another_type_or_codec(written: bytes, instead: bytes, whole: bytes, tmp_path: Path) -> None:
    begin = _footer(whole)
    damaged = whole[begin:].replace(written, instead, 1)
    path = tmp_path / "t.parquet"
    path.write_bytes(whole[:begin] + damaged)
    assert damaged != whole[begin:]
    with Catalog(tmp_path / "cache") as catalog:
        assert _known(path, catalog) in (True, False)


def test_a_footer_in_the_usual_encoding_is_checked_as_any_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(f"COPY (SELECT COLUMNS(* EXCLUDE l) FROM (SELECT {COLUMNS} FROM range(3000) r(i))) TO '{path}'")
    random_, tail = random.Random(1), footer_bytes(str(path))
    metadata = footer.read_footer(tail)
    assert footer._has_usual_chunks(tail, *_columns(metadata), metadata.num_row_groups)
    damaged = [bytearray(tail) for _ in range(500)]
    for data in damaged:
        data[random_.randrange(len(data) - 8)] = random_.choice((0, 1, 21, 127, 255))
    quick = [footer.describes_its_columns(bytes(data), metadata) for data in damaged]
    monkeypatch.setattr(footer, "_has_usual_chunks", lambda *_: False)
    assert quick == [footer.describes_its_columns(bytes(data), metadata) for data in damaged]
    assert set(quick) == {True, False}


def _columns(metadata: FileMetaData) -> tuple[list[str], list[str]]:
    columns = footer.paths(metadata)
    return columns, [metadata.schema.column(place).physical_type for place in range(len(columns))]


def test_a_footer_that_arrow_refuses_and_duckdb_takes(tmp_path: Path) -> None:
    path = tmp_path / "maps.parquet"
    duckdb.sql(f"COPY (SELECT i, map(['k' || i], [i]) AS m FROM range(10) r(i)) TO '{path}'")
    whole = path.read_bytes()
    optional, repeated = b"\x35\x02\x18\x01m", b"\x35\x04\x18\x01m"
    path = tmp_path / "repeated.parquet"
    path.write_bytes(whole.replace(optional, repeated, 1))
    assert repeated not in whole
    query = f"SELECT i, m FROM '{path}' WHERE i > 3 ORDER BY i"
    with qoop.connect(slots=2, memory="500MB", staged=True) as session:
        assert session.sql(query).fetchall() == duckdb.sql(query).fetchall() != []


@pytest.mark.parametrize("name", ["c" * 200, "größe/" * 30])
@pytest.mark.parametrize("depth", [0, 20])
def test_long_paths_of_columns_are_no_damage(name: str, depth: int, tmp_path: Path) -> None:
    path, value = tmp_path / "t.parquet", "i"
    for _ in range(depth):
        value = f"struct_pack(f := {value})"
    duckdb.sql(f"""COPY (SELECT i, {value} AS "{name}" FROM range(10) r(i)) TO '{path}'""")
    with Catalog(tmp_path / "cache") as catalog:
        source = catalog.register("t", path).source
        assert source.extremes(["i"]) == {"i": (0, 9)}
        assert (name in source.extremes([name])) is (depth == 0)
