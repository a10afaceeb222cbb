"""PostgreSQL's wire protocol, with psql and psycopg as clients, and messages that no client sends."""

from __future__ import annotations

import datetime
import os
import re
import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pg_client import connected, needs_psql, psql, psycopg, raw
from server_world import ANA, BEN, EVE, SLOW, TIM, World, certified
from waits import PATIENCE, until

import qoop
from qoop.catalog.errors import ConfigError, QoopError
from qoop.interfaces.server.postgres.catalog.questions import CatalogQuestion, PgCatalog
from qoop.interfaces.server.postgres.catalog.viewer import Viewer
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.timeouts import ClientLimits, Place


@pytest.fixture(scope="module")
def ana(world: World) -> Iterator[Any]:
    with connected(world, autocommit=True) as connection:
        yield connection


@needs_psql
def test_psql_shows_rows_tables_columns_and_where_an_error_is(world: World) -> None:
    told = psql(world, "SELECT version()", "SELECT a, b FROM t ORDER BY a", "\\dt", "\\d big", "\\l", "\\dn")
    assert " 2 | y, z" in told and "(4 rows)" in told
    assert " public | big  | table | qoop" in told and re.search(r"^ n +\| bigint +\|", told, re.M)
    [entry] = world.entries("SELECT version()")
    assert entry["by"] == "postgres" and 1e-4 < entry["seconds"] < PATIENCE
    error = psql(world, "SELECT a,\n nix FROM t", expect=1)
    assert "LINE 2:  nix FROM t\n" in error and error.rstrip().endswith("^") and "42000" not in error
    two = psql(world, "SELECT 1 AS one; SELECT 'a;b' AS two; -- no more")
    assert " one" in two and " a;b" in two


VALUES: list[Any] = [
    1, 1 << 40, 1 << 100, -7, 1.5, Decimal("-12.50"), Decimal("0.00001"), "it's", True, None, b"a\0b", [1, None, 3],
    datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.time(1, 2, 3), uuid.UUID(int=5),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(days=3, seconds=4),
]  # fmt: skip


@pytest.mark.parametrize("binary", [False, True])
def test_values_go_and_come_as_they_are(ana: Any, binary: bool) -> None:
    with ana.cursor(binary=binary) as cursor:
        for value in VALUES:
            found = cursor.execute("SELECT %b AS v" if binary else "SELECT %t AS v", [value]).fetchone()[0]
            plain_list = isinstance(value, list) and not binary
            assert found == value or (plain_list and str(found) == "{1,NULL,3}"), value
    with psycopg.ClientCursor(ana) as cursor:
        assert cursor.execute("SELECT %s + 1", [41]).fetchone() == (42,)


@pytest.mark.parametrize("binary", [False, True])
def test_types_of_columns(ana: Any, binary: bool) -> None:
    text = (
        "SELECT 1::TINYINT, 2::HUGEINT, 1.25::DECIMAL(9,2), 1.5::FLOAT, ['a', NULL, 'b \"c'], [true], "
        "[1.5::DECIMAL(3,1)], '{}'::JSON, [DATE '2026-01-02'], {'a': 1}, 'a'::ENUM('a', 'b'), "
        "''::BLOB, 'NaN'::DOUBLE > 1, ''"
    )
    row = ana.execute(text, binary=binary).fetchone()
    assert row[:7] == (1, 2, Decimal("1.25"), 1.5, ["a", None, 'b "c'], [True], [Decimal("1.5")])
    assert row[7:] == ({}, [datetime.date(2026, 1, 2)], "{'a': 1}", "a", b"", True, "")
    described = ana.execute("SELECT a AS x, 1.5::DECIMAL(7,2) AS d FROM t WHERE false")
    assert [(c.name, c.type_code, c.precision, c.scale) for c in described.description] == [
        ("x", 20, None, None), ("d", 1700, 7, 2),
    ]  # fmt: skip


def test_many_rows_prepared_statements_and_the_audit_log(ana: Any, world: World) -> None:
    assert sorted(n for (n,) in ana.execute("FROM big")) == list(range(60_000))
    for n in range(4):
        assert ana.execute("SELECT b FROM t WHERE a = %s", [n], prepare=True).fetchall() == [
            (b,) for a, b in ((1, "x"), (2, "y, z"), (3, 'q"')) if a == n
        ]
    [entry] = world.entries("FROM big")[-1:]
    assert (entry["user"], entry["by"], entry["outcome"], entry["rows"]) == ("ana", "postgres", "done", 60_000)


def test_a_pipeline_and_the_columns_of_what_is_not_bound(ana: Any, world: World) -> None:
    with ana.pipeline(), ana.cursor() as first, ana.cursor() as second:
        first.execute("SELECT 1 AS a")
        second.execute("SELECT %s + 1 AS b", [1])
        assert (first.fetchone(), second.fetchone()) == ((1,), (2,))
    with raw(world) as client:
        client.kinds_until(b"Z")
        client.send(b"P", b"later\0SELECT a, $1::INTEGER AS i FROM t WHERE a > $2\0\0\1\0\0\0\x17")
        client.send(b"D", b"Slater\0")
        client.send(b"S")
        assert client.message() == (b"1", b"")
        assert client.message() == (b"t", struct.pack("!hii", 2, 23, 20))
        kind, columns = client.message()
        assert kind == b"T" and columns.startswith(b"\0\2a\0") and b"\0\0\0\x14" in columns
        assert client.kinds_until(b"Z") == [b"Z"]


def test_rows_some_at_a_time(world: World) -> None:
    """As JDBC fetches them, in a transaction."""
    with raw(world) as client:
        client.kinds_until(b"Z")
        client.send(b"Q", b"BEGIN\0")
        assert client.kinds_until(b"Z") == [b"C", b"Z"]
        client.send(b"P", b"\0SELECT n FROM big ORDER BY n\0\0\0")
        client.send(b"B", b"\0\0\0\0\0\0\0\0")
        client.send(b"E", b"\0" + struct.pack("!i", 7))
        client.send(b"S")
        assert client.kinds_until(b"Z") == [b"1", b"2", *[b"D"] * 7, b"s", b"Z"]
        client.send(b"E", b"\0" + struct.pack("!i", 3))
        client.send(b"S")
        kind, body = client.message()
        assert (kind, body[6:]) == (b"D", b"7")
        assert client.kinds_until(b"Z") == [b"D", b"D", b"s", b"Z"]
        client.send(b"Q", b"COMMIT\0")
        assert client.kinds_until(b"Z") == [b"C", b"Z"]
    until(lambda: not world.service.of(world.user(ANA)))


def test_transactions_settings_and_errors(world: World) -> None:
    with connected(world) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (4,)
        with pytest.raises(psycopg.errors.SyntaxErrorOrAccessRuleViolation, match="nix"):
            connection.execute("SELECT nix FROM t")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with connected(world, autocommit=True) as connection:
        connection.execute("SET application_name = 'x'; SET client_encoding TO 'UTF8'")
        assert connection.execute("SHOW standard_conforming_strings").fetchone() == ("on",)
        refused = psycopg.errors.InsufficientPrivilege
        for text, error in (
            ("SET threads = 1", refused), ("DROP TABLE t", refused), ("SELEC 1", psycopg.errors.SyntaxError),
            ("'open", psycopg.errors.SyntaxError),
        ):  # fmt: skip
            with pytest.raises(error):
                connection.execute(text)
        assert set(connection.execute("SHOW TABLES")) == {("t",), ("big",)}
        with pytest.raises(psycopg.Error, match="no time zone"):
            connection.execute("SET TIME ZONE 'Asia/Nowhere'")


@pytest.mark.parametrize("condition", ["WHERE xmin::text::bigint > 5", "ORDER BY t.ctid", "WHERE nix = 1"])
def test_conditions_on_system_columns_are_refused_with_the_reason(world: World, condition: str) -> None:
    with connected(world, autocommit=True) as connection, pytest.raises(psycopg.Error) as failed:
        connection.execute(f"SELECT a FROM t {condition}")
    hint = failed.value.diag.message_hint or ""
    assert ("Rows have no versions here" in hint) == ("nix" not in condition)


ZONED = (
    "SELECT date_trunc('day', TIMESTAMPTZ '2026-03-01 20:00:00+00') AS day, count(*) AS n FROM t",
    "SELECT hour(TIMESTAMPTZ '2026-03-01 20:00:00+00' + to_days(range::INTEGER)) AS hour FROM range(1)",  # in a child
    "SELECT (TIMESTAMPTZ '2026-03-01 20:00:00+00')::VARCHAR AS text, max(TIMESTAMPTZ '2026-07-01 12:00:00+00') AS t",
)


def test_a_time_zone_is_that_of_one_client(world: World) -> None:
    with connected(world, autocommit=True) as one, connected(world, autocommit=True) as other:
        zones = {one: "Asia/Tokyo", other: "America/New_York"}
        for client, zone in zones.items():
            client.execute(f"SET TIME ZONE '{zone.lower()}'")
            assert client.execute("SHOW TimeZone").fetchone() == (zone,)
        answers = [
            [client.execute(text).fetchall() for text in ZONED] == zoned_answers(world, zone)
            for client, zone in [*zones.items()] * 2
        ]
        assert answers == [True] * 4 and zoned_answers(world, "Asia/Tokyo") != zoned_answers(world, "America/New_York")
        one.execute("RESET TIME ZONE")
        [(usual,)] = one.execute("SHOW TimeZone").fetchall()
        assert [one.execute(text).fetchall() for text in ZONED] == zoned_answers(world, usual)
    with connected(world, options="-c timezone=Asia/Kolkata") as third:
        assert third.execute(ZONED[1]).fetchall() == [(1,)]
        third.execute("SET LOCAL timezone = 'UTC'")
        assert third.execute(ZONED[1]).fetchall() == [(20,)]
        third.commit()
        assert third.execute(ZONED[1]).fetchall() == [(1,)]


def zoned_answers(world: World, zone: str) -> list[Any]:
    """DuckDB's, as the client reads instants: in its zone."""
    with duckdb.connect() as oracle:
        oracle.execute(f"SET TimeZone = '{zone}'")
        oracle.register("t", world.service.session.sql("FROM t").arrow())
        return [oracle.execute(text).fetchall() for text in ZONED]


def test_the_catalog_is_kept_follows_the_tables_and_is_never_written() -> None:
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        catalog = PgCatalog(session)

        def asked(text: str, user: str = "ana") -> list[Any]:
            found = CatalogQuestion(catalog, Viewer(user)).answer(text)
            assert found is not None
            return list(found.rows.arrow().columns[0].to_pylist())

        listed = "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1"
        assert asked(listed) == []
        session.register("later", pa.table({"x": [1]}))
        assert asked(listed) == ["later"]
        made = catalog._kept
        assert asked("SELECT rolname FROM pg_roles", "ben") == ["qoop", "ben"]
        assert asked("SELECT rolname FROM pg_roles") == ["qoop", "ana"]
        for text in (
            "DROP TABLE pgc.pg_class", "DELETE FROM pgc.pg_class", "CREATE TABLE pg_x AS SELECT 1 AS x",
            "SET VARIABLE qoop_user = 'ben'", "SELECT 1 FROM pg_class; COMMIT; DROP TABLE pgc.pg_class",
            "INSERT INTO pgc.pg_class (relname, relkind) VALUES ('more', 'r') RETURNING relname",
        ):  # fmt: skip
            with pytest.raises(QoopError):
                asked(text)
        assert asked(listed) == ["later"] and catalog._kept is made
        with catalog.connection_of(Viewer("ana")) as (connection, _):  # who is still answered when the tables change
            session.register("later", pa.table({"y": ["a"]}))
            assert asked("SELECT attname FROM pg_attribute WHERE attrelid >= 16384") == ["y"]
            assert connection.execute("SELECT attname FROM pg_attribute WHERE attrelid >= 16384").fetchall() == [("x",)]
        assert made is not None and _is_closed(made.connection)
        catalog.close()


def _is_closed(connection: Any) -> bool:
    try:
        connection.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False


def test_no_file_is_read(ana: Any, world: World) -> None:
    for text in (
        f"FROM '{world.secret}'", f"SELECT pg_backend_pid() FROM '{world.secret}'",
        f"SELECT pg_catalog.version() FROM read_csv('{world.secret}')",
        f"SELECT version() FROM read_text('{world.secret}')",
        f"COPY (SELECT version()) TO '{world.secret}'", "SELECT pg_catalog.version(), getenv('HOME')",
    ):  # fmt: skip
        with pytest.raises(psycopg.Error):
            ana.execute(text)
    assert world.secret.read_text() == "secret\nof the canary\n"


@pytest.mark.parametrize(
    ("name", "password"), [("ana", "wrong"), ("nobody", ANA), ("ben", ANA), ("", ANA), ("ana", "")]
)
def test_a_wrong_name_or_password(world: World, name: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"no user has|no password supplied|no PostgreSQL user"):
        connected(world, name or "''", password)
    if name:
        with raw(world, name, password, fails=True) as client:
            client.send(b"Q", b"SELECT 1\0")
            assert client.is_closed()


def test_limits_of_a_user(world: World) -> None:
    for name, token, text, error in (
        ("tim", TIM, SLOW, psycopg.errors.QueryCanceled), ("eve", EVE, "FROM big", psycopg.errors.ProgramLimitExceeded),
    ):  # fmt: skip
        with connected(world, name, token) as connection, pytest.raises(error):
            connection.execute(text).fetchall()


def test_a_client_that_cancels_and_one_that_goes(world: World) -> None:
    for leave in ("cancel", "close"):
        text = f"{SLOW} -- {leave}"
        connection = connected(world, autocommit=True)
        thread = threading.Thread(target=_fails, args=(connection, text))
        thread.start()
        until(lambda text=text: any(query.text == text and query.job for query in world.service.of(world.user(ANA))))
        if leave == "cancel":
            with raw(world, first=_cancel(connection, 1)) as other:  # the key is a secret
                assert other.is_closed()
            assert world.service.of(world.user(ANA))
            connection.cancel_safe()
        else:
            with socket.socket(fileno=os.dup(connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        until(lambda text=text: world.entries(text))
        assert [entry["outcome"] for entry in world.entries(text)] == ["cancelled"]


def _fails(connection: Any, text: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(text)


def _cancel(connection: Any, more: int) -> bytes:
    number, key = connection.pgconn.backend_pid, 12345
    return struct.pack("!iii", 80_877_102, number, key + more)


def test_what_no_client_sends(world: World) -> None:
    for first in (b"", b"GET / HTTP/1.1\r\n\r\n", struct.pack("!i", 2 << 16), struct.pack("!i", 3 << 16) + b"user"):
        with raw(world, first=first) as client:
            assert client.is_closed()
    for kind, body in (
        (b"B", b"\0nix\0"),
        (b"E", b"\0"),
        (b"?", b""),
        (b"P", b"x"),
        (b"D", b"S"),
        (b"F", b""),
        (b"B", b""),
    ):
        with raw(world, "ana", ANA) as client:
            client.kinds_until(b"Z")
            client.send(kind, body)
            client.send(b"S")
            assert client.kinds_until(b"Z") == [b"E", b"Z"], kind
    with raw(world, "ana", ANA) as client:
        client.kinds_until(b"Z")
        client.send(b"Q", b"SELECT 1 -- " + b"x" * 11_000 + b"\0")
        assert client.kinds_until(b"E") == [b"E"] and client.is_closed()


def test_a_client_that_does_not_say_who_it_is(hasty: World) -> None:
    with socket.create_connection(("127.0.0.1", hasty.postgres.port)) as silent:
        silent.settimeout(60)
        assert silent.recv(1) == b""


def test_beyond_this_machine_only_with_tls_and_users(world: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no TLS"):
        PostgresServer(world.service, Place("0.0.0.0"), ClientLimits())
    certificate, key = certified(tmp_path)
    with PostgresServer(world.service, Place("127.0.0.1", 0, certificate, key), ClientLimits()) as server:
        told = {"port": server.port, "host": "localhost", "sslrootcert": str(certificate)}
        with connected(world, **told, sslmode="verify-full") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="with TLS only"):
            connected(world, **told, sslmode="disable")


def test_the_end_of_the_server(world: World) -> None:
    with PostgresServer(world.service, Place(), ClientLimits()) as server:
        connection = connected(world, "ben", BEN, port=server.port, autocommit=True)
    with pytest.raises(psycopg.OperationalError, match=r"the server ends|closed the connection"):
        connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("SELECT length(repeat('x', 2000000000)), version()", r"repeat\(\) is refused"),
        ("SELECT length(format('{:>1000000000}', relname)) FROM pg_class", r"format\(\) is refused"),
        ("SELECT list_reduce(array_agg(oid), lambda a, b: a + b) FROM pg_class", r"list_reduce\(\) is refused"),
        ("SELECT len(generate_series(1, 1000000000)) FROM pg_class", "small numbers alone"),
        ("SELECT len(generate_series(1, 1000 * 1000 * 1000)), version()", "small numbers alone"),
        ("SELECT len(generate_series(1, '1000000000'::INT)), version()", "small numbers alone"),
        ("WITH RECURSIVE r AS (SELECT version() AS s UNION ALL SELECT s || s FROM r) SELECT max(s) FROM r", "recurs"),
        ("SELECT " + "||".join(["version()"] * 40), "joins few short texts"),
    ],
)
def test_a_question_about_the_catalog_makes_no_large_values(world: World, question: str, message: str) -> None:
    with connected(world) as client, pytest.raises(psycopg.errors.InsufficientPrivilege, match=message):
        client.execute(question)
