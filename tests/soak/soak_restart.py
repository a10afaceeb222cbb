"""Jobs of three protocols on one `qoop serve`, which is killed when half of the work is done, and started again.

Each client does what libraries do: it connects again and repeats its request, by HTTP the one for the state of its
query, by Flight SQL the one with its ticket, by PostgreSQL's protocol the statement. What must be true in the end:
every answer is DuckDB's and bears the mark of its client, and few tasks ran twice.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyarrow import flight
from serve_process import Output, Ports, ServeProcess

from qoop.interfaces.server.flight_messages import packed
from qoop.interfaces.server.users import new_user
from qoop.tpcds.oracle import Oracle, compare
from qoop.tpcds.queries import texts

PROTOCOLS = ("http", "flight", "postgres")
LOST = 240.0
"""Seconds after which a query without an answer counts as lost."""
PAUSE = 0.1
"""Seconds between two tries of a client."""
MOST_AGAIN = 0.1
"""The part of the first server's tasks that may run again."""
FILES = ("--answers", "answers", "--audit", "audit", "--log", "log")
"""Options of a server for files in its folder."""


QUERIES = (87, 38, 24, 31, 44, 61, 49, 50, 29, 66, 54, 2, 70, 97, 34, 71, 43, 73, 58, 42)
"""Long queries of TPC-DS whose answers are not cut, so that no row of them hangs on ties."""


@dataclass(frozen=True)
class Job:
    """A query of one client."""

    name: str
    protocol: str
    token: str
    text: str


@dataclass
class Report:
    """answers: rows by job. problems: of jobs without an answer. before, after: the outputs that each server made.
    in_hand: tasks that ran at the kill, with their seconds until then."""

    answers: dict[str, pa.Table] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    before: list[Output] = field(default_factory=list)
    after: list[Output] = field(default_factory=list)
    in_hand: list[Output] = field(default_factory=list)

    @property
    def again(self) -> list[Output]:
        """The outputs that the second server made though the first had made them."""
        made = {one.key for one in self.before}
        return [one for one in self.after if one.key in made]

    @property
    def part_again(self) -> float:
        """The part of the first server's tasks that ran again."""
        return len(self.again) / len(self.before)

    def check(self, expected: Mapping[str, pa.Table], most_again: float = MOST_AGAIN) -> None:
        """Raise AssertionError unless every job has DuckDB's answer with its own mark, and few tasks ran again."""
        assert not self.problems, "\n".join(self.problems)
        assert set(self.answers) == set(expected), f"lost: {set(expected) - set(self.answers)}"
        for name, answer in self.answers.items():
            assert set(answer["client"].to_pylist()) == {name}, f"the answer of {name} is for {answer['client'][:1]}"
            theirs = expected[name]
            ours = answer.drop_columns(["client"]).cast(theirs.schema)  # clients of PostgreSQL have their own types
            wrong = compare(ours, theirs)
            assert wrong is None and theirs.num_rows, f"{name}: {wrong}"
        assert self.before and self.after, "the kill came before the work, or after it"
        assert self.part_again <= most_again, "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report for people."""
        return [
            f"{len(self.answers)} answers, {len(self.problems)} problems",
            f"{_counted(self.before)} before the kill, {_counted(self.after)} after it",
            f"of these {_counted(self.again)} again: {self.part_again:.1%}",
            f"{_counted(self.in_hand)} were under way at the kill",
        ]


def _counted(outputs: Sequence[Output]) -> str:
    return f"{len(outputs)} tasks ({sum(one.seconds for one in outputs):.1f} s)"


@dataclass(frozen=True)
class Restart:
    """A run. place: an empty folder. words: options of the server. half: says of the answers and the outputs so far
    that it is time to kill."""

    place: Path
    words: Sequence[str]
    jobs: Sequence[Job]
    half: Callable[[Report, Sequence[Output]], bool]


def users(place: Path, names: Sequence[str]) -> dict[str, str]:
    """Write the file of users; return their tokens."""
    tokens, lines = {}, []
    for name in names:
        tokens[name], facts = new_user(name)
        lines.append(facts)
    (place / "users.toml").write_text("\n".join(lines))
    return tokens


def benchmark_run(folder: Path, place: Path, number: int, staged: bool) -> tuple[Restart, dict[str, pa.Table]]:
    """A run of queries of TPC-DS on the data of a folder, and DuckDB's answers. staged: none as one task."""
    names = [f"user{number % 4} {number}" for number in range(number)]
    tokens = users(place, sorted({user_of(name) for name in names}))
    every = texts(directory=folder)
    of_job = dict(zip(names, cycle(every[query].strip().rstrip(";") for query in QUERIES)))
    jobs = [
        Job(name, protocol, tokens[user_of(name)], f"SELECT '{name}' AS client, q.* FROM ({text}) AS q")
        for (name, text), protocol in zip(of_job.items(), cycle(PROTOCOLS))
    ]
    with Oracle(folder) as oracle:
        known = {text: oracle.answer(text) for text in set(of_job.values())}
    (place / "my.toml").write_text(f"slots = 2\nstaged = {str(staged).lower()}\n")
    words = [str(folder), "--config", "my.toml", "--users", "users.toml", *FILES]
    run = Restart(place, words, jobs, lambda report, _: len(report.answers) >= number / 5)  # half of the tasks
    return run, {name: known[text] for name, text in of_job.items()}


def user_of(name: str) -> str:
    """The user of a job."""
    return name.partition(" ")[0]


def perform(run: Restart) -> Report:
    """Submit all jobs, kill the server, start it again, and fetch all answers."""
    report, ports = Report(), Ports.free()
    server = ServeProcess(run.place, run.words, ports)
    clients = [_Client(job, ports, report) for job in run.jobs]
    try:
        for client in clients:
            client.start()
        end = time.monotonic() + LOST
        while not run.half(report, server.outputs()):
            assert any(one.is_alive() for one in clients), f"the kill comes too late: {report.problems}"
            assert time.monotonic() < end, f"the work does not go on: {server.said.read_text()}"
            time.sleep(0.01)
        server.kill()
        report.before, report.in_hand = server.outputs(), server.in_hand()
        server = ServeProcess(run.place, run.words, ports)
        for client in clients:
            client.join(max(0.0, end - time.monotonic()))
            if client.is_alive():
                report.problems.append(f"{client.job.name} has no answer")
        report.after = server.outputs()
        assert server.end() == 0
    finally:
        server.kill()
    return report


class _Client(threading.Thread):
    """A client that repeats what it asks until it has its answer."""

    def __init__(self, job: Job, ports: Ports, report: Report) -> None:
        super().__init__(name=job.name, daemon=True)
        self.job, self._ports, self._report = job, ports, report

    def run(self) -> None:
        try:
            self._report.answers[self.job.name] = getattr(self, f"_by_{self.job.protocol}")()
        except Exception as error:
            self._report.problems.append(f"{self.job.name}: {type(error).__name__}: {error}")

    def _retried(self, step: Callable[[], Any], *passing: type[Exception]) -> Any:
        end = time.monotonic() + LOST
        while True:
            try:
                return step()
            except passing:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)

    def _by_http(self) -> pa.Table:
        id = json.loads(self._ask("POST", "/queries", self.job.text))["id"]
        while True:
            state = json.loads(self._ask("GET", f"/queries/{id}"))
            if state["state"] not in ("queued", "running"):
                break
            time.sleep(PAUSE)
        assert state["state"] == "done", state
        with pa.ipc.open_stream(self._ask("GET", f"/queries/{id}/result")) as rows:
            return rows.read_all()

    def _ask(self, method: str, path: str, body: str | None = None) -> bytes:
        found: bytes = self._retried(lambda: self._once(method, path, body), OSError, http.client.HTTPException)
        return found

    def _once(self, method: str, path: str, body: str | None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports.http, timeout=60)
        headers = {"authorization": f"Bearer {self.job.token}", "accept": "application/vnd.apache.arrow.stream, */*"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            found = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise ConnectionError(f"{answer.status} {found[:500]!r}") if answer.status == 503 else AssertionError(found)
        return found

    def _by_flight(self) -> pa.Table:
        descriptor = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", (1, self.job.text)))
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {self.job.token}".encode())])
        with flight.FlightClient(f"grpc://127.0.0.1:{self._ports.flight}") as client:
            info = client.get_flight_info(descriptor, options)
            ticket = info.endpoints[0].ticket  # it outlives the server
            gone = (flight.FlightUnavailableError, flight.FlightInternalError, flight.FlightServerError)
            found: pa.Table = self._retried(lambda: client.do_get(ticket, options).read_all(), *gone)
            return found

    def _by_postgres(self) -> pa.Table:
        found: pa.Table = self._retried(self._selected, psycopg.OperationalError)
        return found

    def _selected(self) -> pa.Table:
        host = {"host": "127.0.0.1", "port": self._ports.postgres, "dbname": "x", "sslmode": "disable"}
        with psycopg.connect(user=user_of(self.job.name), password=self.job.token, **host) as connection:
            cursor = connection.execute(self.job.text)
            rows = cursor.fetchall()
            names = [column.name for column in cursor.description or ()]
        return pa.table([list(column) for column in zip(*rows, strict=True)], names=names)
