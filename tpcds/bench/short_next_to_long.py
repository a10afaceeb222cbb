"""Short queries next to long ones: a short one every second while two long ones run, in qoop and in DuckDB.

Each side is a process of its own with all slots: qoop a session, DuckDB an instance with a cursor for each client. The
long queries begin again whenever they end. Their seconds with the short ones are compared with those without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Any

import duckdb

from qoop.session import connect
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.queries import texts

SHORT = "SELECT i_category, count(*), avg(i_current_price) FROM item GROUP BY i_category ORDER BY 1"
EVERY = 1.0
"""Seconds from one short query to the next."""

Asked = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ShortOptions:
    """seconds: of each part. queries: the long ones. slots: of each side."""

    directory: Path
    seconds: float = 30.0
    queries: tuple[int, ...] = (67, 14)
    slots: int = 2


@dataclass(frozen=True, slots=True)
class ShortResult:
    """One side. alone, next_to: seconds of the short query without and with the long ones, each time that it was asked.

    long_alone, long_next_to: seconds that a long one takes in the mean, without the short ones and with them.
    """

    side: str
    alone: Sequence[float]
    next_to: Sequence[float]
    long_alone: float
    long_next_to: float

    def line(self) -> str:
        alone, late = median(self.alone), quantile(self.next_to, 0.95)
        return (
            f"{self.side:7s} {alone:8.3f} {median(self.next_to):8.3f} {late:8.3f} {max(self.next_to):8.3f}"
            f" {late / alone:8.2f} {self.long_next_to / self.long_alone:10.2f}"
        )


HEADER = "side       alone  next to      95%     most  95%:alone  long:long without"


def run(options: ShortOptions, tell: Callable[[str], None] = print) -> list[ShortResult]:
    """Both sides, one after the other. Raises what the queries raise."""
    tell(HEADER)
    found = []
    for side in ("qoop", "DuckDB"):
        with get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measured, (side, options)))
        tell(found[-1].line())
    return found


def measured(side: str, options: ShortOptions) -> ShortResult:
    """One side, in this process."""
    long = [texts(directory=options.directory)[number] for number in options.queries]
    if side == "qoop":
        with connect(slots=options.slots) as session:
            session.register_folder(options.directory)
            return _side(side, [lambda text: session.sql(text).fetchall()] * (len(long) + 1), long, options.seconds)
    with Oracle(options.directory, options.slots) as oracle:
        clients = [_client(oracle.cursor()) for _ in range(len(long) + 1)]
        return _side(side, clients, long, options.seconds)


def _client(cursor: duckdb.DuckDBPyConnection) -> Asked:
    return lambda text: cursor.execute(text).fetchall()


def _side(side: str, clients: Sequence[Asked], long: Sequence[str], seconds: float) -> ShortResult:
    ask, *others = clients
    for client, text in zip(others, long, strict=True):
        client(text)  # plans are known, files have been read
    ask(SHORT)
    alone = _asked(ask, seconds / 3)
    without = _loaded(others, long, lambda: time.sleep(seconds))
    next_to: list[float] = []
    with_short = _loaded(others, long, lambda: next_to.extend(_asked(ask, seconds)))
    return ShortResult(side, alone, next_to, without, with_short)


def _asked(ask: Asked, seconds: float) -> list[float]:
    """Seconds of each of the short queries that are asked in that time."""
    end, took = time.perf_counter() + seconds, []
    while (began := time.perf_counter()) < end:
        ask(SHORT)
        took.append(time.perf_counter() - began)
        time.sleep(max(0.0, EVERY - took[-1]))
    return took


def _loaded(clients: Sequence[Asked], texts: Sequence[str], work: Callable[[], object]) -> float:
    """Do something while each client asks its query again and again; the mean seconds that one takes."""
    stop, took = threading.Event(), list[float]()

    def again(client: Asked, text: str) -> None:
        while not stop.is_set():
            began = time.perf_counter()
            client(text)
            took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=again, args=pair) for pair in zip(clients, texts, strict=True)]
    for thread in threads:
        thread.start()
    work()
    stop.set()
    for thread in threads:
        thread.join()
    return mean(took)


def to_json(results: Sequence[ShortResult]) -> dict[str, Any]:
    """The results as JSON values."""
    return {"sides": [asdict(one) for one in results]}
