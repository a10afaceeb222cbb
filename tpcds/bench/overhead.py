"""The cost of being able to change plan where nothing changes: adaptive runs against runs held to the same plan.

Both run in one process, in turn, and which comes first alternates: a busy machine disturbs both alike. With default
options each run has a new session (`replan` on or off), and its seconds begin when the query is submitted. In
stages only, both start from one plan, in one session, and planning does not count. The adaptive side has all its
reasons to re-plan. Without a change of resources these are two: rows differ from the estimates, or the alternatives
became known. A switch for such a reason is a bet on estimates: where it was lost, the query is behind. The first answer
of each side is compared with DuckDB's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.catalog.errors import QoopError
from qoop.engine.history import Decided
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import local_grid
from qoop.query.job import Job, Planned
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.bench.modes import DEFAULT, STAGED
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import quantile, ratio_of_sums
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

NOTABLE = 0.05
"""From this difference on a query is listed."""
START, ROWS, OTHER = "the alternatives became known", "rows", "other"
"""Kinds of reasons."""


@dataclass(frozen=True, slots=True)
class OverheadOptions:
    """The runs to make. queries: none: all 99. repeat: pairs of each. slots, memory: None: all there is.

    known: the alternatives are there before a job starts, as when a query comes again; else each job that needs them
    makes them, as when it comes for the first time. staged: in stages only, not by default options. results: taken up
    and kept, of both modes in one file.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    repeat: int = 5
    slots: int | None = None
    memory: str | None = None
    known: bool = False
    results: Path | None = None
    staged: bool = False

    @property
    def name(self) -> str:
        """The head of the names of its results."""
        return f"{STAGED if self.staged else DEFAULT} query"


@dataclass(frozen=True, slots=True)
class Taken:
    """The time of one run: seconds until the answer was there, and cpu seconds, those of late decisions included."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Thought:
    """One decision. kind: of its reason. seconds: it took in all; searching: of these, to find plans."""

    kind: str
    switched: bool
    seconds: float
    searching: float


@dataclass(frozen=True)
class QueryResult:
    """One query: the runs of both sides, pair by pair, and every decision of the adaptive ones. error: why none."""

    query: int
    adaptive: Sequence[Taken] = ()
    held: Sequence[Taken] = ()
    thoughts: Sequence[Thought] = field(default=())
    error: str | None = None

    @property
    def ahead(self) -> float:
        """Median over the pairs of the adaptive time as a fraction of the held one."""
        return median(a.wall / b.wall for a, b in zip(self.adaptive, self.held, strict=True))

    @property
    def work(self) -> float:
        """The same of the cpu seconds."""
        return median(a.cpu / b.cpu for a, b in zip(self.adaptive, self.held, strict=True))

    @property
    def switches(self) -> int:
        return sum(thought.switched for thought in self.thoughts)

    def line(self) -> str:
        if self.error is not None:
            return f"{self.query:5d}  {self.error}"
        sums = (sum(one.wall for one in self.held), sum(one.wall for one in self.adaptive))
        work = (sum(one.cpu for one in self.held), sum(one.cpu for one in self.adaptive))
        cells = " ".join(f"{value / len(self.held):9.3f}" for value in (*sums, *work))
        return f"{self.query:5d} {cells} {self.ahead - 1:+8.1%} {len(self.thoughts):9d} {self.switches:8d}"

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> QueryResult:
        """From JSON values."""
        adaptive, held = ([Taken(**one) for one in kept[side]] for side in ("adaptive", "held"))
        return cls(kept["query"], adaptive, held, [Thought(**one) for one in kept["thoughts"]], kept["error"])


Runs = Callable[[bool], tuple[Job, Taken]]
"""Runs a text once; True: adaptive."""

HEADER = "query held wall  adaptive  held cpu  adaptive   behind decisions switches"


def run(options: OverheadOptions, progress: Callable[[str], None] = print) -> list[QueryResult]:
    """Run what is not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    settings = {"repeat": options.repeat, "slots": options.slots, "memory": options.memory, "known": options.known}
    results = Results(options.results, settings)
    progress(HEADER)
    done = []
    for number in options.queries or tuple(texts(directory=options.directory)):
        kept = results.get(f"{options.name} {number}")
        one = QueryResult.of(kept) if kept is not None else _query(options, number)
        results.put(f"{options.name} {number}", asdict(one))
        progress(one.line())
        done.append(one)
    return done


def _query(options: OverheadOptions, number: int) -> QueryResult:
    """A run in a new session, since a session learns from its runs."""
    text = texts(directory=options.directory)[number]
    try:
        with _runs(options, text) as run_once, Oracle(options.directory) as oracle:
            theirs = oracle.answer(text)
            for adaptive in (False, True):
                difference = oracle.judge(text, run_once(adaptive)[0].result().arrow(), theirs)
                if difference is not None:
                    return QueryResult(number, error=f"{'adaptive' if adaptive else 'held'}: {difference}")
            return _paired(number, run_once, options.repeat)
    except QoopError as error:
        return QueryResult(number, error=f"{type(error).__name__}: {error}".splitlines()[0])


@contextmanager
def _runs(options: OverheadOptions, text: str) -> Iterator[Runs]:
    """Runs a text, adaptive or not."""
    if not options.staged:
        yield partial(_in_own_session, options, text)
        return
    with connect(slots=options.slots, memory=options.memory, replan=True, reuse=False, staged=True) as session:
        session.register_folder(options.directory)
        yield Pairs(session, text, options.known).run


def _in_own_session(options: OverheadOptions, text: str, adaptive: bool) -> tuple[Job, Taken]:
    with connect(slots=options.slots, memory=options.memory, replan=adaptive, reuse=False) as session:
        session.register_folder(options.directory)
        if options.known:
            session.alternatives(text)
        cpu, wall = time.process_time(), time.perf_counter()
        job = session.submit(text)
        job.result()
        return job, _taken(session, cpu, wall)


def _taken(session: Session, cpu: float, wall: float) -> Taken:
    """The seconds since these moments; decisions that the job did not wait for are work, too."""
    taken = time.perf_counter() - wall
    session.cluster.wait_for_planner()
    return Taken(taken, time.process_time() - cpu)


def _paired(number: int, run_once: Runs, repeat: int) -> QueryResult:
    taken: dict[bool, list[Taken]] = {False: [], True: []}
    thoughts: list[Thought] = []
    for repetition in range(repeat):
        for adaptive in (True, False) if repetition % 2 else (False, True):
            job, one = run_once(adaptive)
            taken[adaptive].append(one)
            thoughts += thoughts_of(job)
    return QueryResult(number, taken[True], taken[False], thoughts)


class Pairs:
    """Runs one text from one plan, adaptive or held to it. known: as in :class:`OverheadOptions`."""

    def __init__(self, session: Session, text: str, known: bool) -> None:
        self._session = session
        if known:
            session.alternatives(text)
        planned = session.planning.plan(text)  # once: a session that plans again has learnt from the first run
        self._held = replace(planned, adaptive=None)
        self._adaptive = planned if known else replace(planned, adaptive=_searching(session, text, planned))

    def run(self, adaptive: bool) -> tuple[Job, Taken]:
        """Run it. Raises what `Job.result` does."""
        cpu, wall = time.process_time(), time.perf_counter()
        job = self._session.start(self._adaptive if adaptive else self._held)
        job.result()
        return job, _taken(self._session, cpu, wall)


def _searching(session: Session, text: str, planned: Planned) -> Adaptive:
    """The adaptive part of a job as in a session, but that no alternatives are stored for the next run."""
    assert planned.adaptive is not None
    prepared, grid = session.prepare(text), local_grid(planned.adaptive.available)
    return replace(planned.adaptive, find=lambda observed: keep(pool(prepared.planning(observed), grid)).kept)


def thoughts_of(job: Job) -> list[Thought]:
    """The decisions in the history of a job."""
    decided = (record for record in job.history() if isinstance(record, Decided))
    return [Thought(kind(one.cause), one.switched, one.planner_seconds, one.search_seconds) for one in decided]


def kind(cause: str) -> str:
    """The kind of reason of a decision.

    >>> kind("stage s1 had 7 rows where 100,000 were expected and the alternatives became known")
    'the alternatives became known'
    """
    if START in cause:
        return START
    return ROWS if " rows where " in cause else OTHER


def adaptive_by_held(done: Sequence[QueryResult], part: str) -> tuple[float, float, float]:
    """Adaptive by held time, summed over all pairs, and its 95 % interval. part: wall or cpu.

    Pairs are drawn again within each query, since the queries are the ones there are and not a sample of others. One
    pair a query says nothing of chance: no width.
    """
    return ratio_of_sums(
        [(getattr(a, part), getattr(b, part)) for a, b in zip(one.adaptive, one.held, strict=True)] for one in done
    )


def table(done: Sequence[QueryResult]) -> str:
    """Ratios, switches and what became of them, and how long decisions took."""
    good = [one for one in done if one.error is None]
    if not good:
        return "\nno query could be measured"
    lines = ["", f"{len(good)} queries, {sum(len(one.held) for one in good)} pairs; adaptive : held"]
    for part in ("wall", "cpu"):
        ratio, low, high = adaptive_by_held(good, part)
        lines.append(f"  {part:4} seconds {ratio:.4f}  (95 % interval {low:.4f} to {high:.4f})")
    lines += _bets(good)
    thoughts = [thought for one in good for thought in one.thoughts]
    without = [thought.seconds for thought in thoughts if not thought.searching]
    lines.append(f"decisions without a search: {_quantiles(without)}")
    lines.append(
        f"decisions that had plans made or looked up: {_quantiles([o.seconds for o in thoughts if o.searching])}"
    )
    failed = [str(one.query) for one in done if one.error is not None]
    return "\n".join([*lines, *([f"failed: {', '.join(failed)}"] if failed else [])])


def _bets(done: Sequence[QueryResult]) -> Iterator[str]:
    """Switches by reason, and which queries they put behind or ahead."""
    made = Counter(thought.kind for one in done for thought in one.thoughts if thought.switched)
    yield f"switches: {', '.join(f'{count} since {kind}' for kind, count in made.items()) or 'none'}"
    for name, some in (
        ("with", [one for one in done if one.switches]),
        ("without", [o for o in done if not o.switches]),
    ):
        if some:
            yield f"  {len(some)} queries {name} switches: wall {adaptive_by_held(some, 'wall')[0]:.4f}"
    for word, least in (("behind", NOTABLE), ("ahead", -NOTABLE)):
        notable = [one for one in done if (one.ahead - 1 > least if least > 0 else one.ahead - 1 < least)]
        shown = (
            f"{one.query} ({one.ahead - 1:+.0%}, cpu {one.work - 1:+.0%}, {one.switches} switches)" for one in notable
        )
        yield f"more than {NOTABLE:.0%} {word}: {', '.join(shown) or 'none'}"


def _quantiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    cells = (f"{name} {quantile(seconds, at) * 1e3:.1f} ms" for name, at in _QUANTILES)
    return f"{len(seconds)}; {', '.join(cells)}"


_QUANTILES = (("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("longest", 1.0))


def to_json(done: Sequence[QueryResult]) -> dict[str, object]:
    """The results as JSON values."""
    good = [one for one in done if one.error is None]
    ratios = {part: adaptive_by_held(good, part) for part in ("wall", "cpu")} if good else {}
    return {"ratios": ratios, "queries": [asdict(one) for one in done]}
