"""No answer comes from rows that a table no longer holds, whichever way it is written again and whatever is kept."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.kernel import Kernel

TOTAL = "SELECT sum(a) AS s, count(*) AS n FROM t"
OLD = 1_600_000_000 * 10**9


def export(path: Path, value: int) -> None:
    """A Parquet file whose size and footer do not depend on the value."""
    rows = pa.table({"a": pa.array([value] * 50, pa.int64()), "b": [value % 2 == 0] * 50})
    pq.write_table(rows, path, write_statistics=False, use_dictionary=False, compression="none")


def facts(path: Path) -> tuple[int, bytes]:
    content = path.read_bytes()
    return len(content), content[-8 - int.from_bytes(content[-8:-4], "little") :]


def answer(text: str) -> list[tuple[object, ...]]:
    """Of a DuckDB that has never seen the file: it keeps what it has read of one that changes within a second."""
    with duckdb.connect() as connection:
        return connection.sql(text).fetchall()


@pytest.mark.parametrize(("column", "times"), [("a", 4), ("b", 4)])
def test_a_file_exported_again_is_read_by_a_new_session_with_checkpoints(
    tmp_path: Path, column: str, times: int
) -> None:
    path, text = tmp_path / "t.parquet", f"SELECT sum({column}::INTEGER) FROM t"
    export(path, 0)
    first = facts(path)
    for value in range(times):
        export(path, value)
        assert facts(path) == first
        with qoop.connect(slots=1, memory="500MB", checkpoints=tmp_path / "kept", reuse=True) as session:
            session.register("t", path)
            expected = answer(f"SELECT sum({column}::INTEGER) FROM '{path}'")
            assert session.sql(text).fetchall() == expected, value


@pytest.mark.parametrize("reuse", [True, False])
def test_a_file_exported_again_is_read_by_the_next_query_of_a_session(tmp_path: Path, reuse: bool) -> None:
    path = tmp_path / "t.parquet"
    export(path, 0)
    with qoop.connect(slots=1, memory="500MB", reuse=reuse) as session:
        session.register("t", path)
        for value in range(1, 7):
            export(path, value)
            for place in ("t", f"'{path}'", f"read_parquet('{path}')"):
                found = session.sql(f"SELECT sum(a) FROM {place} WHERE a = {value}").fetchall()
                assert found == [(50 * value,)], (value, place)
            assert session.sql(TOTAL).fetchall() == [(50 * value, 50)]  # the same text: its plan is kept
            os.utime(path, ns=(OLD, OLD))  # all of them have the same time of change


def test_a_bundle_is_not_resumed_over_a_file_exported_again(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    export(path, 1)
    os.utime(path, ns=(OLD, OLD))
    before = facts(path)
    suspend(path, tmp_path / "bundle")
    export(path, 2)
    os.utime(path, ns=(OLD, OLD))
    assert facts(path) == before
    with pytest.raises(qoop.TableChanged, match="has changed since the query was suspended"):
        qoop.resume(tmp_path / "bundle", slots=1)


def suspend(path: Path, bundle: Path) -> None:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("t", path)
        session.resize(slots=0)
        session.submit(TOTAL).suspend(bundle)


# Every way to be written again


def write_parquet(path: Path, value: int) -> None:
    export(path.with_suffix(".parquet"), value)


def write_csv(path: Path, value: int) -> None:
    path.with_suffix(".csv").write_text("a,b\n" + f"{value + 100},x\n" * 50)


def write_json(path: Path, value: int) -> None:
    path.with_suffix(".json").write_text(f'{{"a": {value + 100}}}\n' * 50)


def write_renamed(path: Path, value: int) -> None:
    export(path.with_name("draft"), value)
    os.utime(path.with_name("draft"), ns=(OLD, OLD))
    path.with_name("draft").replace(path.with_suffix(".parquet"))


def write_linked(path: Path, value: int) -> None:
    target = path.with_name(f"target{value}")
    export(target, value)
    path.with_suffix(".parquet").unlink(missing_ok=True)
    path.with_suffix(".parquet").symlink_to(target)


def write_copied(path: Path, value: int) -> None:
    source = path.with_name(f"source{value}")
    export(source, value)
    os.utime(source, ns=(OLD, OLD))
    shutil.copy2(source, path.with_suffix(".parquet"))


WAYS = [write_parquet, write_csv, write_json, write_renamed, write_linked, write_copied]


@pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)
def test_a_file_is_what_it_holds_now(tmp_path: Path, write: Callable[[Path, int], None]) -> None:
    write(tmp_path / "t", 0)
    [path] = tmp_path.glob("t.*")
    with (
        qoop.connect(slots=1, memory="500MB", reuse=True) as one,
        qoop.connect(slots=1, memory="500MB", checkpoints=tmp_path / "kept") as other,
    ):
        for session in (one, other):
            session.register("t", path)
        for value in range(1, 5):
            write(tmp_path / "t", value)
            expected = answer(f"SELECT sum(a), count(*) FROM '{path}'")
            for session in (one, other):
                assert session.sql(TOTAL).fetchall() == expected and expected[0][1] == 50
                assert session.sql(f"SELECT sum(a), count(*) FROM '{path}'").fetchall() == expected


@pytest.mark.parametrize("logged", [True, False])
def test_a_duckdb_file_is_what_it_and_its_log_hold_now(tmp_path: Path, logged: bool) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 0::BIGINT AS a FROM range(50)")
    keep = "SET checkpoint_threshold = '1TB'; PRAGMA disable_checkpoint_on_shutdown;" if logged else ""
    with qoop.connect(slots=1, memory="500MB", reuse=True, checkpoints=tmp_path / "kept") as session:
        session.register_database(path)
        for value in range(1, 5):
            with duckdb.connect(str(path)) as database:
                database.execute(f"{keep} UPDATE t SET a = {value}")
            assert Path(f"{path}.wal").exists() == logged
            assert session.sql(TOTAL).fetchall() == [(50 * value, 50)]
        with duckdb.connect(str(path)) as database:
            database.execute("DROP TABLE t; CREATE TABLE u AS SELECT 1 AS a")
        with pytest.raises(qoop.SourceError, match="holds no table t any more"):
            session.sql(TOTAL)


@pytest.mark.parametrize("place", ["'{}/*.parquet'", "folder", "globbed", "within", "read_parquet('{}/*.parquet')"])
def test_files_added_removed_or_replaced_count(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "all" / "within"
    folder.mkdir(parents=True)
    export(folder / "0.parquet", 0)
    text = f"SELECT sum(a), count(*) FROM {place.format(folder)}"
    with qoop.connect(slots=2, memory="500MB", reuse=True) as session:
        session.register("folder", folder)
        session.register("globbed", folder / "*.parquet")
        session.register_folder(tmp_path / "all")
        steps: list[tuple[Callable[[], object], list[int]]] = [
            (lambda: None, [0]),
            (lambda: export(folder / "1.parquet", 1), [0, 1]),
            (lambda: export(folder / "2.parquet", 2), [0, 1, 2]),
            (lambda: (folder / "1.parquet").unlink(), [0, 2]),
            (lambda: (folder / "2.parquet").rename(folder / "3.parquet"), [0, 2]),
            (lambda: export(folder / "0.parquet", 7), [7, 2]),
        ]
        for step, values in steps:
            step()
            assert session.sql(text).fetchall() == [(50 * sum(values), 50 * len(values))]


def test_partitions_are_those_that_the_folder_has_now(tmp_path: Path) -> None:
    text = "SELECT sum(year), count(*) FROM t"
    with qoop.connect(slots=2, memory="500MB") as session:
        for year in (2001, 2002, 2003):
            (tmp_path / f"d/year={year}").mkdir(parents=True)
            export(tmp_path / f"d/year={year}/f.parquet", 1)
            if year == 2001:
                session.register("t", tmp_path / "d")
            assert session.sql(text).fetchall() == [(50 * sum(range(2001, year + 1)), 50 * (year - 2000))]
        (tmp_path / "d/year=2003").rename(tmp_path / "d/year=2009")
        assert session.sql(text).fetchall() == [(50 * (2001 + 2002 + 2009), 150)]


def test_columns_and_statistics_are_those_of_now(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with qoop.connect(slots=2, memory="500MB") as session:
        for count in (3, 5):
            pq.write_table(pa.table({f"c{number}": range(count) for number in range(count)}), path)
            if count == 3:
                session.register("t", path)
                session.sql("CREATE VIEW v AS SELECT max(c0) AS m FROM t")
            assert len(session.sql("FROM t").columns) == len(session.describe("FROM t")) == count
            assert session.statistics("t").rows == count
            assert session.sql("FROM v").fetchall() == [(count - 1,)]


def test_a_file_that_cannot_be_read_now_is_read_once_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    export(path, 1)
    with qoop.connect(slots=1, memory="500MB", reuse=True) as session:
        session.register("t", path)
        assert session.sql(TOTAL).fetchall() == [(50, 50)]
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(qoop.SourceError, match="not a Parquet file, or was cut short"):
            session.sql(TOTAL)
        path.unlink()
        with pytest.raises(qoop.SourceError, match="no such file"):
            session.sql(TOTAL)
        export(path, 2)
        assert session.sql(TOTAL).fetchall() == [(100, 50)]


# While a query runs


@pytest.mark.parametrize("place", ["t.parquet", "t.csv"])
def test_rows_of_a_file_that_changes_while_it_is_read_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write = write_csv if place.endswith("csv") else write_parquet
    write(tmp_path / "t", 1)
    real, contents = Kernel._query, itertools.count(2)

    def query(self: Kernel, *arguments: object) -> pa.Table:
        rows = real(self, *arguments)  # type: ignore[arg-type]
        write(tmp_path / "t", next(contents))  # too late to be read, early enough to be seen
        return rows

    with qoop.connect(slots=1, memory="500MB", checkpoints=tmp_path / "kept") as session:
        session.register("t", tmp_path / place)
        monkeypatch.setattr(Kernel, "_query", query)
        with pytest.raises(qoop.TableChanged, match=r"t\.(parquet|csv) changed"):
            session.sql(TOTAL)
        with pytest.raises(qoop.TableChanged, match=r"t\.(parquet|csv) changed"):
            session.submit(TOTAL).result()
        monkeypatch.setattr(Kernel, "_query", real)
        assert session.sql(TOTAL).fetchall() == answer(f"SELECT sum(a), count(*) FROM '{tmp_path / place}'")


def test_a_query_whose_file_is_replaced_while_it_reads_runs_on_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, replaced = tmp_path / "t.parquet", Kernel._query, []
    export(path, 1)

    def query(self: Kernel, *arguments: object) -> pa.Table:
        rows = real(self, *arguments)  # type: ignore[arg-type]
        if not replaced:
            replaced.append(export(path, 2))
        return rows

    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("t", path)
        monkeypatch.setattr(Kernel, "_query", query)
        assert session.sql(TOTAL).fetchall() == [(100, 50)]
        assert replaced


# Rows in memory


def test_rows_in_memory_are_those_of_the_last_registration(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame({"a": [0] * 50})
    other = pl.DataFrame({"a": [0] * 50})
    with qoop.connect(slots=1, memory="500MB", reuse=True, checkpoints=tmp_path / "kept") as session:
        for value in range(1, 5):
            frame.loc[:, "a"] = value
            other[list(range(50)), "a"] = [value] * 50
            result = session.sql(f"SELECT {value} AS a FROM range(50)")
            for source in (frame, other, pa.table({"a": [value] * 50}), result):
                session.register("t", source)
                assert session.sql(TOTAL).fetchall() == [(50 * value, 50)]


def test_a_frame_that_is_written_to_leaves_the_table_as_it_was() -> None:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(
        {
            "a": np.arange(4),
            "f": np.arange(4) * 0.5,
            "d": np.array(["2020-01-01"] * 4, "M8[ns]"),
            "i": pd.array([1, 2, None, 4], dtype="Int64"),
            "c": pd.Categorical(["x", "y", "x", "y"]),
            "b": [True, False] * 2,
            "s": ["p", "q"] * 2,
        }
    )
    with qoop.connect(slots=1, memory="500MB", reuse=True) as session:
        session.register("t", frame)
        before = session.sql("FROM t").fetchall()
        for column, value in zip("afdicbs", (9, 9.5, pd.Timestamp("2021-01-01"), 9, "y", False, "z"), strict=True):
            frame.loc[0, column] = value
        assert frame.loc[0, "a"] == 9
        assert session.sql("FROM t").fetchall() == before
        assert session.sql("SELECT sum(a), sum(f), max(d), sum(i), min(c) FROM t").fetchall() == [
            (6, 3.0, pd.Timestamp("2020-01-01").to_pydatetime(), 7, "x")
        ]


def test_a_table_that_cannot_be_read_fails_only_queries_that_read_it(tmp_path: Path) -> None:
    export(tmp_path / "t.parquet", 1)
    export(tmp_path / "u.parquet", 2)
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register_folder(tmp_path)
        assert session.sql("SELECT sum(a) AS t FROM u").fetchall() == [(100,)]
        (tmp_path / "t.parquet").unlink()
        for _ in range(2):
            assert session.sql("SELECT sum(a) AS t FROM u").fetchall() == [(100,)]
            with pytest.raises(qoop.SourceError, match="no such file"):
                session.sql(TOTAL)
        session.register("t", pa.table({"a": [7]}))
        assert session.sql(TOTAL).fetchall() == [(7, 1)]
