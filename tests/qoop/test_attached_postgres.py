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
from qoop.catalog.errors import BindError, SourceError
from qoop.catalog.extensions import file_of, is_here

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))

pytestmark = [
    pytest.mark.skipif(not SERVERS, reason="Debian's postgresql is not installed"),
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
    as_user = ["runuser", "-u", USER, "--"] if os.getuid() == 0 else []
    subprocess.run([*as_user, str(SERVERS[-1] / program), *arguments], check=True, capture_output=True, timeout=60)


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
        for text in (
            "SELECT * FROM shop.items WHERE id % 700 = 1",
            "SELECT n.kind, count(*) AS n, sum(price) AS s FROM shop.items JOIN shop.old.names AS n USING (name) "
            "WHERE shop.items.id IN (FROM shop.cheap) GROUP BY ALL",
        ):
            found, wanted = session.sql(text), oracle.sql(text)
            assert (found.columns, found.types) == (wanted.columns, list(map(str, wanted.types)))
            assert sorted(map(repr, found.fetchall())) == sorted(map(repr, wanted.fetchall())) != []
        session.sql("USE shop")
        assert session.sql("SELECT count(*) FROM items").fetchall() == [(2000,)]
        oracle.execute("INSERT INTO shop.items (id) VALUES (0)")
        assert session.sql("SELECT count(*), min(id) FROM items").fetchall() == [(2001, 0)]
        session.sql("USE memory; DETACH shop")
        with pytest.raises(BindError):
            session.sql("SELECT count(*) FROM shop.items")


def test_a_password_is_not_told(place: str, tmp_path: Path) -> None:
    secret = place.replace("user=", "password=s3cret connect_timeout=2 user=")
    with qoop.connect(slots=2, memory="500MB", staged=True) as session:
        with pytest.raises(SourceError, match="cannot read the PostgreSQL database shop") as caught:
            session.sql(f"ATTACH '{secret.replace('dbname=', 'dbname=no_')}' AS shop (TYPE postgres)")
        assert "s3cret" not in str(caught.value)
        session.sql(f"ATTACH '{secret}' AS shop (TYPE postgres)")
        session.sql("CREATE TABLE own AS SELECT id FROM shop.items")
        session.sql(f"EXPORT DATABASE '{tmp_path}/out'")
        written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.sql"))
        assert "own" in written and "s3cret" not in written
