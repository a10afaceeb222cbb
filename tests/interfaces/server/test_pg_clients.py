"""Real clients of PostgreSQL's protocol read a shop: drivers, cursors, reflection, and another PostgreSQL.

Those of PyPI are among the packages of development. The others skip where the machine has none.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pg_client import psycopg
from shop import TABLES, Shop, open_shop

from qoop.catalog.extensions import is_here, load_statements

CLIENTS = Path(__file__).parent / "clients"
JDBC = Path("/usr/share/java/postgresql.jar")
"""Debian's package libpostgresql-jdbc-java has it."""
SECOND = (1, Decimal("1.50"), date(2026, 1, 2), datetime(2026, 1, 1, 1))
"""The second sale: id, price, day and sold."""
SALES = "SELECT id, price, day, sold FROM sales ORDER BY id"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as found:
        yield found


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT id, price, day, sold FROM ({TABLES['sales']}) ORDER BY id").fetchall()


def test_psycopg_reads_by_cursors_of_the_server(shop: Shop, rows: list[Any]) -> None:
    with psycopg.connect(shop.url) as connection:
        for binary in (False, True):
            with connection.cursor("named", binary=binary) as cursor:
                cursor.itersize = 7
                assert list(cursor.execute(SALES)) == rows and rows[1] == SECOND
        with connection.cursor("scrolled", scrollable=True) as cursor:
            cursor.execute("SELECT id FROM sales ORDER BY id")
            cursor.scroll(10)
            assert cursor.fetchone() == (10,)
            cursor.scroll(2, mode="absolute")
            assert cursor.fetchmany(2) == [(2,), (3,)]
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute("SELECT name FROM customers WHERE id > %s ORDER BY id", [1])
            connection.commit()
            assert cursor.fetchall() == [("bob",), ("cy",)]
        with (
            pytest.raises(psycopg.Error, match="goes forward only"),
            connection.cursor("once", scrollable=False) as once,
        ):
            once.execute("SELECT id FROM sales ORDER BY id")
            once.fetchmany(3)
            once.scroll(-2)


def test_psycopg_sends_lists_whose_type_it_does_not_say(shop: Shop) -> None:
    with psycopg.connect(shop.url) as connection:
        of_names = "SELECT id FROM customers WHERE name = ANY(%s) ORDER BY id"
        assert connection.execute(of_names, [["bob", "c,y", "cy"]]).fetchall() == [(2,), (3,)]
        others = "SELECT id FROM customers WHERE name <> ALL(%s) AND id = ANY(%s)"
        assert connection.execute(others, [['a"nn', "bob"], [1, 2]]).fetchall() == [(1,)]


def test_psycopg2(shop: Shop, rows: list[Any]) -> None:
    psycopg2 = pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
    connection = psycopg2.connect(shop.url)
    with connection, connection.cursor("named") as cursor:
        cursor.itersize = 30
        cursor.execute(SALES)
        assert cursor.fetchall() == rows
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT %s::text, id FROM public.customers WHERE name = %s", ("x", "bob"))
        assert cursor.fetchall() == [("x", 2)]
    connection.close()


def test_columns_are_described_in_the_types_that_they_come_in(shop: Shop) -> None:
    """asyncpg reads binary values by the columns of a statement whose parameters have no values yet."""
    asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    noon, new_year = time(12), datetime(2024, 1, 1, tzinfo=UTC)
    asked = [
        ("SELECT $1, $2 AS b, 3", ("x", "y"), ("x", "y", 3)),
        ("SELECT 1 + $1::BIGINT, substr($2, 2, 2)", (5, "tea"), (6, "ea")),
        ("SELECT id + $1, $2 - c.id, 2 * $3 FROM customers c WHERE c.id = 2", (1, 9, 5), (3, 7, 10)),
        ("SELECT $1 || 'x', $2 || name FROM customers WHERE id = 2", ("y", "z"), ("yx", "zbob")),
        ("SELECT sum(id) FROM customers WHERE id NOT IN (1, $1) AND id BETWEEN $2 AND $3 + 1", (2, 0, 8), (3,)),
        ("SELECT sum(price % $1) FROM sales WHERE price > $2 / 2.5", (Decimal(2), Decimal(8)), (Decimal("72.5"),)),
        ("SELECT $1::TIME, $2::TIMESTAMP WITH TIME ZONE", (noon, new_year), (noon, new_year)),
        ("SELECT 'infinity'::DATE, '-infinity'::TIMESTAMP", (), (date.max, datetime.min)),
        ("SELECT ['-infinity'::DATE, NULL], DATE '1500-01-01'", (), ([date.min, None], date(1500, 1, 1))),
    ]  # fmt: skip

    async def questions() -> None:
        connection = await asyncpg.connect(**shop.keywords)
        for text, values, row in asked:
            assert tuple(await connection.fetchrow(text, *values)) == row
        with pytest.raises(asyncpg.PostgresError, match="out of range"):
            await connection.fetch("SELECT DATE '5877642-06-25 (BC)'")
        await connection.close()

    asyncio.run(questions())


def test_asyncpg(shop: Shop, rows: list[Any]) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")

    async def read() -> None:
        pool = await asyncpg.create_pool(**shop.keywords, min_size=1, max_size=2)
        async with pool.acquire() as connection, connection.transaction():
            assert [tuple(row) async for row in connection.cursor(SALES, prefetch=9)] == rows
            assert await connection.fetchval("SELECT name FROM customers WHERE id = $1", 2) == "bob"
            found = await connection.fetch("SELECT id FROM customers WHERE id = ANY($1::bigint[]) ORDER BY 1", [3, 1])
            assert found == await connection.fetch("SELECT id FROM customers WHERE id = ANY($1) ORDER BY 1", [3, 1])
            assert [row["id"] for row in found] == [1, 3]
            kind = await connection.fetchrow("SELECT relkind, oid FROM pg_class WHERE relname = $1::name", "cheap")
            assert kind["relkind"] == b"v" and kind["oid"] >= 16384
        await pool.close()

    asyncio.run(read())


def test_pg8000(shop: Shop, rows: list[Any]) -> None:
    native = pytest.importorskip("pg8000.native", reason="pg8000 is not installed")
    connection = native.Connection(**shop.keywords)
    assert [tuple(row) for row in connection.run(SALES)] == rows
    assert connection.run("SELECT id, name FROM customers WHERE id = :id", id=2) == [[2, "bob"]]
    assert [column["type_oid"] for column in connection.columns] == [20, 25]
    connection.close()


def test_aiopg(shop: Shop) -> None:
    aiopg = pytest.importorskip("aiopg", reason="aiopg is not installed")

    async def read() -> None:
        async with aiopg.connect(shop.url) as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT count(*) FROM sales")
            assert await cursor.fetchone() == (100,)

    asyncio.run(read())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "pg8000"])
def test_sqlalchemy_reflects_and_streams(shop: Shop, driver: str) -> None:
    alchemy = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    pytest.importorskip(driver, reason=f"{driver} is not installed")
    url = alchemy.make_url(shop.url).set(drivername=f"postgresql+{driver}", query={})
    engine = alchemy.create_engine(url)
    inspector = alchemy.inspect(engine)
    assert (inspector.get_table_names(), inspector.get_view_names("public")) == (["customers", "sales"], ["cheap"])
    found = alchemy.MetaData()
    found.reflect(engine, schema="public", views=True)
    sales = found.tables["public.sales"]
    assert {column.name: str(column.type) for column in sales.columns}["price"] == "NUMERIC(28, 2)"
    with engine.connect().execution_options(stream_results=True, max_row_buffer=10) as connection:
        assert len(connection.execute(alchemy.select(sales)).all()) == 100
    engine.dispose()


def test_adbc(shop: Shop) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
    with dbapi.connect(shop.url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, day, sold, good FROM sales WHERE id < 3 ORDER BY id")
        assert cursor.fetch_arrow_table().column("good").to_pylist() == [True, False, True]
        [catalog] = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [schema] = catalog["catalog_db_schemas"]
        assert {table["table_name"] for table in schema["db_schema_tables"]} == {"cheap", "customers", "sales"}
        assert connection.adbc_get_table_schema("customers").names == ["id", "name"]


@pytest.mark.skipif(not is_here("postgres"), reason="duckdb-extension-postgres-scanner is not installed")
def test_duckdb_attaches_it(shop: Shop, rows: list[Any]) -> None:
    with duckdb.connect() as connection:
        for statement in load_statements(["postgres"]):
            connection.execute(statement)
        connection.execute(f"ATTACH '{shop.url}' AS shop (TYPE postgres, READ_ONLY)")
        names = {row[2] for row in connection.execute("SHOW ALL TABLES").fetchall()}
        assert names == {"cheap", "customers", "sales"}
        assert connection.execute("SELECT id, price, day, sold FROM shop.public.sales ORDER BY id").fetchall() == rows
        assert connection.execute("SELECT name FROM shop.customers WHERE id = 2").fetchall() == [("bob",)]


def test_odbc(shop: Shop, rows: list[Any]) -> None:
    pyodbc = pytest.importorskip("pyodbc", reason="pyodbc is not installed")
    if "PostgreSQL Unicode" not in pyodbc.drivers():
        pytest.skip("psqlODBC is not installed")
    server = f"SERVER=127.0.0.1;PORT={shop.port};DATABASE=shop;UID=ana;PWD={shop.keywords['password']}"
    connection = pyodbc.connect(f"DRIVER={{PostgreSQL Unicode}};{server};UseDeclareFetch=1;Fetch=10", autocommit=True)
    cursor = connection.cursor()
    assert [tuple(row) for row in cursor.execute(SALES)] == rows
    assert [row[2:4] for row in cursor.tables(schema="public")] == [
        ("cheap", "VIEW"), ("customers", "TABLE"), ("sales", "TABLE"),
    ]  # fmt: skip
    assert [(row[3], row[5]) for row in cursor.columns(table="customers")] == [("id", "int8"), ("name", "text")]
    assert cursor.primaryKeys("sales").fetchall() == [] and len(cursor.getTypeInfo().fetchall()) > 20
    assert cursor.execute("SELECT name FROM customers WHERE id = ?", 2).fetchone()[0] == "bob"
    connection.close()


def test_pgcli(shop: Shop) -> None:
    pytest.importorskip("pgcli", reason="pgcli is not installed")
    output = _output(
        ["python", "-m", "pgcli.main", "--less-chatty", shop.url.partition("?")[0]],
        "SELECT count(*) FROM sales;\n\\dt\n\\d customers\n\\q\n", TERM="dumb", PAGER="cat",
    )  # fmt: skip
    assert "| count |" in output and "| 100   |" in output and "| public | sales     | table |" in output
    assert "| name   | text   |" in output


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_node_postgres(shop: Shop) -> None:
    if subprocess.run(["node", "-e", "require('pg')"], capture_output=True, cwd=CLIENTS).returncode:
        pytest.skip("npm's package pg is not on NODE_PATH")
    output = _output(["node", str(CLIENTS / "shop.js"), shop.url.partition("?")[0]])
    assert output.splitlines() == [
        '[{"id":"2","name":"bob"}]', '[[0,"0.00",true]]', '[{"current_database":"shop","count":"3"}]', "100",
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
@pytest.mark.skipif(not JDBC.is_file(), reason="PostgreSQL's driver of JDBC is not installed")
def test_jdbc(shop: Shop) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{shop.port}/shop"
    output = _output(["java", "-cp", str(JDBC), str(CLIENTS / "Shop.java"), url, "ana", str(shop.keywords["password"])])
    assert output.splitlines() == [
        "PostgreSQL", "table customers TABLE", "table sales TABLE", "table cheap VIEW", "column id int8",
        "column name text", "keys falsefalsefalse", "more truetruetruetruefalsefalsefalsefalsetrue",
        "rows 40 39 58.50 2026-02-09 2026-01-02 15:00:00.0 false", "name ann ",
    ]  # fmt: skip


PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.mark.skipif(not PROGRAMS, reason="no server of PostgreSQL is installed")
@pytest.mark.skipif(os.getuid() != 0, reason="a server of PostgreSQL is started as another user, by root")
def test_another_postgresql_reads_it_as_foreign_tables(shop: Shop) -> None:
    place = Path(f"/tmp/qoop-fdw-{os.getpid()}")
    programs, as_postgres = PROGRAMS[-1].parent, ["runuser", "-u", "postgres", "--"]
    place.mkdir()
    shutil.chown(place, "postgres")
    data = ["-D", str(place / "data")]
    try:
        _output([*as_postgres, str(programs / "initdb"), *data, "-A", "trust", "--no-sync"])
        control = [*as_postgres, str(programs / "pg_ctl"), *data, "-w", "-l", str(place / "log")]
        _output([*control, "-o", f"-k {place} -c listen_addresses= -c fsync=off", "start"])
        try:
            with psycopg.connect(host=str(place), user="postgres", dbname="postgres", autocommit=True) as connection:
                _read_foreign_tables(connection, shop)
        finally:
            _output([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(place)


def _read_foreign_tables(connection: Any, shop: Shop) -> None:
    options = f"host '127.0.0.1', port '{shop.port}', dbname 'shop', fetch_size '10'"
    for statement in (
        "CREATE EXTENSION postgres_fdw", f"CREATE SERVER shop FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})",
        f"CREATE USER MAPPING FOR postgres SERVER shop OPTIONS (user 'ana', password '{shop.keywords['password']}')",
        "CREATE SCHEMA far", "IMPORT FOREIGN SCHEMA public FROM SERVER shop INTO far",
    ):  # fmt: skip
        connection.execute(statement)
    found = connection.execute("SELECT count(*), sum(price) FROM far.sales WHERE id < 50").fetchall()
    assert found == [(50, Decimal("1837.50"))]
    joined = (
        "SELECT c.name, count(*) FROM far.customers c JOIN far.sales s ON s.id % 3 = c.id % 3 GROUP BY 1 ORDER BY 1"
    )
    assert connection.execute(joined).fetchall() == [("ann", 33), ("bob", 33), ("cy", 34)]
    rescanned = "SELECT a.id, (SELECT count(*) FROM far.sales b WHERE b.id + 0 < a.id) FROM far.customers a ORDER BY 1"
    assert connection.execute(rescanned).fetchall() == [(1, 1), (2, 2), (3, 3)]


def _output(command: list[str], entered: str = "", **variables: str) -> str:
    words = [sys.executable if command[0] == "python" else command[0], *command[1:]]
    done = subprocess.run(words, input=entered, capture_output=True, text=True, timeout=90, env=os.environ | variables)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
