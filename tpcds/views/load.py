"""Views with goals over days that land, in a session of this machine: which part of their refreshes is overdue.

::

    cost of a refresh of each view ──> goals at which all take a part of a thread's time, the load
    the session refreshes by its goals, or all views take turns, while days land ──> lags of all refreshes

At the end each view is compared with DuckDB's answer over the files that are there.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import duckdb

from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.views.days import Landing, split
from qoop.tpcds.views.shapes import CHANNELS, DIMENSIONS, Shape, shapes

_DAYS = 2
"""Days that land within the least goal."""

POLICIES = ("max-min", "fair", "turns")
"""The ways in which the session shares its thread's time between views with goals; and views without goals that are
refreshed one after the other."""

_AIM = 0.8  # of a goal: how old the oldest change is when a refresh ends


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """data: of TPC-DS. staged: the days, made when they are missing. there: the part of them that is there at the
    start."""

    data: Path
    staged: Path
    views: int
    seconds: float = 60.0
    memory: str = "2GB"
    there: float = 0.8


@dataclass(frozen=True, slots=True)
class LoadMeasures:
    """refreshes: that took over changes. overdue: the part of them with a lag above the goal, views that are behind at
    the end included. cpu: of the process, over the seconds. wrong: views that differ from DuckDB's answer."""

    refreshes: int
    overdue: float
    cpu: float
    delayed: float
    wrong: int
    incremental: int


@contextmanager
def _world(options: LoadOptions, sharing: str | None = None) -> Iterator[tuple[Session, Landing, Path]]:
    split(options.data, options.staged)
    live = Path(tempfile.mkdtemp(prefix="qoop-days-", dir=options.staged))
    try:
        landing = Landing(options.staged, live, 1, options.there)
        with connect(slots=1, memory=options.memory, view_sharing=sharing) as session:
            for table in CHANNELS:
                session.register(table, live / table)
            for table in DIMENSIONS:
                session.register(table, options.data / f"{table}.parquet")
            yield session, landing, live
    finally:
        shutil.rmtree(live, ignore_errors=True)


def costs(options: LoadOptions) -> list[tuple[float, float]]:
    """The cpu seconds of a refresh of each view after another day, and those of one from all rows."""
    found: list[list[float]] = []
    with _world(options) as (session, landing, _):
        views = shapes(options.views)
        for one in views:
            session.sql(f"CREATE MATERIALIZED VIEW {one.name} AS {one.query}")
        refreshes = [partial(session.sql, f"REFRESH MATERIALIZED VIEW {one.name}") for one in views]
        for _ in range(3):
            landing.land()
            found.append([cpu_seconds(refresh) for refresh in refreshes])
        full = [cpu_seconds(partial(session.sql, f"REFRESH MATERIALIZED VIEW {one.name} FULL")) for one in views]
    return [(median(one), whole) for *one, whole in zip(*found, full, strict=True)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Those of this process, while it does some work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def goals(options: LoadOptions, seconds: Sequence[float], load: float) -> list[float]:
    """Lag goals at which refreshes of these seconds take this part of a thread's time."""
    views = shapes(options.views)
    unit = sum(cost / (_AIM * one.goal) for cost, one in zip(seconds, views, strict=True)) / load
    return [one.goal * unit for one in views]


def play(options: LoadOptions, policy: str, targets: Sequence[float]) -> LoadMeasures:
    """One run. policy: of `POLICIES`. targets: the goals, in seconds."""
    views = shapes(options.views)
    turns = policy == "turns"
    with _world(options, None if turns else policy) as (session, landing, live):
        for one, goal in zip(views, targets, strict=True):
            options_ = "" if turns else f"WITH (target_lag = '{goal:.3f} s')"
            session.sql(f"CREATE MATERIALIZED VIEW {one.name} {options_} AS {one.query}")
        begun, cpu, delay = time.monotonic(), time.process_time(), _run_delay()
        before = {one.name: len(one.refreshes) for one in session.materialized.histories()}
        _run(session, landing, min(targets) / _DAYS, options.seconds, views if turns else ())
        took = time.monotonic() - begun
        cpu, delay = (time.process_time() - cpu) / took, (_run_delay() - delay) / took
        lags = _lags(session, dict(zip((one.name for one in views), targets, strict=True)), before)
        status = session.materialized_views()
        for one in views:
            session.sql(f"REFRESH MATERIALIZED VIEW {one.name}")
        wrong = _differences(session, views, live, options.data)
        late = sum(lag > goal for lag, goal in lags)
        return LoadMeasures(
            len(lags), late / max(1, len(lags)), cpu, delay, wrong, sum(one.incremental for one in status)
        )


def _run(session: Session, landing: Landing, pace: float, seconds: float, turns: Sequence[Shape]) -> None:
    """Days land every `pace` seconds. turns: views that are refreshed in turn; none: the session does it."""
    begun, landed, place = time.monotonic(), 0, 0
    while time.monotonic() < begun + seconds and landing.left:
        if time.monotonic() >= begun + landed * pace:
            landing.land()
            landed += 1
        elif turns:
            session.sql(f"REFRESH MATERIALIZED VIEW {turns[place % len(turns)].name}")
            place += 1
        else:
            time.sleep(max(0.0, begun + landed * pace - time.monotonic()))


def _lags(session: Session, targets: dict[str, float], before: dict[str, int]) -> list[tuple[float, float]]:
    """The lag and the goal of each refresh, and those of views that are too late now."""
    found = []
    for one in session.materialized.histories():
        goal = targets[one.name]
        found += [(refresh.lag, goal) for refresh in one.refreshes[before[one.name] :]]
        if one.behind_since is not None and time.time() - one.behind_since > goal:
            found.append((time.time() - one.behind_since, goal))
    return found


def _run_delay() -> float:
    """The seconds that the threads of the process have waited for a CPU (``schedstat`` of Linux)."""
    waited = (path.read_text().split()[1] for path in Path("/proc/self/task").glob("*/schedstat"))
    return sum(map(int, waited)) / 1e9


def _differences(session: Session, views: Sequence[Shape], live: Path, data: Path) -> int:
    """The number of views that differ from DuckDB's answers over the files that are there."""
    with duckdb.connect() as connection:
        for table in CHANNELS:
            connection.execute(f"CREATE TABLE {table} AS FROM read_parquet('{live / table}/*.parquet')")
        for table in DIMENSIONS:
            connection.execute(f"CREATE VIEW {table} AS FROM '{data / table}.parquet'")
        return sum(
            rounded(session.sql(f"FROM {one.name}").fetchall()) != rounded(connection.execute(one.query).fetchall())
            for one in views
        )


def rounded(rows: Sequence[tuple[object, ...]]) -> Counter[str]:
    """Rows that are compared, whatever the order of their sums."""
    shown: Callable[[object], object] = lambda cell: f"{cell:.9g}" if isinstance(cell, float) else cell  # noqa: E731
    return Counter(repr(tuple(map(shown, row))) for row in rows)
