"""Queries that go on without their client: state, answers, who may see them, and the end and next start of a server."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight
from server_world import ANA, BEN, EVE, SLOW, USERS, World
from waits import until

from qoop.catalog.errors import ConfigError, DiskFull
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.flight import FlightServer
from qoop.interfaces.server.flight_messages import packed
from qoop.interfaces.server.http_server import HttpServer
from qoop.interfaces.server.kept import KeptQueries
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.queries import Earlier
from qoop.interfaces.server.restart.kept_folder import FORMAT, VERSION, Kept, KeptFolder
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.planner.plan import ISOLATED


def begun(world: World, text: str, **headers: str) -> str:
    reply = world.ask("POST", "/queries", text.encode(), **headers)
    assert reply.status == 202, reply.body
    told = json.loads(reply.body)
    assert reply.headers["location"] == f"/queries/{told['id']}"
    return str(told["id"])


def state(world: World, id: str) -> dict[str, Any]:
    return dict(json.loads(world.ask("GET", f"/queries/{id}").body))


def test_a_query_goes_on_without_its_client_and_its_answer_waits(world: World) -> None:
    id = begun(world, "SELECT n, n * 2.5 AS m FROM big")
    until(lambda: state(world, id)["state"] == "done")
    assert state(world, id)["rows"] == 60_000
    for _ in range(2):  # it may be fetched again
        rows = world.ask("GET", f"/queries/{id}/result").rows()
        assert len(rows) == 60_000 and sum(row["n"] for row in rows) == sum(range(60_000))  # type: ignore[misc]
    lines = world.ask("GET", f"/queries/{id}/result", accept="text/csv").body.splitlines()
    assert lines[0] == b"n,m" and len(lines) == 60_001
    assert world.ask("DELETE", f"/queries/{id}").status == 204
    assert world.ask("GET", f"/queries/{id}").status == 404


def test_an_empty_answer_has_its_columns(world: World) -> None:
    id = begun(world, "SELECT a, b FROM t WHERE a > 9")
    until(lambda: state(world, id)["state"] == "done")
    assert world.ask("GET", f"/queries/{id}/result", accept="text/csv").body == b"a,b\n"
    world.ask("DELETE", f"/queries/{id}")


def test_while_it_runs_it_tells_how_far_it_is_and_it_can_be_cancelled(world: World) -> None:
    id = begun(world, SLOW)
    until(lambda: "fraction" in state(world, id))
    assert state(world, id)["state"] == "running"
    early = world.ask("GET", f"/queries/{id}/result")
    assert (early.status, early.error, early.headers["retry-after"]) == (409, "Busy", "1")
    assert id in [one["id"] for one in json.loads(world.ask("GET", "/queries").body)]
    assert world.ask("DELETE", f"/queries/{id}").status == 204
    assert world.ask("GET", f"/queries/{id}").status == 404
    until(lambda: not world.service.of(world.user("the token of ana")))


def test_nobody_else_sees_it(world: World) -> None:
    id = begun(world, "SELECT 1 AS one")
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert world.ask(method, f"/queries/{id}{path}", token=BEN).status == 404
        assert world.ask(method, f"/queries/{id}{path}", token=None).status == 401
    assert id not in world.ask("GET", "/queries", token=BEN).body.decode()
    assert world.ask("GET", "/queries/..%2F..%2Fetc/result").status == 404
    world.ask("DELETE", f"/queries/{id}")


def test_what_goes_wrong_is_told_at_once_or_with_the_result(world: World) -> None:
    assert world.ask("POST", "/queries", b"SELEC 1").status == 400
    assert world.ask("POST", "/queries", b"SET threads = 1").status == 403
    id = begun(world, "SELECT error('so it is') AS e FROM t")
    until(lambda: state(world, id)["state"] == "failed")
    failed = world.ask("GET", f"/queries/{id}/result")
    assert failed.status in (400, 422) and "so it is" in failed.body.decode()
    reply = world.ask("POST", "/queries", b"FROM big", token=EVE)
    most = json.loads(reply.body)["id"]
    until(lambda: json.loads(world.ask("GET", f"/queries/{most}", token=EVE).body)["state"] == "failed")
    assert world.ask("GET", f"/queries/{most}/result", token=EVE).status == 413


def test_parameters_are_values(world: World) -> None:
    body = json.dumps({"sql": "SELECT a FROM t WHERE b = $b", "parameters": {"b": 'q"'}}).encode()
    reply = world.ask("POST", "/queries", body, content_type="application/json")
    id = str(json.loads(reply.body)["id"])
    until(lambda: state(world, id)["state"] == "done")
    assert world.ask("GET", f"/queries/{id}/result").rows() == [{"a": 3}]


def test_a_folder_that_holds_something_else_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / ("0" * 16)).mkdir()
    (tmp_path / ("0" * 16) / "query.json").write_text('{"format": "other"}')
    with pytest.raises(ConfigError, match="is not a query of a server of this version"):
        KeptQueries(world.service, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot keep answers in"):
        KeptQueries(world.service, tmp_path / "file")
    assert isinstance(world.service, Service)


def test_what_a_killed_server_had_begun_to_remove_is_removed(world: World, tmp_path: Path) -> None:
    half, others = tmp_path / ("0" * 16), tmp_path / "of somebody else"
    for folder in (half, others):
        folder.mkdir()
        (folder / "answer.arrow").write_text("")
    KeptQueries(world.service, tmp_path, lasting=True).close()
    assert {path.name for path in tmp_path.iterdir()} == {others.name, "servers.lock"}


class Bomb:
    """An object that somebody plants where a server might unpickle it."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.canary,)


@pytest.mark.parametrize("state", ["done", "running"])
def test_pickles_in_its_folder_are_not_read_as_such(world: World, tmp_path: Path, state: str) -> None:
    canary, folder, bomb = tmp_path / "canary", tmp_path / "kept" / ("0" * 16), pickle.dumps(Bomb(tmp_path / "canary"))
    (folder / "bundle").mkdir(parents=True)
    told = {"format": FORMAT, "version": VERSION, "id": folder.name, "user": "ana", "sql": "SELECT 1", "asked": 0.0}
    (folder / "query.json").write_text(
        json.dumps(told | {"state": state, "columns": [["one", "INTEGER"]], "settings": []})
    )
    for name in ("answer.arrow", "bundle/bundle.json", "bundle/plan.json", "bundle/trace.pickle"):
        (folder / name).write_bytes(bomb)
    kept = KeptQueries(world.service, tmp_path / "kept", lasting=True)
    try:
        assert kept.resume() == (state == "running")
        user = world.user("the token of ana")
        until(lambda: [one.state for one in kept.of(user)] == ["done"])
        [found] = kept.of(user)
        if state == "running":  # without a bundle that can be read it was run again
            assert [part.fetchall() for part in kept.parts(found)] == [[(1,)]]
        else:
            with pytest.raises(DiskFull, match="cannot be read"):
                list(kept.parts(found))
    finally:
        kept.close()
    assert not canary.exists()
    pickle.loads(bomb)
    assert canary.exists(), "it would have gone off"


def test_temporary_folders_of_killed_servers_go(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = tmp_path / "qoop-answers-dead"
    (dead / "0123456789abcdef").mkdir(parents=True)
    (dead / "lock").touch()
    with HttpServer(world.service, Place(), ClientLimits()):
        [own] = tmp_path.glob("qoop-answers-*")
        assert own != dead
    assert list(tmp_path.iterdir()) == []


@contextmanager
def two_servers(world: World, folder: Path) -> Iterator[tuple[World, World]]:
    """Two servers on one folder of answers."""
    with ExitStack() as around:
        both = []
        for _ in range(2):
            service = Service(world.service.session, USERS, AuditLog(world.log))
            server = around.enter_context(HttpServer(service, Place(), ClientLimits(), folder))
            around.callback(service.close, 0.0)
            server.kept.resume()
            both.append(replace(world, service=service, server=server))
        first, second = both
        yield first, second


def test_servers_that_share_a_folder_know_all_queries(world: World, tmp_path: Path) -> None:
    with two_servers(world, tmp_path / "shared") as (first, second):
        id = begun(first, SLOW)
        assert state(second, id)["state"] == "running" and state(second, id)["seconds"] >= 0
        assert second.ask("GET", f"/queries/{id}/result").error == "Busy"
        assert [one["id"] for one in json.loads(second.ask("GET", "/queries").body)] == [id]
        assert second.ask("GET", f"/queries/{id}", token=BEN).status == 404
        assert second.ask("DELETE", f"/queries/{id}", token=BEN).status == 404
        assert second.ask("DELETE", f"/queries/{id}").status == 204
        assert first.ask("GET", f"/queries/{id}").status == 404
        until(lambda: not first.service.of(world.user(ANA)), "the first server notices that the second removed it")
        until(lambda: not list((tmp_path / "shared").glob(f"{id}*")))
        id = begun(first, "SELECT n FROM big WHERE n < 3 ORDER BY n")
        until(lambda: state(second, id)["state"] == "done")
        assert second.ask("GET", f"/queries/{id}/result").rows() == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert second.ask("DELETE", f"/queries/{id}").status == 204
        assert first.ask("GET", f"/queries/{id}/result").status == 404


def test_a_query_that_no_server_runs_goes_on_in_one_that_finds_it(world: World, tmp_path: Path) -> None:
    with two_servers(world, tmp_path) as (first, second):
        id = begun(first, SLOW)
        until(lambda: "fraction" in state(first, id))
        first.server.kept.suspend()  # as at its end
        first.service.close(0.0)
        until(lambda: "fraction" in state(second, id))
        assert second.ask("DELETE", f"/queries/{id}").status == 204
        until(lambda: not second.service.of(world.user(ANA)))


def test_a_text_that_goes_on_is_bound_by_a_child_process_if_it_was_so_before(world: World) -> None:
    text = "SELECT length(repeat('x', 30000000)) AS n, now() > TIMESTAMPTZ '2020-01-01' AS later"
    earlier = Earlier(at="2026-01-01 00:00:00+00")
    query = world.service.admit(world.user(ANA), text, "http", earlier=earlier)
    try:
        assert [row for part in query.parts() for row in part.fetchall()] == [(30_000_000, True)]
        assert query.job is not None and [stage.opaque for stage in query.job.plans[-1].stages] == [ISOLATED]
    finally:
        query.end()


def test_a_query_that_ends_with_its_server_has_an_error_that_says_try_again(world: World) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    service = Service(world.service.session, USERS, AuditLog(world.log))
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {ANA}".encode())])
    command = packed("CommandStatementQuery", (1, f"{SLOW} -- flight"))

    def by_http() -> object:
        reply = replace(world, service=service, server=http).sql(f"{SLOW} -- http")
        return reply.status, reply.error, reply.headers.get("retry-after")

    def by_flight() -> object:
        with flight.connect(flights.address) as client:
            info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
            with pytest.raises(flight.FlightUnavailableError, match="the server ends"):
                client.do_get(info.endpoints[0].ticket, options).read_all()
        return "unavailable"

    def by_postgres() -> object:
        place = {"host": "127.0.0.1", "port": postgres.port, "dbname": "x", "sslmode": "disable"}
        with (
            pytest.raises(psycopg.errors.AdminShutdown, match="the server ends"),
            psycopg.connect(user="ana", password=ANA, **place) as connection,
        ):
            connection.execute(f"{SLOW} -- postgres")
        return "shutdown"

    with (
        HttpServer(service, Place(), ClientLimits()) as http,
        FlightServer(service, Place(), ClientLimits()) as flights,
        PostgresServer(service, Place(), ClientLimits()) as postgres,
        ThreadPoolExecutor() as threads,
    ):
        answers = [threads.submit(ask) for ask in (by_http, by_flight, by_postgres)]
        until(lambda: sum(query.job is not None for query in service.of(world.user(ANA))) == len(answers))
        service.close(0.0)
        assert [one.result() for one in answers] == [(503, "SessionClosed", "1"), "unavailable", "shutdown"]
    outcomes = [entry["outcome"] for by in ("http", "flight", "postgres") for entry in world.entries(f"{SLOW} -- {by}")]
    ended = [outcome for outcome in outcomes if outcome != "refused"]  # Flight fetches, perhaps after the end
    assert ended == ["cancelled"] * 3


def test_queries_go_on_in_the_order_in_which_they_were_submitted(world: World, tmp_path: Path) -> None:
    times = dict(zip([f"{number:016x}" for number in (3, 7, 1, 9, 4, 8)], range(6), strict=True))
    for id, submitted in times.items():
        folder = KeptFolder(tmp_path)
        folder.add(Kept(id, "eve", f"SELECT {submitted} AS place -- in order", float(submitted)))
        folder.close()
    kept = KeptQueries(world.service, tmp_path, lasting=True)  # eve runs one query at a time
    try:
        assert kept.resume() == len(times)
        until(lambda: all(one.state == "done" for one in kept.of(world.service.users.of_token(EVE))))
    finally:
        kept.close()
    ended = [json.loads(line)["statement"] for line in world.log.getvalue().splitlines() if "in order" in line]
    assert ended == [f"SELECT {place} AS place -- in order" for place in range(6)]
