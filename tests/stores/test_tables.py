"""Tables in a bucket: the same answers as from files, only what is needed is fetched, versions are never mixed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import SourceError, TableChanged
from qoop.catalog.sources import remote
from qoop.catalog.sources.parquet import reach
from qoop.catalog.stores import objects

ROWS = 40_000
QUERY = """
    SELECT s.name AS name, count(*) AS n, sum(f.v) AS v, min(f.d) AS d, max(f.h) AS h
    FROM facts AS f JOIN sorts AS s ON f.k % 5 = s.k WHERE f.k > 20000 GROUP BY s.name ORDER BY name
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """facts/ of four files of several row groups, in folders by year; sorts.parquet."""
    folder, random = tmp_path / "files", numpy.random.default_rng(2)
    for part in range(4):
        (folder / "facts" / f"year={2000 + part}").mkdir(parents=True)
        numbers = range(part * ROWS // 4, (part + 1) * ROWS // 4)
        table = pa.table(
            {
                "k": pa.array(numbers, pa.int64()),
                "v": random.random(len(numbers)).round(2),
                "d": pa.array(random.integers(0, 9000, len(numbers)).astype("int32")).cast(pa.date32()),
                "h": [f"text {number}" for number in numbers],
                "unused": random.random(len(numbers)),
            }
        )
        pq.write_table(table, folder / "facts" / f"year={2000 + part}" / "part.parquet", row_group_size=4_000)
    pq.write_table(pa.table({"k": range(5), "name": list("abcde")}), folder / "sorts.parquet")
    return folder


@pytest.fixture
def client(server: str, bucket: str) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=server)


@pytest.fixture
def uploaded(files: Path, bucket: str, client: Any) -> str:
    """The place of the same files in the bucket."""
    for path in files.rglob("*.parquet"):
        client.upload_file(str(path), bucket.removeprefix("s3://"), f"some/{path.relative_to(files)}")
    return f"{bucket}/some"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, int]]]:
    """Every range that is asked of a store."""
    seen: list[tuple[str, int, int]] = []
    ranges = remote.RemoteParquet._ranges

    def noted(file: remote.RemoteParquet, wanted: Any) -> Any:
        seen.extend((file.version.place, start, length) for start, length in wanted)
        return ranges(file, wanted)

    monkeypatch.setattr(remote.RemoteParquet, "_ranges", noted)
    yield seen


def test_answers_are_those_of_files(files: Path, uploaded: str) -> None:
    with qoop.connect(slots=2) as session, duckdb.connect() as oracle:
        session.register_folder(uploaded)
        oracle.execute(f"CREATE VIEW facts AS FROM read_parquet('{files}/facts/*/*.parquet')")
        oracle.execute(f"CREATE VIEW sorts AS FROM '{files}/sorts.parquet'")
        for text in (QUERY, "SELECT year, count(*), max(k) FROM facts GROUP BY year ORDER BY year"):
            theirs = oracle.execute(text).fetchall()
            mine = session.sql(text).fetchall()
            assert theirs and [row[:2] for row in mine] == [row[:2] for row in theirs]
            assert all(a == pytest.approx(b) for one, other in zip(mine, theirs, strict=True)
                       for a, b in zip(one, other, strict=True))  # fmt: skip


def test_the_same_objects_are_the_same_version_no_matter_who_registers_them(files: Path, uploaded: str) -> None:
    with Catalog() as local, Catalog() as one, Catalog() as other:
        local.register_folder(files)
        mine = {table.name: table.version for table in one.register_folder(uploaded)}
        assert mine == {table.name: table.version for table in other.register_folder(uploaded)}
        assert one.stats("facts") == local.stats("facts")


@pytest.mark.parametrize(
    ("place", "rows"),
    [
        ("sorts.parquet", 5),
        ("facts", ROWS),
        ("facts/**/*.parquet", ROWS),
        ("facts/year=200[01]/*.parquet", 20_000),
        ("*.parquet", 5),
    ],
)
def test_places_are_objects_folders_and_globs(uploaded: str, place: str, rows: int) -> None:
    with qoop.connect(slots=1) as session:
        session.register("t", f"{uploaded}/{place}")
        assert session.sql("SELECT count(*) FROM t").fetchall() == [(rows,)]


def test_a_query_reads_an_object_by_its_place(uploaded: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with qoop.connect(slots=1) as session:
        text = f"SELECT max(name) FROM '{uploaded}/sorts.parquet' WHERE k < 3"
        assert session.sql(text).fetchall() == [("c",)]
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        with_options = f"SELECT max(name) FROM '{uploaded}/sorts.parquet?endpoint={server}' WHERE k < 3"
        assert session.sql(with_options).fetchall() == [("c",)]


def test_only_columns_and_row_groups_that_are_read_are_fetched(
    files: Path, uploaded: str, asked: list[tuple[str, int, int]]
) -> None:
    with qoop.connect(slots=1) as session:
        session.register("t", f"{uploaded}/facts/year=2000/part.parquet")
        session.statistics("t")
        for file in Path(remote.node_cache().root).iterdir():
            file.unlink()
        remote._files.clear()
        asked.clear()
        found = session.sql("SELECT sum(v) FROM t WHERE k BETWEEN 4500 AND 4600").fetchall()
    path = files / "facts" / "year=2000" / "part.parquet"
    assert found == duckdb.sql(f"SELECT sum(v) FROM '{path}' WHERE k BETWEEN 4500 AND 4600").fetchall()
    group = pq.ParquetFile(path).metadata.row_group(1)
    wanted = [group.column(number).total_compressed_size for number in (0, 1)]
    assert sorted(length for _, _, length in asked) == sorted([64 << 10, *wanted]), "the end, and of one row group k, v"


def test_what_was_fetched_stands_on_the_machine(uploaded: str, asked: list[tuple[str, int, int]]) -> None:
    with qoop.connect(slots=2) as session:
        session.register_folder(uploaded)
        session.statistics("facts")
        session.sql(QUERY)
        asked.clear()
        first = session.sql(QUERY).fetchall()
        assert asked == [] and len(first) == 5
        for file in remote.node_cache().root.glob("*.table"):
            file.write_bytes(b"damaged")
        remote._files.clear()
        assert (
            session.sql(
                QUERY,
            ).fetchall()
            == first
            and asked
        )


def test_a_table_can_be_read_by_another_process(uploaded: str) -> None:
    with Catalog() as catalog:
        table = pickle.loads(pickle.dumps(catalog.register("t", f"{uploaded}/sorts.parquet")))
    with duckdb.connect() as connection:
        reach(table.source, connection)
        assert connection.sql(table.scan(["k"], table.split(1)[0])).fetchall() == [(n,) for n in range(5)]


def test_an_object_that_changed_is_read_again_one_that_vanished_told(
    uploaded: str, client: Any, tmp_path: Path
) -> None:
    bucket, key = uploaded.split("/")[2], "some/sorts.parquet"
    with qoop.connect(slots=1) as session:
        session.register("t", f"{uploaded}/sorts.parquet")
        assert session.sql("SELECT count(DISTINCT k) FROM t").fetchall() == [(5,)]
        for file in remote.node_cache().root.glob("*.table"):
            file.unlink()
        pq.write_table(pa.table({"k": range(7), "name": list("abcdefg")}), tmp_path / "new.parquet")
        client.upload_file(str(tmp_path / "new.parquet"), bucket, key)
        assert session.sql("SELECT count(DISTINCT name) FROM t").fetchall() == [(7,)]
        for file in remote.node_cache().root.glob("*.table"):
            file.unlink()
        client.delete_object(Bucket=bucket, Key=key)
        with pytest.raises(SourceError, match=r"cannot read s3://.*sorts[.]parquet"):
            session.sql("SELECT count(DISTINCT k) FROM t")


def test_objects_added_removed_or_replaced_count(uploaded: str, client: Any, tmp_path: Path) -> None:
    bucket, text = uploaded.split("/")[2], "SELECT count(*) AS n, sum(k) AS s FROM sorts"
    with qoop.connect(slots=1, reuse=True) as session:
        session.register("sorts", f"{uploaded}/sorts*.parquet")
        assert session.sql(text).fetchall() == [(5, 10)]
        for number, value in ((1, 3), (2, 4), (2, 5)):
            pq.write_table(pa.table({"k": [value], "name": ["z"]}), tmp_path / "new.parquet")
            client.upload_file(str(tmp_path / "new.parquet"), bucket, f"some/sorts{number}.parquet")
        assert session.sql(text).fetchall() == [(7, 18)]
        client.delete_object(Bucket=bucket, Key="some/sorts1.parquet")
        assert session.sql(text).fetchall() == [(6, 15)]


def test_an_object_without_an_entity_tag_is_refused(uploaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = objects._from_meta
    monkeypatch.setattr(objects, "_from_meta", lambda meta: replace(known(meta), tag=""))
    with Catalog() as catalog:
        for place in ("sorts.parquet", "facts"):
            with pytest.raises(SourceError, match="no entity tag"):
                catalog.register("t", f"{uploaded}/{place}")


def test_no_byte_is_read_of_another_version(uploaded: str, client: Any) -> None:
    """Nothing but the entity tag tells an object from one of the same form."""
    bucket, key = uploaded.split("/")[2], "some/sorts.parquet"
    [version] = remote.find(f"{uploaded}/sorts.parquet", (".parquet",))
    file = remote.RemoteParquet(version)
    assert file.metadata.num_rows == 5 and file.uncached(4, 8)
    client.put_object(Bucket=bucket, Key=key, Body=bytes(version.size))
    for read in (lambda: file.uncached(4, 8), lambda: file.piece(4, 9), lambda: file.fetch([(4, 10), (20, 5)])):
        with pytest.raises(TableChanged, match=r"sorts[.]parquet changed after it was registered"):
            read()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://no-such-bucket/a.parquet", "NoSuchBucket"),
        ("{bucket}/nothing/here", "neither such an object nor any"),
        ("{bucket}/*.parquet", "no object matches"),
        ("{bucket}/text.csv", "only Parquet files"),
        ("{bucket}/bad.parquet", "bad.parquet is not a Parquet file"),
        ("gs://bucket/a.parquet", "only files and s3:// are supported"),
    ],
)
def test_what_cannot_be_read_is_told(bucket: str, client: Any, place: str, said: str) -> None:
    client.put_object(Bucket=bucket.removeprefix("s3://"), Key="text.csv", Body=b"a,b\n1,2\n")
    client.put_object(Bucket=bucket.removeprefix("s3://"), Key="bad.parquet/x", Body=b"a,b\n1,2\n")
    client.put_object(Bucket=bucket.removeprefix("s3://"), Key="folder/bad.parquet", Body=b"a,b\n1,2\n" * 9)
    place = place.format(bucket=bucket).replace("/bad", "/folder/bad")
    with Catalog() as catalog, pytest.raises(SourceError, match=said):
        catalog.register("t", place)


def test_without_credentials_it_says_so(uploaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Catalog() as catalog, pytest.raises(SourceError, match="there are no credentials"):
        catalog.register("t", f"{uploaded}/sorts.parquet")
