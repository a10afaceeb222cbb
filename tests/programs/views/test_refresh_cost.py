"""The cost of a refresh, as counts of what it reads, and what a small leaf reads of other tables."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pytest
from waits import until

import qoop
from qoop.catalog.sources import file_stamp, files
from qoop.catalog.sources.file_stamp import Stamp, stamp_of
from qoop.programs.views import watching
from qoop.programs.views.tree import Tree
from qoop.programs.views.views import MaterializedViews

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
DIM = "SELECT i AS k, 'n' || i % 4 AS name, i % 2 AS side FROM range(9) t(i)"
LEAVES = {
    "names": "SELECT d.name, sum(v) AS s FROM sales JOIN dim d ON sales.k = d.k WHERE side = 0 GROUP BY d.name",
    "natural": "SELECT name, sum(v) AS s FROM sales NATURAL JOIN dim GROUP BY name",
    "rows": "SELECT dim.name, count(DISTINCT dim) AS c FROM sales, dim WHERE sales.k = dim.k GROUP BY dim.name",
    "stars": "SELECT name, sum(v) AS s FROM sales JOIN (SELECT * FROM dim) USING (k) GROUP BY name",
    "no_column": "SELECT count(*) AS c FROM sales, dim",
    "quoted": """SELECT "D"."NAME" AS "N", min("V") AS low FROM "sales" JOIN "dim" AS "D" USING ("K") GROUP BY 1""",
}


def put(folder: Path, number: int, rows: int = 20) -> Path:
    path = folder / f"f{number:03}.parquet"
    duckdb.sql(f"SELECT i % 8 AS k, i + {number} AS v FROM range({rows}) t(i)").write_parquet(str(path))
    os.utime(path, (1e9, 1e9))
    return path


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_reads_the_columns_of_a_dimension_that_its_query_means(name: str, tmp_path: Path) -> None:
    folder, dim = tmp_path / "sales", tmp_path / "dim.parquet"
    folder.mkdir()
    duckdb.sql(DIM).write_parquet(str(dim))
    put(folder, 0)
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as connection:
        session.register("sales", folder)
        session.register("dim", dim)
        connection.execute(f"CREATE VIEW sales AS FROM '{folder}/*.parquet'; CREATE VIEW dim AS FROM '{dim}'")
        session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {LEAVES[name]}")
        for step, text in enumerate((DIM, DIM, DIM.replace("'n'", "'m'")), 1):
            duckdb.sql(text).write_parquet(str(dim))
            put(folder, step)
            session.sql("REFRESH MATERIALIZED VIEW v")
            found = Counter(session.sql("FROM v").fetchall())
            assert found and found == Counter(connection.execute(LEAVES[name]).fetchall())


@pytest.fixture
def stamped(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """The number of times that the stamp of each file is read, by inode."""
    found = Counter[int]()

    def counted(stat: os.stat_result) -> Stamp:
        found[stat.st_ino] += 1
        return stamp_of(stat)

    for module in (files, file_stamp):
        monkeypatch.setattr(module, "stamp_of", counted)
    return found


@pytest.mark.parametrize("reported", [False, pytest.param(True, marks=LINUX)])
def test_a_refresh_lists_a_folder_once_and_stamps_each_file_once_unless_changes_are_reported(
    tmp_path: Path, stamped: Counter[int], monkeypatch: pytest.MonkeyPatch, reported: bool
) -> None:
    monkeypatch.setattr(watching, "_FULL", 1e-9)  # all files once
    if not reported:
        monkeypatch.setattr(watching, "_LOCAL", frozenset())
    folder, listed = tmp_path / "sales", Counter[str]()
    folder.mkdir()
    old = [put(folder, number).stat().st_ino for number in range(60)]

    def listing(of: Callable[[str | int], object], path: str | int) -> object:
        listed[os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)] += 1
        return of(path)

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, partial(listing, getattr(os, name)))
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("sales", folder)
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) AS s FROM sales GROUP BY k")
        again = 0 if reported else 1
        for number, rows, times in ((60, 20, 1), (61, 20, again), (61, 25, again)):  # the last is replaced
            put(folder, number, rows)
            stamped.clear()
            listed.clear()
            session.sql("REFRESH MATERIALIZED VIEW v")
            assert [stamped[inode] for inode in old] == [times] * 60 and listed[str(folder)] == times, listed
            [view] = session.materialized_views()
            assert view.rows_read == rows and view.incremental


def test_views_that_are_due_together_share_a_comparison(
    tmp_path: Path, stamped: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, counts = put(tmp_path, 0).stat().st_ino, Counter[str]()
    behind = MaterializedViews.behind

    def counted(views: MaterializedViews, name: str) -> float | None:
        counts[name] += 1
        return behind(views, name)

    put(tmp_path, 1)
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("sales", tmp_path)
        for number in range(8):
            goal = "WITH (target_lag = '2 s')"
            session.sql(f"CREATE MATERIALIZED VIEW v{number} {goal} AS SELECT k, sum(v) AS s FROM sales GROUP BY k")
        stamped.clear()
        monkeypatch.setattr(MaterializedViews, "behind", counted)
        until(lambda: stamped[watched] and min((counts[f"v{number}"] for number in range(8)), default=0) >= 4)
        seen, of_file = sum(counts.values()), stamped[watched]
        assert seen >= 32 and of_file <= seen / 3, (of_file, counts)
        put(tmp_path, 2)
        until(lambda: all(view.files == 3 for view in session.materialized_views()))


def test_a_view_that_is_created_again_with_the_same_query_is_refreshed(tmp_path: Path) -> None:
    put(tmp_path, 0)
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("sales", tmp_path)
        query = "SELECT k, {}(v) AS s FROM sales GROUP BY k"
        statement = f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (target_lag = '1 h') AS {query}"
        session.sql(statement.format("sum"))
        before = session.materialized_views()[0].as_of
        put(tmp_path, 1)  # its time is long ago, so the thread of the session may be the first to read it
        for name, rows_read in (("sum", 20), ("max", 40), ("max", 0)):
            session.sql(statement.format(name))
            [view] = session.materialized_views()
            assert (view.as_of > before) == (rows_read > 0)
            assert not rows_read or view.rows_read == rows_read
            before = view.as_of
            found = Counter(session.sql("FROM v").fetchall())
            assert found == Counter(
                duckdb.sql(f"SELECT k, {name}(v) FROM '{tmp_path}/*.parquet' GROUP BY k").fetchall()
            )


def test_a_large_dimension_of_one_file_is_not_the_table_that_grows(tmp_path: Path) -> None:
    folder, dim = tmp_path / "sales", tmp_path / "dim.parquet"
    folder.mkdir()
    duckdb.sql(DIM.replace("range(9)", "range(5000)")).write_parquet(str(dim))
    put(folder, 0)
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register("sales", folder)
        session.register("dim", dim)
        query = "SELECT name, sum(v) AS s FROM dim JOIN sales USING (k) GROUP BY name"
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        put(folder, 1, 7)
        session.sql("REFRESH MATERIALIZED VIEW v")
        [view] = session.materialized_views()
        assert view.incremental and view.rows_read == 7
        theirs = duckdb.sql(f"SELECT name, sum(v) FROM '{folder}/*.parquet' JOIN '{dim}' USING (k) GROUP BY name")
        assert Counter(session.sql("FROM v").fetchall()) == Counter(theirs.fetchall())


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_another_goal_reads_no_rows(kind: str, tmp_path: Path) -> None:
    folder, tables = tmp_path / "sales", tmp_path / "tables" if kind == "folder" else None
    folder.mkdir()
    put(folder, 0)
    with qoop.connect(slots=1, memory="500MB", tables=tables) as session:
        session.register("sales", folder)
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(v)::BIGINT AS s FROM sales GROUP BY k")
        session.sql("ALTER MATERIALIZED VIEW v SET (target_lag = '1 h')")
        [view] = session.materialized_views()
        assert (view.rows_read, view.target_lag, view.rows) == (0, 3600.0, 8)
        session.sql("ALTER MATERIALIZED VIEW v SET (refresh_mode = 'full')")
        [view] = session.materialized_views()
        assert view.rows_read == 20 and "full" in view.why_full
        theirs = duckdb.sql(f"SELECT k, sum(v)::BIGINT FROM '{folder}/*.parquet' GROUP BY k").fetchall()
        assert Counter(session.sql("FROM v").fetchall()) == Counter(theirs)


def test_files_that_came_together_make_about_64_leaves_of_which_a_replaced_file_changes_one() -> None:
    files = {f"f{number:04}": "1" for number in range(1000)}
    tree = Tree().following(files, lambda _: 6_400)
    assert [len(leaf) for leaf in tree.leaves] == [15] * 66 + [10]
    now = tree.following(files | {"f0500": "2"}, lambda _: 6_400)
    assert [one == before for one, before in zip(now.leaves, tree.leaves, strict=True)].count(False) == 1
    assert {len(leaf) for leaf in Tree().following(files, lambda _: 10).leaves} == {33, 10}
    assert {len(leaf) for leaf in Tree().following(files, lambda _: 98_500).leaves} == {10}
