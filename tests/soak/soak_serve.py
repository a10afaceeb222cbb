"""Many clients of one `qoop serve`, whose processes, connections and server are killed meanwhile.

Clients are processes (:mod:`serve_client`), and reach the server through a proxy that cuts connections. In the first
part of a run the server is ended and killed, too, and started again with the same answers. What must be true in the
end: every query has an answer, which is DuckDB's and bears the mark of who asked; the audit log names who asked; the
server's memory did not grow in the part of the run in which it lived; no process and no file is left.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from serve_client import Order, happened
from serve_proxy import Proxy
from soak_clients import GROWTH, QUERIES, Sample, growth

from qoop.interfaces.server.users import new_user
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts

HERE = Path(__file__).parent
TENANTS = ("many", "some", "few", "one")
USERS = 12
LARGE = "FROM store_sales"
"""A text whose answer takes several packets, so that connections are cut within it."""

RESTARTS = 0.4
"""Part of the run in which the server is ended and killed; after that its memory is looked at."""

MOST_ROWS = 100
"""Rows from which on TPC-DS cuts answers, so that which rows they have may hang on ties."""

STUCK = 400.0
"""Seconds after the end of the run within which all clients must have their answers."""

LASTING = ("checkpoints", "server.key", "servers.lock")
"""Names that a server leaves in its folder of answers."""

GRACE, ENDED = 1.0, 90.0
"""Seconds that queries have at the end of a server, and within which it must have ended on a machine that is full."""


@dataclass(frozen=True)
class Served:
    """A run. folder: of the data. place: an empty folder. processes: of clients, of which each has some."""

    folder: Path
    place: Path
    clients: int = 50
    processes: int = 10
    seconds: float = 600.0
    seed: int = 1


@dataclass
class Report:
    """times: what happened, with counts. samples: of the last server. at_hand: queries of clients that were killed, at
    most."""

    times: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    at_hand: int = 0

    def check(self) -> None:
        """Raise AssertionError unless all went well."""
        assert not self.problems, "\n".join(self.problems[:20])
        assert self.times["compared"] > 0, f"no answer was compared: {self.times}"
        done = sum(count for what, count in self.times.items() if what.startswith("done by"))
        lost = self.times["asked"] - done - self.at_hand
        assert lost <= 0, f"{lost} queries were lost: {self.times}"
        grown = growth(self.samples)
        assert grown <= GROWTH, f"memory grew by {grown:.1%}: {[one.rss for one in self.samples]}"

    def lines(self) -> list[str]:
        """The report for people."""
        first, last = self.samples[0], self.samples[-1]
        return [
            *(f"{count:>9,} {what}" for what, count in sorted(self.times.items())),
            f"the last server had {first.rss / 1e6:.0f} MB at first, {last.rss / 1e6:.0f} at last; "
            f"{growth(self.samples):+.1%} once warm",
            f"threads {first.threads} and {last.threads}; files {first.files} and {last.files}",
            f"{len(self.problems)} problems",
        ]


def perform(run: Served, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Let the clients ask. Raises AssertionError if something is left in the end; `Report.check` says the rest."""
    tokens = _prepare(run)
    report = Report()
    with contextlib.ExitStack() as around:
        proxies = [around.enter_context(Proxy()) for _ in range(2)]
        _write_order(run, [proxy.port for proxy in proxies], tokens)
        world = _World(run, proxies, tokens, report, tell)
        around.callback(world.kill_all)
        world.go()
    _check_audit(run, report)
    return report


def _prepare(run: Served) -> list[tuple[str, str]]:
    """The files of users and options, and DuckDB's answers. Returns names and tokens."""
    for name in ("answers", "kept", "spill", "tmp"):
        (run.place / name).mkdir(mode=0o700)
    (run.place / "my.toml").write_text(f'slots = 2\nmemory = "1GB"\nspill = "{run.place / "spill"}"\n')
    tokens, lines = [], []
    for number in range(USERS):
        token, told = new_user(f"user{number}")
        tokens.append((f"user{number}", token))
        lines.append(f'{told}tenant = "{TENANTS[number % len(TENANTS)]}"\nlongest_query = 300\n')
    (run.place / "users.toml").write_text("\n".join(lines))
    return tokens


def _write_order(run: Served, ports: list[int], tokens: list[tuple[str, str]]) -> None:
    asked = [*texts(directory=run.folder).items()]
    candidates = [text.strip().rstrip(";") for number, text in asked if number in QUERIES] + [LARGE]
    chosen = []
    with Oracle(run.folder, threads=1) as oracle:
        for text in candidates:
            rows = oracle.answer(text)
            if rows.num_rows and (rows.num_rows < MOST_ROWS or text == LARGE):
                with pa.ipc.new_stream(run.place / "answers" / f"{len(chosen)}.arrow", rows.schema) as writer:
                    writer.write_table(rows)
                chosen.append(text)
    clients = run.clients // run.processes
    order = Order(ports[0], ports[1], run.seconds, run.seed, clients, chosen, tokens)
    (run.place / "order.json").write_text(json.dumps(asdict(order)))


class _Server:
    """A server as a process."""

    def __init__(self, run: Served) -> None:
        words = ["serve", str(run.folder), "--port", "0", "--flight-port", "0", "--grace", f"{GRACE}"]
        for option, name in (("config", "my.toml"), ("users", "users.toml"), ("answers", "kept"), ("audit", "audit")):
            words += [f"--{option}", str(run.place / name)]
        words += ["--log", str(run.place / "log")]
        around = {**os.environ, "XDG_CACHE_HOME": str(run.place / "cache"), "TMPDIR": str(run.place / "tmp")}
        program = [sys.executable, "-m", "qoop", *words]
        self._said = (run.place / "said").open("a+", encoding="utf-8")
        self._said.seek(0, os.SEEK_END)
        begun = self._said.tell()
        self.process = subprocess.Popen(program, env=around, stderr=self._said, cwd=run.place)
        self.ports = self._ports(begun)

    def _ports(self, begun: int) -> list[int]:
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            self._said.seek(begun)
            found = [
                line.rsplit(":", 1)[1] for line in self._said if line.startswith(("qoop serves", "and, by Flight"))
            ]
            if len(found) == 2 and found[1].endswith("\n"):
                return [int(port) for port in found]
            time.sleep(0.05)
        self._said.seek(begun)
        raise AssertionError(f"the server does not begin: {self._said.read()}")

    def end(self) -> int:
        """At a signal, in peace. Returns its code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(ENDED)
        finally:
            self._said.close()

    def kill(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()
        self._said.close()


class _World:
    """The server, the processes of clients, and what befalls them."""

    def __init__(
        self,
        run: Served,
        proxies: list[Proxy],
        tokens: list[tuple[str, str]],
        report: Report,
        tell: Callable[[str], None],
    ) -> None:
        self._run, self._proxies, self._tokens, self._report, self._tell = run, proxies, tokens, report, tell
        self._chance = random.Random(run.seed)
        self._server = self._begun()
        self._clients = [self._client(number) for number in range(run.processes)]
        self._begun_at = time.monotonic()
        self._ends = self._begun_at + run.seconds

    def go(self) -> None:
        """Until the time is over and all have had their answers."""
        restart, told = self._next_restart(), 0.0
        while (now := time.monotonic()) < self._ends:
            time.sleep(min(self._chance.uniform(0.3, 1.5), max(0.0, self._ends - now)))
            if now > restart:
                self._restart()
                restart = self._next_restart()
            self._mishap()
            self._sample()
            if now - told > 15:
                told = now
                self._show()
        self._finish()

    def kill_all(self) -> None:
        """Leave nothing behind, in whatever way it ends."""
        for process in (*self._clients, self._server.process):
            if process.poll() is None:
                process.kill()
                process.wait()

    def _next_restart(self) -> float:
        at = time.monotonic() + self._chance.uniform(5.0, 15.0)
        return at if at < self._begun_at_or_now() + RESTARTS * self._run.seconds else float("inf")

    def _begun_at_or_now(self) -> float:
        return getattr(self, "_begun_at", time.monotonic())

    def _begun(self) -> _Server:
        server = _Server(self._run)
        for proxy, port in zip(self._proxies, server.ports, strict=True):
            proxy.target = port
        return server

    def _client(self, number: int) -> subprocess.Popen[bytes]:
        program = [sys.executable, str(HERE / "serve_client.py"), str(self._run.place), str(number)]
        with (self._run.place / f"said-{number}").open("ab") as said:
            return subprocess.Popen(program, stdout=said, stderr=said)

    def _restart(self) -> None:
        self._report.samples.clear()
        if self._chance.random() < 0.5:
            self._count("servers killed")
            self._server.kill()
        else:
            self._count("servers ended")
            self._end_server()
        for proxy in self._proxies:
            proxy.cut_all()
        self._server = self._begun()

    def _end_server(self) -> None:
        try:
            code = self._server.end()
        except subprocess.TimeoutExpired:
            self._problem(f"the server has not ended {ENDED:.0f} s after a signal")
            self._server.process.kill()
            code = self._server.process.wait()
        if code != 0:
            self._problem(f"the server ended with {code}")

    def _mishap(self) -> None:
        if (code := self._server.process.poll()) is not None:
            self._problem(f"the server is gone: {code}")
            self._server = self._begun()
        number = self._chance.randrange(len(self._clients))
        if self._chance.random() < 0.15:
            self._count("processes of clients killed")
            self._report.at_hand += self._run.clients // self._run.processes
            self._clients[number].kill()
            self._clients[number].wait()
            self._clients[number] = self._client(number)
        if self._chance.random() < 0.5:
            self._report.times["connections cut"] += self._chance.choice(self._proxies).cut_one(self._chance)
        for place, process in enumerate(self._clients):
            if process.poll() not in (None, 0):
                self._problem(f"clients {place} ended with {process.poll()}: see said-{place}")
                self._clients[place] = self._client(place)

    def _finish(self) -> None:
        """Wait for all clients, look at what nobody has fetched, and end the server."""
        for number, process in enumerate(self._clients):
            try:
                process.wait(STUCK)
            except subprocess.TimeoutExpired:
                self._problem(f"{STUCK:.0f} s after the end the clients {number} go on")
        self._sample()
        for name, token in self._tokens:
            self._look_at_rest(name, token)
        self._count_logs()
        children = psutil.Process(self._server.process.pid).children(recursive=True)
        self._end_server()
        left = [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        assert not left, f"processes are left: {left}"
        for name in ("kept", "spill", "tmp"):
            files = [path for path in (self._run.place / name).iterdir() if path.name not in LASTING]
            assert not files, f"{name} has files left: {files[:10]}"

    def _look_at_rest(self, name: str, token: str) -> None:
        """Queries that nobody heard of, as the way back was cut, have their end, too."""
        end = time.monotonic() + STUCK
        while found := self._asked(token, "GET", "/queries"):
            for one in found:
                slow = "range(1000000)" in one["sql"]
                if slow or one["state"] not in ("queued", "running"):
                    self._asked(token, "DELETE", f"/queries/{one['id']}")
                    self._count("queries that nobody fetched")
                if not slow and one["state"] in ("failed", "cancelled"):
                    self._problem(f"of {name} is left: {one}")
            if time.monotonic() > end:
                self._problem(f"these of {name} do not end: {found}")
                return
            time.sleep(0.1)

    def _asked(self, token: str, method: str, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.ports[0], timeout=60)
        connection.request(method, path, headers={"authorization": f"Bearer {token}"})
        told = connection.getresponse().read()
        connection.close()
        return json.loads(told) if told else None

    def _count_logs(self) -> None:
        """Add up what the clients have told: what was asked was done, but for what the killed had in hand."""
        for number in range(self._run.processes):
            for one in happened(self._run.place / f"log-{number}.jsonl"):
                self._count(f"done by {one['way']}" if one["what"] == "done" else one["what"])
                if one["what"] == "problem":
                    self._problem(f"{one['way']} {one['mark']}: {one['error']}")

    def _sample(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._server.process.pid)
            at, rss = time.monotonic() - self._begun_at, process.memory_info().rss
            self._report.samples.append(Sample(at, rss, process.num_threads(), process.num_fds(), 0))

    def _show(self) -> None:
        last = self._report.samples[-1] if self._report.samples else None
        size = "" if last is None else f"{last.rss / 1e6:.0f} MB, {last.threads} threads, {last.files} files, "
        counts = ", ".join(f"{count} {what}" for what, count in self._report.times.items())
        self._tell(f"{time.monotonic() - self._begun_at:5.0f} s: {size}{counts}, {len(self._report.problems)} problems")

    def _count(self, what: str) -> None:
        self._report.times[what] += 1

    def _problem(self, text: str) -> None:
        self._report.problems.append(text)
        self._tell(f"PROBLEM {text}")


def _check_audit(run: Served, report: Report) -> None:
    """Every statement was logged for the user whose mark it bears."""
    for entry in _entries(run.place / "audit"):
        report.times[f"audited as {entry['outcome']}"] += 1
        marked = entry["statement"].removeprefix("SELECT '").partition(" ")[0]
        if entry["statement"].startswith("SELECT 'user") and marked != entry["user"]:
            report.problems.append(f"the audit log says {entry['user']} asked {entry['statement'][:100]}")


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # a server was killed within it
            yield json.loads(line)
