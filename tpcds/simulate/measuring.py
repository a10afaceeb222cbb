"""``qoop bench measure``: what the stages of the workload's plans really are, on data small enough to run them.

Every kept plan of a query is run with each stage as one task on one thread, whose processor seconds are known whatever
else the machine does: rows, bytes, seconds and memory of every stage are written down.  What two plans have in common
is measured once; a stage is what it puts out and what it is made of.  The measurements do not depend on how wide the
plans are, so those of small data serve the plans of large (:mod:`qoop.tpcds.simulate.extrapolation`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import ConfigError, QoopError
from qoop.catalog.paths import cache_directory
from qoop.engine.history import Succeeded
from qoop.engine.task import checkpoint_key
from qoop.planner.plan import Layout, Plan, Stage, StageId, TableInput, read_by
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.queries import TPCDS, text
from qoop.tpcds.results import Results
from qoop.tpcds.simulate.workload import PAPER, Query, Setting, workload

StageKey = str


@dataclass(frozen=True, slots=True)
class Measured:
    """A stage on one thread: rows and bytes of its output, processor seconds."""

    rows: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class MeasureOptions:
    """The measurements to make.

    directory: tables of scale 1, for which the plans are known. sizes: folders of data by scale. repeat: runs of each
    plan, of which the fastest counts. again: also run plans of which all is known; the fastest of all runs counts.
    memory: of the session.
    """

    directory: Path
    queries: tuple[int, ...]
    sizes: Mapping[float, Path]
    repeat: int = 2
    again: bool = False
    memory: str | None = None
    setting: Setting = PAPER


def stage_keys(plan: Plan) -> dict[StageId, StageKey]:
    """The key of each stage in the measurements: its output and the stages below it."""
    return {
        stage.id: hashlib.blake2b(
            "|".join((stage.signature, *sorted(read_by(stage, plan)))).encode(), digest_size=12
        ).hexdigest()
        for stage in plan.stages
    }


def narrow(plan: Plan) -> Plan:
    """The plan with every stage as one task on one thread.

    >>> from qoop.planner.plan import StageInput
    >>> wide = Stage("s1", "", (), (), 4, "f00", Layout(("a",), 4), slots=2)
    >>> root = Stage("s2", "", (StageInput("s1", "s1", "partition"),), (), 4, "f01")
    >>> [(stage.width, stage.layout.parts, stage.slots) for stage in narrow(Plan((wide, root), ())).stages]
    [(1, 1, 1), (1, 1, 1)]
    """
    return replace(
        plan, stages=tuple(replace(stage, width=1, slots=1, layout=Layout(), cut="") for stage in plan.stages)
    )


def over(plan: Plan, versions: Mapping[str, str]) -> Plan:
    """The plan over other versions of its tables, given by name."""

    def moved(stage: Stage) -> Stage:
        inputs = (
            replace(item, version=versions[item.table]) if isinstance(item, TableInput) else item
            for item in stage.inputs
        )
        return replace(stage, inputs=tuple(inputs))

    return replace(plan, stages=tuple(map(moved, plan.stages)))


def results_file(directory: Path, cache_dir: Path | None = None) -> Path:
    """The file that keeps measurements of plans over these tables."""
    text = json.dumps(sorted(_versions(directory).items()))
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return (cache_dir or cache_directory()) / f"truth-{digest}.json"


def measurements(directory: Path, cache_dir: Path | None = None) -> Measurements:
    """The measurements so far. Raises ConfigError if the file is damaged."""
    path = results_file(directory, cache_dir)
    return Measurements(Results(path if path.exists() else None, {}))


class Measurements:
    """The measured stages by scale, query and stage."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def of(self, scale: float, query: int) -> dict[StageKey, Measured]:
        """The stages of a query that were measured on data of that scale."""
        found: dict[str, list[float]] = self._results.get(_name(scale, query)) or {}
        return {key: Measured(int(rows), int(size), seconds) for key, (rows, size, seconds) in found.items()}

    def put(self, scale: float, query: int, found: Mapping[StageKey, Measured]) -> None:
        """Keep what was measured, in place of what was known of that query."""
        self._results.put(_name(scale, query), {key: list(astuple(one)) for key, one in found.items()})

    def scales(self, query: int, among: Iterable[float]) -> tuple[float, ...]:
        """Those scales on which the query was measured, the smallest first."""
        return tuple(sorted(scale for scale in among if self._results.get(_name(scale, query))))

    def queries(self, among: Iterable[float]) -> tuple[int, ...]:
        """The queries that were measured on any of those scales."""
        return tuple(number for number in range(1, TPCDS.size + 1) if self.scales(number, among))


def _name(scale: float, query: int) -> str:
    return f"{scale:g}/{query}"


def run(
    options: MeasureOptions, progress: Callable[[str], object] = lambda line: None, cache_dir: Path | None = None
) -> dict[str, str]:
    """Measure what is not known yet; what failed and why, by ``scale/query``.

    progress: hears of each query. Raises ConfigError, SourceError.
    """
    path = results_file(options.directory, cache_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = Measurements(Results(path, {}))
    failed: dict[str, str] = {}
    for scale, folder in sorted(options.sizes.items()):
        with connect(
            slots=1, memory=options.memory, replan=False, reuse=False, staged=True, statistics="full"
        ) as session:
            session.register_folder(folder)
            versions = _versions(folder)
            for number in options.queries:
                queries = workload(options.directory, (number,), options.setting, cache_dir=cache_dir)
                try:
                    found = _measured(session, versions, queries[number], known.of(scale, number), options)
                except QoopError as error:
                    failed[_name(scale, number)] = str(error)
                    progress(f"query {number} at scale {scale:g} failed: {error}")
                    continue
                known.put(scale, number, found)
                seconds = sum(one.seconds for one in found.values())
                progress(f"query {number} at scale {scale:g}: {len(found)} stages, {seconds:.2f} s")
    return failed


def _measured(
    session: Session,
    versions: Mapping[str, str],
    query: Query,
    known: Mapping[StageKey, Measured],
    options: MeasureOptions,
) -> dict[StageKey, Measured]:
    """All stages of all plans; a plan of which every stage is known is not run,
    unless it is to be."""
    found = dict(known)
    statement = text(query.number, directory=options.directory)
    for one in query.candidates:
        keys = stage_keys(one.plan)
        if not options.again and all(key in found for key in keys.values()):
            continue
        plan = over(narrow(one.plan), versions)
        for _ in range(options.repeat):
            for id_, measured in _run(session, statement, plan).items():
                before = found.get(keys[id_])
                if before is None or measured.seconds < before.seconds:
                    found[keys[id_]] = measured
    return found


def _run(session: Session, statement: str, plan: Plan) -> dict[StageId, Measured]:
    """The rows, bytes and seconds of each stage of a narrow plan. Of stages with equal output only one runs."""
    job = session.submit(statement, plan=plan)
    job.result()
    [ran] = job.plans
    found = {
        record.key: Measured(sum(record.committed.rows), sum(record.committed.bytes), record.committed.cpu_seconds)
        for record in job.history()
        if isinstance(record, Succeeded) and record.used
    }
    return {stage.id: found[key] for stage in ran.stages if (key := checkpoint_key(stage, 0)) in found}


def _versions(directory: Path) -> dict[str, str]:
    with Catalog.from_folder(directory) as catalog:
        return {name: table.version for name, table in catalog.tables().items()}


def parse_sizes(directory: Path, texts: Iterable[str]) -> dict[float, Path]:
    """Folders by scale, from ``10=DIR``; the folder of scale 1 is the first. Raises ConfigError."""
    sizes = {1.0: directory}
    for item in texts:
        scale, equals, folder = item.partition("=")
        try:
            number = float(scale)
        except ValueError:
            number = 0.0
        if not equals or number <= 0:
            raise ConfigError(f"a folder of another scale is given as 10=DIR, not {item!r}")
        sizes[number] = Path(folder)
    return sizes
