"""Views with goals over days that land, in a session of this machine: which part of their refreshes is overdue.

::

    cost of all views a day, if each is refreshed once in 0.8 of its goal ──> goals of a load, a part of a thread
    the session refreshes by its goals, or all views take turns, while days land ──> lags of all refreshes

That cost is from `recorded.py`. The same costs give the lags on a virtual clock (`virtual.py`).

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
from pathlib import Path

import duckdb

from qoop.programs.views import freshness
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.views.days import CHANGED, Landing, split
from qoop.tpcds.views.shapes import CHANNELS, DIMENSIONS, Shape, shapes

DAYS = 2
"""Days that land within the least goal."""

POLICIES = ("max-min", "fair", "turns")
"""The ways in which the session shares its thread's time between views with goals; and views without goals that are
refreshed one after the other."""

AIM = 0.8
"""The part of a goal between two refreshes."""

SETTLED = freshness.SETTLED + 0.005
"""Seconds after which a session counts a file that has landed; until then it may be left out."""

_COLLECTED = 1.0
"""Seconds between two readings of the refreshes so far: a session keeps the last 200 of a view."""


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
    the end included. cpu: of the process, over the seconds. session: of the session's own threads, where they refresh
    the views. wrong: views that differ from DuckDB's answer."""

    refreshes: int
    overdue: float
    cpu: float
    session: float
    delayed: float
    wrong: int
    incremental: int


@contextmanager
def world(
    options: LoadOptions, sharing: str | None = None, changed: int = CHANGED
) -> Iterator[tuple[Session, Landing, Path]]:
    """A session over the tables, and the days that land in them. changed: see `Landing`."""
    split(options.data, options.staged)
    live = Path(tempfile.mkdtemp(prefix="qoop-days-", dir=options.staged))
    try:
        landing = Landing(options.staged, live, 1, options.there, changed)
        with connect(slots=1, memory=options.memory, view_sharing=sharing) as session:
            for table in CHANNELS:
                session.register(table, live / table)
            for table in DIMENSIONS:
                session.register(table, options.data / f"{table}.parquet")
            yield session, landing, live
    finally:
        shutil.rmtree(live, ignore_errors=True)


def _create(session: Session, options: LoadOptions, targets: Sequence[float], turns: bool = False) -> dict[str, float]:
    """Create the views; returns their goals by name. turns: statements refresh them."""
    views = shapes(options.views)
    for one, goal in zip(views, targets, strict=True):
        lag = "" if turns else f"WITH (target_lag = '{goal:.3f} s')"
        session.sql(f"CREATE MATERIALIZED VIEW {one.name} {lag} AS {one.query}")
    return dict(zip((one.name for one in views), targets, strict=True))


def _session_seconds() -> float:
    """The cpu seconds of the other threads of the process."""
    return time.process_time() - time.thread_time()


def cpu_seconds(work: Callable[[], object]) -> float:
    """Those of this process, while it does some work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def goals(views: int, together: float, load: float) -> list[float]:
    """Lag goals at which the views take this part of a thread's time. together: seconds of all views a day."""
    return [one.goal * DAYS * together / load for one in shapes(views)]


def play(options: LoadOptions, policy: str, targets: Sequence[float]) -> LoadMeasures:
    """One run. policy: of `POLICIES`. targets: the goals, in seconds."""
    views = shapes(options.views)
    turns = policy == "turns"
    with world(options, None if turns else policy) as (session, landing, live):
        lags = _Lags(session, _create(session, options, targets, turns))
        begun, cpu, own, delay = time.monotonic(), time.process_time(), _session_seconds(), _run_delay()
        _run(session, landing, min(targets) / DAYS, options.seconds, views if turns else (), lags)
        took = time.monotonic() - begun
        cpu, delay = (time.process_time() - cpu) / took, (_run_delay() - delay) / took
        own = (_session_seconds() - own) / took
        lags.collect()
        ended = lags.ended()
        status = session.materialized_views()
        for one in views:
            session.sql(f"REFRESH MATERIALIZED VIEW {one.name}")
        wrong = _differences(session, views, live, options.data)
        late = sum(lag > goal for lag, goal in ended)
        return LoadMeasures(
            len(ended), late / max(1, len(ended)), cpu, own, delay, wrong, sum(one.incremental for one in status)
        )


def _run(session: Session, landing: Landing, pace: float, seconds: float, turns: Sequence[Shape], lags: _Lags) -> int:
    """Days land every `pace` seconds; returns their number. turns: views that are refreshed in turn; none: the session
    does it."""
    begun, landed, place = time.monotonic(), 0, 0
    while time.monotonic() < begun + seconds:
        if time.monotonic() >= begun + landed * pace:
            lags.collect_now_and_then()
            landing.land()
            landed += 1
        elif turns:
            session.sql(f"REFRESH MATERIALIZED VIEW {turns[place % len(turns)].name}")
            place += 1
        else:
            time.sleep(max(0.0, begun + landed * pace - time.monotonic()))
    return landed


class _Lags:
    """The lags of all refreshes from now on. targets: the goals by name."""

    def __init__(self, session: Session, targets: dict[str, float]) -> None:
        self._session, self._targets = session, targets
        self._begun = self._collected = time.time()
        self._found: dict[tuple[str, float], float] = {}  # by view and time

    def collect_now_and_then(self) -> None:
        """Read the refreshes so far, if that was not done just now."""
        if time.time() > self._collected + _COLLECTED:
            self.collect()

    def collect(self) -> None:
        """Read the refreshes so far."""
        self._collected = time.time()
        for one in self._session.materialized.histories():
            self._found |= {(one.name, each.at): each.lag for each in one.refreshes if each.at > self._begun}

    def ended(self) -> list[tuple[float, float]]:
        """The lag and the goal of each refresh, and those of views that are too late now."""
        found = [(lag, self._targets[name]) for (name, _), lag in self._found.items()]
        behind = [(one.name, one.behind_since) for one in self._session.materialized.histories()]
        now = [(time.time() - since, self._targets[name]) for name, since in behind if since is not None]
        return [*found, *((lag, goal) for lag, goal in now if lag > goal)]


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
