"""Delta tables are read as their log says, at its latest version or at one that is named."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.sources.lake import LakeSource

deltalake = pytest.importorskip("deltalake")

ROWS = pa.table(
    {
        "x": pa.array(range(60), pa.int64()),
        "day": pa.array([datetime.date(2024, 1, 1 + number % 3) for number in range(60)]),
        "k": pa.array([(None, "a b", "é=/")[number % 3] for number in range(60)]),
        "d": pa.array([Decimal(number) / 4 for number in range(60)], pa.decimal128(10, 2)),
        "stamp": pa.array([datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)] * 60, pa.timestamp("us", "UTC")),
        "s": pa.array([{"a": number, "b": [str(number)]} for number in range(60)]),
    }
)
TEXTS = (
    "SELECT * FROM t",
    "SELECT k, day, count(*) AS n, sum(d) AS d FROM t GROUP BY ALL",
    "SELECT max(x) AS m, typeof(any_value(day)) AS a, typeof(any_value(stamp)) AS b FROM t WHERE k IS NULL",
    "SELECT count(*) AS n FROM t WHERE day = DATE '2024-01-02' AND k = 'a b'",
    "SELECT a.k, sum(b.x) AS s FROM t AS a JOIN t AS b ON a.x = b.x + 1 GROUP BY ALL",
)


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB", staged=True) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = str(tmp_path / "lake" / "t")
    Path(path).parent.mkdir()
    deltalake.write_deltalake(path, ROWS.slice(0, 40), partition_by=["k", "day"])
    deltalake.write_deltalake(path, ROWS.slice(40), mode="append")
    return path


def rows(found: qoop.Result) -> list[str]:
    return sorted(map(repr, found.fetchall()))


def test_its_rows_are_those_that_were_written(session: qoop.Session, folder: str) -> None:
    session.register("t", folder)
    assert isinstance(session.tables()["t"].source, LakeSource) and session.tables()["t"].max_parts() > 3
    with duckdb.connect() as oracle:
        oracle.execute("SET TimeZone = 'UTC'")
        session.sql("SET TimeZone = 'UTC'")
        oracle.register("t", ROWS)
        for text in TEXTS:
            found, expected = session.sql(text), oracle.sql(text)
            assert (found.columns, found.types) == (expected.columns, list(map(str, expected.types)))
            assert rows(found) == sorted(map(repr, expected.fetchall())) != []


def test_each_query_reads_the_latest_version_unless_one_is_named(session: qoop.Session, folder: str) -> None:
    session.register("t", folder)
    session.register("first", folder, version=0)
    count = "SELECT count(*), max(x) FROM {}"
    assert session.sql(count.format("t")).fetchall() == [(60, 59)]
    deltalake.DeltaTable(folder).delete("x >= 50")
    assert session.sql(count.format("t")).fetchall() == [(50, 49)]
    assert session.sql(count.format("first")).fetchall() == [(40, 39)]
    deltalake.write_deltalake(folder, ROWS.slice(0, 1), mode="overwrite")
    assert session.sql(count.format("t")).fetchall() == [(1, 0)]
    assert session.sql(count.format("first")).fetchall() == [(40, 39)]


def test_what_was_known_of_it_stays_known_when_rows_are_appended(session: qoop.Session, folder: str) -> None:
    session.register("t", folder)
    assert session.statistics("t").columns["x"].maximum == 59.0
    later = ROWS.slice(0, 20).set_column(0, "x", pa.array(range(100, 120), pa.int64()))
    deltalake.write_deltalake(folder, later, mode="append")
    assert session.sql("SELECT count(*) FROM t").fetchall() == [(80,)]
    assert session._tables.catalog._cache.before(session._tables.catalog.table("t")) is not None
    found = session.statistics("t").columns["x"]
    assert (found.minimum, found.maximum, found.distinct) == (0.0, 119.0, 80.0)


def test_columns_that_came_later_are_null_before(session: qoop.Session, tmp_path: Path) -> None:
    path = str(tmp_path / "grown")
    deltalake.write_deltalake(path, pa.table({"x": [1, 2]}))
    deltalake.write_deltalake(path, pa.table({"x": [3], "y": ["new"]}), mode="append", schema_mode="merge")
    session.register("t", path)
    assert session.sql("SELECT x, y FROM t ORDER BY x").fetchall() == [(1, None), (2, None), (3, "new")]
    assert session.sql("SELECT count(y), min(x) FROM t WHERE y IS NOT NULL").fetchall() == [(1, 3)]


def test_a_folder_of_tables_has_delta_tables_among_them(session: qoop.Session, folder: str) -> None:
    deltalake.DeltaTable(folder).delete("x >= 50")  # files of the version before lie there still
    pq.write_table(ROWS.slice(0, 3).select(["x"]), Path(folder).parent / "plain.parquet")
    session.register_path(Path(folder).parent)
    assert session.sql("SELECT count(*) FROM t JOIN plain USING (x)").fetchall() == [(3,)]
    assert session.sql("SELECT count(*) FROM t").fetchall() == [(50,)]


def changed(folder: str, change: dict[str, object]) -> None:
    """Write other things into the first entries of a log."""
    log = Path(folder) / "_delta_log" / f"{0:020}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        for kind, values in change.items():
            if kind in entry:
                entry[kind].update(values)
    log.write_text("\n".join(map(json.dumps, entries)) + "\n")


def test_what_cannot_be_read_is_reported(session: qoop.Session, tmp_path: Path, folder: str) -> None:
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    vector = {"storageType": "i", "pathOrInlineDv": "0" * 40, "sizeInBytes": 32, "cardinality": 1}
    for name, change in {
        "deleted": {"protocol": features, "add": {"deletionVector": vector}},
        "mapped": {"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}},
    }.items():
        deltalake.write_deltalake(str(tmp_path / name), pa.table({"x": [1]}))
        changed(str(tmp_path / name), change)
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    for place, version, wrong in (
        (tmp_path / "deleted", None, "has deletion vectors"),
        (tmp_path / "mapped", None, "maps its columns"),
        (tmp_path / "empty", None, "cannot read the Delta table"),
        (folder, 9, "at version 9"),
        (tmp_path, 1, "it is no Delta or Iceberg table"),
    ):
        with pytest.raises(qoop.SourceError, match=wrong):
            session.register("t", place, version=version)
    session.register("t", folder)
    for file in session.tables()["t"].source.files:  # type: ignore[attr-defined]
        Path(file.file.path).unlink()
    with pytest.raises(qoop.CatalogError):
        session.sql("SELECT sum(x) FROM t")
