"""The same on this machine: real queries, arriving in real time, under several schedulers one after the other.

The work of a query is what it takes alone, which is measured first; so is its answer, with which all later ones are
compared. DuckDB with a cursor for each query at once is played, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ConfigError
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
    load: float = 0.9
    seconds: float = 60.0
    seed: int = 1
    slots: int = 2
    schedulers: tuple[str, ...] = ("MaxMin(tenants=False)", "max_min", "finish_time", "urgency", DUCKDB)


@dataclass(frozen=True)
class _Alone:
    seconds: float
    rows: int


def run(options: RealOptions, tell: Callable[[str], None] = lambda _: None) -> list[Summary]:
    """Play the arrivals under each scheduler. Raises ConfigError if there is no query, and what queries raise."""
    if not options.queries:
        raise ConfigError("there must be queries to draw from")
    every = texts(directory=options.directory)
    wanted = {number: every[number] for number in options.queries}
    alone = _measured(options, wanted)
    tell(f"{len(alone)} queries take {min(one.seconds for one in alone.values()):.2f} to "
         f"{max(one.seconds for one in alone.values()):.2f} s alone")  # fmt: skip
    work = {number: one.seconds * options.slots for number, one in alone.items()}
    found = arrivals(Queries(work), options.slots, options.load, options.seconds, options.seed, TENANTS)
    summaries = []
    for scheduler in options.schedulers:
        tell(f"{scheduler}: {len(found)} queries in {options.seconds:g} s")
        played = _played(options, scheduler, found, wanted, alone)
        summaries.append(summary(scheduler, options.load, options.seed, played, options.slots))
    return summaries


def _measured(options: RealOptions, wanted: Mapping[int, str]) -> dict[int, _Alone]:
    """Each query alone, the second time that it runs."""
    with connect(slots=options.slots) as session:
        session.register_folder(options.directory)
        return {number: _alone(session, text) for number, text in wanted.items()}


def _alone(session: Session, text: str) -> _Alone:
    session.sql(text).arrow()
    start = time.perf_counter()
    answer = session.sql(text).arrow()
    return _Alone(time.perf_counter() - start, answer.num_rows)


def _played(
    options: RealOptions,
    scheduler: str,
    found: Sequence[Arrival],
    wanted: Mapping[int, str],
    alone: Mapping[int, _Alone],
) -> list[Played]:
    least = {number: one.seconds * len(TENANTS) for number, one in alone.items()}
    allowed = [max(1.1 * least[one.query], _TENFOLD * least[one.query] * _chance(one)) for one in found]
    asking = (
        _duckdb(options, found, wanted) if scheduler == DUCKDB else _qoop(options, scheduler, found, wanted, allowed)
    )
    played = []
    for one, (ended, rows), deadline in zip(found, asking, allowed, strict=True):
        if rows != alone[one.query].rows:
            raise ConfigError(f"query {one.query} has {rows} rows, and {alone[one.query].rows} alone")
        seconds = alone[one.query].seconds
        played.append(
            Played(
                one.tenant, one.at, max(ended, one.at + 1e-6), seconds * options.slots, deadline, one.priority,
                partial(_alone_on, seconds * options.slots),
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
) -> list[tuple[float, int]]:
    """The second at which each query ended, and the rows of its answer."""
    with connect(slots=options.slots, scheduler=_text(scheduler)) as session:
        session.register_folder(options.directory)
        for text in wanted.values():
            session.sql(text).arrow()
        start, jobs = time.perf_counter(), []
        for one, deadline in zip(found, allowed, strict=True):
            time.sleep(max(0.0, one.at - (time.perf_counter() - start)))
            job = session.submit(wanted[one.query], tenant=one.tenant, priority=one.priority, deadline=deadline)
            jobs.append((job, time.perf_counter() - start))
        rows = [job.result().arrow().num_rows for job, _ in jobs]
        return [(since + job.status().elapsed, count) for (job, since), count in zip(jobs, rows, strict=True)]


def _text(scheduler: str) -> str:
    return f"Reserving({scheduler})" if "(" in scheduler else scheduler


def _duckdb(options: RealOptions, found: Sequence[Arrival], wanted: Mapping[int, str]) -> list[tuple[float, int]]:
    """The same with one DuckDB, and a thread with a cursor for each query."""
    with Oracle(options.directory, threads=options.slots) as oracle, ThreadPoolExecutor(len(found)) as pool:
        for text in wanted.values():
            oracle.cursor().execute(text).fetch_arrow_table()
        start = time.perf_counter()

        def ask(cursor: duckdb.DuckDBPyConnection, text: str) -> tuple[float, int]:
            answer: pa.Table = cursor.execute(text).fetch_arrow_table()
            return time.perf_counter() - start, answer.num_rows

        asked: list[Future[tuple[float, int]]] = []
        for one in found:
            time.sleep(max(0.0, one.at - (time.perf_counter() - start)))
            asked.append(pool.submit(ask, oracle.cursor(), wanted[one.query]))
        return [one.result() for one in asked]
