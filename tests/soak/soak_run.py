"""One run of the soak: what is drawn for it, how it goes, what must be true afterwards, and what happened in it."""

from __future__ import annotations

import contextlib
import gc
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
from fault_world import checked_at_every_tick, clean_session, failing_at_random
from soak_plans import Pair, Subject, Subjects
from switch_world import switched

from qoop.adaptive.profiles import CapacityProfile, Point, replay
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import Cancelled, ConfigError, Suspended
from qoop.engine.history import Decided, Failed, Lost, MemoryRaised, Record, Stopped, Succeeded
from qoop.query.job import Job
from qoop.session.session import Session

QUERIES = tuple(range(1, 100))
TICKS = 20
"""That many runs in a row are about the same query: each begins with two others of its plans."""
MEMORIES = (3e8, 5e8, 1e9, 2e9)
PATIENCE = 90.0
"""Seconds after which a job is believed to hang."""

_PLACES = ("A", "B", "C")
"""The names in a history of the plan that a job begins with, the one it must be ready to go to, and a third."""


@dataclass
class Happened:
    """The events that happened, with their counts. ways: the switches, as query and places of two of its plans."""

    times: Counter[str] = field(default_factory=Counter)
    ways: set[tuple[int, int, int]] = field(default_factory=set)

    def add(self, more: Happened) -> None:
        """Take in what has happened elsewhere."""
        self.times += more.times
        self.ways |= more.ways


@dataclass(frozen=True)
class Starting:
    """A job to be started.

    pair: numbers whose sum says which two of the query's plans it begins with and is forced to; None: it begins and
    goes on as the session likes. cancel: seconds after which it is cancelled.
    """

    number: int
    weight: float
    seed: int
    pair: Pair | None
    cancel: float | None


@dataclass(frozen=True)
class Scenario:
    """The draw for a run; the same seed and number draw the same.

    suspend: the part of the first job's work after which it is moved to another session, if it is. damage: files of
    checkpoints that are damaged before the queries run once more.
    """

    seed: int
    slots: int
    jobs: tuple[Starting, ...]
    profile: CapacityProfile
    notice: float
    failures: float
    durable: bool
    reuse: bool
    suspend: float | None
    damage: int


def scenario(seed: str, place: int) -> Scenario:
    """The run at a place."""
    chance = random.Random(f"{seed}/{place}")
    first = query_of(place)
    durable = chance.random() < 0.25
    return Scenario(
        seed=chance.randrange(2**32),
        slots=chance.choice((1, 2, 2, 3, 4)),
        jobs=tuple(_jobs(chance, first, place % TICKS)),
        profile=_profile(chance),
        notice=chance.choice((0.0, 0.0, 0.005, 0.05)),
        failures=chance.choice((0.0, 0.01, 0.02, 0.04)),
        durable=durable,
        reuse=durable or chance.random() < 0.3,
        suspend=chance.uniform(0.0, 0.9) if chance.random() < 0.15 else None,
        damage=chance.choice((0, 1, 3)) if durable else 0,
    )


def query_of(place: int) -> int:
    """The query that a run is about; other jobs of the run may be of others."""
    return QUERIES[place // TICKS % len(QUERIES)]


def _jobs(chance: random.Random, first: int, tick: int) -> Iterator[Starting]:
    for place in range(chance.choice((1, 1, 1, 2, 3))):
        near = QUERIES.index(first) + chance.randrange(3)
        number = first if place == 0 or chance.random() < 0.5 else QUERIES[near % len(QUERIES)]
        pair = None if place and chance.random() < 0.3 else (tick, place)
        cancel = chance.expovariate(1 / 0.05) if chance.random() < 0.12 else None
        yield Starting(number, chance.choice((0.5, 1.0, 3.0)), chance.randrange(2**32), pair, cancel)


def _profile(chance: random.Random) -> CapacityProfile:
    """0 to 4 slots, memory up and down, every few or some hundred milliseconds; at the end there is enough of both."""
    pause, at = chance.choice((0.004, 0.015, 0.05)), 0.0
    points = [Point(0.0, chance.choice((0, 1, 2, 3, 4)), chance.choice(MEMORIES))]
    for _ in range(chance.choice((0, 5, 20, 20))):
        at += 1e-6 + chance.expovariate(1 / pause)
        points.append(Point(at, chance.choice((0, 1, 1, 2, 3, 4)), chance.choice(MEMORIES)))
    return CapacityProfile((*points, Point(at + pause, 2, 2e9)))


def perform(drawn: Scenario, subjects: Subjects, caches: Path) -> Happened:
    """Do a run. Raises what goes wrong, AssertionError if it is found out here. caches: a folder for plans."""
    needed = [subjects.of(job.number) for job in drawn.jobs]
    together = [
        (subject, job)
        for subject, job in zip(needed, drawn.jobs, strict=True)
        if subject.folder == needed[0].folder  # a session has one set of data
    ]
    before = _possessions()
    with ExitStack() as opened, tempfile.TemporaryDirectory(prefix="qoop-soak-") as name:
        opened.enter_context(checked_at_every_tick())
        faults = opened.enter_context(failing_at_random(drawn.seed, drawn.failures))
        happened = _Run(drawn, subjects, Path(name), caches).all(together)
        happened.times["failures of kernels injected"] += faults.interrupted
        happened.times["checkpoints lost"] += faults.lost
    _nothing_is_left(before)
    return happened


@dataclass(frozen=True)
class _Possessions:
    """The possessions of the process: open files, bytes that Arrow holds, and children."""

    files: int
    arrow: int
    children: frozenset[psutil.Process]

    def within(self, limit: _Possessions) -> bool:
        return self.files <= limit.files and self.arrow <= limit.arrow and self.children <= limit.children


def _possessions() -> _Possessions:
    process = psutil.Process()
    return _Possessions(process.num_fds(), pa.total_allocated_bytes(), frozenset(process.children(recursive=True)))


def _nothing_is_left(before: _Possessions) -> None:
    after = _possessions()
    if not after.within(before):
        gc.collect()  # takes long
        after = _possessions()
    assert after.within(before), f"{after} where before there were {before}"


class _Run:
    """The sessions of one run."""

    def __init__(self, drawn: Scenario, subjects: Subjects, folder: Path, caches: Path) -> None:
        self.drawn = drawn
        self.subjects = subjects
        self.folder = folder
        self.caches = caches
        self.happened = Happened()
        self.removed = 0  # files of data, with us to blame

    def all(self, together: list[tuple[Subject, Starting]]) -> Happened:
        wanted = [subject for subject, _ in together]
        with self.session(wanted) as session:
            moved = self.first_session(session, together)
        if moved:
            with self.session(wanted, slots=1 + self.drawn.slots % 4) as session:
                self.happened.times["jobs resumed elsewhere"] += 1
                self.judge(wanted[0], session.resume(self.folder / "bundle"))
        if self.drawn.durable:
            self.once_more(wanted)
        return self.happened

    @contextlib.contextmanager
    def session(self, wanted: list[Subject], slots: int | None = None) -> Iterator[Session]:
        spill, drawn = self.folder / "spill", self.drawn
        spill.mkdir(exist_ok=True)
        checkpoints = self.folder / "checkpoints" if drawn.durable else None
        with clean_session(
            wanted[0].folder,
            spill,
            slots or drawn.slots,
            tables={table for subject in wanted for table in subject.tables},
            checkpoints=checkpoints,
            reuse=drawn.reuse,
            plan_cache=self.caches,
        ) as session:
            yield session
        if checkpoints is not None:
            kinds = Counter(path.suffix for path in checkpoints.iterdir())
            assert set(kinds) <= {".json", ".arrow", ""}, f"files are left: {kinds}"
            assert kinds[".json"] - self.removed <= kinds[".arrow"] <= kinds[".json"], f"files are left: {kinds}"

    def first_session(self, session: Session, together: list[tuple[Subject, Starting]]) -> bool:
        """Run the jobs; True if the first was suspended."""
        drawn = self.drawn
        with replay(session, drawn.profile, notice=drawn.notice) as changes:
            jobs = [self.start(session, *each) for each in together]
            moved = drawn.suspend is not None and self.suspended(jobs[0], drawn.suspend)
            for each, job in zip(together, jobs, strict=True):
                self.finish(*each, job)
            session.resize(2, 2_000_000_000)
        self.happened.times["changes of slots and memory"] += len(changes.applied)
        session.resize(2, 2_000_000_000)  # what was announced last may have come since
        return moved

    def start(self, session: Session, subject: Subject, starting: Starting) -> Job:
        resume = self.drawn.reuse
        if starting.pair is None:
            return session.submit(subject.text, weight=starting.weight, resume=resume)
        plans = self.way(subject, starting.pair, starting.seed)
        launch, *options = (subject.plans[place] for place in plans)
        return switched(
            session, subject.planned, launch, tuple(options), starting.seed, Terms(weight=starting.weight), resume
        )

    @staticmethod
    def way(subject: Subject, pair: Pair, seed: int) -> tuple[int, int, int]:
        """The plans, by their places, that a job is to go to and fro between."""
        launch, other = subject.pairs[sum(pair) % len(subject.pairs)]
        return launch, other, random.Random(seed).randrange(len(subject.plans))

    def suspended(self, job: Job, fraction: float) -> bool:
        until = time.monotonic() + PATIENCE
        while job.progress().fraction < fraction and not job.wait(0.001) and time.monotonic() < until:
            pass
        try:
            job.suspend(self.folder / "bundle")
        except ConfigError:
            assert job.state == "SUCCEEDED"
            return False
        return True

    def finish(self, subject: Subject, starting: Starting, job: Job) -> None:
        if starting.cancel is not None:
            job.wait(starting.cancel)
            job.cancel()
        try:
            self.judge(subject, job)
        except Suspended:
            self.happened.times["jobs suspended"] += 1
        except Cancelled:
            assert starting.cancel is not None
            self.happened.times["jobs cancelled"] += 1
        finally:
            self.note(job)
            if starting.pair is not None:
                self.note_ways(subject, job, self.way(subject, starting.pair, starting.seed))

    def judge(self, subject: Subject, job: Job) -> None:
        difference = self.subjects.judge(subject, job.result(PATIENCE).arrow())
        assert difference is None, difference
        job._handle._run.check()
        self.happened.times["answers equal to DuckDB's"] += 1

    def note(self, job: Job) -> None:
        self.happened.times["jobs"] += 1
        for record in job.history():
            self.happened.times.update(_said(record))

    def note_ways(self, subject: Subject, job: Job, plans: tuple[int, int, int]) -> None:
        named = dict(zip(_PLACES, plans, strict=True))  # a plan that was found again has another name
        for record in job.history():
            if isinstance(record, Decided) and record.switched and {record.running, record.chosen} <= named.keys():
                self.happened.ways.add((subject.number, named[record.running], named[record.chosen]))

    def once_more(self, wanted: list[Subject]) -> None:
        """Run the first query again from its checkpoints, some of which are damaged or gone."""
        chance = random.Random(self.drawn.seed)
        files = sorted((self.folder / "checkpoints").glob("*.arrow"))
        for path in chance.sample(files, min(self.drawn.damage, len(files))):
            self.happened.times["files of checkpoints damaged"] += 1
            _damage(path, chance)
            self.removed += not path.exists()
        with self.session(wanted) as session:
            job = session.submit(wanted[0].text)
            self.judge(wanted[0], job)
            self.note(job)
        shutil.rmtree(self.folder / "checkpoints")


def _damage(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    match chance.choice(("cut", "flip", "remove") if data else ("remove",)):
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "flip":
            data[chance.randrange(len(data))] ^= 0xFF
            path.write_bytes(data)
        case _:
            path.unlink()


def _said(record: Record) -> Iterator[str]:
    match record:
        case Decided():
            yield "decisions"
            if record.switched:
                yield "switches of plan"
            if record.backtracked:
                yield "of these with backtracking"
        case Failed():
            yield f"attempts failed with {type(record.error).__name__}"
        case Stopped():
            yield "attempts stopped"
        case Succeeded():
            yield "tasks committed"
        case Lost():
            yield "losses of checkpoints noticed"
        case MemoryRaised():
            yield "tasks that got more memory"
