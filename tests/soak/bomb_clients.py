"""The clients of `bombs.py`: a process of dashboards, and one of bombers.

python tests/soak/bomb_clients.py FOLDER dashboards|bombers

A dashboard sends a short query about once a second and compares the rows; every other query has a new constant. A
bomber sends texts that need any memory, any time or a reader that never comes; it waits for the end, cancels, leaves,
or stops to read. Each line of the log is one query. Both run until they are killed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "attack")]

from attack_bombs import KINDS, text_of  # noqa: E402

BIG = 100_000_000
LARGE = {
    "a cross join": "SELECT count(*) FROM sales a, sales b, sales c WHERE a.id + b.id + c.id = 7",
    "a sort of many columns": (
        "SELECT * FROM (SELECT a.*, b.id + a.id AS more, b.name AS other, reverse(b.name) AS r FROM sales a, sales b "
        "WHERE b.id < 400) ORDER BY r, other, more, name, id OFFSET 39900000"
    ),
    "groups without end": "SELECT count(*) FROM (SELECT DISTINCT a.name, b.name FROM sales a, sales b)",
    "windows": "SELECT max(r) FROM (SELECT rank() OVER (ORDER BY a.name, b.name) AS r FROM sales a, sales b)",
    "unnested ranges": f"SELECT count(DISTINCT u::VARCHAR) FROM (SELECT unnest(range({BIG})) AS u)",
    "a regular expression": (
        "SELECT count(*) FROM sales a, sales b WHERE regexp_matches(a.name || b.name, '^(n+1*)*(2|3+)*[^a-m]*9$')"
    ),
    "parentheses": f"SELECT {'(' * 10_000}1{')' * 10_000}",
}
"""More kinds, which DuckDB can spill, interrupt or refuse."""
UNREAD = {
    "100 million rows": f"SELECT range AS id, range::VARCHAR AS name FROM range({BIG})",
    "rows of a join": "SELECT a.*, b.name AS other FROM sales a, sales b",
}
"""Answers without end."""
HUGE = "50 MB of text"

BOMBS = (*KINDS, *LARGE, *UNREAD, HUGE)
WAYS = ("wait", "wait", "cancel", "leave", "stop reading")


ROWS = 100_000
USUAL = 40_000
"""The constant of every other query, whose answer the server may have kept."""


@dataclass(frozen=True)
class Short:
    """A kind of short query. text: with {n}, a constant below `USUAL`. rows: its answer as JSON, by the constant."""

    text: str
    rows: Callable[[int], list[dict[str, object]]]


def _sum_of(k: int, start: int) -> int:
    """The sum of the ids from a start on that are k modulo 7."""
    first = start + (k - start) % 7
    last = ROWS - 1 - (ROWS - 1 - k) % 7
    return (first + last) * ((last - first) // 7 + 1) // 2


SHORT = (
    Short("SELECT 1 AS one", lambda n: [{"one": 1}]),
    Short("SELECT name FROM sales WHERE id = {n}", lambda n: [{"name": f"n{n}"}]),
    Short(
        "SELECT count(*) AS n, max(name) AS last FROM sales WHERE id BETWEEN {n} AND {n} + 1000",
        lambda n: [{"n": 1001, "last": max(f"n{one}" for one in range(n, n + 1001))}],
    ),
    Short(
        "SELECT id % 7 AS k, sum(id) AS s FROM sales WHERE id >= {n} GROUP BY k ORDER BY k",
        lambda n: [{"k": k, "s": _sum_of(k, n)} for k in range(7)],
    ),
    Short("SELECT median(id) AS m FROM sales WHERE id <= {n}", lambda n: [{"m": n / 2}]),
)


@dataclass(frozen=True)
class Order:
    """An order for the clients. port: of the server. dashboards, bombers: their tokens."""

    port: int
    seed: int
    dashboards: list[str]
    bombers: list[str]


class Log:
    """Lines of JSON, one a query."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, **facts: object) -> None:
        with self._lock:
            self._file.write(json.dumps({"at": time.time(), **facts}) + "\n")
            self._file.flush()


def dashboard(order: Order, place: int, log: Log, chance: random.Random) -> None:
    """Send short queries, about one a second."""
    connection = http.client.HTTPConnection("127.0.0.1", order.port, timeout=60)
    known = {"authorization": f"Bearer {order.dashboards[place]}"}
    time.sleep(chance.uniform(0.0, 1.0))
    while True:
        number, n = chance.randrange(len(SHORT)), USUAL if chance.random() < 0.5 else chance.randrange(USUAL)
        text, rows = SHORT[number].text.format(n=n), SHORT[number].rows(n)
        begun = time.perf_counter()
        try:
            connection.request("POST", "/sql", text, known)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            log.write(what="lost", error=repr(error))
            connection.close()
            status, body = 0, b""
            time.sleep(0.5)
        seconds = time.perf_counter() - begun
        if status == 200:
            log.write(what="short", number=number, seconds=seconds, right=json.loads(body) == rows)
        elif status:
            log.write(what="refused", number=number, seconds=seconds, error=body[:300].decode())
        time.sleep(chance.uniform(0.5, 1.5))


class Bomber:
    """One client that sends bombs."""

    def __init__(self, order: Order, place: int, log: Log, chance: random.Random) -> None:
        self._order, self._log, self._chance = order, log, chance
        self._known = {"authorization": f"Bearer {order.bombers[place]}"}
        self._kinds: list[str] = []

    def run(self) -> None:
        while True:
            if not self._kinds:
                self._kinds = self._chance.sample(BOMBS, len(BOMBS))
            kind = self._kinds.pop()
            way = "stop reading" if kind in UNREAD else self._chance.choice(WAYS)
            begun = time.perf_counter()
            facts: dict[str, object] = {}
            try:
                facts = self._throw(kind, way)
            except (OSError, http.client.HTTPException) as error:
                facts = {"error": repr(error)}
                time.sleep(0.5)
            self._log.write(what="bomb", kind=kind, way=way, seconds=time.perf_counter() - begun, **facts)

    def _throw(self, kind: str, way: str) -> dict[str, object]:
        text = f"SELECT '{'x' * 50_000_000}'" if kind == HUGE else (LARGE | UNREAD).get(kind) or text_of(kind)
        ways: dict[str, Callable[[str], dict[str, object]]] = {
            "wait": self._wait, "cancel": self._cancel, "leave": self._leave, "stop reading": self._stop_reading,
        }  # fmt: skip
        return ways[way](text)

    def _wait(self, text: str) -> dict[str, object]:
        return self._answered(self._sent(text))

    def _cancel(self, text: str) -> dict[str, object]:
        """Cancel it as a user does, by its number, from another connection."""
        connection = self._sent(text)
        time.sleep(self._chance.uniform(0.1, 3.0))
        running = json.loads(self._asked("GET", "/queries")[1])
        for one in running:
            self._asked("DELETE", f"/queries/{one['id']}")
        begun = time.perf_counter()
        facts = self._answered(connection)
        return {**facts, "cancelled": time.perf_counter() - begun} if running else facts

    def _leave(self, text: str) -> dict[str, object]:
        """Leave; a query whose client is gone is no longer listed soon."""
        connection = self._sent(text)
        time.sleep(self._chance.uniform(0.1, 2.0))
        connection.close()
        return self._gone()

    def _stop_reading(self, text: str) -> dict[str, object]:
        """Read a part of the answer and then nothing; leave after a while."""
        connection = self._sent(text)
        if connection.sock is not None:
            connection.sock.settimeout(self._chance.uniform(2.0, 12.0))
        try:
            connection.getresponse().read(2000)
            time.sleep(self._chance.uniform(1.0, 8.0))
        except TimeoutError:
            pass  # there is no answer yet
        connection.close()
        return self._gone()

    def _gone(self) -> dict[str, object]:
        begun = time.perf_counter()
        while (found := self._asked("GET", "/queries"))[0] == 200 and json.loads(found[1]):
            time.sleep(0.02)
        return {"cancelled": time.perf_counter() - begun}

    def _sent(self, text: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._order.port, timeout=120)
        connection.connect()
        if connection.sock is not None and self._chance.random() < 0.5:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it has come in full
            connection.request("POST", "/sql", text.encode(), self._known)
        return connection

    def _answered(self, connection: http.client.HTTPConnection) -> dict[str, object]:
        try:
            answer = connection.getresponse()
            return {"status": answer.status, "answer": answer.read(200).decode(errors="replace")}
        finally:
            connection.close()

    def _asked(self, method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._order.port, timeout=60)
        try:
            connection.request(method, path, headers=self._known)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def main() -> int:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    order = Order(**json.loads((folder / "order.json").read_text(encoding="utf-8")))
    log, life = Log(folder / f"{what}.jsonl"), time.time()
    doing = {
        "dashboards": (dashboard, order.dashboards),
        "bombers": (lambda *about: Bomber(*about).run(), order.bombers),
    }
    run, tokens = doing[what]
    threads = [
        threading.Thread(target=run, args=(order, place, log, random.Random(f"{order.seed} {what} {place} {life}")))
        for place in range(len(tokens))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
