"""Texts that take any memory or time before DuckDB's limits count: a server stays up, and others notice nothing.

Each try sends one text to a `qoop serve` process of 500 MB, by a user whose queries have 20 s and 400 MB. Meanwhile
another user's ``SELECT 1`` is timed and the memory of the server and its children is sampled. A server that runs a bomb
then gets SIGTERM.

Needs Linux.
"""

from __future__ import annotations

import http.client
import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from attack_outcome import Outcome

from qoop.tpcds.processes import family, own_memory

SERIES = "bombs"
MEMORY, USER_MEMORY = 500_000_000, 400_000_000
SECONDS = 20.0
MOST_ABOVE = 100_000_000
MOST_LATENCY = 0.1
MOST_ENDING = 5.0
_PORT = re.compile(r"http://[^:]+:(\d+)")

KINDS = {
    "a list of texts": "SELECT len(list_transform(range({n}), lambda x: x::VARCHAR || 'abc'))",
    "a repeated text": "SELECT length(repeat('x', {n} * 20))",
    "a range in a filter": "SELECT count(*) FROM sales WHERE id = len(range({n} * 3))",
    "a sum of a list": "SELECT list_sum(list_transform(range({n} * 10), lambda x: x * x))",
    "a distance": "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    "a padded text": "SELECT length(lpad('a', {n} * 15, 'b'))",
    "a range of a column": "SELECT sum(len(range(id * {n}))) FROM sales WHERE id < 40",
    "doubled texts": "WITH t0 AS (SELECT 'xxxxxxxxxxxxxxxx' AS s), {doubled} SELECT length(s) FROM t27",
    "a printed number": "SELECT length(printf('%{n}0d', 1))",
    "a median": "SELECT median(a.id * 1000.5 + b.id) FROM sales a, sales b WHERE b.id < 10000",
    "a list of rows": "SELECT len(list(a.name || b.name)) FROM sales a, sales b WHERE b.id < 10000",
    "an array type": "SELECT CAST(NULL AS INTEGER[100000][1000])",
    "a long chain of AND": "SELECT count(*) FROM sales WHERE {ands}",
    "a long UNION": "SELECT count(*) FROM ({unions})",
    "a chain of joins": "SELECT count(*) FROM sales s0 {joins}",
    "nested lists": "SELECT len(list_transform(range(99999), lambda x: list_transform(range(99999), lambda y: x + y)))",
    "a pattern": "SELECT repeat('a', 300) LIKE '%a%a%a%a%a%a%a%b'",
    "a recursive text": "WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) SELECT max(s) FROM t",
}
"""Kinds of bombs. {n}: 100 million, for a bomb of full size."""
_PARTS = {
    "doubled": ", ".join(f"t{n + 1} AS (SELECT s || s AS s FROM t{n})" for n in range(27)),
    "ands": " AND ".join(f"id <> {n}" for n in range(20_000)),
    "unions": " UNION ALL ".join(f"SELECT {n} AS a" for n in range(10_000)),
    "joins": " ".join(f"JOIN sales s{n} ON s{n}.id = s{n - 1}.id" for n in range(1, 100)),
}


def bombs(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """Every kind in turn, in another order for each seed."""
    kinds = list(KINDS)
    Random(seed).shuffle(kinds)
    chosen = list(itertools.islice(itertools.cycle(kinds), count))
    with served(folder) as server:
        for kind in chosen:
            yield outcome(kind, thrown(server, text_of(kind)))
    for kind in dict.fromkeys(chosen):
        with served(folder) as server:
            yield ended(kind, server)


def text_of(kind: str, n: int = 100_000_000) -> str:
    """The text of a bomb."""
    return KINDS[kind].format(n=n, **_PARTS)


@dataclass
class Server:
    """A `qoop serve` process. idle: bytes of memory that it has without work, with its children."""

    process: subprocess.Popen[str]
    port: int
    idle: int = 0

    def ask(self, user: str, text: str) -> tuple[int, bytes]:
        """The status and the answer of a query."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            connection.request("POST", "/sql", text.encode(), {"authorization": f"Bearer token-{user}"})
            found = connection.getresponse()
            return found.status, found.read()
        finally:
            connection.close()

    def memory(self) -> int:
        """Bytes of the server and its children that no file holds, each page once."""
        return sum(map(own_memory, family(self.process.pid)))


@dataclass
class Thrown:
    """The effects of a bomb. peak: bytes on top of the idle server. slowest: seconds of another user's SELECT 1."""

    status: int = 0
    answer: bytes = b""
    seconds: float = 0.0
    peak: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        return max(self.latencies)

    def __str__(self) -> str:
        cost = f"+{self.peak / 1e6:.0f} MB, SELECT 1 {self.slowest * 1000:.0f} ms"
        return f"{self.status} after {self.seconds:.1f} s, {cost}: {self.answer[:150].decode(errors='replace')}"


@contextmanager
def served(folder: Path, *options: str, users: str = "", memory: int = MEMORY) -> Iterator[Server]:
    """A server of one table. users: lines of their file, with an ann; by default two users."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "sales.parquet"
    if not data.exists():
        import duckdb

        rows = "SELECT range AS id, 'n' || range AS name FROM range(100000)"
        duckdb.sql(f"COPY ({rows}) TO '{data}'")
    file = folder / "users.toml"
    file.write_text(users or _users(), encoding="utf-8")
    command = [sys.executable, "-m", "qoop", "serve", str(data), "--port", "0", "--users", str(file),
               "--memory", str(memory), "--slots", "2", "--audit", str(folder / "audit.log"), *options]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _ready(process)
        finally:
            process.kill()


def thrown(server: Server, text: str) -> Thrown:
    """Throw a bomb, and watch."""
    found = Thrown()

    def throw() -> None:
        found.status, found.answer = server.ask("bob", text)

    thread, begun = threading.Thread(target=throw), time.perf_counter()
    thread.start()
    watching = threading.Thread(target=_watch_memory, args=(server, thread, found))
    watching.start()
    while thread.is_alive() or len(found.latencies) < 5:
        asked = time.perf_counter()
        status, _ = server.ask("ann", "SELECT 1")
        assert status == 200
        found.latencies.append(time.perf_counter() - asked)
        time.sleep(0.03)
    found.seconds = time.perf_counter() - begun
    watching.join()
    return found


def outcome(kind: str, found: Thrown) -> Outcome:
    """Held if the bomb was answered or refused in time, within its share, and others noticed nothing."""
    in_time = found.seconds < SECONDS + 2.0 and found.status in (200, 413, 422, 400, 504)
    held = in_time and found.peak <= USER_MEMORY + MOST_ABOVE and found.slowest <= MOST_LATENCY
    return Outcome(SERIES, held, f"{kind}: {found}")


def ended(kind: str, server: Server) -> Outcome:
    """Held if a server that runs the bomb ends soon, with all its children."""
    threading.Thread(target=lambda: _quietly(server, text_of(kind)), daemon=True).start()
    time.sleep(1.0)
    processes, begun = family(server.process.pid), time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(60)
    except subprocess.TimeoutExpired:
        return Outcome(SERIES, False, f"{kind}: the server runs 60 s after SIGTERM")
    seconds = time.perf_counter() - begun
    time.sleep(0.1)
    left = [one for one in processes if own_memory(one)]
    return Outcome(SERIES, seconds <= MOST_ENDING and not left, f"{kind}: SIGTERM, {seconds:.1f} s, {len(left)} left")


def _quietly(server: Server, text: str) -> None:
    try:
        server.ask("bob", text)
    except OSError:
        pass  # the server has ended
    except http.client.HTTPException:
        pass


def _watch_memory(server: Server, bomb: threading.Thread, found: Thrown) -> None:
    while bomb.is_alive():
        found.peak = max(found.peak, server.memory() - server.idle)
        time.sleep(0.01)


def _ready(process: subprocess.Popen[str]) -> Server:
    assert process.stderr is not None
    for line in process.stderr:
        if (told := _PORT.search(line)) is not None:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            server = Server(process, int(told[1]))
            for _ in range(10):
                status, body = server.ask("ann", "SELECT 1")
                assert status == 200, body
            server.ask("ann", "SELECT length(repeat('x', 3))")
            time.sleep(0.5)
            server.idle = server.memory()
            return server
    raise AssertionError("the server has not begun")


def _users() -> str:
    from qoop.interfaces.server.users import token_digest

    bob = f'[bob]\ntoken = "{token_digest("token-bob")}"\nlongest_query = {SECONDS}\n'
    ann = f'[ann]\ntoken = "{token_digest("token-ann")}"\n'
    return f"{bob}{ann}[tenants.bob]\nmemory = {USER_MEMORY}\n"


if __name__ == "__main__":
    chosen = sys.argv[2:] or list(KINDS)
    with served(Path(sys.argv[1])) as one:
        print(f"idle {one.idle / 1e6:.0f} MB")
        for name in chosen:
            print(outcome(name, thrown(one, text_of(name))), flush=True)
    for name in chosen:
        with served(Path(sys.argv[1])) as one:
            print(ended(name, one), flush=True)
