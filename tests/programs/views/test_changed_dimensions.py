"""Changed dimensions: their groups below the joins are joined again, and no file of the fact is read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.table import Columns
from qoop.programs.views import incremental
from qoop.programs.views.merging import Merging
from qoop.programs.views.planning import ViewPlanning
from qoop.programs.views.views import ViewStatus

JOINED = {
    "all_sums": """SELECT name, sum(v) AS s, count(*) AS c, min(v) AS low, max(p) AS high, avg(f) AS a
                   FROM sales JOIN dim ON sales.k = dim.k WHERE v % 3 < 2 AND size > 1 GROUP BY name""",
    "using": "SELECT k, name, sum(p) AS s FROM sales JOIN dim USING (k) GROUP BY k, name",
    "left": "SELECT name, count(*) AS c, sum(v) AS s FROM sales LEFT JOIN dim ON sales.k = dim.k GROUP BY name",
    "two": """SELECT d.name, region, sum(p) AS s, count(v) AS c FROM sales s, dim d, store
              WHERE s.k = d.k AND place = id AND (size > 2 OR region = 'r1') GROUP BY d.name, region""",
    "no_keys": "SELECT count(*) AS c, sum(p) AS s, min(v) AS low FROM sales JOIN dim USING (k) WHERE size > 1",
    "around": """SELECT name, s, rank() OVER (ORDER BY s DESC, name) AS r FROM (
                   SELECT name, sum(p) AS s FROM sales JOIN dim ON sales.k = dim.k GROUP BY name HAVING count(*) > 20)
                 ORDER BY r LIMIT 3""",
    "semi": """SELECT place, sum(v) AS s FROM sales WHERE k IN (SELECT k FROM dim WHERE size > 1)
               AND EXISTS (SELECT * FROM store WHERE id = place AND region > 'r0') GROUP BY place""",
    "distinct": "SELECT name, count(DISTINCT v % 5) AS d FROM sales JOIN dim ON sales.k = dim.k GROUP BY name",
    "rollup": """SELECT name, region, sum(v) AS s, grouping(name) AS g FROM sales JOIN dim ON sales.k = dim.k
                 LEFT JOIN store ON id = place GROUP BY ROLLUP (name, region)""",
    "cross": "SELECT name, count(*) AS c, sum(v) AS s FROM sales, dim GROUP BY name",
    "with": """WITH big AS (SELECT k AS bk, name AS n FROM dim WHERE size > 1)
               SELECT n, sum(v) FILTER (WHERE v % 2 = 0) AS s FROM big JOIN sales ON bk = k GROUP BY n""",
    "theta": "SELECT name, sum(v) AS s FROM sales JOIN dim ON sales.k < dim.k GROUP BY name",
}


class World:
    """Files of sales and of two dimensions, and the same for DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sales").mkdir()
        self.put("first", 0, 4000)
        self.dimension(Random(0))
        self.store(3)

    def put(self, name: str, first: int, rows: int) -> None:
        self._write(
            f"""SELECT CASE WHEN i % 11 > 0 THEN i % 7 END AS k, i AS v, (i * 1.5)::DECIMAL(10, 2) AS p,
                i / 3.0 AS f, i % 5 AS place FROM range({first}, {first + rows}) t(i)""",
            self.folder / "sales" / f"{name}.parquet",
        )

    def dimension(self, draw: Random) -> None:
        """Rows with keys that are missing, NULL, or there twice."""
        rows = [(draw.choice([None, *range(8)]), draw.choice("abc"), draw.randrange(4)) for _ in range(12)]
        values = ", ".join(f"({'NULL' if k is None else k}, '{name}', {size})" for k, name, size in rows)
        self._write(
            f"SELECT k::BIGINT AS k, name, size::INTEGER AS size FROM (VALUES {values}, (1, 'a', 3)) t(k, name, size)",
            self.folder / "dim.parquet",
        )

    def store(self, regions: int) -> None:
        self._write(f"SELECT i AS id, 'r' || i % {regions} AS region FROM range(4) t(i)", self.folder / "store.parquet")

    def _write(self, query: str, path: Path) -> None:
        draft = self.folder / "draft"
        duckdb.sql(query).write_parquet(str(draft))
        os.replace(draft, path)

    def register(self, session: qoop.Session) -> None:
        session.register("sales", self.folder / "sales")
        for name in ("dim", "store"):
            session.register(name, self.folder / f"{name}.parquet")

    def expected(self, query: str) -> Counter[str]:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW sales AS FROM '{self.folder}/sales/*.parquet'")
            for name in ("dim", "store"):
                connection.execute(f"CREATE VIEW {name} AS FROM '{self.folder}/{name}.parquet'")
            return rounded(connection.execute(query).fetchall())


def rounded(rows: list[tuple[object, ...]]) -> Counter[str]:
    return Counter(repr(tuple(f"{one:.9g}" if isinstance(one, float) else one for one in row)) for row in rows)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def session(world: World) -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as opened:
        world.register(opened)
        yield opened


def status(session: qoop.Session, name: str = "v") -> ViewStatus:
    return next(one for one in session.materialized_views() if one.name == name)


@pytest.mark.parametrize("name", JOINED)
def test_a_changed_dimension_reads_no_file_of_the_fact(
    name: str, session: qoop.Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental, "FEW_BYTES", 200)  # the groups of larger nodes are merged
    draw, query = Random(name), JOINED[name]
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    for step in range(5):
        change = draw.choice(["dim", "dim", "store", "add", "replace", "both"])
        if change in ("dim", "both"):
            world.dimension(draw)
        if change == "store":
            world.store(draw.randrange(1, 5))
        if change in ("add", "both"):
            world.put(f"file{step}", draw.randrange(2000), draw.randrange(1, 80))
        if change == "replace":
            world.put("file0", draw.randrange(2000), 50)
        before = status(session).as_of
        session.sql("REFRESH MATERIALIZED VIEW v")
        found = rounded(session.sql("FROM v").fetchall())
        assert found == world.expected(query), (step, change)
        if status(session).as_of > before:  # the query reads what has changed
            assert status(session).incremental and status(session).rows_read < 200
    assert found


def test_explain_says_at_which_groups_a_dimension_is_joined_again(session: qoop.Session, world: World) -> None:
    [(_, text)] = session.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {JOINED['two']}").fetchall()
    assert "A change of dim, store joins at most 32 groups by k, place again" in text
    [(_, text)] = session.sql(
        "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT name, sum(v + size) AS s FROM sales JOIN dim USING (k) GROUP BY 1"
    ).fetchall()
    assert "A change of dim computes all partial groups again, since SUM(v + size) reads columns of joined" in text


def wide(folder: Path, name: str, groups: int) -> None:
    draft = folder / "draft"
    duckdb.sql(f"SELECT i AS {name}_k, i % {groups} AS {name}_g FROM range(300) t(i)").write_parquet(str(draft))
    os.replace(draft, folder / f"{name}.parquet")


def test_the_tables_that_change_most_are_joined_above_the_groups(tmp_path: Path) -> None:
    """The keys of both dimensions together make too many groups."""
    tables, sales = tmp_path / "tables", tmp_path / "sales.parquet"
    duckdb.sql("SELECT i % 300 AS a, i % 299 AS b, i AS v FROM range(5000) t(i)").write_parquet(str(sales))
    query = """SELECT a_g, b_g, sum(v)::BIGINT AS s FROM sales, one, two WHERE a = one_k AND b = two_k
               GROUP BY a_g, b_g""".replace("a_g", "one_g").replace("b_g", "two_g")
    for name in ("one", "two"):
        wide(tmp_path, name, 4)

    def refreshed(statement: str) -> ViewStatus:
        with qoop.connect(slots=1, memory="500MB", tables=tables) as session, duckdb.connect() as connection:
            for name in ("sales", "one", "two"):
                session.register(name, tmp_path / f"{name}.parquet")
                connection.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}.parquet'")
            session.sql(statement)
            found = Counter(session.sql("FROM v").fetchall())
            assert found and found == Counter(connection.execute(query).fetchall())
            return status(session)

    refreshed(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change, (name, is_full) in enumerate([("two", False), ("one", True), ("one", False), ("two", True)]):
        wide(tmp_path, name, change + 5)
        view = refreshed("REFRESH MATERIALIZED VIEW v")
        assert view.incremental != is_full and (view.rows_read >= 5000) == is_full, (change, view)
        assert is_full == (f"{name} changed" in view.why_full)


def test_groups_that_fail_below_a_join_are_computed_above_it(session: qoop.Session, world: World) -> None:
    """The join drops the rows whose cast fails."""
    query = """SELECT name, sum(CASE WHEN v < 3000 THEN v ELSE CAST('x' || v AS INTEGER) END) AS s
               FROM sales JOIN (SELECT name, k AS l FROM dim WHERE k < 3) ON place = l AND v < 3000 GROUP BY name"""
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    world.dimension(Random(2))
    session.sql("REFRESH MATERIALIZED VIEW v")
    found = rounded(session.sql("FROM v").fetchall())
    assert found and found == world.expected(query)


@pytest.mark.parametrize("groups", ["ROLLUP (name)", "CUBE (name, size)", "GROUPING SETS ((), (name))"])
def test_joins_without_rows_leave_the_total(session: qoop.Session, world: World, groups: str) -> None:
    query = f"SELECT count(*) AS c, sum(v) AS s FROM sales JOIN dim USING (k) GROUP BY {groups}"
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    assert len(session.sql("FROM v")) > 1
    world._write("SELECT 1::BIGINT AS k, 'a' AS name, 1 AS size LIMIT 0", world.folder / "dim.parquet")
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert rounded(session.sql("FROM v").fetchall()) == world.expected(query) == rounded([(0, None)])


def test_small_new_files_are_read_again_once_for_their_groups_below_the_joins(
    session: qoop.Session, world: World
) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v AS {JOINED['all_sums']}")
    read = []
    for step in range(9):
        world.put(f"file{step}", 100 * step, 5)
        session.sql("REFRESH MATERIALIZED VIEW v")
        read.append(status(session).rows_read)
    for seed in (2, 3):
        world.dimension(Random(seed))
        session.sql("REFRESH MATERIALIZED VIEW v")
        read.append(status(session).rows_read)
        found = rounded(session.sql("FROM v").fetchall())
        assert found and found == world.expected(JOINED["all_sums"])
    assert read == [5] * 9 + [9 * 5 + 13, 13]  # the dimension has 13 rows


def test_a_replaced_file_merges_sums_and_leaves_the_groups_below_the_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 500 groups and two sums a leaf, the sums alone are taken on the way up, without a statement, and no groups are
    joined; later the leaf is read once more."""
    merged, joined = list[int](), list[int]()
    of, join = Merging.merged, ViewPlanning.joined

    def counted(merging: Merging, parts: Sequence[pa.Table], *types: Columns) -> pa.Table:
        merged.append(sum(map(len, parts)))
        return of(merging, parts, *types)

    def counted_joins(planning: ViewPlanning, text: str, types: Columns, rows: pa.Table, *others: object) -> pa.Table:
        joined.append(len(rows))
        return join(planning, text, types, rows, *others)  # type: ignore[arg-type]

    def put(number: int, factor: int) -> None:
        duckdb.sql(f"SELECT i AS k, i * {factor} AS v FROM range(500) t(i)").write_parquet(str(tmp_path / "draft"))
        os.replace(tmp_path / "draft", tmp_path / "sales" / f"{number:02}.parquet")

    def dimension(name: str) -> None:
        query = f"SELECT i AS k, '{name}' || i % 2 AS name FROM range(500) t(i)"
        duckdb.sql(query).write_parquet(str(tmp_path / "draft"))
        os.replace(tmp_path / "draft", tmp_path / "dim.parquet")

    monkeypatch.setattr("qoop.programs.views.tree.LEAST_LEAF", 500)  # each file is a leaf
    (tmp_path / "sales").mkdir()
    for number in range(64):
        put(number, number)
    dimension("a")
    query = "SELECT name, sum(v)::BIGINT AS s FROM sales JOIN dim USING (k) GROUP BY name"
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as connection:
        session.register("sales", tmp_path / "sales")
        session.register("dim", tmp_path / "dim.parquet")
        connection.execute(f"CREATE VIEW sales AS FROM '{tmp_path}/sales/*.parquet'")
        connection.execute(f"CREATE VIEW dim AS FROM '{tmp_path}/dim.parquet'")
        session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
        monkeypatch.setattr(Merging, "merged", counted)
        monkeypatch.setattr(ViewPlanning, "joined", counted_joins)
        for number, name, read in ((3, "a", 500), (3, "a", 500), (9, "a", 500), (63, "b", 3 * 500 + 500)):
            merged.clear()
            joined.clear()
            put(number, 1000 + read)
            if name == "b":
                dimension(name)
            session.sql("REFRESH MATERIALIZED VIEW v")
            assert status(session).rows_read == read
            assert (not merged, not joined) == (name == "a", name == "a"), (number, merged, joined)
            found = Counter(session.sql("FROM v").fetchall())
            assert found and found == Counter(connection.execute(query).fetchall())
