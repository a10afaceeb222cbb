"""A process of clients of a server: threads that ask one query after the other, by HTTP and by ADBC.

    python tests/soak/serve_client.py FOLDER NUMBER

`order.json` of the folder says where the server is, who the clients are and for how long they ask; `answers/N.arrow`
has the answer of the query N by DuckDB. What happens goes line by line into `log-NUMBER.jsonl`, so that nothing of it
is lost if the process is killed; the next process of that number goes on with what this one has begun.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa

from qoop.tpcds.oracle import compare

ARROW = "application/vnd.apache.arrow.stream"
SLOW = "SELECT sum(hash(a.range, b.range)) AS s FROM range(1000000) a, range(1000000) b"
LOST = 300.0
"""Seconds after which a query that nobody answers counts as lost."""
PASSING = ("Busy", "SessionClosed", "Cancelled", "NoCapacity", "Overloaded")
"""Errors of a server that ends; the query is asked again."""
NONE = -1
WAYS = ("http", "http", "flight", "flight", "kept", "kept", "cut", "cancelled", "pried")


class Passing(Exception):
    """The server, or the way to it, has gone for a moment."""


@dataclass(frozen=True)
class Order:
    """The order to all clients. texts: by the numbers of their answers. users: name and token."""

    http: int
    flight: int
    seconds: float
    seed: int
    clients: int
    texts: list[str]
    users: list[tuple[str, str]]


@dataclass(frozen=True)
class Begun:
    """A query that goes on by itself. number: of its text; NONE: one that never ends."""

    id: str
    number: int
    mark: str
    user: str


class Log:
    """Lines of what happened; may be used by several threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def tell(self, what: str, **facts: object) -> None:
        with self._lock:
            self._file.write(json.dumps({"what": what, "at": time.time(), **facts}) + "\n")
            self._file.flush()


class Client:
    """One client, with a connection of each kind, that asks in several ways."""

    def __init__(self, order: Order, answers: list[pa.Table], log: Log, place: int, life: str) -> None:
        self._order, self._answers, self._log, self.place = order, answers, log, place
        self._chance = random.Random(f"{order.seed} {place} {life}")
        self.user, self._token = order.users[place % len(order.users)]
        self._marks = (f"{self.user} {place} {life} {number}" for number in count())
        self._web: http.client.HTTPConnection | None = None
        self._door: Any = None

    def run(self, until: float) -> None:
        while time.time() < until:
            way, number = self._chance.choice(WAYS), self._chance.randrange(len(self._answers))
            mark = next(self._marks)
            self._log.tell("asked", mark=mark)
            try:
                self._patiently(way, number, mark)
            except Exception as error:
                self._problem(mark, way, error)
                self._close()
        self._close()

    def take_over(self, begun: Sequence[Begun]) -> None:
        """Go on with what somebody who was killed has begun."""
        for one in begun:
            try:
                self._finish(one)
                self._log.tell("taken over", id=one.id)
            except Exception as error:
                self._problem(one.mark, "taken over", error)

    def _problem(self, mark: str, way: str, error: Exception) -> None:
        self._log.tell("problem", mark=mark, way=way, error=f"{type(error).__name__}: {error}"[:2000])

    def _patiently(self, way: str, number: int, mark: str) -> None:
        doing = getattr(self, f"_by_{way}")
        self._retried(lambda: doing(number, mark))
        self._log.tell("done", mark=mark, way=way)

    def _retried(self, doing: Any) -> None:
        end = time.time() + LOST
        while True:
            try:
                return doing()
            except (OSError, http.client.HTTPException, Passing, adbc.Error) as error:
                if not _is_passing(error) or time.time() > end:
                    raise
                self._log.tell("again", error=f"{type(error).__name__}: {error}"[:200])
                self._close()
                time.sleep(self._chance.uniform(0.05, 0.5))

    # the ways

    def _by_http(self, number: int, mark: str) -> None:
        self._judge(number, mark, self._asked("POST", "/sql", self._text(number, mark)))

    def _by_flight(self, number: int, mark: str) -> None:
        with self._connected().cursor() as cursor:
            cursor.execute(self._text(number, mark))
            self._judge(number, mark, cursor.fetch_arrow_table())

    def _by_kept(self, number: int, mark: str) -> None:
        begun = self._begun(number, mark, self._text(number, mark))
        self._finish(begun)

    def _by_cut(self, number: int, mark: str) -> None:
        """Go away in the middle of an answer."""
        text = self._text(number, mark).encode()
        head = f"POST /sql HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self._token}\r\n"
        with socket.create_connection(("127.0.0.1", self._order.http), timeout=60) as cut:
            cut.sendall(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)
            if self._chance.random() < 0.5:
                cut.recv(self._chance.randrange(1, 2000))
            cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _by_cancelled(self, number: int, mark: str) -> None:
        """Cancel a query that would take for ever."""
        begun = self._begun(NONE, mark, f"{SLOW} -- {mark}")
        time.sleep(self._chance.uniform(0.0, 0.3))
        self._finish(begun)

    def _by_pried(self, number: int, mark: str) -> None:
        """Ask for a query of another user, who has it for sure."""
        begun = self._begun(number, mark, self._text(number, mark))
        [other] = self._chance.sample([token for name, token in self._order.users if name != self.user], 1)
        for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
            status, body = self._answer(method, f"/queries/{begun.id}{path}", None, other)
            if status not in (404, 503):
                raise AssertionError(f"another user was told {status} {body[:200]!r}")
        self._finish(begun)

    # their parts

    def _begun(self, number: int, mark: str, text: str) -> Begun:
        """A query that goes on by itself."""
        begun = Begun(json.loads(self._asked("POST", "/queries", text))["id"], number, mark, self.user)
        self._log.tell("begun", **asdict(begun))
        return begun

    def _finish(self, one: Begun) -> None:
        """Look at its answer, unless it is never to end, and forget it."""
        if one.number != NONE:
            self._retried(lambda: self._look_at(one))
        self._log.tell("dropped", id=one.id)
        self._retried(lambda: self._drop(one))

    def _look_at(self, one: Begun) -> None:
        self._wait(one)
        self._judge(one.number, one.mark, self._asked("GET", f"/queries/{one.id}/result"))

    def _drop(self, one: Begun) -> None:
        status, told = self._answer("DELETE", f"/queries/{one.id}", None, self._token)
        if status not in (204, 404):  # 404: it was, and the way back was cut
            raise Passing(f"DELETE: {status} {told[:500]!r}")

    def _wait(self, one: Begun) -> None:
        end = time.time() + LOST
        while (state := json.loads(self._asked("GET", f"/queries/{one.id}")))["state"] in ("queued", "running"):
            if time.time() > end:
                raise AssertionError(f"{one} does not end: {state}")
            time.sleep(self._chance.uniform(0.02, 0.2))
        if state["state"] != "done":
            raise AssertionError(f"{one} has not ended well: {state}")

    def _text(self, number: int, mark: str) -> str:
        return f"SELECT '{mark}' AS client, q.* FROM ({self._order.texts[number]}) AS q"

    def _judge(self, number: int, mark: str, found: bytes | pa.Table) -> None:
        rows = pa.ipc.open_stream(found).read_all() if isinstance(found, bytes) else found
        marks = set(rows["client"].to_pylist())
        if marks != {mark}:
            raise AssertionError(f"the answer to {mark} was made for {marks}")
        wrong = compare(rows.drop_columns(["client"]), self._answers[number])
        if wrong is not None:
            raise AssertionError(f"{wrong}: {self._order.texts[number]}")
        self._log.tell("compared")

    def _asked(self, method: str, path: str, body: str | None = None) -> bytes:
        status, told = self._answer(method, path, body, self._token)
        if status >= 400:
            error = json.loads(told)["error"] if told[:1] == b"{" else ""
            kind = Passing if error in PASSING or status == 503 else AssertionError
            raise kind(f"{method} {path}: {status} {told[:500]!r}")
        return told

    def _answer(self, method: str, path: str, body: str | None, token: str) -> tuple[int, bytes]:
        if self._web is None:
            self._web = http.client.HTTPConnection("127.0.0.1", self._order.http, timeout=60)
        accept = ARROW if path == "/sql" or path.endswith("/result") else "*/*"
        told = {"host": "localhost", "authorization": f"Bearer {token}", "accept": accept}
        self._web.request(method, path, body, told)
        answer = self._web.getresponse()
        return answer.status, answer.read()

    def _connected(self) -> Any:
        if self._door is None:
            known = {"adbc.flight.sql.authorization_header": f"Bearer {self._token}"}
            self._door = adbc.connect(f"grpc://127.0.0.1:{self._order.flight}", known, autocommit=True)
        return self._door

    def _close(self) -> None:
        if self._web is not None:
            self._web.close()
        if self._door is not None:
            with contextlib.suppress(adbc.Error):
                self._door.close()
        self._web = self._door = None


def _is_passing(error: Exception) -> bool:
    """True if the server, or the way to it, has gone for a moment. Errors of qoop begin with their class."""
    if not isinstance(error, adbc.Error):
        return True
    text = str(error)
    told = any(f"{kind}:" in text for kind in PASSING)
    return told or any(
        word in text.lower()
        for word in ("(canceled;", "unavailable", "eof", "reset", "refused", "transport", "closing")
    )


def happened(path: Path) -> list[dict[str, Any]]:
    """The lines of a log. The last may be cut off."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def _left_over(path: Path) -> list[Begun]:
    """The queries that the process before has begun and has not dropped."""
    told = happened(path)
    gone = {one["id"] for one in told if one["what"] == "dropped"}
    begun = [one for one in told if one["what"] == "begun" and one["id"] not in gone]
    return [Begun(one["id"], one["number"], one["mark"], one["user"]) for one in begun]


def _read(folder: Path) -> tuple[Order, list[pa.Table]]:
    told = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    order = Order(**{**told, "users": [(name, token) for name, token in told["users"]]})
    return order, list(_tables(folder, len(order.texts)))


def _tables(folder: Path, number: int) -> Iterator[pa.Table]:
    for place in range(number):
        with pa.ipc.open_stream((folder / "answers" / f"{place}.arrow").read_bytes()) as rows:
            yield rows.read_all()


def main() -> int:
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    order, answers = _read(folder)
    path, life = folder / f"log-{number}.jsonl", f"{time.time():.3f}"
    left, log = _left_over(path), Log(path)
    clients = [Client(order, answers, log, number * order.clients + place, life) for place in range(order.clients)]
    until = (folder / "order.json").stat().st_mtime + order.seconds
    threads = [threading.Thread(target=client.run, args=(until,)) for client in clients]
    for client in (Client(order, answers, log, one.place, f"{life} again") for one in clients):
        mine = [one for one in left if one.user == client.user]
        threads.append(threading.Thread(target=client.take_over, args=(mine,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
