"""Answers over HTTP: their forms, their end, limits, and the end of the server."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server_world import BEN, EVE, SLOW, TIM, USERS, World
from waits import until

from qoop.catalog.errors import Busy, ConfigError, ExecutionError, ProcessEnded
from qoop.interfaces.server.answers import FORMS, chosen_form
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.service import Service
from qoop.query.result import Result

ARROW, CSV, LINES = "application/vnd.apache.arrow.stream", "text/csv", "application/x-ndjson"


def test_each_form_has_the_same_rows(world: World) -> None:
    text = "SELECT a, b, a / 2 AS half FROM t ORDER BY b"
    wanted = [
        {"a": None, "b": "<b>", "half": None},
        {"a": 3, "b": 'q"', "half": 1.5},
        {"a": 1, "b": "x", "half": 0.5},
        {"a": 2, "b": "y, z", "half": 1.0},
    ]
    assert world.sql(text).rows() == wanted
    assert [json.loads(line) for line in world.sql(text, accept=LINES).body.splitlines()] == wanted
    arrow = world.sql(text, accept=ARROW)
    assert arrow.headers["content-type"] == ARROW
    assert pa.ipc.open_stream(arrow.body).read_all().to_pylist() == wanted
    lines = list(csv.reader(io.StringIO(world.sql(text, accept=CSV).body.decode())))
    assert lines == [["a", "b", "half"], ["", "<b>", ""], ["3", 'q"', "1.5"], ["1", "x", "0.5"], ["2", "y, z", "1.0"]]


def test_an_empty_answer_has_its_columns(world: World) -> None:
    text = "SELECT a, b FROM t WHERE a > 9"
    assert world.sql(text).rows() == []
    assert world.sql(text, accept=CSV).body == b"a,b\n"
    assert pa.ipc.open_stream(world.sql(text, accept=ARROW).body).schema.names == ["a", "b"]


def test_a_long_answer_comes_whole(world: World) -> None:
    text = "SELECT n, n * 2 AS m FROM big"
    rows = pa.ipc.open_stream(world.sql(text, accept=ARROW).body).read_all()
    assert sorted(rows["n"].to_pylist()) == list(range(60_000))
    assert sum(int(line.split(b",")[1]) for line in world.sql(text, accept=CSV).body.splitlines()[1:]) == sum(
        range(0, 120_000, 2)
    )
    [entry, _] = world.entries(text)
    assert (entry["user"], entry["outcome"], entry["rows"]) == ("ana", "done", 60_000)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_written_part_by_part(form: str) -> None:
    asked: list[int] = []

    def parts() -> Iterator[Result]:
        for number in range(3):
            asked.append(number)
            yield Result(pa.table({"n": [number] * 20_001}), (("n", "BIGINT"),))

    pieces = FORMS[form](parts())
    next(pieces)
    assert asked == [0], "the second part is not made before the first is written"
    assert len(list(pieces)) >= 3
    assert asked == [0, 1, 2]


def test_parameters_are_values(world: World) -> None:
    body = json.dumps({"sql": "SELECT a, $x AS x FROM t WHERE b = $b", "parameters": {"b": 'q"', "x": "'; DROP"}})
    reply = world.ask("POST", "/sql", body, content_type="application/json")
    assert reply.rows() == [{"a": 3, "x": "'; DROP"}]
    wrong = world.ask("POST", "/sql", '{"sql": 3}', content_type="application/json")
    assert (wrong.status, wrong.error) == (400, "QueryError")


def test_explain_and_show_answer(world: World) -> None:
    assert {row["name"] for row in world.sql("SHOW TABLES").rows()} == {"t", "big"}
    assert "explain_value" in world.sql("EXPLAIN FROM t").rows()[0]


def test_errors_are_told_by_class(world: World) -> None:
    wrong = {
        "SELEC 1": (400, "ParseError"), "SELECT nix FROM t": (400, "BindError"), "FROM nix": (403, "Forbidden"),
        "SELECT CAST(b AS INTEGER) FROM t": (422, "ExecutionError"), "SELECT 1; SELECT 2": (400, "QueryError"),
    }  # fmt: skip
    assert {text: ((reply := world.sql(text)).status, reply.error) for text in wrong} == wrong
    assert world.sql("FROM t", accept="image/png").status == 406
    assert world.ask("GET", "/sql").status == 405
    assert world.ask("GET", "/nix").status == 404


def test_an_error_of_any_kind_has_the_status_of_its_class(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed is no fault of the server, nor is an error that the tree does not name."""

    class Special(ExecutionError):
        pass

    for error in (ProcessEnded("killed"), Special("special")):

        def admit(*_: object, error: ExecutionError = error) -> None:
            raise error

        monkeypatch.setattr(world.service, "admit", admit)
        assert world.sql("SELECT 1").status == 422


@pytest.mark.parametrize(
    ("accept", "form"), [("text/*", CSV), ("", None), (f"{CSV};q=0.1, {ARROW}", ARROW), ("*/*;q=0", None)]
)
def test_the_form_that_is_liked_most(accept: str, form: str | None) -> None:
    assert chosen_form(accept) == form


def test_a_query_ends_when_its_client_goes_away(world: World) -> None:
    text = f"{SLOW} -- left alone"
    world.begun(text).close()
    until(lambda: world.entries(text))
    [entry] = world.entries(text)
    assert (entry["outcome"], entry["error"]) == ("cancelled", "Cancelled: the client has gone")
    assert world.service.of(world.user(BEN)) == []


def test_users_see_and_cancel_their_own_queries_only(world: World) -> None:
    world.quiet()
    connection = world.begun(SLOW)
    [mine] = json.loads(world.ask("GET", "/queries").body)
    assert mine["sql"] == SLOW
    assert json.loads(world.ask("GET", "/queries", token=BEN).body) == []
    others, unknown = (world.ask("DELETE", f"/queries/{id}", token=BEN) for id in (mine["id"], "0" * 16))
    assert (others.status, others.body) == (404, unknown.body), "that there is such a query is not told either"
    assert unknown.status == 404 and others.headers.keys() == unknown.headers.keys()
    assert world.ask("DELETE", f"/queries/{mine['id']}").status == 204
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())["error"]) == (409, "Cancelled")
    connection.close()


def test_limits_of_a_user(world: World) -> None:
    late = world.sql(SLOW, TIM)
    assert (late.status, late.error) == (504, "Timeout")
    world.quiet()
    assert len(world.sql("FROM big LIMIT 1000", EVE).rows()) == 1000
    many = world.sql("FROM big LIMIT 1001", EVE)
    assert (many.status, many.error) == (413, "TooMuch")
    connection = world.begun(SLOW, EVE)
    second = world.sql("SELECT 1", EVE)
    assert (second.status, second.error, second.headers["retry-after"]) == (503, "Busy", "1")
    connection.close()


def test_a_pivot_finds_its_values_within_the_limits(world: World) -> None:
    assert world.sql("PIVOT t ON b IN ('x') USING sum(a)").status == 200
    [row] = world.sql("PIVOT t ON b USING sum(a)").rows()
    assert row == {"<b>": None, 'q"': 3, "x": 1, "y, z": 2}
    late = world.sql(f"PIVOT ({SLOW}) ON s USING count(*)", TIM)
    assert (late.status, late.error) == (504, "Timeout")
    text = f"PIVOT ({SLOW}) ON s USING sum(1)"
    world.begun(text).close()
    until(lambda: world.entries(text))
    assert [entry["outcome"] for entry in world.entries(text)] == ["cancelled"]
    assert world.sql(f"EXPLAIN PIVOT ({SLOW}) ON s USING count(*)").error == "Forbidden"


def test_queries_are_those_of_their_tenant(world: World) -> None:
    world.quiet()
    connection = world.begun(SLOW, BEN)
    [query] = world.service.of(world.user(BEN))
    assert query.job is not None
    assert query.job.terms.tenant == "night"
    connection.close()


def test_health_and_metrics(world: World) -> None:
    assert world.ask("GET", "/healthz", token=None).body == b"ok\n"
    assert world.ask("GET", "/metrics", token=None).status == 401
    world.quiet()
    before = numbers(world)
    world.sql("SELECT a FROM t")
    world.sql("SELECT nix FROM t")
    connection = world.begun(SLOW)
    now = numbers(world)
    connection.close()
    assert now['qoop_queries_total{outcome="done"}'] == before['qoop_queries_total{outcome="done"}'] + 1
    assert now['qoop_errors_total{error="BindError"}'] == before.get('qoop_errors_total{error="BindError"}', 0) + 1
    assert now["qoop_rows_total"] == before["qoop_rows_total"] + 4
    assert now["qoop_queries_running"] == 1
    assert (now["qoop_slots"], now["qoop_tables"], now["qoop_spilled_bytes"]) == (2, 2, 0)
    assert now['qoop_query_seconds_bucket{le="+Inf"}'] == now["qoop_query_seconds_count"]


def numbers(world: World) -> dict[str, float]:
    text = world.ask("GET", "/metrics").body.decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'(qoop|process)_\w+(\{\w+="[^"]*"\})? [0-9.e+]+', line) for line in lines), text
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.parametrize(("text", "grace", "outcome"), [("FROM t", 60.0, "done"), (SLOW, 0.0, "cancelled")])
def test_the_end_waits_for_queries_and_then_cancels_them(world: World, text: str, grace: float, outcome: str) -> None:
    log = io.StringIO()
    service, user = Service(world.service.session, USERS, AuditLog(log)), world.user(BEN)
    query, failed = service.admit(user, text, "http"), list[str]()
    reader = threading.Thread(target=read, args=(query, failed))
    closing = threading.Thread(target=service.close, args=(grace,))
    closing.start()
    until(lambda: service.closing)
    with pytest.raises(Busy, match="ends"):
        service.admit(user, "SELECT 2", "http")
    reader.start()
    for thread in (reader, closing):
        thread.join()
    assert failed == ([] if outcome == "done" else ["SessionClosed: the server ends"])
    assert [json.loads(line)["outcome"] for line in log.getvalue().splitlines()] == ["refused", outcome]


def read(query: object, failed: list[str]) -> None:
    from qoop.interfaces.server.queries import UserQuery

    assert isinstance(query, UserQuery)
    try:
        list(query.parts())
        query.end()
    except Exception as error:
        failed.append(f"{type(error).__name__}: {error}")
        query.end(error)


def test_a_session_that_is_not_locked_is_not_served(world: World) -> None:
    import qoop

    with qoop.connect(slots=1) as session, pytest.raises(ConfigError, match="locked"):
        Service(session, USERS, AuditLog(io.StringIO()))


def test_the_command_ends_in_peace_at_a_signal(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    (tmp_path / "my.toml").write_text("slots = 1\n")
    words = ["serve", str(tmp_path), "--port", "0", "--grace", "0.1", "--audit", "log", "--config", "my.toml"]
    program = [sys.executable, "-m", "qoop", *words]
    with subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        port = int(server.stderr.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                f"POST /sql HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(SLOW)}\r\n\r\n{SLOW}".encode()
            )
            until(lambda: f"1 {SLOW}" in listed(port))
            server.send_signal(signal.SIGTERM)
            told = b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert b" 503 " in told and b"retry-after: 1" in told, "another server may answer it"
        assert b"the server ends" in told
        assert server.wait(60) == 0
    [entry] = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert (entry["statement"], entry["outcome"]) == (SLOW, "cancelled")
    assert os.stat(tmp_path / "log").st_mode & 0o777 == 0o600


def listed(port: int) -> str:
    """The number of queries that have begun, and the first."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/queries")
    found = json.loads(connection.getresponse().read())
    connection.close()
    return f"{len(found)} {found[0]['sql']}" if found else ""
