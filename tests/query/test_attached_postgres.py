"""The tables of a PostgreSQL database, which ATTACH names, are read in stages as they are when a query begins."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.errors import BindError, Forbidden, SourceError
from qoop.catalog.extensions import file_of, is_here

INITDB = shutil.which("initdb") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))[-1:]), None)

pytestmark = [
    pytest.mark.skipif(INITDB is None, reason="no PostgreSQL: initdb is neither on the PATH nor where Debian has it"),
    pytest.mark.skipif(not is_here("postgres"), reason="duckdb-extension-postgres-scanner is not installed"),
]

USER = "postgres" if os.getuid() == 0 else getpass.getuser()  # a server does not run as root
TABLES = """
CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(8, 2), at timestamptz, marks int[]);
INSERT INTO items SELECT i, 'n' || i % 7, i / 4.0, '2024-01-02 03:04:05Z', array[i, NULL]
FROM generate_series(1, 2000) i;
CREATE SCHEMA old;
CREATE TABLE old.names (name text, kind int);
INSERT INTO old.names VALUES ('n1', 1), ('n2', NULL);
CREATE VIEW cheap AS SELECT id FROM items WHERE price < 5;
"""


def run(program: str, *arguments: str) -> None:
    assert INITDB is not None
    as_user = ["runuser", "-u", USER, "--"] if os.getuid() == 0 else []
    path = os.path.join(os.path.dirname(INITDB), program)
    subprocess.run([*as_user, path, *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """A server of its own, on a socket in a folder."""
    folder = tempfile.mkdtemp(prefix="qoop-pg-")
    shutil.chown(folder, USER)
    run("initdb", "-D", f"{folder}/data", "-A", "trust", "--no-sync", "-U", USER)
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    run("pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start")
    try:
        yield f"host={folder} user={USER} dbname=postgres"
    finally:
        run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def oracle(place: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the same database, which it may write to."""
    with duckdb.connect() as made:
        made.execute(f"LOAD '{file_of('postgres')}'; ATTACH '{place}' AS shop (TYPE postgres)")
        made.execute("CALL postgres_execute('shop', $$" + TABLES + "$$)")
        made.execute("CALL pg_clear_cache()")
        made.execute("SET TimeZone = 'UTC'")
        yield made


def test_its_tables_are_read_as_duckdb_reads_them(place: str, oracle: duckdb.DuckDBPyConnection) -> None:
    with qoop.connect(slots=2, memory="500MB", staged=True) as session:
        session.sql("SET TimeZone = 'UTC'")
        session.sql(f"ATTACH '{place}' AS shop (TYPE postgres)")
        assert session.sql("SHOW TABLES").fetchall() == [("shop.cheap",), ("shop.items",), ("shop.old.names",)]
        text_columns = (
            "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE data_type = 'VARCHAR'"
        )
        assert sorted(session.sql(text_columns).fetchall()) == [
            ("shop", "items", "name"),
            ("shop.old", "names", "name"),
        ]
        for text in (
            "SELECT * FROM shop.items WHERE id % 700 = 1",
            "SELECT n.kind, count(*) AS n, sum(price) AS s FROM shop.items JOIN shop.old.names AS n USING (name) "
            "WHERE shop.items.id IN (FROM shop.cheap) GROUP BY ALL",
        ):
            found, expected = session.sql(text), oracle.sql(text)
            assert (found.columns, found.types) == (expected.columns, list(map(str, expected.types)))
            assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall())) != []
        session.sql("USE shop")
        assert session.sql("SELECT count(*) FROM items").fetchall() == [(2000,)]
        oracle.execute("INSERT INTO shop.items (id) VALUES (0)")
        assert session.sql("SELECT count(*), min(id) FROM items").fetchall() == [(2001, 0)]
        session.sql("USE memory; DETACH shop")
        with pytest.raises(BindError):
            session.sql("SELECT count(*) FROM shop.items")


def test_a_password_is_not_reported(place: str, tmp_path: Path) -> None:
    secret = place.replace("user=", "password=s3cret connect_timeout=2 user=")
    with qoop.connect(slots=2, memory="500MB", staged=True) as session:
        with pytest.raises(SourceError, match="cannot read the PostgreSQL database shop") as caught:
            session.sql(f"ATTACH '{secret.replace('dbname=', 'dbname=no_')}' AS shop (TYPE postgres)")
        assert "s3cret" not in str(caught.value)
        session.sql(f"ATTACH '{secret}' AS shop (TYPE postgres)")
        shown = [str(session.sql("SELECT * FROM duckdb_views()")), session.explain("FROM shop.items")]
        job = session.submit("SELECT name FROM shop.items WHERE name = 'n1'")
        assert len(job.result()) > 0
        shown += [stage.sql for plan in job.plans for stage in plan.stages]
        assert "postgres_scan" in "".join(shown) and "s3cret" not in "".join(shown)
        session.sql("CREATE TABLE own AS SELECT id FROM shop.items")
        session.sql(f"EXPORT DATABASE '{tmp_path}/out'")
        written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.sql"))
        assert "own" in written and "s3cret" not in written


@pytest.mark.usefixtures("oracle")
def test_it_takes_the_place_of_a_file(place: str, tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as file:
        file.execute("CREATE TABLE items AS SELECT 7 AS id; CREATE TABLE others AS SELECT 1 AS x")
    with qoop.connect(slots=2, memory="500MB", staged=True) as session:
        session.sql(f"ATTACH '{tmp_path}/shop.duckdb' AS shop")
        session.sql(f"ATTACH OR REPLACE '{place}' AS shop (TYPE postgres)")
        assert session.sql("SELECT count(*) FROM shop.items WHERE id < 5").fetchall() != [(0,)]
        with pytest.raises(BindError, match=r"Tables here: shop\.cheap, shop\.items, shop\.old\.names"):
            session.sql("FROM shop.others")
        session.sql(f"ATTACH OR REPLACE '{tmp_path}/shop.duckdb' AS shop")
        assert session.sql("SELECT * FROM shop.items").fetchall() == [(7,)]


def test_a_locked_session_attaches_none(place: str) -> None:
    with qoop.connect(slots=2, memory="500MB", locked=True) as session:
        for text in (
            f"ATTACH '{place}' AS shop (TYPE postgres)",
            "LOAD postgres",
            f"FROM postgres_scan('{place}', '', '')",
        ):
            with pytest.raises(Forbidden):
                session.sql(text)
