"""Iceberg tables are read as their metadata say, at the current snapshot or at one that is named."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.sources.lake import LakeSource

pytest.importorskip("pyiceberg")

ROWS = pa.table(
    {
        "x": pa.array(range(60), pa.int32()),
        "day": pa.array([datetime.date(2024, 1, 1 + number % 3) for number in range(60)]),
        "k": pa.array([(None, "a b", "é=/")[number % 3] for number in range(60)]),
        "d": pa.array([Decimal(number) / 4 for number in range(60)], pa.decimal128(10, 2)),
        "stamp": pa.array([datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)] * 60, pa.timestamp("us", "UTC")),
        "u": pa.array([UUID(int=number).bytes for number in range(60)], pa.uuid()),
        "s": pa.array([{"a": number, "b": [str(number)]} for number in range(60)]),
    }
)
TEXTS = (
    "SELECT * FROM t",
    "SELECT k, day, count(*) AS n, sum(d) AS d, max(u) AS u FROM t GROUP BY ALL",
    "SELECT max(x) AS m, typeof(any_value(day)) AS a, typeof(any_value(stamp)) AS b FROM t WHERE k IS NULL",
    "SELECT count(*) AS n FROM t WHERE day = DATE '2024-01-02' AND k = 'a b'",
    "SELECT a.k, sum(b.x) AS s FROM t AS a JOIN t AS b ON a.x = b.x + 1 GROUP BY ALL",
)


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB", staged=True) as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Any]:
    """A catalog, whose tables lie in folders of ``w/n``."""
    from pyiceberg.catalog.sql import SqlCatalog

    made = SqlCatalog("lake", uri="sqlite://", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    yield made
    made.close()


def filled(lake: Any, name: str, data: pa.Table) -> tuple[Any, str]:
    """A table of the rows, and its folder."""
    made = lake.create_table(f"n.{name}", data.schema)
    made.append(data)
    return made, made.location().removeprefix("file://")


def rows(found: Any) -> list[str]:
    return sorted(map(repr, found.fetchall()))


def test_its_rows_are_those_that_were_written(session: qoop.Session, lake: Any) -> None:
    table, folder = filled(lake, "t", ROWS.slice(0, 40))
    with table.update_spec() as change:
        change.add_identity("day")
    table.append(ROWS.slice(40))
    session.register("t", folder)
    source = session.tables()["t"].source
    assert isinstance(source, LakeSource) and session.tables()["t"].max_parts() == 4 and source.extremes(["x"])
    with duckdb.connect() as oracle:
        oracle.execute("SET TimeZone = 'UTC'")
        session.sql("SET TimeZone = 'UTC'")
        oracle.register("t", ROWS)
        for text in TEXTS:
            found, expected = session.sql(text), oracle.sql(text)
            assert (found.columns, found.types) == (expected.columns, list(map(str, expected.types)))
            assert rows(found) == sorted(map(repr, expected.fetchall())) != []


def test_each_query_reads_the_current_snapshot_unless_one_is_named(session: qoop.Session, lake: Any) -> None:
    table, folder = filled(lake, "t", ROWS.slice(0, 40))
    session.register_path(Path(folder).parent)
    session.register("first", folder, version=table.current_snapshot().snapshot_id)
    table.append(ROWS.slice(40))
    count = "SELECT count(*), max(x) FROM {}"
    assert session.sql(count.format("t")).fetchall() == [(60, 59)]
    table.delete("x >= 50")
    assert session.sql(count.format("t")).fetchall() == [(50, 49)]
    assert session.sql(count.format("first")).fetchall() == [(40, 39)]
    file = table.metadata_location.removeprefix("file://")
    assert session.sql(count.format(f"'{file}'")).fetchall() == [(50, 49)]


def test_columns_are_known_by_their_numbers(session: qoop.Session, lake: Any) -> None:
    from pyiceberg.types import LongType, StringType

    table, folder = filled(lake, "t", pa.table({"x": pa.array([1, 2], pa.int32()), "gone": ["a", "b"]}))
    old = table.current_snapshot().snapshot_id
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("x", "y").delete_column("gone").update_column("x", LongType())
    with table.update_schema() as change:
        change.add_column("x", StringType()).add_column("gone", LongType())
    table.append(pa.table({"y": [3], "x": ["new"], "gone": [2**40]}))
    session.register("t", folder)
    session.register("old", folder, version=old)
    expected = [(1, None, None), (2, None, None), (3, "new", 2**40)]
    assert session.sql("SELECT y, x, gone FROM t ORDER BY y").fetchall() == expected
    assert session.sql("SELECT max(y), count(x) FROM t WHERE gone IS NULL").fetchall() == [(2, 0)]
    assert session.sql("SELECT x, gone FROM old ORDER BY x").fetchall() == [(1, "a"), (2, "b")]


def add_file(table: Any, path: str, content: str, **more: Any) -> None:
    """Put a file into a table as it is."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    file = DataFile.from_args(content=DataFileContent[content], file_path=path, file_format=FileFormat.PARQUET,
                              file_size_in_bytes=1000, **more)  # fmt: skip
    file.spec_id = table.spec().spec_id
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def test_files_of_other_writers_are_read_by_the_names_that_are_mapped(
    session: qoop.Session, lake: Any, tmp_path: Path
) -> None:
    from pyiceberg.typedef import Record

    plain = str(tmp_path / "a.parquet")
    pq.write_table(ROWS.select(["x", "k"]), plain)
    table = lake.create_table("n.t", ROWS.select(["day", "x", "k"]).schema)
    with table.update_spec() as change:
        change.add_identity("day")
    days = (datetime.date(2024, 1, 2) - datetime.date(1970, 1, 1)).days
    add_file(table, plain, "DATA", record_count=60, partition=Record(days))
    with pytest.raises(qoop.SourceError, match="does not number its columns"):
        session.register("t", table.location().removeprefix("file://"))
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    session.register("t", table.location().removeprefix("file://"))
    assert session.sql("SELECT day, count(*), sum(x), count(k) FROM t GROUP BY day").fetchall() == [
        (datetime.date(2024, 1, 2), 60, sum(range(60)), 40)
    ]


def add_deletes(table: Any, kind: str) -> None:
    """Put a file of deleted rows next to those of a table."""
    from pyiceberg.typedef import Record

    path = f"{table.location()}/data/deletes-{kind}.parquet"
    [data] = [task.file.file_path for task in table.scan().plan_files()]
    pq.write_table(pa.table({"file_path": [data], "pos": [0]}), path.removeprefix("file://"))
    ids = [1] if kind == "EQUALITY_DELETES" else None
    add_file(table, path, kind, record_count=1, partition=Record(), equality_ids=ids)


def test_what_cannot_be_read_is_reported(session: qoop.Session, lake: Any, tmp_path: Path) -> None:
    from pyiceberg.types import LongType

    table, folder = filled(lake, "t", ROWS)
    snapshot = table.current_snapshot().snapshot_id
    places = {}
    for name in ("POSITION_DELETES", "EQUALITY_DELETES", "grown"):
        one, places[name] = filled(lake, name.lower(), ROWS.select(["x", "s"]))
        if name != "grown":
            add_deletes(one, name)
    with one.update_schema() as change:
        change.add_column(("s", "c"), LongType())
    twice = shutil.copytree(folder, tmp_path / "twice")
    shutil.copy(next((twice / "metadata").glob("00001-*.json")), twice / "metadata" / "00001-other.metadata.json")
    away = shutil.copytree(folder, tmp_path / "away") / "metadata"
    [metadata] = away.glob("00001-*.json")
    metadata.write_text(metadata.read_text().replace("file://", "s3://"))
    (tmp_path / "broken" / "metadata").mkdir(parents=True)
    (tmp_path / "broken" / "metadata" / "v1.metadata.json").write_text("{}")
    for place, version, wrong in (
        (places["POSITION_DELETES"], None, "are deleted and still in it"),
        (places["EQUALITY_DELETES"], None, "equality delete"),
        (places["grown"], None, "its fields have changed"),
        (folder, 9, f"has no snapshot 9; it has {snapshot}"),
        (twice, None, "00001-other.metadata.json; name the file"),
        (away.parent, None, "in another place, such as s3://"),
        (tmp_path / "broken", None, "cannot read the Iceberg table"),
    ):
        with pytest.raises(qoop.SourceError, match=wrong):
            session.register("t", place, version=version)
