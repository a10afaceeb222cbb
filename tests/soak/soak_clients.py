"""Many clients at once in one session: tenants, mixed queries, cancels, deadlines, timeouts, resizes.

Every client asks one query after the other, some ahead, so that all tenants have always something to do. What must be
true in the end: every job has an end, and that its client expected; answers are DuckDB's; slot seconds were shared
between tenants by their weights; memory did not grow after the first part of the run; no thread, file or slot is left.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
import pyarrow as pa
from fault_world import nothing_is_held

from qoop.catalog.errors import Cancelled, Timeout
from qoop.engine.history import Ended, Failed, Regranted, Started, Stopped, Succeeded
from qoop.query.config import configure
from qoop.query.job import Job
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts

QUERIES = (1, 3, 7, 15, 19, 25, 26, 32, 42, 43, 52, 55, 61, 68, 73, 79, 82, 91, 93, 96)
TENANTS: Mapping[str, float] = {"many": 1.0, "some": 1.0, "few": 2.0}
PARTS: Mapping[str, float] = {"many": 0.5, "some": 0.3, "few": 0.2}
"""Of the clients, those of each tenant: shares must follow the weights, not these."""

WARM = 0.4
"""Part of the run after which memory must not grow."""

GROWTH = 0.05
"""By how much it may seem to."""

AHEAD = 3
"""Queries that each client asks before it takes the answer of the first, so that tenants always have some that wait."""

FILLED = 0.1
"""Part of the run after which shares are counted."""

UNFAIR = 0.15
"""By how much the part of a tenant's slot seconds may differ from that of its weight, relative to it."""

STUCK = 180.0
"""Seconds after the end of the run within which all clients must have their answers."""

CHECKED = 5
"""One answer in that number is compared with DuckDB's row by row; of the others the rows are counted."""


@dataclass(frozen=True)
class Clients:
    """A run. number: of clients. seconds: for which they ask."""

    folder: Path
    spill: Path
    number: int = 50
    seconds: float = 600.0
    seed: int = 1
    slots: int = 2
    memory: str = "1500MB"
    scheduler: str = "max_min"
    most_jobs: float = 24


@dataclass(frozen=True)
class Sample:
    """The process at a moment. rss: bytes. files: that are open."""

    at: float
    rss: int
    threads: int
    files: int
    jobs: int


def growth(samples: Sequence[Sample]) -> float:
    """The least memory in the last fifth of a time, next to that after it was warm.

    The least, since what is not given back raises it, while more clients served at a time do not.
    """
    first = samples[0].at
    last = samples[-1].at - first
    early = [one.rss for one in samples if WARM * last <= one.at - first < (WARM + 0.2) * last]
    late = [one.rss for one in samples if one.at - first >= 0.8 * last]
    return min(late) / min(early) - 1.0 if early and late else 0.0


@dataclass
class Report:
    """times: what happened, with counts. slot_seconds: by tenant, of those in which all tenants had work."""

    times: Counter[str] = field(default_factory=Counter)
    slot_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def shares(self) -> dict[str, float]:
        """The part of the slot seconds that each tenant had, over that which its weight says."""
        total, weights = sum(self.slot_seconds.values()), sum(TENANTS.values())
        return {name: self.slot_seconds[name] / total * weights / TENANTS[name] for name in TENANTS} if total else {}

    def check(self) -> None:
        """Raise AssertionError unless all went well."""
        times = self.times
        assert not self.problems, "\n".join(self.problems[:20])
        ended = times["answers"] + times["cancelled"] + times["timed out"]
        assert times["submitted"] == ended > 0, f"{times['submitted']} were submitted, {ended} ended: {times}"
        grown = growth(self.samples)
        assert grown <= GROWTH, f"memory grew by {grown:.1%}: {[one.rss for one in self.samples]}"
        for name, share in self.shares().items():
            assert abs(share - 1.0) <= UNFAIR, f"{name} had {share:.2f} of its share: {self.shares()}"

    def lines(self) -> list[str]:
        """The report for people."""
        used = sum(self.slot_seconds.values()) / max(1e-9, self.samples[-1].at)
        shares = ", ".join(f"{name} {share:.2f}" for name, share in self.shares().items())
        waits = ", ".join(f"{name} {median(found):.2f} s" for name, found in self.waits.items() if found)
        first, last, grown = self.samples[0], self.samples[-1], growth(self.samples)
        counted = [f"{count:>9,} {what}" for what, count in sorted(self.times.items())]
        return [
            *counted,
            f"slot seconds of tenants over those of their weights: {shares}; {used:.2f} slots in the mean",
            f"median time of an answer: {waits}",
            f"memory {first.rss / 1e6:.0f} MB at first, {last.rss / 1e6:.0f} at last; {grown:+.1%} once warm",
            f"threads {first.threads} at first, {last.threads} at last; files {first.files} and {last.files}",
        ]


def perform(clients: Clients, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Let the clients ask. Raises AssertionError if something is left in the end; `Report.check` says the rest."""
    report = Report()
    before = set(threading.enumerate())
    answers = _answers(clients.folder)
    files = psutil.Process().num_fds()
    clients.spill.mkdir(parents=True, exist_ok=True)
    config = configure(
        slots=clients.slots, memory=clients.memory, spill=clients.spill, tenants=dict(TENANTS),
        scheduler=clients.scheduler, most_jobs=clients.most_jobs, reuse=False,
    )  # fmt: skip
    session = Session(config)
    try:
        session.register_folder(clients.folder)
        _World(clients, session, answers, report, tell).run()
        nothing_is_held(session)
    finally:
        session.close()
    del session
    gc.collect()
    left = [one.name for one in set(threading.enumerate()) - before if one.name.startswith("qoop")]
    assert not left, f"threads are left: {left}"
    assert not list(clients.spill.iterdir()), f"files are left: {list(clients.spill.rglob('*'))}"
    more = psutil.Process().num_fds() - files
    assert more <= 2, f"{more} more files are open than before"
    return report


@dataclass(frozen=True)
class _Known:
    text: str
    rows: pa.Table


def _answers(folder: Path) -> list[_Known]:
    every = texts(directory=folder)
    with Oracle(folder, threads=1) as oracle:
        return [_Known(every[number], oracle.answer(every[number])) for number in QUERIES]


class _World:
    """The session, its clients, and those who change and watch it meanwhile."""

    def __init__(
        self, clients: Clients, session: Session, answers: Sequence[_Known], report: Report, tell: Callable[[str], None]
    ) -> None:
        self._clients, self._session, self._answers = clients, session, answers
        self._report, self._tell = report, tell
        self._lock = threading.Lock()
        self._oracle = Oracle(clients.folder, threads=1)
        self._checking = threading.Lock()
        self._began = time.monotonic()
        self._ends = self._began + clients.seconds

    def run(self) -> None:
        """Until the time is over and all have had their answers."""
        threads = [
            threading.Thread(target=self._guarded, args=(work, number), name=f"client-{number}", daemon=True)
            for number, work in enumerate([*[self._client] * self._clients.number, self._resizer])
        ]
        for thread in threads:
            thread.start()
        pause = min(5.0, max(0.2, self._clients.seconds / 40))
        while living := [thread for thread in threads if thread.is_alive()]:
            self._sample()
            living[0].join(pause)
            if time.monotonic() > self._ends + STUCK:
                raise AssertionError(f"{STUCK:.0f} s after the end these go on: {[thread.name for thread in living]}")
        self._sample()
        self._oracle.close()

    def _guarded(self, work: Callable[[random.Random, int], None], number: int) -> None:
        try:
            work(random.Random(f"{self._clients.seed} {number}"), number)
        except Exception as error:
            self._problem(f"client {number}: {type(error).__name__}: {error}")

    def _client(self, chance: random.Random, number: int) -> None:
        """Ask one query after the other, some ahead, and take the answers in order."""
        tenant, asked = self._tenant_of(number), deque[tuple[Job, _Known]]()
        while not self._over():
            while len(asked) < AHEAD:
                asked.extend(self._ask(tenant, chance))
            if asked:
                self._take(*asked.popleft(), tenant, chance)
        for job, known in asked:
            self._take(job, known, tenant, chance)

    def _over(self) -> bool:
        """True after the end, once an answer was compared: on a busy machine a short run may have none before."""
        late = time.monotonic() - self._ends
        return late >= 0 and (self._report.times["answers compared with DuckDB's"] > 0 or late >= STUCK / 2)

    def _ask(self, tenant: str, chance: random.Random) -> list[tuple[Job, _Known]]:
        """Ask a query in one of several ways; no job if its time was over before it began."""
        known, way = chance.choice(self._answers), chance.random()
        options = {"tenant": tenant, "priority": chance.choice((1.0, 5.0, 10.0))}
        if way < 0.1:
            options["deadline"] = chance.uniform(0.2, 5.0)
        limit = 0.05 if 0.1 <= way < 0.15 else None
        self._count("submitted")
        try:
            job = self._session.submit(known.text, timeout=limit, **options)  # type: ignore[call-overload]
        except Timeout:
            self._count("timed out")
            return []
        if way > 0.9:
            time.sleep(chance.uniform(0.0, 0.3))
            job.cancel()
        return [(job, known)]

    def _take(self, job: Job, known: _Known, tenant: str, chance: random.Random) -> None:
        try:
            rows = job.result().arrow()
        except Cancelled:
            self._count("cancelled")
        except Timeout:
            self._count("timed out")
        else:
            self._count("answers")
            self._report.waits[tenant].append(job.history()[-1].at)
            self._judge(known, rows, chance)
        self._account(job, tenant)

    def _judge(self, known: _Known, rows: pa.Table, chance: random.Random) -> None:
        if rows.num_rows != known.rows.num_rows:
            self._problem(f"{rows.num_rows} rows, not {known.rows.num_rows}: {known.text}")
        elif not chance.randrange(CHECKED):
            with self._checking:
                wrong = self._oracle.judge(known.text, rows, known.rows)
            self._count("answers compared with DuckDB's")
            if wrong is not None:
                self._problem(f"{wrong}: {known.text}")

    def _account(self, job: Job, tenant: str) -> None:
        """Add up the slots that its tasks held, those on top of what there is, too, while all tenants asked."""
        history = job.history()
        if not isinstance(history[-1], Ended):
            self._problem(f"{job.id} has no end: {history[-1]}")
        held, since = 0.0, dict[object, tuple[float, float]]()
        for one in history:
            if isinstance(one, Started | Regranted | Succeeded | Failed | Stopped):
                at, slots = since.pop(one.attempt, (one.at, 0.0))
                held += (one.at - at) * slots
                if isinstance(one, Started | Regranted):
                    since[one.attempt] = one.at, one.resources.cpu
        if self._began + FILLED * self._clients.seconds < time.monotonic() < self._ends:
            with self._lock:
                self._report.slot_seconds[tenant] += held

    def _tenant_of(self, number: int) -> str:
        place = number / self._clients.number
        for tenant, part in PARTS.items():
            place -= part
            if place < -1e-9:
                return tenant
        return next(reversed(PARTS))

    def _resizer(self, chance: random.Random, number: int) -> None:
        """Change slots and memory now and then."""
        while (left := self._ends - time.monotonic()) > 0:
            time.sleep(min(chance.uniform(1.0, 8.0), left))
            self._session.resize(chance.choice((1, 2, 2, 3)), chance.choice(("800MB", "1GB", "1500MB")))
            self._count("resizes")

    def _sample(self) -> None:
        process = psutil.Process(os.getpid())
        at = time.monotonic() - self._began
        sample = Sample(
            at, process.memory_info().rss, process.num_threads(), process.num_fds(), len(self._session.jobs())
        )
        self._report.samples.append(sample)
        if len(self._report.samples) % 12 == 1:
            shares = ", ".join(f"{name} {share:.2f}" for name, share in self._report.shares().items())
            self._tell(
                f"{at:5.0f} s: {self._report.times['submitted']:,} jobs, {sample.rss / 1e6:.0f} MB, "
                f"{sample.threads} threads, {sample.files} files, {len(self._report.problems)} problems; {shares}"
            )

    def _count(self, what: str) -> None:
        with self._lock:
            self._report.times[what] += 1

    def _problem(self, text: str) -> None:
        with self._lock:
            self._report.problems.append(text)
        self._tell(f"PROBLEM {text}")
