"""The same on this machine: real queries, arriving in real time, under several schedulers one after the other.

The work of a query is what it takes alone, which is measured first. Once all have ended the first answer to each text
under each scheduler is compared with DuckDB's, the others by their number of rows. DuckDB with a cursor for each query
at once is played, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.session import Session, connect
from qoop.tpcds.load.arrivals import Arrival, Queries, Tenant, arrivals
from qoop.tpcds.load.measures import Played, Summary, summary
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts

TENANTS = (Tenant("dash", "dashboard"), Tenant("ana1", "analyst"), Tenant("ana2", "analyst"), Tenant("night", "batch"))
DUCKDB = "DuckDB"
_TENFOLD = 10.0
"""Deadlines are at most that multiple of the time alone on the part of a tenant."""


@dataclass(frozen=True)
class RealOptions:
    """seconds: in which queries arrive. schedulers: of sessions, and DuckDB. queries: to draw from."""

    directory: Path
    queries: tuple[int, ...]
    loads: tuple[float, ...] = (0.9,)
    seconds: float = 60.0
    seeds: tuple[int, ...] = (1,)
    slots: int = 2
    schedulers: tuple[str, ...] = ("MaxMin(tenants=False)", "max_min", "finish_time", "urgency", DUCKDB)


@dataclass(frozen=True)
class _Answered:
    """A query that was asked. ended: seconds."""

    query: int
    ended: float
    answer: pa.Table


class _Answers:
    """DuckDB's answers to the queries, worked out before anything is timed."""

    def __init__(self, options: RealOptions, wanted: Mapping[int, str]) -> None:
        self._options, self._wanted = options, wanted
        with self._oracle() as oracle:
            self._theirs = {number: oracle.answer(text) for number, text in wanted.items()}

    def _oracle(self) -> Oracle:
        return Oracle(self._options.directory, threads=self._options.slots)

    def check(self, asked: str, answers: Iterable[_Answered]) -> None:
        """Raises ExecutionError for an answer that is wrong. asked: whom."""
        judged: set[int] = set()
        with self._oracle() as oracle:
            for one in answers:
                theirs = self._theirs[one.query]
                wrong = ""
                if one.query not in judged:
                    wrong = str(oracle.judge(self._wanted[one.query], one.answer, theirs) or "")
                elif one.answer.num_rows != theirs.num_rows:
                    wrong = f"{one.answer.num_rows} rows, not {theirs.num_rows}"
                if wrong:
                    raise ExecutionError(f"{asked} gives a wrong answer to query {one.query}: {wrong}")
                judged.add(one.query)


def run(options: RealOptions, tell: Callable[[str], None] = lambda _: None) -> list[Summary]:
    """Play the arrivals of each load and seed under each scheduler.

    Raises ConfigError if there is no query, ExecutionError for an answer other than DuckDB's, and what queries raise.
    """
    if not options.queries:
        raise ConfigError("there must be queries to draw from")
    every = texts(directory=options.directory)
    wanted = {number: every[number] for number in options.queries}
    answers = _Answers(options, wanted)
    alone = _measured(options, wanted, answers)
    tell(f"{len(alone)} queries take {min(alone.values()):.2f} to {max(alone.values()):.2f} s alone")
    work = {number: seconds * options.slots for number, seconds in alone.items()}
    summaries = []
    for load, seed, scheduler in product(options.loads, options.seeds, options.schedulers):
        found = arrivals(Queries(work), options.slots, load, options.seconds, seed, TENANTS)
        tell(f"{scheduler}, load {load:g}: {len(found)} queries in {options.seconds:g} s")
        played = _played(options, scheduler, found, wanted, alone, answers)
        summaries.append(summary(scheduler, load, seed, played, options.slots))
    return summaries


def _measured(options: RealOptions, wanted: Mapping[int, str], answers: _Answers) -> dict[int, float]:
    """The seconds of each query alone, the second time that it runs."""
    with connect(slots=options.slots) as session:
        session.register_folder(options.directory)
        found = {number: _alone(session, number, text) for number, text in wanted.items()}
    answers.check("qoop alone", found.values())
    return {number: one.ended for number, one in found.items()}


def _alone(session: Session, number: int, text: str) -> _Answered:
    session.sql(text).arrow()
    start = time.perf_counter()
    answer = session.sql(text).arrow()
    return _Answered(number, time.perf_counter() - start, answer)


def _played(
    options: RealOptions,
    scheduler: str,
    found: Sequence[Arrival],
    wanted: Mapping[int, str],
    alone: Mapping[int, float],
    answers: _Answers,
) -> list[Played]:
    least = {number: seconds * len(TENANTS) for number, seconds in alone.items()}
    allowed = [max(1.1 * least[one.query], _TENFOLD * least[one.query] * _chance(one)) for one in found]
    asked = (
        _duckdb(options, found, wanted) if scheduler == DUCKDB else _qoop(options, scheduler, found, wanted, allowed)
    )
    answers.check(scheduler, asked)
    played = []
    for one, answered, deadline in zip(found, asked, allowed, strict=True):
        work = alone[one.query] * options.slots
        played.append(
            Played(
                one.tenant, one.at, max(answered.ended, one.at + 1e-6), work, deadline, one.priority,
                partial(_alone_on, work),
            )
        )  # fmt: skip
    return played


def _alone_on(work: float, slots: float) -> float:
    return work / max(slots, 1e-9)


def _chance(arrival: Arrival) -> float:
    """From 0 to 1, by the priority that was drawn: it is as random as any number."""
    return (arrival.priority * 7.0 % 10.0) / 10.0


def _qoop(
    options: RealOptions, scheduler: str, found: Sequence[Arrival], wanted: Mapping[int, str], allowed: Sequence[float]
) -> list[_Answered]:
    with connect(slots=options.slots, scheduler=_text(scheduler)) as session:
        session.register_folder(options.directory)
        for text in wanted.values():
            session.sql(text).arrow()
        start, jobs = time.perf_counter(), []
        for one, deadline in zip(found, allowed, strict=True):
            time.sleep(max(0.0, one.at - (time.perf_counter() - start)))
            job = session.submit(wanted[one.query], tenant=one.tenant, priority=one.priority, deadline=deadline)
            jobs.append((job, time.perf_counter() - start))
        answers = [job.result().arrow() for job, _ in jobs]
        ended = [since + job.status().elapsed for job, since in jobs]
    return [_Answered(one.query, at, answer) for one, at, answer in zip(found, ended, answers, strict=True)]


def _text(scheduler: str) -> str:
    return f"Reserving({scheduler})" if "(" in scheduler else scheduler


def _duckdb(options: RealOptions, found: Sequence[Arrival], wanted: Mapping[int, str]) -> list[_Answered]:
    """The same with one DuckDB, and a thread with a cursor for each query."""
    with Oracle(options.directory, threads=options.slots) as oracle, ThreadPoolExecutor(len(found)) as pool:
        for text in wanted.values():
            arrow_output.table(oracle.cursor(), text)
        start = time.perf_counter()

        def ask(cursor: duckdb.DuckDBPyConnection, query: int) -> _Answered:
            answer = arrow_output.table(cursor, wanted[query])
            return _Answered(query, time.perf_counter() - start, answer)

        asked: list[Future[_Answered]] = []
        for one in found:
            time.sleep(max(0.0, one.at - (time.perf_counter() - start)))
            asked.append(pool.submit(ask, oracle.cursor(), one.query))
        return [one.result() for one in asked]
