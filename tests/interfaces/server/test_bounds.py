"""The bounds of what clients may have a server keep and do, before they are known and after; and its own failures."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import socket
import struct
import threading
from typing import Any

import pyarrow as pa
import pytest
from pg_client import connected, psycopg, raw
from pyarrow import flight
from server_world import ANA, EVE, PAT, SLOW, USERS, World
from waits import until

from qoop.catalog.errors import Busy, NotKnown, TooMuch, TooOften
from qoop.interfaces.server.flight_messages import packed
from qoop.interfaces.server.limits import Rates, TextQuota
from qoop.interfaces.server.users import Users
from qoop.session.session import Session

MEGABYTE = "SELECT 'x" + "x" * 999_000 + "' AS a"
DEFAULT = TextQuota()


def test_prepared_statements_have_a_bound_and_go_with_their_client(hasty: World) -> None:
    with raw(hasty) as client:
        client.kinds_until(b"Z")
        kinds = []
        for number in range(12):
            client.send(b"P", f"s{number}\0{MEGABYTE}\0".encode() + b"\0\0")
            client.send(b"S")
            kinds += client.kinds_until(b"Z")[:1]
        assert kinds[:8] == [b"1"] * 8 and kinds[8:] == [b"E"] * 4
        client.send(b"C", b"Ss0\0")
        client.send(b"P", f"again\0{MEGABYTE}\0".encode() + b"\0\0")
        client.send(b"S")
        assert client.kinds_until(b"Z") == [b"3", b"1", b"Z"], "what is closed gives way"
        with pytest.raises(TooMuch):
            hasty.service.quota.take("ana", DEFAULT._size)
    until(lambda: not hasty.service.quota._taken)


def test_values_take_room_as_statements_do(hasty: World) -> None:
    with raw(hasty) as client:
        client.kinds_until(b"Z")
        client.send(b"P", b"\0SELECT $1 AS a\0\0\0")
        value = b"x" * 999_000
        for number in range(10):
            body = f"p{number}\0\0".encode() + struct.pack("!hhi", 0, 1, len(value)) + value + struct.pack("!h", 0)
            client.send(b"B", body)
        client.send(b"S")
        assert client.kinds_until(b"Z") == [b"1", *[b"2"] * 8, b"E", b"Z"]


def test_silent_sockets_keep_no_user_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as opened:
        place = ("127.0.0.1", world.postgres.port)
        silent = [opened.enter_context(socket.create_connection(place, timeout=60)) for _ in range(210)]
        with connected(world, autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            monkeypatch.setattr("qoop.interfaces.server.postgres.server._STRANGERS", 100)
            opened.enter_context(socket.create_connection(place))
            assert silent[0].recv(1) == b"", "the oldest gives way"
            assert connection.execute("SELECT 2").fetchone() == (2,)


@pytest.fixture
def unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wrong password has come yet."""
    monkeypatch.setattr(world.service.users, "_wrong", Rates())


def test_wrong_passwords_by_the_dozen_hold_nothing_up(
    world: World, unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, statuses = threading.Event(), []

    def digest(password: str, salt: bytes | None = None) -> str:
        assert go_on.wait(60)
        return "another"

    def ask(number: int) -> None:
        header = "Basic " + base64.b64encode(f"pat:wrong {number}".encode()).decode()
        statuses.append(world.ask("POST", "/sql", b"SELECT 1", None, authorization=header).status)

    monkeypatch.setattr("qoop.interfaces.server.users.password_digest", digest)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(statuses) == 42)
        assert world.ask("GET", "/metrics").status == 200
        assert world.sql("SELECT 1 AS one").rows() == [{"one": 1}]
    finally:
        go_on.set()
        for thread in threads:
            thread.join(60)
    assert sorted(statuses) == [401] * 8 + [503] * 42


def test_after_many_wrong_passwords_an_address_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(
        "qoop.interfaces.server.users.password_digest", lambda password, salt: looked.append(password) or "x"
    )
    users = Users(USERS._users)
    for number in range(30):
        with pytest.raises(NotKnown):
            users.of_password("pat", f"wrong {number}", "192.0.2.1")
    with pytest.raises(TooOften, match=r"192\.0\.2\.1 may ask 30 times a minute"):
        users.of_password("pat", "wrong", "192.0.2.1")
    with pytest.raises(NotKnown):
        users.of_password("pat", "wrong", "192.0.2.2")
    assert len(looked) == 31
    monkeypatch.undo()
    assert users.of_password("pat", PAT, "192.0.2.3").name == "pat"
    assert users.of_password("pat", PAT, "192.0.2.1").name == "pat", "one that was right before is remembered"


def plain(world: World, token: str = ANA) -> tuple[Any, Any]:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return flight.connect(world.flight.address), flight.FlightCallOptions(headers=headers, timeout=60)


@pytest.mark.parametrize("size", [12_000, 2_000_000])
def test_flight_takes_no_more_than_a_request_may_have(world: World, size: int) -> None:
    client, options = plain(world)
    text = f"SELECT '{'x' * size}' AS a"
    ticket = flight.Ticket(packed("TicketStatementQuery", (1, "0123456789abcdef" + text)))
    command = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, text)))
    action = ("CreatePreparedStatement", packed("ActionCreatePreparedStatementRequest", (1, text)))
    for call in (
        lambda: client.do_get(ticket, options).read_all(), lambda: client.get_flight_info(command, options),
        lambda: client.get_schema(command, options), lambda: list(client.do_action(action, options)),
    ):  # fmt: skip
        with pytest.raises(pa.ArrowInvalid, match="at most 10,000 bytes"):
            call()
    client.close()


def test_what_is_described_is_admitted_and_in_the_audit_log(world: World) -> None:
    client, options = plain(world, EVE)
    running = world.service.admit(world.user(EVE), SLOW, "http")  # one at a time is all that eve may
    command = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, "SELECT 1 AS of_eve")))
    with pytest.raises(pa.ArrowException, match="queries of eve run"):
        client.get_schema(command, options)
    running.end()
    assert client.get_schema(command, options).schema.names == ["of_eve"]
    assert [one["outcome"] for one in world.entries("SELECT 1 AS of_eve")] == ["refused", "described"]
    client.close()
    with raw(world) as other:
        other.kinds_until(b"Z")
        other.send(b"P", b"x\0SELECT a AS of_ana, $1 AS b FROM t\0\0\0")
        other.send(b"D", b"Sx\0")
        other.send(b"P", b"y\0SELECT relname AS of_ana FROM pg_class\0\0\0")
        other.send(b"D", b"Sy\0")
        other.send(b"S")
        assert other.kinds_until(b"Z") == [b"1", b"t", b"1", b"t", b"Z"]
    entries = [json.loads(line) for line in world.log.getvalue().splitlines() if "of_ana" in line]
    assert [(one["by"], one["outcome"]) for one in entries] == [("postgres", "described"), ("postgres", "done")]


def strict(text: bytes) -> Any:
    """JSON as its standard has it: no NaN, and nothing infinite."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_json_is_json_whatever_the_numbers_are(world: World, accept: str) -> None:
    text = """SELECT 'inf'::DOUBLE AS a, '-inf'::FLOAT AS b, 'nan'::DOUBLE AS c, ['inf'::DOUBLE, 1.5] AS d,
        {'x': '-inf'::DOUBLE} AS e, 'Infinity, "NaN" \\' AS f"""
    found = strict(world.sql(text, accept=accept).body)
    row = found[0] if accept == "application/json" else found
    assert row == {
        "a": "Infinity", "b": "-Infinity", "c": "NaN", "d": ["Infinity", 1.5], "e": {"x": "-Infinity"},
        "f": 'Infinity, "NaN" \\',
    }  # fmt: skip


@pytest.mark.parametrize(
    "heads",
    [
        "HTTP/1.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked", "HTTP/1.0\r\ntransfer-encoding: chunked",
        "HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 4",
    ],
)  # fmt: skip
def test_a_request_of_two_lengths_is_refused(world: World, heads: str) -> None:
    hidden = f"GET /queries HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ANA}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", world.port), timeout=60) as client:
        request = f"POST /sql {heads}\r\nhost: localhost\r\nauthorization: Bearer {ANA}\r\n\r\n0\r\n\r\n{hidden}"
        client.sendall(request.encode())
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(10_000):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"date: ") == 1


def test_an_error_of_the_servers_own_is_answered_and_in_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text, submit = "SELECT 'of its own' AS x", Session.submit

    def fail(session: Session, query: str, **options: Any) -> Any:
        if text in query:
            raise ValueError("a secret of the server")
        return submit(session, query, **options)

    monkeypatch.setattr(Session, "submit", fail)
    with caplog.at_level(logging.ERROR, "qoop"):
        reply = world.sql(text)
        assert (reply.status, reply.error) == (500, "QoopError") and b"its log says more" in reply.body
        with connected(world, autocommit=True) as connection:
            with pytest.raises(psycopg.Error, match="the server has failed; its log says more"):
                connection.execute(text)
            assert connection.execute("SELECT 1").fetchone() == (1,), "the connection goes on"
        client, options = plain(world)
        command = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, text)))
        with pytest.raises(flight.FlightServerError, match="its log says more"):
            client.get_flight_info(command, options)
        client.close()
    logged = [record for record in caplog.records if record.exc_info and "a secret" in str(record.exc_info[1])]
    assert len(logged) == 3
    assert [one["error"] for one in world.entries(text)] == ["ValueError: a secret of the server"] * 3


def test_many_passwords_at_a_time_are_busy() -> None:
    users = Users(USERS._users)
    for _ in range(8):
        users._waiting.acquire()
    with pytest.raises(Busy, match="come with a token"):
        users.of_password("pat", PAT)
    assert users.of_password("ana", ANA).name == "ana"
