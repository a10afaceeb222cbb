"""``qoop bench checkpoints``: what it costs to write outputs to a folder that outlives the process.

Every query runs without a folder, with what is worth it written, and with all outputs written, in turn: a busy machine
disturbs all three alike. Each run has a session and a folder of its own. By default options seconds begin when the
query is submitted, since a folder has a part in which plan is chosen. In stages only, each run keeps the plan it begins
with, and planning does not count. Seconds end when the last output is on disk. The first answer of each side is
compared with DuckDB's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from qoop.catalog.errors import ConfigError, QoopError
from qoop.engine.backends.local import LocalBackend
from qoop.session import connect
from qoop.tpcds.bench.resized import in_turn
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queries import texts

SIDES = ("none", "worthwhile", "all")
"""The outputs that are written: `persist` of :func:`~qoop.session.connect`, and none without a folder."""


@dataclass(frozen=True, slots=True)
class CheckpointCostOptions:
    """The runs to make. queries: none: all 99. repeat: of each on every side. slots, memory: None: all there is.

    staged: in stages only, not by default options.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    repeat: int = 3
    slots: int | None = None
    memory: str | None = None
    staged: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """One run: seconds of the clock and of the processor, outputs that were written, their bytes on disk."""

    wall: float
    cpu: float
    outputs: int
    bytes: int


@dataclass(frozen=True)
class QueryResult:
    """One query: by side its runs, in turn. error: why there are none."""

    query: int
    taken: Mapping[str, Sequence[Taken]] = field(default_factory=dict)
    error: str | None = None

    def line(self) -> str:
        """A line below HEADER."""
        if self.error is not None:
            return f"{self.query:5d} {self.error}"
        means = [sum(one.cpu for one in runs) / len(runs) for runs in self.taken.values()]
        return f"{self.query:5d} {' '.join(f'{mean:10.3f}' for mean in means)}"


HEADER = f"cpu s {' '.join(f'{side:>10}' for side in SIDES)}"


def run(options: CheckpointCostOptions, told: Callable[[str], None] = print) -> list[QueryResult]:
    """Measure. Raises ConfigError or SourceError if it cannot begin."""
    told(HEADER)
    done = []
    for number in options.queries or tuple(texts(directory=options.directory)):
        done.append(_query(options, number))
        told(done[-1].line())
    return done


def _query(options: CheckpointCostOptions, number: int) -> QueryResult:
    text = texts(directory=options.directory)[number]
    taken: dict[str, list[Taken]] = {side: [] for side in SIDES}
    try:
        with Oracle(options.directory) as oracle:
            theirs = oracle.answer(text)
            for side in SIDES:
                difference = oracle.judge(text, _run(options, text, side)[0], theirs)
                if difference is not None:
                    return QueryResult(number, error=f"{side}: {difference}")
        for repetition in range(options.repeat):
            for side in in_turn(SIDES, repetition):
                taken[side].append(_run(options, text, side)[1])
    except QoopError as error:
        return QueryResult(number, error=f"{type(error).__name__}: {error}".splitlines()[0])
    return QueryResult(number, taken)


def _run(options: CheckpointCostOptions, text: str, side: str) -> tuple[pa.Table, Taken]:
    """The answer, and what it took. Raises QoopError."""
    with TemporaryDirectory() as name:
        folder, persist = (None, None) if side == "none" else (name, side)
        with connect(
            slots=options.slots, memory=options.memory, checkpoints=folder, persist=persist,
            replan=False if options.staged else None, reuse=False if options.staged else None, staged=options.staged,
        ) as session:  # fmt: skip
            if side == "none" and session.config.checkpoints is not None:
                raise ConfigError("outputs are written wherever qoop.toml or QOOP_CHECKPOINTS says: unset that")
            session.register_folder(options.directory)
            planned = session.planning.plan(text) if options.staged else None
            cpu, wall = time.process_time(), time.perf_counter()
            job = session.submit(text) if planned is None else session.start(planned)
            answer = job.result().arrow()
            assert isinstance(session.backend, LocalBackend)
            session.backend.store.flush()
            seconds = time.perf_counter() - wall, time.process_time() - cpu
            written = [path.stat().st_size for path in Path(name).glob("*.arrow")]
    return answer, Taken(*seconds, len(written), sum(written))


def table(done: Sequence[QueryResult]) -> str:
    """Sums over all queries: what is written of them, and seconds as a ratio to those of runs that write nothing."""
    good = [one for one in done if one.error is None]
    if not good:
        return "\nno query could be measured"
    lines = ["", f"{len(good)} queries, {sum(len(one.taken['none']) for one in good)} runs of each; sums of a run"]
    lines += [_line(side, good) for side in SIDES]
    failed = [str(one.query) for one in done if one.error is not None]
    return "\n".join([*lines, *([f"failed: {', '.join(failed)}"] if failed else [])])


def _line(side: str, good: Sequence[QueryResult]) -> str:
    outputs, size, wall, cpu = (
        sum(sum(getattr(run, part) for run in one.taken[side]) / len(one.taken[side]) for one in good)
        for part in ("outputs", "bytes", "wall", "cpu")
    )
    more = ", ".join("{} {:.3f} ({:.3f} to {:.3f})".format(part, *ratio(good, side, part)) for part in ("wall", "cpu"))
    return f"{side:10} {outputs:6.0f} outputs, {size / 1e6:8.1f} MB; {wall:.2f} s, cpu {cpu:.2f} s; {more}"


def ratio(good: Sequence[QueryResult], side: str, part: str) -> tuple[float, float, float]:
    """Seconds of a side over those of runs that write nothing, and the 95 % interval. part: wall or cpu."""
    return ratio_of_sums(
        [
            (getattr(one, part), getattr(other, part))
            for one, other in zip(query.taken[side], query.taken["none"], strict=True)
        ]
        for query in good
    )


def to_json(done: Sequence[QueryResult]) -> dict[str, object]:
    """The results as JSON values."""
    return {"queries": [asdict(one) for one in done]}
