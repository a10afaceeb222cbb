"""The attacks on a server that docs/security.md lists."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from server_world import ANA, IDLE, PATIENCE, SLOW, USERS, World, certified
from waits import until

from qoop.catalog.errors import ConfigError, NotKnown
from qoop.interfaces.server.http_server import HttpServer
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.interfaces.server.users import Users, new_user


@pytest.mark.parametrize("path", ["/sql", "/queries", "/metrics"])
def test_no_token_and_a_wrong_token(world: World, path: str) -> None:
    method = "POST" if path == "/sql" else "GET"
    for token in (None, "", "nonsense", ANA + " ", ANA[:-1], ANA.upper(), "sha256:" + "0" * 64):
        if token != ANA + " ":  # spaces around a header are not part of it
            reply = world.ask(method, path, b"SELECT 1", token)
            assert (reply.status, reply.error, reply.headers["www-authenticate"]) == (401, "NotKnown", "Bearer")
    assert world.ask("DELETE", "/queries/1", token=None).status == 401


def test_a_password_and_a_wrong_one(world: World) -> None:
    def asked(told: bytes) -> int:
        header = "Basic " + base64.b64encode(told).decode()
        return world.ask("POST", "/sql", b"SELECT 1", None, authorization=header).status

    assert asked(b"pat:the password of pat") == 200
    assert asked(b"pat:the password of pat") == 200, "it is remembered"
    assert asked(b"ana:" + ANA.encode()) == 200, "a token does as a password"
    for wrong in (b"pat:the password of pa", b"nobody:the password of pat", b"pat", b"\xff:\xff"):
        assert asked(wrong) == 401
    with pytest.raises(NotKnown):
        USERS.of_header("Basic ~~~")


FILES = (
    "FROM '{}'", "FROM read_csv('{}')", "SELECT * FROM read_text('{}')", "FROM read_blob('{}')", "FROM glob('{}')",
    "FROM parquet_scan('{}')", "FROM read_json('{}')", "FROM sniff_csv('{}')", "FROM parquet_metadata('{}')",
    "FROM query('FROM read_text(''{}'')')", "FROM query_table('{}')", "SELECT getenv('HOME')",
    "SELECT (SELECT content FROM read_text('{}'))", "SELECT 1 WHERE EXISTS (FROM '{}')", 'FROM "{}"',
    "WITH x AS (FROM '{}') FROM x", "FROM t UNION ALL FROM '{}'", "FROM t, LATERAL (FROM '{}')", "ATTACH '{}'",
    "ATTACH '{}' AS a (TYPE sqlite)", "COPY t TO '{}.copy'", "COPY t FROM '{}'", "IMPORT DATABASE '{}'",
    "EXPORT DATABASE '{}.d'", "INSTALL httpfs", "LOAD '{}'", "PRAGMA database_list", "CALL duckdb_settings()",
    "SET VARIABLE x = (FROM read_text('{}'))", "PREPARE p AS FROM '{}'", "EXPLAIN ANALYZE FROM '{}'",
    "EXPLAIN FROM '{}'", "DESCRIBE '{}'", "SUMMARIZE '{}'", "CREATE TABLE x AS FROM '{}'",
    "CREATE VIEW x AS FROM '{}'", "CREATE SECRET s (TYPE s3)", "CREATE MACRO m() AS TABLE FROM '{}'",
    "PIVOT '{}' ON secret", "UNPIVOT '{}' ON secret", "FROM duckdb_secrets()", "FROM duckdb_settings()",
    "FROM information_schema.tables", "FROM sqlite_master", "FROM 'https://localhost/{}'", "FROM 's3://b{}'",
    "SET allowed_paths = ['{}']", "RESET enable_external_access", "SET slots = 99", "SET tenant = 'dashboards'",
    "EXPLAIN HISTORY FROM t", "DROP TABLE t", "USE main", "CHECKPOINT", "VACUUM", "SELECT 1; FROM '{}'",
)  # fmt: skip
"""Texts that read a file, or change or tell what is not for a user."""


def test_sql_that_asks_for_more_than_tables(world: World) -> None:
    before = sorted(world.secret.parent.iterdir())
    for text in FILES:
        reply = world.sql(text.format(world.secret))
        assert reply.status in (400, 403), (text, reply)
        assert b"of the canary" not in reply.body
    assert sorted(world.secret.parent.iterdir()) == before
    assert len(world.sql("FROM t").rows()) == 4


READS = ("read_text", "read_csv", "read_blob", "glob", "parquet_metadata", "sniff_csv", "read_duckdb", "query")


@pytest.mark.parametrize(
    "kinds", [("table", "table_macro", "pragma"), pytest.param(("scalar",), marks=pytest.mark.slow)]
)
def test_no_function_that_duckdb_knows_reads_a_file(world: World, kinds: tuple[str, ...]) -> None:
    """With a path as each of its arguments, in each form in which it can be called."""
    forms = {"scalar": ("SELECT {} AS x",), "pragma": ("PRAGMA {}", "CALL {}")}
    refused, path = set(), f"'{world.secret}'"
    for kind, name, arguments in known_functions(kinds):
        call = f"{name}({', '.join([path] * arguments)})"
        for form in forms.get(kind, ("FROM {}", "CALL {}")):
            reply = world.sql(form.format(call))
            assert b"of the canary" not in reply.body, form.format(call)
            assert reply.status in (200, 400, 403, 422), (form.format(call), reply)
            if reply.status != 200:
                refused.add((name, form))
    assert "scalar" in kinds or {(name, form) for name in READS for form in ("FROM {}", "CALL {}")} <= refused


def known_functions(kinds: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Their kinds, names and numbers of arguments."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT DISTINCT function_type, function_name, coalesce(len(parameters), 0) FROM duckdb_functions() "
            "WHERE function_name SIMILAR TO '[a-z_0-9]+' AND list_contains($1, function_type) ORDER BY ALL", [kinds]
        ).fetchall()  # fmt: skip
    assert len(found) > 100
    return found


def test_the_same_texts_for_queries_that_go_on(world: World) -> None:
    """None of them reads, or leaves, a file, or leaves a file."""
    before = sorted(world.secret.parent.iterdir())
    for text in FILES:
        reply = world.ask("POST", "/queries", text.format(world.secret).encode())
        if reply.status == 202:  # its names are looked up when it runs
            id = json.loads(reply.body)["id"]
            until(lambda id=id: world.ask("GET", f"/queries/{id}/result").error != "Busy")  # type: ignore[misc]
            reply = world.ask("GET", f"/queries/{id}/result")
            world.ask("DELETE", f"/queries/{id}")
        assert reply.status in (400, 403), (text, reply)
        assert b"of the canary" not in reply.body
    assert sorted(world.secret.parent.iterdir()) == before


HTML = "<script>alert(1)</script>"


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_html_in_names_and_values_is_never_a_page(world: World, accept: str) -> None:
    reply = world.sql(f"SELECT '{HTML}' AS \"{HTML}\"", accept=accept)
    assert reply.status == 200 and reply.body.count(HTML.encode()) == 2
    assert reply.headers["content-type"].partition(";")[0] == accept
    assert world.sql("SELECT 1", accept="text/html").status == 406


def test_html_in_errors_is_json(world: World) -> None:
    for reply in (world.sql(f'SELECT "{HTML}" FROM t'), world.ask("GET", f"/queries/{HTML}")):
        assert reply.status in (400, 404)
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/sql/../../etc/passwd", "/queries/..%2f..%2fetc%2fpasswd", "/"])
def test_paths_lead_nowhere(world: World, path: str) -> None:
    for method in ("GET", "DELETE"):
        assert world.ask(method, path).status in (404, 405)


def test_names_that_are_not_ours_and_pages_of_the_web(world: World) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost:8@evil"):
        assert world.sql("SELECT 1", host=host).status == 400
    assert world.sql("SELECT 1", host="localhost:1234").status == 200
    assert world.sql("SELECT 1", origin="http://localhost").status == 403


def test_requests_that_are_too_large(world: World) -> None:
    reply = world.sql("SELECT 1 -- " + "x" * 10_001)
    assert (reply.status, reply.error) == (413, "TooMuch")
    with contextlib.suppress(ConnectionError):  # it is dropped while it is sent
        assert world.ask("GET", "/healthz", token=None, x="y" * 200_000).status in (400, 431)
    assert world.sql(f"SELECT {'(' * 4000}1{')' * 4000}").status in (200, 400)
    deep = world.ask("POST", "/sql", b"[" * 9_000, content_type="application/json")
    assert deep.status == 400
    assert world.sql("SELECT 1").status == 200


@pytest.mark.parametrize("sent", [b"", b"POST /sql HT", b"POST /sql HTTP/1.1\r\nhost: localhost\r\nx: "])
def test_a_request_that_never_arrives(hasty: World, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as client:
        client.sendall(sent)
        assert is_dropped(client)


def is_dropped(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_a_body_that_never_arrives(hasty: World) -> None:
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as client:
        head = f"POST /sql HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ANA}\r\ncontent-length: 9\r\n\r\nS"
        client.sendall(head.encode())
        assert b" 504 " in client.recv(1000)


def test_connections_that_are_kept_open_without_a_request(world: World, hasty: World) -> None:
    patient, client = world.connection(), hasty.connection()
    begun = time.monotonic()
    for one in (patient, patient, client):
        one.request("GET", "/healthz")
        assert one.getresponse().read() == b"ok\n"
    assert is_dropped(client.sock)
    assert time.monotonic() - begun >= IDLE
    for one in (patient, client):
        one.close()


MOST = 5  # connections of HTTP


@pytest.fixture
def small(world: World) -> Iterator[World]:
    """The same, but it has few connections."""
    with HttpServer(world.service, Place(), ClientLimits(connections=MOST, patience=600)) as server:
        yield replace(world, server=server)


def test_more_connections_than_there_may_be(small: World) -> None:
    with contextlib.ExitStack() as opened:
        for number in range(MOST):
            opened.callback(small.begun(f"{SLOW} -- {number}").close)
        until(lambda: len(small.service.of(small.user(ANA))) == MOST)
        with socket.create_connection(("127.0.0.1", small.port), timeout=60) as one_more:
            assert b" 503 " in one_more.recv(1000), "it is told so at once"
            assert is_dropped(one_more)
    until(lambda: small.ask("GET", "/healthz", token=None).status == 200)
    small.quiet()


def test_connections_that_say_nothing_give_way_to_users(small: World) -> None:
    with contextlib.ExitStack() as opened:
        place = ("127.0.0.1", small.port)
        silent = [opened.enter_context(socket.create_connection(place, timeout=60)) for _ in range(MOST)]
        assert small.sql("SELECT 1 AS one").rows() == [{"one": 1}]
        assert is_dropped(silent[0])


def test_many_connections_at_once_are_no_more_than_there_may_be(small: World) -> None:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(200)]
        for one in sockets:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", small.port))
        assert small.sql("SELECT 1 AS one").rows() == [{"one": 1}]
        until(lambda: sum(not _has_ended(one) for one in sockets) <= MOST)


def _has_ended(client: socket.socket) -> bool:
    """True if the server has ended a connection on which it says nothing else."""
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_client_that_takes_nothing(hasty: World) -> None:
    text = "SELECT n, repeat('x', 200) AS x FROM big"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", hasty.port))
        head = f"POST /sql HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ANA}\r\ncontent-length: {len(text)}"
        client.sendall(f"{head}\r\n\r\n{text}".encode())
        until(lambda: hasty.entries(text))
    [entry] = hasty.entries(text)
    assert (entry["outcome"], entry["error"]) == ("cancelled", f"Cancelled: the client took nothing for {PATIENCE} s")
    until(lambda: not hasty.service.of(hasty.user(ANA)))


def test_nothing_listens_beyond_this_machine_without_tls_and_users(world: World, tmp_path: Path) -> None:
    file = tmp_path / "some.pem"
    file.write_text("")
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ConfigError, match="no TLS and no users"):
            Place(host).check(False)
        with pytest.raises(ConfigError, match=r"no TLS$"):
            Place(host).check(True)
        with pytest.raises(ConfigError, match=r"no users$"):
            Place(host, 0, file, file).check(False)
        with pytest.raises(ConfigError, match="takes a certificate"):
            HttpServer(world.service, Place(host), ClientLimits())
    Place("0.0.0.0", 0, file, file).check(True)
    for wrong in (Place(certificate=file), Place(certificate=file, key=tmp_path / "none")):
        with pytest.raises(ConfigError, match=r"TLS needs both|there is no file"):
            wrong.check(True)


def test_tls(world: World, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    with HttpServer(world.service, Place("127.0.0.1", 0, certificate, key), ClientLimits()) as server:
        port = int(server.address.rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        connection.request("POST", "/sql", "SELECT 7 AS n", {"authorization": f"Bearer {ANA}"})
        assert connection.getresponse().read() == b'[{"n":7}]\n'
        connection.close()
        plain = http.client.HTTPConnection("localhost", port, timeout=60)
        with pytest.raises((http.client.BadStatusLine, ConnectionError)):
            plain.request("GET", "/healthz")
            plain.getresponse()


def test_the_file_of_users(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    token, lines = new_user('a "b" \\c')
    path.write_text(lines + 'tenant = "night"\nrows = 10\n')
    found = read_users(path).of_token(token)
    assert (found.name, found.tenant, found.limits.rows) == ('a "b" \\c', "night", 10)
    assert token not in path.read_text()
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod go-w"):
        read_users(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "no users"), ("[a", "not TOML"), ("a = 1", "must be the table"), ("[a]", "either a token or a password"),
        ('[a]\ntoken = "plain text"', "must be a digest"), ('[a]\npassword = "scrypt:zz:zz"', "must be a digest"),
        (f'[a]\ntoken = "sha256:{"0" * 64}"\nrows = -1', "rows must be a number above 0"),
        (f'[a]\ntoken = "sha256:{"0" * 64}"\nrow = 1', "no option row"),
    ],
)  # fmt: skip
def test_a_file_of_users_that_is_wrong(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(lines)
    with pytest.raises(ConfigError, match=said):
        read_users(path)


def test_without_a_file_of_users_anybody_on_this_machine_asks() -> None:
    assert Users().of_header(None).name == "anybody"
