"""Arrow Flight SQL, with ADBC's driver as the client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from server_world import ANA, BEN, EVE, PAT, PATIENCE, SLOW, TIM, USERS, World
from waits import until

from qoop.catalog.errors import QueryError
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.flight import FlightServer
from qoop.interfaces.server.flight_messages import message, packed, read_message, unpacked
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.interfaces.server.users import Users

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="adbc-driver-flightsql is not installed")


def connected(world: World, token: str | None = ANA, **options: str) -> Any:
    told = {} if token is None else {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    return dbapi.connect(world.flight.address, db_kwargs=told | options, autocommit=True)


@pytest.fixture(scope="module")
def ana(world: World) -> Iterator[Any]:
    with connected(world) as connection:
        yield connection


def test_a_query(ana: Any, world: World) -> None:
    with ana.cursor() as cursor:
        cursor.execute("SELECT a, b FROM t ORDER BY a NULLS LAST")
        assert cursor.fetchall() == [(1, "x"), (2, "y, z"), (3, 'q"'), (None, "<b>")]
        assert [column[0] for column in cursor.description] == ["a", "b"]
        cursor.execute("FROM big")
        assert sorted(cursor.fetch_arrow_table()["n"].to_pylist()) == list(range(60_000))
        cursor.execute("SELECT a FROM t WHERE a > 9")
        assert cursor.fetchall() == []
        cursor.execute("SHOW TABLES")
        assert set(cursor.fetchall()) == {("t",), ("big",)}
    [entry] = world.entries("FROM big")[-1:]
    assert (entry["user"], entry["by"], entry["outcome"], entry["rows"]) == ("ana", "flight", "done", 60_000)


def test_the_schema_of_a_query_that_is_not_run(ana: Any, world: World) -> None:
    with ana.cursor() as cursor:
        schema = cursor.adbc_execute_schema("SELECT a, b, a::DECIMAL(9,2) AS d, 1::HUGEINT AS h FROM t -- not run")
    wanted = world.service.session.sql("SELECT a, b, a::DECIMAL(9,2) AS d, 1::HUGEINT AS h FROM t").arrow().schema
    assert schema == wanted
    [entry] = world.entries("SELECT a, b, a::DECIMAL(9,2) AS d, 1::HUGEINT AS h FROM t -- not run")
    assert (entry["outcome"], entry["user"], entry["rows"]) == ("described", "ana", 0)


def test_values_of_parameters(ana: Any) -> None:
    with ana.cursor() as cursor:
        for values in ([2, "z"], [3, "'; DROP"]):
            cursor.execute("SELECT b, ? AS x FROM t WHERE a = ?", values[::-1])
            assert [row[1] for row in cursor.fetchall()] == [values[1]]
        cursor.execute("SELECT $x AS x, $y AS y", pa.record_batch({"y": [1], "x": ["one"]}))
        assert cursor.fetchall() == [("one", 1)]
    with ana.cursor() as cursor, pytest.raises(dbapi.Error, match="one row at a time"):
        cursor.execute("SELECT ? AS x", pa.record_batch({"0": [1, 2]}))


def test_what_there_is(ana: Any) -> None:
    found = ana.adbc_get_objects(depth="columns").read_all().to_pylist()
    [catalog] = found
    [schema] = catalog["catalog_db_schemas"]
    assert schema["db_schema_name"] == "main"
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert {name: table["table_type"] for name, table in tables.items()} == {"t": "TABLE", "big": "TABLE"}
    assert [column["column_name"] for column in tables["t"]["table_columns"]] == ["a", "b"]
    [only] = ana.adbc_get_objects(table_name_filter="b%").read_all().to_pylist()[0]["catalog_db_schemas"]
    assert [table["table_name"] for table in only["db_schema_tables"]] == ["big"]
    assert ana.adbc_get_table_schema("t").names == ["a", "b"]
    assert set(ana.adbc_get_table_types()) == {"TABLE", "VIEW"}
    assert ana.adbc_get_info()["vendor_name"] == "qoop"


@pytest.mark.parametrize(
    ("command", "columns", "rows"),
    [("CommandGetXdbcTypeInfo", 19, 19), ("CommandGetPrimaryKeys", 6, 0), ("CommandGetCrossReference", 13, 0)],
)
def test_questions_that_odbc_asks(world: World, command: str, columns: int, rows: int) -> None:
    client, options = plain(world)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(packed(command)), options)
    table = client.do_get(info.endpoints[0].ticket, options).read_all()
    assert (table.num_columns, table.num_rows, table.schema) == (columns, rows, info.schema)
    client.close()


def plain(world: World, token: str | None = ANA) -> tuple[Any, Any]:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return flight.connect(world.flight.address), flight.FlightCallOptions(headers=headers, timeout=60)


def test_options_of_a_session_are_told_and_keep_their_values(world: World) -> None:
    with connected(world) as connection:
        assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("", "main")
        connection.adbc_current_db_schema = "main"
        with pytest.raises(dbapi.Error, match="schema"):
            connection.adbc_current_db_schema = "other"
        for name in ("adbc.flight.sql.session.option.threads", "adbc.flight.sql.session.option.string_list.x"):
            with pytest.raises(dbapi.Error):
                connection.adbc_connection.set_options(**{name: "8"})
        assert connection.adbc_current_db_schema == "main"


def test_a_name_and_a_password(world: World) -> None:
    with connected(world, None, username="pat", password="the password of pat") as pat, pat.cursor() as cursor:
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchall() == [(1,)]
    with pytest.raises(dbapi.Error, match=r"(?i)unauthenticated"):
        connected(world, None, username="pat", password="wrong").close()


@pytest.mark.parametrize("token", [None, "nonsense", "", ANA[1:]])
def test_no_token_and_a_wrong_token(world: World, token: str | None) -> None:
    client, options = plain(world, token)
    ticket = flight.Ticket(packed("TicketStatementQuery", (1, "0" * 16 + "FROM t")))
    asked = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, "FROM t")))
    for call in (
        lambda: client.get_flight_info(asked, options),
        lambda: client.get_schema(asked, options),
        lambda: client.do_get(ticket, options).read_all(),
        lambda: list(client.do_action(("CancelFlightInfo", b""), options)),
        lambda: list(client.list_actions(options)),
    ):
        with pytest.raises((flight.FlightUnauthenticatedError, OSError), match=r"NotKnown: .* token"):
            call()
    client.close()


def test_what_is_not_for_sql(ana: Any, world: World) -> None:
    for text in (f"FROM '{world.secret}'", "SET threads = 1", "DROP TABLE t", f"COPY t TO '{world.secret}'"):
        with ana.cursor() as cursor, pytest.raises(dbapi.Error, match="Forbidden"):
            cursor.execute(text)
    with ana.cursor() as cursor, pytest.raises(dbapi.Error, match="BindError"):
        cursor.execute("SELECT nix FROM t")
    with ana.cursor() as cursor, pytest.raises(dbapi.Error, match="TooMuch"):
        cursor.execute("SELECT 1 -- " + "x" * 10_001)
    with ana.cursor() as cursor, pytest.raises(dbapi.Error):
        cursor.adbc_ingest("new", pa.table({"a": [1]}))


def test_limits_of_a_user(world: World) -> None:
    for token, text, error in ((TIM, SLOW, "Timeout"), (EVE, "FROM big", "TooMuch")):
        with connected(world, token) as one, one.cursor() as cursor, pytest.raises(dbapi.Error, match=error):
            cursor.execute(text)
            cursor.fetch_arrow_table()


def test_a_client_that_cancels(ana: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # A client that cancels before it has asked for the rows is only known by that it does not.
    monkeypatch.setattr("qoop.interfaces.server.flight._UNREAD", 2.0)
    text = f"{SLOW} -- cancelled"
    with ana.cursor() as cursor:
        failed: list[Exception] = []
        thread = threading.Thread(target=fails, args=(cursor, text, failed))
        thread.start()
        until(lambda: any(query.text == text and query.job for query in world.service.of(world.user(ANA))))
        cursor.adbc_cancel()
        thread.join()
    assert len(failed) == 1
    until(lambda: len(world.entries(text)) > 1)
    assert [entry["outcome"] for entry in world.entries(text)] == ["described", "cancelled"], "drivers prepare first"


def fails(cursor: Any, text: str, failed: list[Exception]) -> None:
    try:
        cursor.execute(text)
        cursor.fetchall()
    except Exception as error:
        failed.append(error)


def test_another_user_can_neither_cancel_a_query_nor_use_a_statement(world: World) -> None:
    text = f"{SLOW} -- of ana"
    client, options = plain(world)
    other = plain(world, BEN)[1]
    info = client.get_flight_info(
        flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, text))), options
    )
    failed: list[Exception] = []
    thread = threading.Thread(target=drained, args=(client, info, options, failed))
    thread.start()
    until(lambda: any(query.text == text and query.job for query in world.service.of(world.user(ANA))))
    cancel = ("CancelFlightInfo", message((1, info.serialize())))
    [refused] = client.do_action(cancel, other)
    assert read_message(refused.body.to_pybytes()).numbers(1) == [3]
    [done] = client.do_action(cancel, options)
    assert read_message(done.body.to_pybytes()).numbers(1) == [1]
    thread.join()
    assert [(type(error), "Cancelled: the query was cancelled" in str(error)) for error in failed] == [
        (flight.FlightServerError, True)
    ]
    asked = ("CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", (1, "FROM t")))
    [made] = client.do_action(asked, options)
    handle = unpacked(made.body.to_pybytes())[1].raw(1)
    use = flight.FlightDescriptor.for_command(packed("CommandPreparedStatementQuery", (1, handle)))
    assert client.get_schema(use, options).schema.names == ["a", "b"]
    with pytest.raises(pa.ArrowInvalid, match="no such prepared statement"):
        client.get_flight_info(use, other)
    client.close()


def test_a_query_that_nobody_fetches_is_cancelled_and_runs_again_for_who_comes_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.interfaces.server.flight._UNREAD", 60.0)
    text = "SELECT n, n + 1 AS m FROM big -- unread"
    client, options = plain(world)
    command = packed("CommandStatementQuery", (1, text))
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
    assert info.schema.names == ["n", "m"]
    assert text in [query.text for query in world.service.of(world.user(ANA))], "it runs already"
    monkeypatch.setattr("qoop.interfaces.server.flight._UNREAD", 0.2)
    until(lambda: world.entries(text))
    [entry] = world.entries(text)
    assert entry["error"] == "Cancelled: no client has requested the rows within 0.2 s"
    monkeypatch.setattr("qoop.interfaces.server.flight._UNREAD", 60.0)
    assert client.do_get(info.endpoints[0].ticket, options).read_all().num_rows == 60_000
    client.close()


def test_the_state_of_a_query_is_known_by_the_id_that_its_client_gets(world: World) -> None:
    text = f"{SLOW} -- polled"
    client, options = plain(world)
    with client:
        command = packed("CommandStatementQuery", (1, text))
        id = client.get_flight_info(flight.FlightDescriptor.for_command(command), options).app_metadata.decode()
        until(lambda: [(one["id"], one["state"]) for one in world.ask("GET", "/queries").rows()] == [(id, "running")])
        assert world.ask("GET", "/queries", token=BEN).rows() == []
        assert world.ask("DELETE", f"/queries/{id}").status == 204
        until(lambda: [one["outcome"] for one in world.entries(text)] == ["cancelled"])


def test_a_ticket_is_good_for_its_own_text_and_user(world: World) -> None:
    client, options = plain(world)
    command = packed("CommandStatementQuery", (1, "SELECT 'of ana' AS x"))
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
    id = unpacked(info.endpoints[0].ticket.ticket)[1].text(1)[:16]
    other = flight.Ticket(packed("TicketStatementQuery", (1, f"{id}SELECT 'another' AS x")))
    with pytest.raises(flight.FlightUnavailableError, match="this very query runs already"):
        client.do_get(other, options).read_all()
    for_ben = client.do_get(other, plain(world, BEN)[1]).read_all()
    assert for_ben.to_pylist() == [{"x": "another"}]
    assert client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist() == [{"x": "of ana"}]
    client.close()


def drained(client: Any, info: Any, options: Any, failed: list[Exception]) -> None:
    try:
        client.do_get(info.endpoints[0].ticket, options).read_all()
    except Exception as error:
        failed.append(error)


def test_a_client_that_takes_nothing(hasty: World) -> None:
    text = "SELECT n, repeat('x', 1000) AS x FROM big -- by Flight"
    client, options = plain(hasty)
    reader = client.do_get(flight.Ticket(packed("TicketStatementQuery", (1, "f" * 16 + text))), options)
    reader.read_chunk()
    until(lambda: hasty.entries(text))
    [entry] = hasty.entries(text)
    assert (entry["outcome"], entry["error"]) == ("cancelled", f"Cancelled: the client took nothing for {PATIENCE} s")
    with pytest.raises(flight.FlightServerError, match="took nothing"):
        reader.read_all()
    client.close()


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x80" * 30, packed("Nix")])
def test_messages_that_are_none(world: World, data: bytes) -> None:
    client, options = plain(world)
    with pytest.raises((pa.ArrowInvalid, NotImplementedError)):
        client.get_flight_info(flight.FlightDescriptor.for_command(data), options)
    with pytest.raises((pa.ArrowInvalid, NotImplementedError)):
        client.do_get(flight.Ticket(data), options).read_all()
    client.close()


def test_messages() -> None:
    read = read_message(message((1, "one"), (2, 300), (1, "uno"), (4, bytes([1, 172, 2]))))
    assert (read.texts(1), read.numbers(2), read.numbers(4), read.optional(3)) == (
        ["one", "uno"],
        [300],
        [1, 300],
        None,
    )
    for wrong in (lambda: read.raw(2), lambda: read_message(b"\x0a\x01\xff").text(1)):
        with pytest.raises(QueryError):
            wrong()


def test_tls(world: World, tmp_path: Path) -> None:
    from server_world import certified

    from qoop.interfaces.server.flight import FlightServer
    from qoop.interfaces.server.timeouts import ClientLimits, Place

    certificate, key = certified(tmp_path)
    with FlightServer(world.service, Place("localhost", 0, certificate, key), ClientLimits()) as server:
        trusted = {"adbc.flight.sql.client_option.tls_root_certs": certificate.read_text()}
        told = {"adbc.flight.sql.authorization_header": f"Bearer {ANA}"}
        with dbapi.connect(server.address, told | trusted, autocommit=True) as ana, ana.cursor() as cursor:
            cursor.execute("SELECT 7 AS n")
            assert cursor.fetchall() == [(7,)]


@contextmanager
def server_with_key(world: World, key: Path, port: int = 0) -> Iterator[FlightServer]:
    """A server as the command makes it, with the key in a file."""
    users = Users()
    users.replace(USERS)
    users.share_key(key)
    service = Service(world.service.session, users, AuditLog(world.log))
    with FlightServer(service, Place(port=port), ClientLimits()) as server:
        yield server
    service.close(0.0)


def test_a_client_of_adbc_goes_on_with_the_next_server(world: World, tmp_path: Path) -> None:
    """Its token, which it got for a password, and its prepared statement are of the server before."""
    key = tmp_path / "answers" / "server.key"
    with server_with_key(world, key) as first:
        port = int(first.port)
        known = {"username": "pat", "password": PAT}
        client = dbapi.connect(first.address, db_kwargs=known, autocommit=True)
        cursor = client.cursor()
        cursor.adbc_prepare("SELECT a FROM t WHERE b = ? -- of two servers")
        cursor.execute("SELECT a FROM t WHERE b = ? -- of two servers", ["<b>"])
        assert cursor.fetchall() == [(None,)]
    with server_with_key(world, key, port), client, cursor:
        cursor.execute("SELECT a FROM t WHERE b = ? -- of two servers", ["x"])
        assert cursor.fetchall() == [(1,)]
        cursor.execute("SELECT max(n) FROM big")
        assert cursor.fetchall() == [(59_999,)]


def test_tickets_and_handles_are_valid_in_the_next_server(world: World, tmp_path: Path) -> None:
    def ask(server: FlightServer, token: str, *fields: Any) -> Any:
        client = flight.connect(server.address)
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        with client:
            return [client.get_flight_info(flight.FlightDescriptor.for_command(packed(*fields)), options), options]

    text = "SELECT max(n) AS m FROM big"
    prepare = "CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", (1, text))
    with server_with_key(world, tmp_path / "key") as first:
        info, options = ask(first, ANA, "CommandStatementQuery", (1, "SELECT min(n) AS m FROM big"))
        with flight.connect(first.address) as client:
            [made] = client.do_action(prepare, options)
        handle = unpacked(made.body.to_pybytes())[1].raw(1)
    with server_with_key(world, tmp_path / "key") as second, flight.connect(second.address) as client:
        assert client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist() == [{"m": 0}]
        [prepared, _] = ask(second, ANA, "CommandPreparedStatementQuery", (1, handle))
        assert client.do_get(prepared.endpoints[0].ticket, options).read_all().to_pylist() == [{"m": 59_999}]
        for token, other in ((BEN, handle), (ANA, handle[:-1] + b"x"), (ANA, b"")):
            with pytest.raises(pa.ArrowInvalid, match="no such prepared statement"):
                ask(second, token, "CommandPreparedStatementQuery", (1, other))
    no_such = pytest.raises(pa.ArrowInvalid, match="no such prepared statement")
    with server_with_key(world, tmp_path / "another key") as stranger, no_such:
        ask(stranger, ANA, "CommandPreparedStatementQuery", (1, handle))
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0, "no other user reads the key"
