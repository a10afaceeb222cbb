"""Materialized views over created tables, and over lakes whose files are written again: refreshes read new rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.sources.delta import _files_of
from qoop.session.session import Session

VIEW = "SELECT a % 3 AS k, sum(a)::BIGINT AS s, count(*) AS c FROM t GROUP BY k"


@pytest.fixture(params=["memory", "folder"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path if request.param == "folder" else None) as opened:
        opened.sql("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(100_000) r(i)")
        yield opened


def refreshed(session: Session) -> int:
    """The rows that a refresh has read; the view is as the query then."""
    session.sql("REFRESH MATERIALIZED VIEW v")
    found = session.sql("FROM v ORDER BY k").fetchall()
    assert found and found == session.sql(f"{VIEW} ORDER BY k").fetchall()
    [view] = session.materialized_views()
    assert view.incremental and view.lag == 0
    return view.rows_read


def test_a_refresh_reads_the_new_pieces_alone(session: Session) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {VIEW}")
    for number in range(17):  # small pieces are packed meanwhile
        session.sql(f"INSERT INTO t SELECT i, 'y' FROM range({number}, {number + 3}) r(i)")
        assert refreshed(session) == 3
    session.sql("INSERT INTO t VALUES (1, 'z'); INSERT INTO t VALUES (2, 'z')")
    assert refreshed(session) == 2
    session.sql("DELETE FROM t WHERE a = 99_999")
    assert refreshed(session) == 99_999
    session.sql("DELETE FROM t WHERE b = 'z'")
    refreshed(session)


def test_many_inserts_between_two_refreshes_cost_their_rows(session: Session) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    read = 0
    for _ in range(2):
        for number in range(11):
            session.sql(f"INSERT INTO t VALUES ({number}, 'y')")
        read += refreshed(session)
    assert read < 2 * 11 * 4, "pieces that were packed with later ones are read again, and the large one is not"


def test_a_compacted_delta_table_is_not_read_again(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = str(tmp_path / "lake")
    for first in range(0, 50, 10):
        deltalake.write_deltalake(place, pa.table({"a": range(first, first + 10)}), mode="append")
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("t", place)
        session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
        deltalake.write_deltalake(place, pa.table({"a": [100, 101]}), mode="append")
        deltalake.write_deltalake(place, pa.table({"a": [102]}), mode="append")
        assert refreshed(session) == 3
        assert deltalake.DeltaTable(place).optimize.compact()["numFilesRemoved"] == 7
        assert refreshed(session) == 0
        deltalake.write_deltalake(place, pa.table({"a": [7]}), mode="append")
        assert refreshed(session) == 1
        deltalake.DeltaTable(place).delete("a = 100")
        assert refreshed(session) == 52


def test_a_compaction_after_deletion_vectors_is_a_change(tmp_path: Path) -> None:
    """The rows that a vector deletes are in the file that is compacted, and not in the one that came."""
    commit = tmp_path / "00000000000000000009.json"
    gone = {"path": "a.parquet", "dataChange": False}
    came = '{"add": {"path": "b.parquet", "dataChange": false}}'
    for removed, same in ((gone, True), (gone | {"deletionVector": {"storageType": "u"}}, False)):
        commit.write_text(f"{json.dumps({'remove': removed})}\n{came}")
        _files_of.cache_clear()
        assert _files_of(str(commit)) == (("a.parquet",), ("b.parquet",), same)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Any]:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    made = catalogs.SqlCatalog("lake", uri="sqlite://", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    yield made.create_table("n.t", pa.schema({"a": pa.int64()}))
    made.close()


def replaced(lake: Any, rows: pa.Table, operation: str) -> None:
    """Write three files of an Iceberg table again as one, in a snapshot of this operation: pyiceberg writes no
    ``replace``, which only differs by its name in the metadata."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    gone = [task.file for task in lake.scan().plan_files()][-3:]
    with lake.transaction() as change, change.update_snapshot().overwrite() as snapshot:
        for file in gone:
            snapshot.delete_data_file(file)
        for file in _dataframe_to_data_files(table_metadata=change.table_metadata, df=rows, io=lake.io):
            snapshot.append_data_file(file)
    metadata = Path(lake.metadata_location.removeprefix("file://"))
    body = json.loads(metadata.read_text())
    body["snapshots"][-1]["summary"]["operation"] = operation
    metadata.write_text(json.dumps(body))


@pytest.mark.parametrize("operation", ["replace", "overwrite"])
def test_a_compacted_iceberg_table_is_not_read_again(lake: Any, operation: str) -> None:
    for first in range(0, 10, 2):
        lake.append(pa.table({"a": range(first, first + 2)}))
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("t", lake.location().removeprefix("file://"))
        session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
        lake.append(pa.table({"a": [100, 101]}))
        assert refreshed(session) == 2
        files = [task.file.file_path for task in lake.scan().plan_files()][-3:]
        rows = pa.concat_tables(pq.read_table(path.removeprefix("file://")) for path in files)
        replaced(lake, rows, operation)
        [view] = session.materialized_views()
        assert (view.lag == 0) == (operation == "replace")
        assert (refreshed(session) == 0) == (operation == "replace")
        lake.append(pa.table({"a": [7]}))
        assert refreshed(session) == 1
