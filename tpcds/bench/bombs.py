"""``qoop bench bombs``: dashboards and bombs on one `qoop serve`, and the same texts in one process of DuckDB alone.

Each dashboard sends a short query about once a second; each bomber sends one text after the other that needs far more
memory than there is, or has no end. The bombers begin after a third of the time, or with the server: `cold`. Neither
side gets any help: a process that takes more memory than it may have is
killed, as a container would be. The address of the server's live page is printed first.

Needs Linux, where the memory of processes can be read.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.catalog.lexer import quoted
from qoop.tpcds.processes import family, own_memory
from qoop.tpcds.quantiles import quantile

_BOMBS = {
    "a cross join": "SELECT count(*) FROM {t} a, {t} b, {t} c WHERE hash(a.{c}, b.{c}, c.{c}) = 7",
    "a large sort": "SELECT * FROM {t} a, range(1000) b ORDER BY hash(a.{c}, b.range), b.range OFFSET 1000000000",
    "many groups": "SELECT count(*) FROM (SELECT DISTINCT a.{c}, b.range FROM {t} a, range(10000) b)",
    "a list of rows": "SELECT len(list(a.{c}::VARCHAR)) FROM {t} a, range(10000)",
    "a list that is folded": "SELECT len(list_transform(range(200000000), lambda x: x::VARCHAR || 'abc'))",
    "a long text": "SELECT length(repeat('x', 4000000000))",
    "a distance of texts": "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    "a regular expression": (
        "SELECT count(*) FROM {t} a, range(100000) b WHERE regexp_matches(a.{c}::VARCHAR || b.range, '^(1|2+)*9$')"
    ),
    "an unnested range": "SELECT count(DISTINCT u::VARCHAR) FROM (SELECT unnest(range(300000000)) AS u)",
    "all rows, many times": "SELECT a.*, b.range AS n FROM {t} a, range(1000) b",
}  # fmt: skip
_LONGEST = 10.0  # seconds of a bomb on the server
_MOST_TABLES = 8
_ALONE = 1 / 3  # of the time
_PAUSE = 0.25
_PAGE = re.compile(r"(http://[^ ]+)")


@dataclass(frozen=True)
class BombOptions:
    """folder: of Parquet files. seconds: of each side. memory: in bytes, of all processes of a side. cold: the
    bombers begin with the server."""

    folder: Path
    seconds: float = 60.0
    memory: int = 2_000_000_000
    slots: int = 2
    dashboards: int = 50
    bombers: int = 10
    cold: bool = False

    @property
    def alone(self) -> float:
        """Seconds in which the dashboards are alone."""
        return 0.0 if self.cold else self.seconds * _ALONE

    def __str__(self) -> str:
        bombers = f"{self.bombers} bombers" + ("" if self.cold else f" from {self.alone:.0f} s on")
        return f"{self.dashboards} dashboards and {bombers}, for {self.seconds:.0f} s"


@dataclass(frozen=True)
class Texts:
    """The texts that clients send."""

    short: Sequence[str]
    bombs: Sequence[tuple[str, str]]


@dataclass
class Tally:
    """The answers that clients got. alone, with_bombs: seconds of short queries answered before the first bomb, and
    later. wrong: of these, with other rows. failed: short queries with an error. bombs: by how they ended. late: the
    most seconds that one took beyond its limit."""

    alone: list[float] = field(default_factory=list)
    with_bombs: list[float] = field(default_factory=list)
    wrong: int = 0
    failed: int = 0
    bombs: Counter[str] = field(default_factory=Counter)
    late: float = 0.0


@dataclass
class SideReport:
    """One side. peak: bytes. ended: the seconds after which it was killed; None: it lives."""

    name: str
    tally: Tally
    peak: int = 0
    ended: float | None = None

    def line(self) -> str:
        """It as text."""
        tally, end = self.tally, "alive" if self.ended is None else f"dead after {self.ended:.0f} s"
        bombs = ", ".join(f"{count} {what}" for what, count in tally.bombs.most_common()) or "none has ended"
        alone = f"{times(tally.alone)} alone; " if tally.alone else ""
        late = f", at most {tally.late:.1f} s beyond their limit" if tally.late else ""
        wrong = f", {tally.wrong} wrong" if tally.wrong else ""
        return (
            f"{self.name}: {end}, at most {self.peak / 1e6:,.0f} MB; short queries: {alone}"
            f"{times(tally.with_bombs)} next to bombs; {tally.failed} failed{wrong}; bombs: {bombs}{late}"
        )


def times(seconds: Sequence[float]) -> str:
    """The number of some answers, and how long they took."""
    if not seconds:
        return "none answered"
    middle, high, most = (1000 * quantile(seconds, part) for part in (0.5, 0.99, 1.0))
    return f"{len(seconds):,} answered, median {middle:.0f} ms, p99 {high:.0f} ms, slowest {most:.0f} ms"


def run(options: BombOptions, say: Callable[[str], None]) -> list[SideReport]:
    """Both sides, DuckDB alone first. Raises ConfigError."""
    if sys.platform != "linux":
        raise ConfigError("bench bombs needs Linux: it reads the memory of processes from /proc")
    texts = texts_of(options.folder)
    with tempfile.TemporaryDirectory(prefix="qoop-bombs-") as place:
        return [_duckdb(options, texts, Path(place), say), _qoop(options, texts, Path(place), say)]


def texts_of(folder: Path) -> Texts:
    """Short texts of the tables of a folder, and bombs of the largest."""
    files = {path.stem: pq.ParquetFile(path) for path in sorted(folder.glob("*.parquet"))}
    if not files:
        raise ConfigError(f"{folder} has no Parquet files, one a table; qoop tpcds generate makes some")
    by_rows = sorted(files, key=lambda name: files[name].metadata.num_rows)
    first = {name: quoted(files[name].schema_arrow.names[0]) for name in files}
    short = [f"SELECT count(*) AS n, max({first[name]}) AS last FROM {quoted(name)}" for name in by_rows[:_MOST_TABLES]]
    large = by_rows[-1]
    bombs = [(kind, text.format(t=quoted(large), c=first[large])) for kind, text in _BOMBS.items()]
    return Texts(["SELECT 1 AS one", *short], bombs)


Ask = Callable[[int, str], Sequence[tuple[Any, ...]]]
"""The rows of a text that a client of that number sends."""


class Clients:
    """The threads of all clients. expected: the rows of the short texts."""

    def __init__(self, options: BombOptions, texts: Texts, ask: Ask, expected: Sequence[Sequence[tuple[Any, ...]]]):
        self._options, self._texts, self._ask, self._expected = options, texts, ask, expected
        self.tally, self._lock, self._stop = Tally(), threading.Lock(), threading.Event()
        self._bombs_at = math.inf

    def start(self) -> None:
        self._bombs_at = time.perf_counter() + self._options.alone
        for number in range(self._options.dashboards + self._options.bombers):
            run = self._dashboard if number < self._options.dashboards else self._bomber
            threading.Thread(target=run, args=(number,), daemon=True).start()

    def stop(self) -> None:
        """Send no more; what is under way ends by itself."""
        self._stop.set()

    def _dashboard(self, number: int) -> None:
        chance = random.Random(number)
        while not self._stop.wait(chance.uniform(0.5, 1.5)):
            which = chance.randrange(len(self._texts.short))
            begun, error, rows = time.perf_counter(), False, None
            try:
                rows = self._ask(number, self._texts.short[which])
            except Exception:
                error = True
            with self._lock:
                if self._stop.is_set():
                    return
                self.tally.failed += error
                if not error:
                    ended = time.perf_counter()
                    (self.tally.alone if ended < self._bombs_at else self.tally.with_bombs).append(ended - begun)
                    self.tally.wrong += list(rows or ()) != list(self._expected[which])

    def _bomber(self, number: int) -> None:
        chance, pause = random.Random(number), self._options.alone
        while not self._stop.wait(pause):
            _, text = chance.choice(self._texts.bombs)
            begun = time.perf_counter()
            try:
                self._ask(number, text)
                ended = "answered"
            except Exception as error:
                ended = getattr(error, "kind", type(error).__name__)
            with self._lock:
                if self._stop.is_set():
                    return
                self.tally.bombs[ended] += 1
                if ended == "Timeout":
                    self.tally.late = max(self.tally.late, time.perf_counter() - begun - _LONGEST)
            pause = chance.uniform(0.0, 1.0)


def _qoop(options: BombOptions, texts: Texts, place: Path, say: Callable[[str], None]) -> SideReport:
    users = place / "users.toml"
    tokens = _write_users(users, options)
    command = [
        sys.executable, "-m", "qoop", "serve", str(options.folder), "--port", "0", "--page", "--users", str(users),
        "--memory", str(options.memory), "--slots", str(options.slots), "--audit", os.devnull,
    ]  # fmt: skip
    with _child(command) as process:
        assert process.stderr is not None
        address, page = _addresses(process.stderr)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        say(f"the live page: {page}")
        port = int(address.rpartition(":")[2])
        clients = Clients(
            options, texts, lambda number, text: _by_http(port, tokens[number], text), _expected(options, texts)
        )
        return _watched("qoop serve", options, process, clients.start, lambda: clients.tally, say)


def _duckdb(options: BombOptions, texts: Texts, place: Path, say: Callable[[str], None]) -> SideReport:
    order = place / "order.json"
    plain = {**asdict(options), "folder": str(options.folder)}
    order.write_text(json.dumps({"options": plain, "texts": asdict(texts)}), encoding="utf-8")
    tally = Tally()
    with _child([sys.executable, "-m", __name__, str(order)]) as process:

        def follow() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                with suppress(json.JSONDecodeError):  # it was killed within the line
                    read = json.loads(line)
                    tally.__dict__.update({**read, "bombs": Counter(read["bombs"])})

        threading.Thread(target=follow, daemon=True).start()
        return _watched("DuckDB alone", options, process, lambda: None, lambda: tally, say)


def _watched(
    name: str,
    options: BombOptions,
    process: subprocess.Popen[str],
    start: Callable[[], None],
    tally: Callable[[], Tally],
    say: Callable[[str], None],
) -> SideReport:
    """Let a side run, and kill it where it takes more memory than it may have: a tenth more than the limit."""
    report, begun, said = SideReport(name, tally()), time.monotonic(), 0.0
    say(f"{name}: {options}")
    start()
    while (seconds := time.monotonic() - begun) < options.seconds:
        report.tally, now = tally(), sum(map(own_memory, family(process.pid)))
        report.peak = max(report.peak, now)
        if now > 1.1 * options.memory:
            process.kill()
        if process.poll() is not None or now > 1.1 * options.memory:
            report.ended = seconds
            break
        if seconds - said >= 5.0:
            said = seconds
            say(f"{seconds:4.0f} s: {now / 1e6:,.0f} MB; {report.line()}")
        time.sleep(_PAUSE)
    say(report.line())
    return report


def _by_http(port: int, token: str, text: str) -> list[tuple[Any, ...]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        known = {"authorization": f"Bearer {token}", "accept": "application/vnd.apache.arrow.stream"}
        connection.request("POST", "/sql", text.encode(), known)
        answer = connection.getresponse()
        if answer.status != 200:
            raise _Refused(json.loads(answer.read())["error"])
        with pa.ipc.open_stream(pa.PythonFile(answer, mode="r")) as batches:
            return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    finally:
        connection.close()


class _Refused(Exception):
    """The server's error. kind: its class."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _write_users(path: Path, options: BombOptions) -> list[str]:
    """Write users, each a tenant of its own; return their tokens."""
    from qoop.interfaces.server.users import new_user

    names = [f"dashboard{number}" for number in range(options.dashboards)]
    names += [f"bomber{number}" for number in range(options.bombers)]
    made = [new_user(name) for name in names]
    path.write_text("\n".join(f"{lines}longest_query = {_LONGEST:g}\n" for _, lines in made), encoding="utf-8")
    path.chmod(0o600)
    return [token for token, _ in made]


def _addresses(lines: Iterator[str]) -> tuple[str, str]:
    """The addresses of HTTP and of the live page. Raises ExecutionError if the server does not begin."""
    text, address = "", ""
    for line in lines:
        text += line
        if (found := _PAGE.search(line)) is not None and address:
            return address, found[1]
        address = found[1] if found is not None else address
    raise ExecutionError(f"the server has not begun: {text}")


def _expected(options: BombOptions, texts: Texts) -> list[list[tuple[Any, ...]]]:
    with _opened(options) as connection:
        return [connection.execute(text).fetchall() for text in texts.short]


@contextmanager
def _opened(options: BombOptions) -> Iterator[duckdb.DuckDBPyConnection]:
    config: dict[str, Any] = {"memory_limit": f"{options.memory}B", "threads": options.slots}
    with duckdb.connect(config=config) as connection:
        for path in options.folder.glob("*.parquet"):
            file = str(path).replace("'", "''")
            connection.execute(f"CREATE VIEW {quoted(path.stem)} AS FROM '{file}'")
        yield connection


@contextmanager
def _child(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "QOOP_REUSE": "off"}  # dashboards repeat their texts: each is to run
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _alone(order: Path) -> None:
    """The process of DuckDB alone: all clients, a cursor each; a line of its tally a few times a second."""
    read = json.loads(order.read_text(encoding="utf-8"))
    options = BombOptions(**{**read["options"], "folder": Path(read["options"]["folder"])})
    texts = Texts(read["texts"]["short"], [(kind, text) for kind, text in read["texts"]["bombs"]])
    expected = _expected(options, texts)
    with _opened(options) as connection:
        cursors = [connection.cursor() for _ in range(options.dashboards + options.bombers)]
        clients = Clients(options, texts, lambda number, text: cursors[number].execute(text).fetchall(), expected)
        clients.start()
        while True:
            print(json.dumps(asdict(clients.tally)), flush=True)
            time.sleep(_PAUSE)


if __name__ == "__main__":
    _alone(Path(sys.argv[1]))
