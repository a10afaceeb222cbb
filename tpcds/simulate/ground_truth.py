"""The ground truth of a simulation: the real behaviour of its tasks. Estimates are in the plans.

    believed(queries)                        the estimates, with transfers over the network
    measured(directory, queries)             real runs at small scales, extrapolated (:mod:`.extrapolation`)
    distorted(ground_truth, percent, seed)   another ground truth, off by `percent`
    misjudged(ground_truth, factor, seed)    another one, each stage off by its own factor, rows too
    Straggling(ground_truth)                 another world, in which equal tasks take longer or shorter by chance

A :class:`GroundTruth` is the argument of that name of `qoop.adaptive.simulation.simulate`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from qoop.adaptive.simulation import World
from qoop.catalog.written.codec import Codec
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import MachineId, TaskSpec
from qoop.planner.estimate.cost import SPILL_BYTE
from qoop.planner.packing import on_threads
from qoop.planner.plan import Resources, Stage
from qoop.session.opening import connect
from qoop.tpcds.queries import text
from qoop.tpcds.simulate import extrapolation
from qoop.tpcds.simulate.extrapolation import Extrapolation, Sample, StageGroundTruth, residual, residuals
from qoop.tpcds.simulate.measuring import measurements, results_file
from qoop.tpcds.simulate.workload import (
    PAPER,
    Kept,
    Query,
    Setting,
    Workload,
    digest,
    digest_of,
    folder,
    version,
    workload,
)


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task of a stage as it really is.

    seconds: of one thread. local: seconds of a slot to start it and to move its rows on its machine. wants: bytes it
    would hold if it could. everywhere, parted: bytes from other stages that every task reads, and that all tasks
    together read, one part each. rows, bytes: of the whole stage's output.
    """

    seconds: float
    local: float
    wants: float
    everywhere: float
    parted: float
    rows: float
    bytes: float

    def times(self, factor: float) -> TaskFacts:
        """A task that takes, holds and moves `factor` times as much."""
        return replace(
            self,
            seconds=self.seconds * factor,
            local=self.local * factor,
            wants=self.wants * factor,
            everywhere=self.everywhere * factor,
            parted=self.parted * factor,
        )


TaskKey = str

CROSSING = True
"""True: the ground truth says how long rows from other machines take to arrive. False: the backend does."""


def task_key(stage: Stage) -> TaskKey:
    """The key of a task's work. Not the signature alone: that of a non-deterministic stage is the job's own, and a
    stage that finishes the work of another puts out the same as one that does all of it."""
    text = repr((stage.sql, stage.layout, stage.width, stage.slots, stage.cut))
    return blake2b(text.encode(), digest_size=12).hexdigest()


class GroundTruth:
    """The outcome of every attempt.

    facts: by :func:`task_key`; of stages that are not among them (those that take over another plan's work) the
    estimate holds. setting: the machines; how many there are at a time, :meth:`on` says.
    """

    def __init__(self, facts: Mapping[TaskKey, TaskFacts], setting: Setting = PAPER) -> None:
        self.facts = facts
        self.setting = setting
        self._known: dict[int, tuple[Stage, TaskFacts]] = {}

    def __call__(self, spec: TaskSpec) -> Outcome:
        """On all machines of the setting."""
        return self.outcome(spec, self.setting.machines)

    def on(self, machines: Callable[[], Mapping[MachineId, Resources]]) -> Callable[[TaskSpec], Outcome]:
        """The outcomes on as many machines as there are at the moment."""
        return lambda spec: self.outcome(spec, len(machines()))

    def outcome(self, spec: TaskSpec, machines: int) -> Outcome:
        """The outcome of an attempt: work, the way in and out, and spilling what does not fit the memory.

        Rows that other machines hold come in over its machine's link, which the tasks of the stage there share, as
        the completion time estimate has it (:mod:`qoop.planner.finish`).
        """
        stage, available = spec.stage, spec.resources
        task = self.of(stage)
        spilled = max(0.0, task.wants - available.memory)
        seconds = on_threads(task.seconds, available.cpu) + task.local
        arriving = self._arriving(task, stage.width, machines)
        shared = self.setting.disk > 0
        if not shared:
            rounds = stage.width * available.cpu / (machines * self.setting.slots)
            seconds += spilled * SPILL_BYTE
            seconds += arriving / self.setting.link / max(1.0, rounds) if arriving else 0.0
        part, parts = spec.attempt.task.part, stage.layout.parts
        return Outcome(
            seconds,
            rows=share_of(task.rows / parts, stage.width, part),
            bytes=share_of(task.bytes / parts, stage.width, part),
            arriving=arriving / max(1.0, stage.width / machines) if shared else 0.0,
            spilled=spilled if shared else 0.0,
        )

    def _arriving(self, task: TaskFacts, width: int, machines: int) -> float:
        """Bytes from other machines that a stage's tasks on one machine read."""
        if not CROSSING or machines <= 1 or self.setting.link <= 0:
            return 0.0
        return (task.everywhere + task.parted / min(machines, width)) * (machines - 1) / machines

    def of(self, stage: Stage) -> TaskFacts:
        """The facts of the stage's tasks."""
        known = self._known.get(id(stage))
        if known is None:
            facts = self.facts.get(task_key(stage)) or self._as_estimated(stage)
            known = self._known[id(stage)] = (stage, facts)  # the stage, too: its id must not be given away
        return known[1]

    def _as_estimated(self, stage: Stage) -> TaskFacts:
        cost, estimate = self.setting.cost, stage.estimate
        local = cost.moving(0.0, estimate.bytes / stage.width) + cost.task_overhead_seconds
        return TaskFacts(estimate.task_seconds, local, estimate.task_wants, 0.0, 0.0, estimate.rows, estimate.bytes)


def share_of(total: float, tasks: int, part: int) -> int:
    """The part that one of several tasks has of a total; their sum is the total.

    >>> [share_of(10, 4, part) for part in range(4)]
    [2, 3, 3, 2]
    """
    return round((part + 1) * total / tasks) - round(part * total / tasks)


def believed(queries: Iterable[Query], setting: Setting = PAPER) -> GroundTruth:
    """The ground truth in which the estimates of the plans come true."""
    facts: dict[TaskKey, TaskFacts] = {}
    for query in queries:
        for one in query.candidates:
            for stage, task in zip(one.plan.stages, one.finish.tasks, strict=True):
                facts[task_key(stage)] = TaskFacts(
                    task.seconds, task.local, task.wants, task.everywhere, task.parted, stage.estimate.rows,
                    stage.estimate.bytes,
                )  # fmt: skip
    return GroundTruth(facts, setting)


def measured(
    directory: Path,
    queries: Workload,
    setting: Setting = PAPER,
    scales: Sequence[float] = (1.0, 10.0),
    cache_dir: Path | None = None,
) -> GroundTruth:
    """The ground truth by the measurements of `qoop bench measure`. What was not measured is as believed, except for
    the seconds that its kind of operator takes.

    directory: the tables that the plans were made for. scales: of which the measurements count. The first call works
    it out, in some seconds; later ones read it. Raises ConfigError, SourceError.
    """
    kept = _kept(directory, setting, scales, cache_dir)
    kinds = kept.load("kinds")
    if kinds is None:  # of all that were measured: the truth of one query must not depend on the other requested ones
        known = measurements(directory, cache_dir)
        every = workload(directory, known.queries(scales), setting, cache_dir=cache_dir)
        known_stages = stage_ground_truths(directory, every, setting, scales, cache_dir)
        kinds = residuals(stage for query in known_stages.values() for stage in query)
        kept.save("kinds", kinds)
    stages = stage_ground_truths(directory, queries, setting, scales, cache_dir)
    facts: dict[TaskKey, TaskFacts] = {}
    for number, query in queries.items():
        for stage in stages[number]:
            factor = residual(stage, kinds)
            place, index = map(int, stage.key.split("."))
            facts[task_key(query.candidates[place].plan.stages[index])] = TaskFacts(
                stage.seconds * factor, stage.local, stage.wants, stage.everywhere, stage.parted, stage.rows,
                stage.bytes,
            )  # fmt: skip
    return GroundTruth(facts, setting)


def stage_ground_truths(
    directory: Path, queries: Workload, setting: Setting, scales: Sequence[float], cache_dir: Path | None = None
) -> dict[int, tuple[StageGroundTruth, ...]]:
    """The demands of each stage of these queries' plans by the measurements, from the cache or worked out now."""
    kept = _kept(directory, setting, scales, cache_dir)
    codec = Codec({})
    found: dict[int, tuple[StageGroundTruth, ...]] = {}
    for number in queries:
        data = kept.load(f"ground-truth-{number}")
        if data is not None:
            found[number] = tuple(codec.read(StageGroundTruth, item) for item in data)
    missing = [number for number in queries if number not in found]
    if missing:
        known = measurements(directory, cache_dir)
        with connect(staged=True, statistics="full") as session:
            session.register_folder(directory)
            for number in missing:
                samples = [Sample(scale, known.of(scale, number)) for scale in known.scales(number, scales)]
                statement = text(number, directory=directory)
                found[number] = tuple(Extrapolation(session, queries[number], statement, setting, samples).stages())
                kept.save(f"ground-truth-{number}", [codec.write(stage) for stage in found[number]])
    return found


def known_true(query: Query, ground_truth: GroundTruth) -> Query:
    """The query as a planner with perfect knowledge would plan it: with true estimates."""

    def as_measured(stage: Stage) -> Stage:
        task = ground_truth.of(stage)
        estimate = replace(
            stage.estimate, rows=task.rows, bytes=task.bytes, task_seconds=task.seconds, task_wants=task.wants
        )
        return replace(stage, estimate=estimate)

    plans = (replace(one.plan, stages=tuple(map(as_measured, one.plan.stages))) for one in query.candidates)
    pairs = zip(query.candidates, plans, strict=True)
    return replace(query, candidates=tuple(replace(one, plan=plan) for one, plan in pairs))


def edition(
    directory: Path, setting: Setting = PAPER, scales: Sequence[float] = (1.0, 10.0), cache_dir: Path | None = None
) -> str:
    """Digest of all that :func:`measured` follows from: figures of simulations with another one are not to be mixed."""
    own = digest(digest_of(Path(extrapolation.__file__)), digest_of(results_file(directory, cache_dir)), repr(scales))
    return digest(version(directory, setting), own)


def _kept(directory: Path, setting: Setting, scales: Sequence[float], cache_dir: Path | None) -> Kept:
    return Kept(folder(cache_dir), edition(directory, setting, scales, cache_dir))


def distorted(ground_truth: GroundTruth, percent: float, seed: int | None = None) -> GroundTruth:
    """A ground truth that is off by `percent` in demands and durations, as in figure 2.14 (demand × (1 + X/100)).

    seed: None: everything is off by the same part; else each stage by its own part from -percent to percent, which
    depends on the seed and the stage alone.
    """

    def factor(key: TaskKey) -> float:
        off = percent if seed is None else random.Random(f"{seed} {key}").uniform(-percent, percent)
        return max(0.01, 1.0 + off / 100.0)

    return GroundTruth(
        {key: facts.times(factor(key)) for key, facts in ground_truth.facts.items()}, ground_truth.setting
    )


def misjudged(ground_truth: GroundTruth, factor: float, seed: int) -> GroundTruth:
    """A ground truth in which rows, bytes and seconds of each stage are off by its own factor, drawn evenly in the
    logarithm from 1 / factor to factor. The factor depends on the seed and the stage alone."""

    def off(key: TaskKey, facts: TaskFacts) -> TaskFacts:
        by = factor ** random.Random(f"{seed} {key}").uniform(-1.0, 1.0)
        return replace(facts.times(by), rows=facts.rows * by, bytes=facts.bytes * by)

    facts = {key: off(key, one) for key, one in ground_truth.facts.items()}
    return GroundTruth(facts, ground_truth.setting)


SPREAD = 0.4
"""Of the logarithm of seconds: 15 % of tasks take over 1.5 times the median, as in the worst quarter of the phases that
Ananthanarayanan et al. looked at (Mantri, OSDI 2010, section 4), where those are called outliers."""


class Straggling:
    """A world like `ground_truth`, but that each attempt takes a lognormal factor of mean 1 longer. The total of work
    stays. The factor of a task's first, second … attempt depends on the seed and the task alone, not on the system or
    the time.

    spread: standard deviation of the factor's logarithm.
    """

    def __init__(self, ground_truth: World, spread: float = SPREAD, seed: int = 1) -> None:
        self.ground_truth, self.spread, self.seed = ground_truth, spread, seed

    def on(self, machines: Callable[[], Mapping[MachineId, Resources]]) -> Callable[[TaskSpec], Outcome]:
        """The outcomes of one simulation, on as many machines as there are at the moment."""
        steady, tries = self.ground_truth.on(machines), Counter[str]()

        def outcome(spec: TaskSpec) -> Outcome:
            key = f"{spec.key.signature} {spec.key.layout} {spec.key.part}"
            tries[key] += 1
            usual = steady(spec)
            return replace(usual, seconds=usual.seconds * self._factor(f"{self.seed} {key} {tries[key]}"))

        return outcome

    def _factor(self, draw: str) -> float:
        return random.Random(draw).lognormvariate(-(self.spread**2) / 2, self.spread)
