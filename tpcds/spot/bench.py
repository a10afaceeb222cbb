"""Runs engines under markets: which runs there are, and each of them by a driver of its own."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from sqlglot.dialects.dialect import Dialect

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.tpcds.manifest import read_manifest
from qoop.tpcds.oracle import tables_of
from qoop.tpcds.results import Results
from qoop.tpcds.spot import measures
from qoop.tpcds.spot.answers import Judge
from qoop.tpcds.spot.course import READY_SECONDS, UNDISTURBED, Order, Size, Up, Work
from qoop.tpcds.spot.driving import Report, report
from qoop.tpcds.spot.entrants import BUILT_IN, REFERENCE, Entrant, code_digest
from qoop.tpcds.spot.limits import refused
from qoop.tpcds.spot.markets import Market
from qoop.tpcds.spot.records import LIMIT, NONE, VERSION, Run, RunKey
from qoop.tpcds.spot.tasks import (
    BATCH,
    CHAIN,
    CHAIN_TASK,
    LOAD,
    LONG,
    RESIZED,
    Task,
    batch_task,
    in_dialect,
    load_task,
    long_task,
    text_name,
    works,
)  # fmt: skip
from qoop.tpcds.spot.timeline import Window

_PATIENCE = 60.0  # seconds for each text, where nothing is known yet


@dataclass(frozen=True)
class SpotOptions:
    """The runs to make. queries: of both classes; none: all of *batch*, and the `longest` of them for *long*.

    folder: of the results, which are taken up, and of all files meanwhile. seed: of the windows. repeat: undisturbed
    runs of each task. again: runs that other programs disturbed are made once more.
    """

    directory: Path
    folder: Path
    entrants: Sequence[Entrant]
    markets: Sequence[Market]
    pressures: Sequence[float] = (4.0, 1.0, 0.25)
    windows: int = 5
    classes: Sequence[str] = (LONG, BATCH)
    queries: tuple[int, ...] = ()
    longest: int = 20
    cpus: int = 2
    memory: int = 8 * 10**9
    seed: int = 1
    notices: Sequence[float] = (0.0,)
    repeat: int = 3
    again: bool = False


def run(options: SpotOptions, progress: Callable[[str], None] = print) -> Path:
    """Make the runs that the results lack; returns the file of results.

    Raises ConfigError or SourceError if it cannot begin. An engine that fails is left out, and the others go on.
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError("the driver kills and counts all processes of an engine, which it can do on Linux alone")
    path = options.folder / "results.jsonl"
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {options.folder} cannot be made: {error.strerror}") from error
    results = Results(path, settings(options))
    with Judge(options.directory) as judge:
        bench = _Bench(options, results, judge, progress)
        bench.run_all()
    return path


def settings(options: SpotOptions) -> Mapping[str, Any]:
    """All that must be equal for two runs to meet in one ratio."""
    return {
        "specification": VERSION, "machine": machine(), "data": data_digest(options.directory),
        "cpus": options.cpus, "memory": options.memory, "seed": options.seed, "limit": LIMIT,
    }  # fmt: skip


def machine() -> Mapping[str, Any]:
    """The machine, without its name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": model, "cpus": os.cpu_count(), "gigabytes": round(memory / 1e9), "system": platform.release()}


def data_digest(directory: Path) -> Mapping[str, Any]:
    """The scale of the data, and a digest of all its files by name and content."""
    manifest = read_manifest(directory)
    digest = hashlib.blake2b(digest_size=16)
    for name, files in tables_of(directory).items():
        digest.update(name.encode())
        for file in files:
            with open(file, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return {"scale": None if manifest is None else manifest.scale, "digest": digest.hexdigest()}


@dataclass(frozen=True, slots=True)
class _Engine:
    """An engine that was ready. dialect: of its SQL."""

    entrant: Entrant
    name: str
    dialect: str


class _Bench:
    """The runs of some options."""

    def __init__(self, options: SpotOptions, results: Results, judge: Judge, progress: Callable[[str], None]) -> None:
        self._options, self._results, self._judge, self._tell = options, results, judge, progress
        self._tables = {
            name: [str(Path(file).resolve()) for file in files] for name, files in tables_of(options.directory).items()
        }

    def run_all(self) -> None:
        """Undisturbed runs first; then all engines in one window, before the next window."""
        options = self._options
        for market in options.markets:
            self._fix(f"market {market.name}", {"digest": market.digest})
        engines = [engine for entrant in options.entrants if (engine := self._introduced(entrant)) is not None]
        reference = next((one for one in engines if one.name == REFERENCE), None)
        if reference is None:
            raise ConfigError(f"all times are relative to the engine {REFERENCE}, which has to be among the engines")
        tasks = self._tasks(reference)
        able: set[tuple[str, Task]] = set()
        for task, engine in product(tasks, [reference, *(one for one in engines if one is not reference)]):
            if self._undisturbed(reference, engine, task):
                able.add((engine.name, task))
        for number, keys in enumerate(self._windows()):
            notice = keys[-1]
            for task in (one for one in tasks if not notice or one.work_class != RESIZED):  # it is never lost
                turn = number % len(engines)
                for engine in [*engines[turn:], *engines[:turn]]:
                    if (engine.name, task) in able:
                        self._disturbed(reference, engine, task, *keys)

    def _windows(self) -> Iterator[tuple[Market, Window, float]]:
        options = self._options
        for number, market, pressure, notice in product(
            range(options.windows), options.markets, options.pressures, options.notices
        ):
            yield market, Window(market.name, pressure, number, options.seed), notice

    def _introduced(self, entrant: Entrant) -> _Engine | None:
        """The engine as it presents itself, with a version that all its runs must have; None if it fails."""
        try:
            with tempfile.TemporaryDirectory(prefix="spot-", dir=self._options.folder) as scratch:
                found = self._drive(entrant, [], Path(scratch).resolve(), UNDISTURBED, 2 * READY_SECONDS)
            said = next((event.detail for event in found.events if event.what == "ready"), None)
            if said is None:
                raise ExecutionError(next((one.detail for one in found.events if one.what == "broken"), "not ready"))
            facts = json.loads(said)
            Dialect.get_or_raise(facts["dialect"])
        except (ExecutionError, KeyError, ValueError) as error:
            self._tell(f"{entrant.name} takes no part: {error}")
            return None
        name = str(facts["engine"]) if entrant.is_own else entrant.name
        code = {"code": code_digest()} if name in BUILT_IN and not BUILT_IN[name].requirements else {}
        self._fix(f"engine {name}", {"engine": facts["engine"], "version": facts["version"], **code})
        return _Engine(entrant, name, facts["dialect"])

    def _fix(self, name: str, value: Mapping[str, Any]) -> None:
        """Keep a fact; raises ConfigError if the results have another one."""
        known = self._results.get(name)
        if known not in (None, value):
            raise ConfigError(
                f"{self._results.path} has {name} as {known}, and here it is {value}: they never meet in one ratio; "
                "choose another folder (--out)"
            )
        self._results.put(name, value)

    def _tasks(self, reference: _Engine) -> list[Task]:
        options = self._options
        chosen = options.queries or tuple(range(1, 100))
        whole = batch_task(chosen)
        one_at_a_time = [name for name in (LONG, RESIZED) if name in options.classes and self._can(name)]
        own = options.queries if options.queries or not one_at_a_time else self._longest(reference, whole)
        found = [long_task(query, name) for name in one_at_a_time for query in own]
        found += [whole] if BATCH in options.classes else []
        found += [CHAIN_TASK] if CHAIN in options.classes else []
        return [*found, load_task(self._taken(reference, whole), options.seed)] if LOAD in options.classes else found

    def _can(self, work_class: str) -> bool:
        """False, with the reason said, if the system or a market does not have what a class needs."""
        if work_class != RESIZED:
            return True
        falling = [market for market in self._options.markets if market.trace.mean_between_falls < math.inf]
        still = [market.name for market in self._options.markets if market not in falling]
        reason = f"the number of nodes never falls in {', '.join(still)}" if still else refused()
        if reason:
            self._tell(f"the class {work_class} is refused: {reason}")
        return not reason

    def _longest(self, reference: _Engine, whole: Task) -> list[int]:
        """The queries that the reference takes longest for, in one undisturbed run of them all."""
        taken = self._taken(reference, whole)
        return sorted(sorted(taken, key=lambda query: -taken[query])[: self._options.longest])

    def _taken(self, reference: _Engine, whole: Task) -> Mapping[int, float]:
        """The seconds of each query in one undisturbed run of them all by the reference."""
        run = self._made(reference, whole, RunKey(REFERENCE, BATCH, whole.name, NONE, 0.0, 0), UNDISTURBED, 0.0)
        return {int(work.removeprefix("q")): seconds for work, seconds in measures.waits(run.events).items()}

    def _undisturbed(self, reference: _Engine, engine: _Engine, task: Task) -> bool:
        """Run a task without losses; False if the engine gives no right answer to it, and why is said."""
        found = []
        for number in range(self._options.repeat):
            key = RunKey(engine.name, task.work_class, task.name, NONE, 0.0, number)
            taken = 0.0 if engine is reference else self._reference(task)
            found.append(self._made(engine, task, key, UNDISTURBED, taken))
            if not found[-1].right:
                reasons = {**found[-1].failures, **found[-1].wrong} or {task.name: "not within the limit"}
                self._tell(f"{engine.name} cannot run {task.name}: {next(iter(reasons.values()))}")
                return False
        return True

    def _reference(self, task: Task) -> float:
        """Undisturbed seconds of the reference. Raises ConfigError if it cannot answer."""
        keys = [
            RunKey(REFERENCE, task.work_class, task.name, NONE, 0.0, number) for number in range(self._options.repeat)
        ]
        kept = [self._results.get(str(key)) for key in keys]
        if None in kept:
            raise ConfigError(f"{REFERENCE} does not answer {task.name}: there is no time to compare with")
        return median(Run.of(one).span for one in kept)

    def _disturbed(
        self, reference: _Engine, engine: _Engine, task: Task, market: Market, window: Window, notice: float
    ) -> None:
        taken = self._reference(task)
        key = RunKey(engine.name, task.work_class, task.name, market.name, window.pressure, window.number, notice)
        if task.work_class == RESIZED:
            whole = Size(0.0, self._options.cpus, self._options.memory)
            sizes = window.sizes(market.trace, taken, LIMIT * taken, whole)
            self._made(engine, task, key, UNDISTURBED, taken, sizes)
        else:
            self._made(engine, task, key, window.timeline(market.trace, taken, LIMIT * taken), taken)

    def _made(
        self, engine: _Engine, task: Task, key: RunKey, ups: Sequence[Up], reference: float, sizes: Sequence[Size] = ()
    ) -> Run:
        """The run of a key: from the results, or made now and kept there."""
        kept = self._kept(key, reference)
        if kept is not None:
            return kept
        limit = LIMIT * reference
        if key.market == NONE:  # to know that an engine cannot answer, it may take longer
            limit = READY_SECONDS + (limit or _PATIENCE * len(task.texts))
        with tempfile.TemporaryDirectory(prefix="spot-", dir=self._options.folder) as name:
            scratch = Path(name).resolve()
            answers = scratch / "answers"
            answers.mkdir()
            own = works(task, engine.dialect, self._options.directory, answers)
            found = self._drive(engine.entrant, own, scratch, ups, limit, key.notice, sizes)
            done = {event.work for event in found.events if event.what == "done"}
            judged = [work for work in own if work.name in done and work.name in task.judged]
            verdicts = {work.name: self._verdict(task, work) for work in judged}
        run = Run(
            key, reference, found.events, found.cpu, found.others, found.durable, verdicts, len(task.judged),
            found.durable_end,
        )  # fmt: skip
        self._results.put(str(key), run.json())
        self._tell(line(run))
        return run

    def _kept(self, key: RunKey, reference: float) -> Run | None:
        """The run of a key in the results, None if it has to be made: once more, too, where the undisturbed time of the
        reference has changed, from which its losses follow."""
        value = self._results.get(str(key))
        if value is None:
            return None
        run = Run.of(value)
        is_stale = key.market != NONE and run.reference != reference
        return None if is_stale or (self._options.again and run.disturbed) else run

    def _drive(
        self, entrant: Entrant, own: Sequence[Work], scratch: Path, ups: Sequence[Up], limit: float,
        notice: float = 0.0, sizes: Sequence[Size] = (),
    ) -> Report:  # fmt: skip
        durable = scratch / "durable"
        durable.mkdir()
        options = self._options
        order = Order(
            entrant.command, entrant.environment, self._tables, str(durable), own, options.cpus, options.memory, limit,
            ups, notice, sizes=sizes,
        )  # fmt: skip
        return report(order)

    def _verdict(self, task: Task, work: Work) -> str | None:
        originals = in_dialect("duckdb", self._options.directory)
        if task.work_class == CHAIN:
            self._judge.make({name: originals[name] for name in task.texts})
        return self._judge.verdict(originals[text_name(work.name)], Path(work.answer))


def line(run: Run) -> str:
    """A run in a line."""
    key = run.key
    how = f"{run.right} of {run.works} right"
    lost = measures.losses(run.events)
    notes = [f"{work}: {reason}" for work, reason in {**run.failures, **run.wrong}.items()]
    return (
        f"{key.task:6} {key.market} {key.pressure:g} window {key.window} {key.engine}: {run.seconds:.2f} s"
        f" ({run.seconds / run.reference if run.reference else 1:.2f} T0), {lost} losses, {how}"
        + ("; " + "; ".join(notes)[:200] if notes else "")
    )
