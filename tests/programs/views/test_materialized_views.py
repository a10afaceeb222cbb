"""Materialized views over files that come, go and change: each edition equals DuckDB's answer over its files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.catalog.errors import (
    CatalogError,
    ConfigError,
    DiskFull,
    ExecutionError,
    Forbidden,
    QoopError,
    QueryError,
    SourceError,
    UnknownTable,
)
from qoop.catalog.sources import created
from qoop.programs.views import incremental
from qoop.programs.views.merging import Merging
from qoop.programs.views.views import ViewStatus

DIM = "SELECT i AS k, 'n' || i % 4 AS name FROM range(6) t(i)"
VIEWS = {
    "groups": "SELECT k, sum(v) AS s, count(*) AS c, avg(p) AS a, min(f) AS low, max(v) AS high FROM sales GROUP BY k",
    "joined": "SELECT name, sum(p) AS s, count(v) AS c FROM sales JOIN dim USING (k) WHERE v % 3 = 0 GROUP BY name",
    "top": "SELECT k, sum(v) AS s FROM sales GROUP BY k HAVING count(*) > 20 ORDER BY s DESC, k LIMIT 3",
    "all_rows": "SELECT count(*) AS c, sum(p) AS s FROM sales",
    "around": """WITH by_k AS (SELECT k, sum(p) AS s FROM sales GROUP BY k)
                 SELECT name, max(s) AS best, rank() OVER (ORDER BY max(s)) AS place
                 FROM by_k JOIN dim USING (k) GROUP BY name""",
    "distinct": """SELECT DISTINCT name, v % 3 AS m FROM sales JOIN dim USING (k) WHERE v % 2 = 0
                   ORDER BY m, name LIMIT 9""",
    "counted": "SELECT k, count(DISTINCT v % 5) AS d, count(DISTINCT f) AS e, avg(p) AS a FROM sales GROUP BY k",
    "twice": """WITH by_k AS (SELECT k, sum(p) AS s FROM sales GROUP BY k), total AS (SELECT sum(p) AS t FROM sales)
                SELECT k, s / t AS part, rank() OVER (ORDER BY s DESC) AS place FROM by_k, total""",
    "layers": """WITH source AS (SELECT * FROM sales),
                 renamed AS (SELECT k AS Part, v * 2 AS "Twice", p FROM source WHERE v % 5 > 0)
                 SELECT name, sum("Twice") AS Most, avg(p) FROM renamed JOIN dim ON dim.k = part GROUP BY ALL""",
    "conditions": """SELECT k, count_if(v % 3 = 1) AS c, count_if(p > 99) FILTER (v > 20) AS d, bool_or(v % 9 = 0) AS o,
                     bool_and(f > 1) AS a, count_if(v > 3) / count(*) AS part FROM (FROM sales) AS s GROUP BY k""",
    "union": """SELECT name, sum(v) AS s, avg(p) AS a, count(DISTINCT kind) AS kinds FROM (
                    SELECT 'all' AS kind, k, v, p FROM sales
                    UNION ALL (SELECT 'odd', v % 6, -v, 1 FROM sales WHERE v % 2 = 1
                               UNION ALL SELECT k::VARCHAR, k, f::INT, 2 FROM sales)
                ) AS s LEFT JOIN dim USING (k) GROUP BY name HAVING count(*) > 1""",
    "union_below": """WITH s AS (SELECT k, v FROM sales UNION ALL SELECT v % 3, f FROM sales),
                           by_k AS (SELECT k, sum(v) AS s, count(*) AS c FROM s GROUP BY k)
                      SELECT name, s, c FROM by_k JOIN dim USING (k)""",
    "first_of_each": """SELECT k % 3 AS part, k, sum(v) AS v FROM sales GROUP BY part, k
                        QUALIFY row_number() OVER (PARTITION BY part ORDER BY sum(sales.v) DESC, k) <= 2""",
    "sets": "SELECT k, v % 2 AS odd, sum(p) AS s, grouping(k) AS g FROM sales GROUP BY ROLLUP (k, odd)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "sales"
    place.mkdir()
    put(place, "first", 0, 500)
    return place


@pytest.fixture
def session(folder: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as opened:
        opened.register("sales", str(folder))
        opened.sql(f"CREATE TABLE dim AS {DIM}")
        yield opened


def put(folder: Path, name: str, first: int, rows: int) -> None:
    draft = folder.parent / "draft"
    duckdb.sql(f"""COPY (SELECT CASE WHEN i % 11 > 0 THEN i % 7 END AS k, i AS v, (i * 1.5)::DECIMAL(10, 2) AS p,
                         i / 3.0 AS f FROM range({first}, {first + rows}) t(i)) TO '{draft}' (FORMAT parquet)""")
    os.replace(draft, folder / f"{name}.parquet")


def expected(query: str, folder: Path) -> Counter[str]:
    """DuckDB's rows over the files of the folder."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW sales AS FROM read_parquet('{folder}/*.parquet')")
        connection.execute(f"CREATE TABLE dim AS {DIM}")
        return rounded(connection.execute(query).fetchall())


def rounded(rows: list[tuple[object, ...]]) -> Counter[str]:
    return Counter(repr(tuple(f"{one:.9g}" if isinstance(one, float) else one for one in row)) for row in rows)


def status(session: qoop.Session, name: str) -> ViewStatus:
    return next(one for one in session.materialized_views() if one.name == name)


@pytest.mark.parametrize("name", VIEWS)
def test_each_edition_is_duckdbs_answer_over_the_files_of_the_folder(
    name: str, session: qoop.Session, folder: Path
) -> None:
    draw, query = Random(name), VIEWS[name]
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    for step in range(4):
        names = sorted(path.stem for path in folder.iterdir())
        change = draw.choice(["add", "add", "add", "replace", "remove", "rename"] if len(names) > 1 else ["add"])
        if change == "remove":
            (folder / f"{draw.choice(names)}.parquet").unlink()
        elif change == "rename":
            (folder / f"{draw.choice(names)}.parquet").rename(folder / f"renamed{step}.parquet")
        else:
            target = draw.choice(names) if change == "replace" else f"file{step}"
            put(folder, target, draw.randrange(2000), draw.randrange(1, 80))
        session.sql("REFRESH MATERIALIZED VIEW v")
        found = rounded(session.sql("FROM v").fetchall())
        assert found and found == expected(query, folder)
    result = session.sql("FROM v")
    assert (result.columns, result.types) == (lambda own: (own.columns, own.types))(session.sql(query))
    pieces = "dim" in query  # of the created table
    assert status(session, "v").files == len(list(folder.iterdir())) + pieces and status(session, "v").incremental


@pytest.mark.parametrize("most", [0, incremental.FEW_BYTES])
def test_a_refresh_reads_the_new_files_alone(
    session: qoop.Session, folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    finished, final = list[int](), Merging.final

    def counted(merging: Merging, parts: Sequence[pa.Table], exact: Any) -> pa.Table:
        finished.append(len(parts))
        return final(merging, parts, exact)

    monkeypatch.setattr(Merging, "final", counted)
    monkeypatch.setattr(incremental, "_MANY", 9)
    monkeypatch.setattr(incremental, "FEW_BYTES", most)
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['groups']}")
    assert status(session, "v").rows_read == 500
    for number in range(20):
        put(folder, f"file{number:02}", number, 3)
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert status(session, "v").rows_read == 3
    assert finished[-6:] == [1, 2, 3, 4, 5, 6]  # of 21 leaves two nodes count as one: they have the most groups
    put(folder, "file05", 900, 4)  # replaced: its leaf alone
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert status(session, "v").rows_read == 4
    assert rounded(session.sql("FROM v").fetchall()) == expected(VIEWS["groups"], folder)


def test_a_statement_counts_what_has_changed_just_now_also_by_another_name(
    session: qoop.Session, folder: Path, tmp_path: Path
) -> None:
    put(folder, "linked", 500, 10)
    other = tmp_path / "other"
    other.hardlink_to(folder / "linked.parquet")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) AS s FROM sales GROUP BY k")
    put(tmp_path, "later", 700, 10)
    content = (tmp_path / "later.parquet").read_bytes()
    for change in (lambda: put(folder, "new", 510, 10), lambda: other.write_bytes(content), other.unlink):
        change()
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert rounded(session.sql("FROM v").fetchall()) == expected("SELECT k, sum(v) FROM sales GROUP BY k", folder)


def test_a_refresh_over_plain_views_reads_the_new_files_alone(session: qoop.Session, folder: Path) -> None:
    session.sql("CREATE VIEW kept AS SELECT k AS part, v FROM sales WHERE v > 3; CREATE VIEW shown AS FROM kept")
    query = "SELECT part, sum(v) AS s FROM shown WHERE part > 0 GROUP BY part"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    for number in range(3):
        put(folder, f"file{number}", 100 * number, 3 + number)
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert status(session, "v").incremental and status(session, "v").rows_read == 3 + number
        found, exact = (sorted(session.sql(text).fetchall()) for text in ("FROM v", query))
        assert found == exact != []


def test_a_changed_dimension_that_sums_read_computes_the_groups_again(session: qoop.Session, folder: Path) -> None:
    query = "SELECT name, sum(p * dim.k) AS s FROM sales JOIN dim USING (k) GROUP BY name"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    session.sql("INSERT INTO dim VALUES (6, 'six')")
    session.sql("REFRESH MATERIALIZED VIEW v")
    found = rounded(session.sql("FROM v").fetchall())
    assert found == rounded(session.sql(query).fetchall()) and "six" in str(found)
    assert "dim changed" in status(session, "v").why_full and not status(session, "v").incremental


def test_readers_have_the_last_edition_until_the_next(session: qoop.Session, folder: Path) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['groups']}")
    before = session.sql("FROM v").fetchall()
    put(folder, "late", 0, 50)
    assert session.sql("FROM v").fetchall() == before and status(session, "v").lag > 0
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert session.sql("FROM v").fetchall() != before and status(session, "v").lag == 0


def test_a_damaged_file_leaves_the_edition_and_is_named(session: qoop.Session, folder: Path) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['groups']}")
    before = session.sql("FROM v").fetchall()
    (folder / "half.parquet").write_bytes((folder / "first.parquet").read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"half\.parquet"):
        session.sql("REFRESH MATERIALIZED VIEW v")
    assert session.sql("FROM v").fetchall() == before
    assert "half.parquet" in status(session, "v").error and status(session, "v").lag > 0
    put(folder, "half", 0, 9)
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert status(session, "v").error == ""
    assert rounded(session.sql("FROM v").fetchall()) == expected(VIEWS["groups"], folder)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT median(v) AS m FROM sales", "median or quantile cannot be merged"),
        ("SELECT avg(DISTINCT v) AS d FROM sales", "DISTINCT"),
        ("SELECT stddev(v) AS d FROM sales", "stddev"),
        ("SELECT mode(greatest(v, 30)) AS m FROM sales", "nor merged from parts"),
        ("SELECT sum(v) AS s, now() AS t FROM sales", "differs from run to run"),
        ("SELECT k, sum(v) AS s FROM sales GROUP BY k HAVING sum(v) > (SELECT avg(v) FROM sales)", ""),
        (
            "SELECT sum(v) AS s FROM (FROM sales UNION ALL FROM sales) JOIN (FROM dim UNION ALL FROM dim) USING (k)",
            "two UNION ALLs",
        ),
        ("SELECT k, sum(v) AS s FROM (FROM sales UNION FROM sales) GROUP BY k", "names no table"),
    ],
)
def test_a_view_that_cannot_be_incremental_says_why(query: str, why: str, session: qoop.Session, folder: Path) -> None:
    with pytest.raises(QueryError, match=f"cannot be incremental: .*{why}"):
        session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    assert session.materialized_views() == []
    [(_, text)] = session.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").fetchall()
    assert "from all rows" in text and why in text
    if "now()" in query:
        return
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    put(folder, "more", 40, 400)
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert rounded(session.sql("FROM v").fetchall()) == expected(query, folder)
    assert why in status(session, "v").why_full and not status(session, "v").incremental


def test_statements_refuse_what_cannot_be(session: qoop.Session) -> None:
    session.sql("CREATE MATERIALIZED VIEW v (key, total) AS SELECT k, sum(v) FROM sales GROUP BY k")
    assert session.sql("FROM v").columns == ["key", "total"]
    assert "v" in [name for (name,) in session.sql("SHOW TABLES").fetchall()]
    refused = {
        "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a": CatalogError,
        "CREATE TABLE v AS SELECT 1 AS a": CatalogError,
        "CREATE OR REPLACE TABLE v AS SELECT 1 AS a": CatalogError,
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS a": CatalogError,
        "INSERT INTO v VALUES (1, 2)": CatalogError,
        "DROP TABLE v": CatalogError,
        "DROP VIEW v": CatalogError,
        "REFRESH MATERIALIZED VIEW nothing": UnknownTable,
        "DROP MATERIALIZED VIEW nothing": UnknownTable,
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT total FROM v": CatalogError,
        "CREATE MATERIALIZED VIEW w AS SELECT nothing FROM sales": QueryError,
        "CREATE MATERIALIZED VIEW w WITH (target_lag = '0 s') AS FROM sales": ConfigError,
        "CREATE MATERIALIZED VIEW w WITH (target_lag = 'soon') AS FROM sales": ConfigError,
        "CREATE MATERIALIZED VIEW w WITH (refresh_mode = 'often') AS FROM sales": ConfigError,
        "CREATE MATERIALIZED VIEW w WITH (lag = '1 s') AS FROM sales": ConfigError,
        "CREATE MATERIALIZED VIEW w WITH (target_lag) AS FROM sales": QueryError,
        "CREATE MATERIALIZED VIEW w": QueryError,
        "REFRESH MATERIALIZED VIEW v now": QueryError,
        "ALTER MATERIALIZED VIEW v SET (target_lag = '-1 s')": ConfigError,
    }
    for text, error in refused.items():
        with pytest.raises(error):
            session.sql(text)
    session.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1 AS a; DROP MATERIALIZED VIEW IF EXISTS nothing")
    assert session.sql("FROM v").columns == ["key", "total"]
    session.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM sales")
    assert session.sql("FROM v").fetchall() == [(500,)]
    session.sql("DROP MATERIALIZED VIEW v")
    with pytest.raises(QueryError):
        session.sql("FROM v")


def test_a_locked_session_makes_no_views(folder: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", locked=True) as session:
        session.register("sales", str(folder))
        with pytest.raises(Forbidden):
            session.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(p) AS s FROM sales")


KEPT = "SELECT k, sum(p) AS s, count(*) AS c FROM sales GROUP BY k"


def opened(folder: Path, tables: Path) -> qoop.Session:
    session = qoop.connect(slots=1, memory="500MB", tables=tables)
    session.register("sales", str(folder))
    return session


def test_views_and_their_parts_are_durable_in_a_folder_of_tables(folder: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    with opened(folder, tables) as session:
        session.sql(f"CREATE MATERIALIZED VIEW v WITH (target_lag = '5 min') AS {KEPT}")
    put(folder, "more", 40, 7)
    with opened(folder, tables) as session:
        [view] = session.materialized_views()
        assert (view.target_lag, view.files) == (300.0, 1)
        with pytest.raises(CatalogError):
            session.sql("INSERT INTO v VALUES (1, 2, 3)")
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert status(session, "v").rows_read == 7
        assert rounded(session.sql("FROM v").fetchall()) == expected(KEPT, folder)
        session.sql("DROP MATERIALIZED VIEW v")
    with opened(folder, tables) as session:
        assert session.materialized_views() == [] and session.sql("SHOW TABLES").fetchall() == [("sales",)]


def test_a_view_with_a_goal_is_refreshed_within_it(session: qoop.Session, folder: Path) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (target_lag = '1 s') AS {KEPT}")
    session.sql(f"CREATE MATERIALIZED VIEW by_hand AS {KEPT}")
    for number in range(2):
        put(folder, f"more{number}", number, 9)
        until(lambda: status(session, "v").files == len(list(folder.iterdir())))
        assert rounded(session.sql("FROM v").fetchall()) == expected(KEPT, folder)
    (folder / "half.parquet").write_bytes(b"PAR1")
    until(lambda: "half.parquet" in status(session, "v").error)
    (folder / "half.parquet").unlink()
    put(folder, "after", 50, 9)
    until(lambda: status(session, "v").files == 4 and not status(session, "v").error)
    session.sql("ALTER MATERIALIZED VIEW v SET (target_lag = '1 hour')")
    assert (status(session, "v").target_lag, status(session, "by_hand").files) == (3600.0, 1)


def test_two_sessions_on_one_folder_share_editions(folder: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    with opened(folder, tables) as one:
        one.sql(f"CREATE MATERIALIZED VIEW v AS {KEPT}")
        with opened(folder, tables) as other:
            put(folder, "more", 40, 7)
            one.sql("REFRESH MATERIALIZED VIEW v")
            assert rounded(other.sql("FROM v").fetchall()) == expected(KEPT, folder)
            assert status(other, "v").files == 2
            other.sql("REFRESH MATERIALIZED VIEW v")
            assert status(other, "v").rows_read == 7  # the edition of the other session: nothing was read again


KILLED = """
import sys, os, qoop, signal
from random import Random
from threading import Timer
folder, tables, seconds = sys.argv[1:]
Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL)).start()
with qoop.connect(slots=1, memory="500MB", tables=tables) as session:
    session.register("sales", folder)
    while True:
        session.sql("REFRESH MATERIALIZED VIEW v FULL")
        session.sql("REFRESH MATERIALIZED VIEW v")
"""


def test_a_kill_at_any_moment_leaves_a_whole_edition(folder: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    with opened(folder, tables) as session:
        session.sql(f"CREATE MATERIALIZED VIEW v AS {KEPT}")
    for number, seconds in enumerate([0.6, 1.0]):
        put(folder, f"more{number}", number, 9)
        killed = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(tables), str(seconds)], check=False)
        assert killed.returncode == -9
        with opened(folder, tables) as session:
            assert session.sql("SELECT sum(c) FROM v").fetchall()[0][0] in (500 + 9 * number, 509 + 9 * number)
            session.sql("REFRESH MATERIALIZED VIEW v")
            assert rounded(session.sql("FROM v").fetchall()) == expected(KEPT, folder)


def test_tables_that_change_their_columns_change_those_of_a_view(session: qoop.Session, folder: Path) -> None:
    query = "SELECT k, sum(v) AS s FROM sales GROUP BY k"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    for path in folder.iterdir():
        path.unlink()
    duckdb.sql(f"COPY (SELECT i % 3 AS k, i / 2 AS v FROM range(50) t(i)) TO '{folder / 'other.parquet'}'")
    session.sql("REFRESH MATERIALIZED VIEW v")
    found = session.sql("FROM v")
    assert rounded(found.fetchall()) == expected(query, folder)
    assert found.types == session.sql(query).types


def test_a_row_that_cannot_be_computed_leaves_the_edition(session: qoop.Session, folder: Path) -> None:
    query = "SELECT k, sum((100 - v)::UTINYINT) AS s FROM sales WHERE v < 50 OR v > 900 GROUP BY k"
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    before = session.sql("FROM v").fetchall()
    put(folder, "negative", 890, 20)
    with pytest.raises(ExecutionError, match="UINT8"):
        session.sql("REFRESH MATERIALIZED VIEW v")
    assert before and session.sql("FROM v").fetchall() == before and "UINT8" in status(session, "v").error


def test_a_small_refresh_needs_no_job(session: qoop.Session, folder: Path) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['joined']}")
    put(folder, "more", 40, 7)
    before = len(session.jobs())
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert len(session.jobs()) == before
    assert rounded(session.sql("FROM v").fetchall()) == expected(VIEWS["joined"], folder)


@pytest.mark.parametrize(
    "query",
    [
        """WITH sold AS (SELECT k, sum(p) AS s FROM sales GROUP BY k),
                back AS (SELECT k, sum(p) AS s, max(name) AS n FROM returned JOIN dim USING (k) GROUP BY k)
           SELECT k, sold.s - back.s AS net, n FROM sold JOIN back USING (k) ORDER BY net DESC LIMIT 4""",
        """SELECT name, sum(p) AS net, count(*) AS c FROM (
               SELECT k, p FROM sales UNION ALL SELECT k, -p FROM returned UNION ALL SELECT k, p * 2 FROM returned
           ) AS s JOIN dim USING (k) GROUP BY name ORDER BY net DESC LIMIT 4""",
    ],
)
def test_two_tables_of_one_view_grow(query: str, session: qoop.Session, folder: Path) -> None:
    returned = folder.parent / "returned"
    returned.mkdir()
    put(folder, "day", 0, 300)
    (folder / "day.parquet").rename(returned / "day.parquet")
    session.register("returned", str(returned))
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    [(_, text)] = session.sql(f"EXPLAIN CREATE MATERIALIZED VIEW w AS {query}").fetchall()
    assert "changed files of returned, sales" in text and "A change of dim" in text
    for number, (place, rows) in enumerate([(folder, 5), (returned, 6), (returned, 7), (folder, 8)]):
        put(place, f"more{number}", 900 * number, rows)
        session.sql("REFRESH MATERIALIZED VIEW v")
        times = query.count(f"FROM {place.name}")
        assert status(session, "v").rows_read == rows * times and status(session, "v").incremental
        with duckdb.connect() as connection:
            for name in ("sales", "returned"):
                connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder.parent}/{name}/*.parquet')")
            connection.execute(f"CREATE TABLE dim AS {DIM}")
            assert session.sql("FROM v").fetchall() == connection.execute(query).fetchall()


def test_a_view_that_others_read_is_refreshed_before_them(session: qoop.Session, folder: Path) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW low WITH (target_lag = 'downstream') AS {VIEWS['groups']}")
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT sum(s) AS s, sum(c) AS c FROM low")
    session.sql("CREATE VIEW between AS FROM top")
    for name, text in {"low": "FROM top", "top": "FROM between"}.items():
        with pytest.raises(CatalogError, match="would read itself"):
            session.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {text}")
    put(folder, "more", 40, 7)
    assert status(session, "top").lag > 0 and status(session, "low").target_lag is None
    session.sql("REFRESH MATERIALIZED VIEW top")
    assert status(session, "top").lag == status(session, "low").lag == 0
    whole = f"SELECT sum(s) AS s, sum(c) AS c FROM ({VIEWS['groups']})"
    assert rounded(session.sql("FROM top").fetchall()) == expected(whole, folder)
    session.sql("ALTER MATERIALIZED VIEW top SET (target_lag = '1 s')")
    assert status(session, "low").target_lag == 1.0
    put(folder, "again", 90, 9)
    until(lambda: rounded(session.sql("FROM top").fetchall()) == expected(whole, folder))


def test_parts_are_computed_again_where_a_file_that_decided_the_types_is_gone(
    session: qoop.Session, folder: Path
) -> None:
    query = "SELECT k, sum(v)::DOUBLE AS s FROM sales GROUP BY k"
    duckdb.sql(f"COPY (SELECT i % 3 AS k, i + 0.4::DOUBLE AS v FROM range(50) t(i)) TO '{folder / 'halves.parquet'}'")
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {query}")
    put(folder, "later", 0, 5)
    session.sql("REFRESH MATERIALIZED VIEW v")
    for gone in ("first", "later"):  # halves.parquet comes before later.parquet
        (folder / f"{gone}.parquet").unlink()
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert rounded(session.sql("FROM v").fetchall()) == rounded(session.sql(query).fetchall())
        assert rounded(session.sql("FROM v").fetchall()) == expected(query, folder)


def foreign(session: qoop.Session, folder: Path) -> Path:
    """A file of another schema."""
    duckdb.sql(f"COPY (SELECT 'x' AS other) TO '{folder / 'foreign.parquet'}' (FORMAT parquet)")
    return folder / "foreign.parquet"


def moved(session: qoop.Session, folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


def emptied(session: qoop.Session, folder: Path) -> Path:
    return (folder / "first.parquet").rename(folder.parent / "first.parquet")


def dropped(session: qoop.Session, folder: Path) -> None:
    session.sql("DROP TABLE dim")


def altered(session: qoop.Session, folder: Path) -> None:
    session.sql("ALTER TABLE dim DROP COLUMN name")


@pytest.mark.parametrize("fault", [foreign, moved, emptied, dropped, altered])
def test_what_a_refresh_cannot_read_leaves_the_edition_and_is_named(
    fault: Callable[[qoop.Session, Path], Path | None], session: qoop.Session, folder: Path
) -> None:
    query = "SELECT name, sum(p) AS s FROM sales JOIN dim USING (k) GROUP BY name"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    before = rounded(session.sql("FROM v").fetchall())
    there = fault(session, folder)
    with pytest.raises(QoopError) as raised:
        session.sql("REFRESH MATERIALIZED VIEW v")
    assert before and rounded(session.sql("FROM v").fetchall()) == before
    assert status(session, "v").error == str(raised.value) and status(session, "v").lag > 0
    named = {foreign: "foreign.parquet", dropped: "dim", altered: "name"}.get(fault, str(folder))
    assert named in status(session, "v").error
    if there is None:
        session.sql(f"CREATE OR REPLACE TABLE dim AS {DIM}")
    elif fault is foreign:
        there.unlink()
    else:
        there.rename(folder if there.is_dir() else folder / "first.parquet")
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert rounded(session.sql("FROM v").fetchall()) == before and not status(session, "v").error
    assert status(session, "v").lag == 0


def test_a_full_disk_leaves_the_edition(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(folder, tmp_path / "tables") as session:
        session.sql(f"CREATE MATERIALIZED VIEW v AS {KEPT}")
        before = session.sql("FROM v").fetchall()
        put(folder, "more", 40, 7)
        for place, name in ((pa, "OSFile"), (created, "publish")):  # for groups, and for the edition
            with monkeypatch.context() as patch:
                patch.setattr(place, name, full)
                with pytest.raises(DiskFull):
                    session.sql("REFRESH MATERIALIZED VIEW v")
            assert before and session.sql("FROM v").fetchall() == before
            assert "No space left" in status(session, "v").error and status(session, "v").lag > 0
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert rounded(session.sql("FROM v").fetchall()) == expected(KEPT, folder)
