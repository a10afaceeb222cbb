"""``qoop bench suite DIR --parts fidelity``: real runs of the queries, and the same runs in the simulator.

Every other simulated figure rests on this one.  For each query the kept plans run on one slot, which tells the
simulator what their tasks take (:mod:`qoop.tpcds.simulate.replica`); then they run as the profiles say, and the
simulator runs them, too:

steady    every kept plan on all slots, nothing changes
dip       re-planning; after a third of its time one slot is left, after two thirds all are back
memory    re-planning; after a third of its time a quarter of the memory is left
together  four queries at once, with their launch plans

How much tasks slow each other down, and how little two threads help one task, is fitted to every fifth query's steady
runs; what a decision takes, and how long an attempt goes on after it is stopped, is known from the runs with changes of
the same queries.  All runs of theirs with one query are then left out of the figures.  What kernels cost is measured
by itself: opening some, and the first run of each query in a session with one slot.  Planning before the start is in
neither of the two times.  Of several runs the fastest counts: what else a machine does only ever adds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import qoop
from qoop.adaptive.profiles import CapacityProfile, Point, replay
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.simulation import Kernels
from qoop.catalog.errors import QoopError
from qoop.catalog.written.codec import Codec
from qoop.engine.history import Decided, Record
from qoop.engine.kernel import Kernel
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Candidate, local_grid
from qoop.planner.variants import Variant
from qoop.query.job import Job
from qoop.query.plan_keys import planner_version
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.queries import text
from qoop.tpcds.results import Results, read
from qoop.tpcds.simulate.fidelity_figures import PROFILES, Fidelity, Pair, to_json
from qoop.tpcds.simulate.replica import Replica, Solo, ended, fastest, interrupted, resource_changes, solo, tables_of
from qoop.tpcds.simulate.workload import digest

QUICK = (3, 7, 15, 19, 25, 34, 43, 46, 52, 55, 68, 73, 79, 88, 98)
"""Queries of `--quick`."""

_FITTED = 5

OnProgress = Callable[[str], object]


@dataclass(frozen=True)
class FidelityOptions:
    """The runs to make. repeat: of each run, of which the fastest counts. together: queries at once.

    results: where runs are kept as they come; None: nowhere.
    """

    directory: Path
    queries: tuple[int, ...]
    profiles: tuple[str, ...] = PROFILES
    slots: int = 2
    memory: str = "4GB"
    repeat: int = 3
    together: int = 4
    results: Path | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that results must have in common to be mixed."""
        return {
            "directory": str(self.directory.absolute()), "slots": self.slots, "memory": self.memory,
            "repeat": self.repeat, "together": self.together, "planner": planner_version(),
        }  # fmt: skip


def run(options: FidelityOptions, progress: OnProgress = lambda line: None) -> Fidelity:
    """Run what is not known yet, then simulate all of it. Raises ConfigError, SourceError."""
    results = Results(options.results, options.settings)
    with connect(slots=options.slots, memory=options.memory, reuse=False, staged=True, statistics="full") as planner:
        planner.register_folder(options.directory)
        bench = _Bench(options, results, planner, progress)
        bench.record()
        return bench.simulated()


@dataclass
class _Bench:
    options: FidelityOptions
    results: Results
    planner: Session
    progress: OnProgress

    def __post_init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.codec = Codec({})
        self._plans: dict[int, tuple[Plan, ...]] = {}

    def text(self, query: int) -> str:
        return text(query, directory=self.options.directory)

    def plans(self, query: int) -> tuple[Plan, ...]:
        """The kept plans; the launch plan is the first."""
        if query not in self._plans:
            launch = self.planner.prepare(self.text(query)).planning().plan(Variant(), self.planner.available)
            kept = [one.plan for one in self.planner.alternatives(self.text(query)).kept]
            self._plans[query] = (launch, *(plan for plan in kept if plan != launch))
        return self._plans[query]

    # ---- real runs

    def record(self) -> None:
        """Run and keep everything that is not among the results yet."""
        self.once("machine", opening)
        for query in self.options.queries:
            self.once(f"solo/{query}", partial(self.alone, query))
            self.once(f"cold/{query}", partial(self.cold, query))
        for profile, one in (("steady", self.steady), ("dip", self.dip), ("memory", self.shrunk)):
            if profile in self.options.profiles:
                for query in self.options.queries:
                    self.once(f"{profile}/{query}", partial(one, query))
        if "together" in self.options.profiles:
            for group in self.groups():
                self.once(f"together/{'-'.join(map(str, group))}", partial(self.crowd, group))

    def groups(self) -> Iterator[tuple[int, ...]]:
        """Queries that run at once: neighbours in a fixed order that mixes short and long ones."""
        mixed = sorted(self.options.queries, key=lambda query: (query * 37 % 101, query))
        size = self.options.together
        return (tuple(mixed[i : i + size]) for i in range(0, len(mixed) - size + 1, size))

    def once(self, name: str, measure: Callable[[], Any]) -> None:
        """Measure and keep, unless it is known."""
        if self.results.get(name) is not None:
            return
        try:
            value = measure()
        except QoopError as error:
            self.failed[name] = str(error)
            self.progress(f"{name} failed: {error}")
            return
        self.results.put(name, value)
        self.progress(f"{name} is done")

    def alone(self, query: int) -> Any:
        """Every plan on one slot."""
        with self.session(1) as session:
            return [
                self.codec.write(
                    fastest([solo(_ran(session.submit(self.text(query), plan=plan))) for _ in self.repeats])
                )
                for plan in self.plans(query)
            ]

    def cold(self, query: int) -> Any:
        """The launch plan on one slot in a session that has run nothing yet: processor seconds of its tasks."""
        return min(self.first_run(query) for _ in self.repeats)

    def first_run(self, query: int) -> float:
        with self.session(1) as session:
            return solo(_ran(session.submit(self.text(query), plan=self.plans(query)[0]))).working

    def steady(self, query: int) -> Any:
        """Every plan on all slots: its seconds."""
        with self.session(self.options.slots) as session:
            return [
                min(ended(_ran(session.submit(self.text(query), plan=plan))) for _ in self.repeats)
                for plan in self.plans(query)
            ]

    def dip(self, query: int) -> Any:
        """Slots go and come back."""
        third = self.usual_seconds(query) / 3
        slots = self.options.slots
        return self.changing(query, ((0.0, slots, 1.0), (third, 1, 1.0), (2 * third, slots, 1.0)))

    def shrunk(self, query: int) -> Any:
        """Memory goes."""
        slots = self.options.slots
        return self.changing(query, ((0.0, slots, 1.0), (self.usual_seconds(query) / 3, slots, 0.25)))

    def usual_seconds(self, query: int) -> float:
        """About what the launch plan takes on one slot, divided by the slots."""
        found = self.results.get(f"solo/{query}")
        return float(found[0]["seconds"]) / self.options.slots if found else 0.3

    def changing(self, query: int, steps: Sequence[tuple[float, int, float]]) -> Any:
        """A run with re-planning while resources come and go."""
        return min((self.changed(query, steps) for _ in self.repeats), key=lambda one: float(one["seconds"]))

    def changed(self, query: int, steps: Sequence[tuple[float, int, float]]) -> dict[str, Any]:
        """One such run, in a session that has seen no other."""
        with self.session(self.options.slots, replan=True) as session:
            session.alternatives(self.text(query))
            memory = session.config.memory
            points = tuple(Point(at, slots, memory * part) for at, slots, part in steps)
            job = session.submit(self.text(query))
            with replay(session, CapacityProfile(points)):
                history = _ran(job)
        changes = [(at, available.cpu, available.memory) for at, available in resource_changes(history)]
        return {
            "seconds": ended(history), "changes": changes, "decision": _decision(history),
            "stopping": interrupted(history),
        }  # fmt: skip

    def crowd(self, group: Sequence[int]) -> Any:
        """Queries at once with their launch plans: (when submitted, seconds) of each."""
        runs = []
        with self.session(self.options.slots) as session:
            for _ in self.repeats:
                jobs, begun = [], []
                for query in group:
                    jobs.append(session.submit(self.text(query), plan=self.plans(query)[0]))
                    begun.append(time.monotonic())
                runs.append([(at - begun[0], ended(_ran(job))) for at, job in zip(begun, jobs, strict=True)])
        return min(runs, key=lambda run: max(at + seconds for at, seconds in run))

    def session(self, slots: int, replan: bool = False) -> Session:
        """With the tables."""
        session = connect(
            slots=slots, memory=self.options.memory, replan=replan, reuse=False, staged=True, statistics="full"
        )
        session.register_folder(self.options.directory)
        return session

    @property
    def repeats(self) -> range:
        return range(self.options.repeat)

    # ---- the same in virtual time

    def simulated(self) -> Fidelity:
        """All that was recorded, once more."""
        solos = {query: self.solos(query) for query in self.options.queries if self.results.get(f"solo/{query}")}
        runs = [pair for query, found in solos.items() for pair in zip(self.plans(query), found, strict=True)]
        if not runs:
            return Fidelity((), {}, self.failed)
        fitted = self.fitted(solos)
        known = [zip(self.plans(query), self.results.get(f"steady/{query}"), strict=True) for query in sorted(fitted)]
        machine = replace(Replica.of(self.planner.available, runs), cores=self.results.get("machine")["cores"])
        machine = machine.fitted([pair for pairs in known for pair in pairs])
        machine = replace(machine, kernels=self.kernels(solos, fitted), decision=self.decision(fitted))
        self.progress("simulating …")
        pairs = (
            *self.steadily(machine, solos, fitted),
            *self.as_it_changed(machine, solos, fitted),
            *self.all_at_once(machine, solos),
        )
        return Fidelity(pairs, machine.figures(), self.failed)

    def solos(self, query: int) -> list[Solo]:
        return [self.codec.read(Solo, one) for one in self.results.get(f"solo/{query}")]

    def fitted(self, solos: Iterable[int]) -> frozenset[int]:
        """The queries whose steady runs are fitted to."""
        known = sorted(query for query in solos if self.results.get(f"steady/{query}"))
        return frozenset(known[::_FITTED])

    def changing_runs(self, queries: Iterable[int]) -> Iterator[Any]:
        """The records of runs with changes."""
        found = (self.results.get(f"{profile}/{query}") for query in sorted(queries) for profile in ("dip", "memory"))
        return (value for value in found if value is not None)

    def decision(self, queries: Iterable[int]) -> float:
        """Seconds that a decision takes."""
        found = [value["decision"] for value in self.changing_runs(queries) if value["decision"] is not None]
        return median(found) if found else 0.0

    def kernels(self, solos: Mapping[int, Sequence[Solo]], fitted: Iterable[int]) -> Kernels:
        """The cost of the kernels of this machine: a cold one takes longer than a warm one since it reads footers."""
        cold = [(query, self.results.get(f"cold/{query}")) for query in solos]
        extra = sum(max(0.0, seconds - solos[query][0].working) for query, seconds in cold if seconds is not None)
        tables = sum(len(tables_of(self.plans(query)[0])) for query, seconds in cold if seconds is not None)
        stops = [seconds for value in self.changing_runs(fitted) for seconds in value["stopping"]]
        return Kernels(
            opening=self.results.get("machine")["opening"],
            reading=extra / tables if tables else 0.0,
            stopping=fmean(stops) if stops else 0.0,
        )

    def steadily(self, machine: Replica, solos: Iterable[int], fitted: frozenset[int]) -> Iterator[Pair]:
        for query in solos:
            for place, real in enumerate(self.results.get(f"steady/{query}") or ()):
                seconds = machine.seconds(self.plans(query)[place], warm=self.warm or place > 0)
                yield Pair("steady", query, place, real, seconds, query in fitted)

    def as_it_changed(self, machine: Replica, solos: Iterable[int], fitted: frozenset[int]) -> Iterator[Pair]:
        for profile in ("dip", "memory"):
            for query in solos:
                found = self.results.get(f"{profile}/{query}")
                if found is not None:
                    changes = [(at, Resources(cpu, memory)) for at, cpu, memory in found["changes"]]
                    job = (0.0, self.plans(query)[0], self.adaptive(query))
                    ran = machine.run([job], changes, warm=False).jobs[0]
                    yield Pair(profile, query, None, found["seconds"], ran.seconds, query in fitted)

    def all_at_once(self, machine: Replica, solos: Iterable[int]) -> Iterator[Pair]:
        known = frozenset(solos)
        for group in self.groups():
            found = self.results.get(f"together/{'-'.join(map(str, group))}")
            if found is not None and known.issuperset(group):
                jobs = [(at, self.plans(query)[0], None) for query, (at, _) in zip(group, found, strict=True)]
                ran = machine.run(jobs, warm=self.warm, planning=jobs[-1][0]).jobs
                for query, (_, real), job in zip(group, found, ran, strict=True):
                    yield Pair("together", query, 0, real, job.seconds)

    @property
    def warm(self) -> bool:
        """True if the fastest run in a session found kernels that had run the same before."""
        return self.options.repeat > 1

    def adaptive(self, query: int) -> Adaptive:
        """As a session lets its jobs change plan."""
        available = self.planner.available

        def find(observed: Observations) -> Sequence[Candidate]:
            if not observed.by_signature:
                return self.planner.alternatives(self.text(query)).kept
            return keep(pool(self.planner.prepare(self.text(query)).planning(observed), local_grid(available))).kept

        return Adaptive(find, available, at_once=True)


def _ran(job: Job) -> Sequence[Record]:
    job.result()
    return job.history()


def opening(times: int = 9) -> dict[str, float]:
    """The machine itself: its cores, and processor seconds until a kernel is open."""
    with TemporaryDirectory() as folder:
        seconds = [_opening(Path(folder)) for _ in range(times)]
    return {"cores": os.cpu_count() or 1, "opening": median(seconds)}


def _opening(folder: Path) -> float:
    begun = time.thread_time()
    kernel = Kernel(folder)
    seconds = time.thread_time() - begun
    kernel.close()
    return seconds


def _decision(history: Sequence[Record]) -> float | None:
    seconds = [record.planner_seconds for record in history if isinstance(record, Decided)]
    return median(seconds) if seconds else None


SUMMARY = "fidelity"
"""Of the file in the suite's folder, and of the one value in it."""
RUNS = "fidelity-runs"
"""The beginning of the names of files with real runs."""
KEPT = "the report keeps its figures of more queries; --fresh replaces them"


def kept_runs(options: FidelityOptions, folder: Path) -> Path:
    """The file of real runs in the suite's folder: one for each group of settings, such as `--quick`."""
    return folder / f"{RUNS}-{digest(json.dumps(options.settings))[:8]}.jsonl"


def run_kept(options: FidelityOptions, folder: Path, fresh: bool, progress: OnProgress) -> Fidelity:
    """:func:`run` with its real runs kept in the suite's folder, unless `options` says where else.

    fresh: begin again there. Raises ConfigError, SourceError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = options.results or kept_runs(options, folder)
    if fresh:
        results.unlink(missing_ok=True)
    return run(replace(options, results=results), progress)


def keep_summary(found: Fidelity, options: FidelityOptions, folder: Path, fresh: bool = False) -> bool:
    """For the report of the suite: the latest figures, in its folder, with what they were measured with.

    What is there of more queries stays, unless it is to be fresh; whether it was replaced. Raises ConfigError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{SUMMARY}.jsonl"
    if path.exists() and not fresh and summarized(path) > found.queries:
        return False
    path.unlink(missing_ok=True)  # its settings may be others
    settings = {
        "version": qoop.__version__, "planner": options.settings["planner"][:8],
        "directory": options.settings["directory"], "queries": found.queries, "repeat": options.repeat,
        "profiles": ",".join(options.profiles),
    }  # fmt: skip
    Results(path, settings).put(SUMMARY, {"value": to_json(found), "cpu_seconds": 0.0})
    return True


def summarized(path: Path) -> int:
    """Of how many queries the figures in a file are. Raises ConfigError if it is no results."""
    value = read(path).values.get(SUMMARY)
    return 0 if value is None else len({pair["query"] for pair in value["value"]["pairs"]})
