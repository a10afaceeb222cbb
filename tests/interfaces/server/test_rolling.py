"""A server that takes over from another one on the same folder of answers, while clients ask."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from long_query import answer_of_long, files_of_long
from pg_client import psycopg
from serve_process import Ports, ServeProcess
from waits import until

WORDS = ("data", "--config", "my.toml", "--answers", "answers", "--audit", "audit", "--log", "log", "--grace", "10")
WORDS += ("--idle", "600")  # of connections, as the second server may take long to begin
PARTS = " UNION ALL ".join(
    f"SELECT {m} AS m, g, count(*) OVER (ORDER BY g) AS place, n, s FROM (SELECT a.k % {m} AS g, count(*) AS n, "
    "sum(a.v + b.v) AS s FROM big a JOIN big b USING (k) GROUP BY ALL)"
    for m in range(3, 13)
)
LONG = f"FROM ({PARTS}) ORDER BY m, g"


class Asking(threading.Thread):
    """A client with one connection, which it opens again if the server has closed it between two requests."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self.over = port, threading.Event()
        self.answers, self.connections, self.failures = 0, 0, list[str]()

    def run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self.over.wait(0.05):
            was_open = connection is not None
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                self.connections += 1
            try:
                connection.request("POST", "/sql", "SELECT count(*) AS n FROM big WHERE v < 7")
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200 or json.loads(body) != [{"n": 7}]:
                    self.failures.append(f"{answer.status} {body!r}")
                self.answers += 1
            except (OSError, http.client.HTTPException) as error:
                if not was_open:  # a new connection was refused, or cut
                    self.failures.append(f"{type(error).__name__}: {error}")
                connection.close()
                connection = None


@contextmanager
def asking(port: int) -> Iterator[list[Asking]]:
    clients = [Asking(port) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.over.set()
            client.join(60)


def long_outputs(server: ServeProcess) -> set[str]:
    """The keys of the outputs of LONG so far: it alone has more than two."""
    by_job = defaultdict[str, set[str]](set)
    for one in server.outputs():
        by_job[one.job].add(one.key)
    most = max(by_job.values(), key=len, default=set[str]())
    return most if len(most) > 2 else set()


def asked(port: int, method: str, path: str) -> Any:
    """The answer to a request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found = answered(connection, method, path)
    connection.close()
    return found


def answered(connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> Any:
    """The answer to a request; None if it is empty."""
    connection.request(method, path, body)
    return json.loads(connection.getresponse().read() or b"null")


def has_begun(query: dict[str, Any]) -> bool:
    """True if the server that sent this runs the query, or has ended it."""
    return query["state"] == "done" or query.get("fraction", 0) > 0


def test_the_next_server_takes_over_ports_and_queries_and_no_client_is_refused(tmp_path: Path) -> None:
    files_of_long(tmp_path, keys=6000)
    ports = Ports.free()
    with ServeProcess(tmp_path, WORDS, ports) as first, ExitStack() as later, asking(ports.http) as clients:
        to_first = http.client.HTTPConnection("127.0.0.1", ports.http, timeout=60)
        assert isinstance(answered(to_first, "GET", "/queries"), list), "the connection is to the first one"
        ready = later.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        ready.bind(str(tmp_path / "notify"))
        ready.settimeout(60)
        second = later.enter_context(ServeProcess(tmp_path, WORDS, ports, NOTIFY_SOCKET=str(tmp_path / "notify")))
        assert ready.recv(100) == b"READY=1", "systemd learns that the first one may stop"
        assert "another server on answers runs" in second.said.read_text()
        assert f"Flight SQL waits until the other server leaves port {ports.flight}" in second.said.read_text()
        id = answered(to_first, "POST", "/queries", LONG)["id"]
        until(lambda: len(long_outputs(first)) > 3)
        assert first.end() == 0
        before = [client.answers for client in clients]
        until(lambda: asked(ports.http, "GET", f"/queries/{id}")["state"] == "done")
        rows = asked(ports.http, "GET", f"/queries/{id}/result")
        until(lambda: all(one.answers > was for one, was in zip(clients, before, strict=True)))
        until(lambda: "by Flight SQL" in second.said.read_text())
        with psycopg.connect(host="127.0.0.1", port=ports.postgres, user="x", dbname="x") as postgres:
            assert postgres.execute("SELECT count(*) FROM big").fetchall() == [(300_000,)]
    assert [failure for client in clients for failure in client.failures] == []
    expected = answer_of_long(LONG, keys=6000)
    assert len(expected) == 75 and [tuple(row.values()) for row in rows] == expected
    made = long_outputs(first)
    again = [one for one in second.outputs() if one.key in made]
    assert len(made) > 3 and len(again) <= 2, "what the first server had in hand alone runs again"


def test_after_a_kill_another_server_on_the_folder_goes_on(tmp_path: Path) -> None:
    files_of_long(tmp_path, keys=6000)
    ports, others = Ports.free(), Ports.free()
    with ServeProcess(tmp_path, WORDS, ports) as first, ServeProcess(tmp_path, WORDS, others) as second:
        id = answered(http.client.HTTPConnection("127.0.0.1", ports.http), "POST", "/queries", LONG)["id"]
        until(lambda: long_outputs(first))
        seen = asked(others.http, "GET", f"/queries/{id}")
        assert seen["state"] == "running" and "fraction" not in seen, "it runs in the first one"
        first.kill()
        until(lambda: has_begun(asked(others.http, "GET", f"/queries/{id}")))
        until(lambda: "continued: " in (tmp_path / "log").read_text())
        assert not long_outputs(first) & {one.key for one in second.outputs()}
        asked(others.http, "DELETE", f"/queries/{id}")
        assert second.end() == 0, second.said.read_text()
