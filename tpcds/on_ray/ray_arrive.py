"""Machines arrive while a query runs, on real Ray nodes: one of one CPU, and three more after a third of its time.

The nodes are processes of this machine. Where it has fewer processors than nodes they share them. Four nodes are then
not four times as quick as one, unless each has a part of a processor (`control_groups`). The clairvoyant schedule uses
their measured speed. A node takes seconds to begin, so it begins that long before the arrival, and counts from the time
at which the job hears of it. The work of beginning a node slows the query in all figures but the clairvoyant's. A run
on one node, next to which nodes of another cluster begin, measures that loss.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

import pyarrow as pa

from qoop.catalog.errors import ExecutionError, QoopError
from qoop.engine.history import CapacityReported, Record, Switched
from qoop.engine.task import MachineId
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.bench.resized import schedule_seconds
from qoop.tpcds.on_ray.ray_nodes import LocalNodes, wait_for_nodes
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text
from qoop.tpcds.simulate.replica import ended

QUERIES = (9, 11, 23, 67, 78)
FEW, MANY = 1, 4
_OURS, _NEXT_TO = ("adaptive", "announced", "pinned"), "next to"
"""A session that may change plan as nodes arrive; one with announced nodes; and one with a pinned plan. A session on
one node, while nodes of another cluster begin on the same processors."""
MOMENT = 1 / 3
"""The arrival of the other nodes, as a part of the time alone on the few nodes."""


@dataclass(frozen=True, slots=True)
class RayArriveOptions:
    """queries: which. repeat: rounds; the median counts. processors: of a node; None: nodes share those there are."""

    directory: Path
    queries: tuple[int, ...]
    repeat: int = 3
    processors: float | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """One query. few, many: seconds of the plan made for one node on it, and of that for four on those, with nothing
    that changes. ways: seconds of each way. at: the moment at which the others arrived, in the mean. switches: of the
    adaptive runs.
    """

    query: int
    few: float = 0.0
    many: float = 0.0
    ways: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0
    switches: int = 0
    error: str | None = None

    @property
    def clairvoyant(self) -> float:
        """Seconds of a schedule that knows when the nodes come (:func:`~qoop.tpcds.bench.resized.clairvoyant`)."""
        return schedule_seconds(self.at, self.few, self.many)

    @property
    def disturbed(self) -> float:
        """The same, where on one node everything takes as long as next to nodes that begin."""
        return schedule_seconds(self.at, max(self.few, self._next_to), self.many)

    @property
    def _next_to(self) -> float:
        """Seconds next to nodes that begin; not measured where nodes have their own part of a processor."""
        return self.ways.get(_NEXT_TO, self.few)

    def line(self) -> str:
        """A line below HEADER."""
        if self.error is not None:
            return f"{self.query:5d} {self.error}"
        ours = (self.ways[way] for way in _OURS)
        seconds = (self.few, self.many, self._next_to, self.at, self.clairvoyant, self.disturbed, *ours)
        return f"{self.query:5d} {' '.join(f'{one:11.2f}' for one in seconds)} {self.switches:9d}"


HEADER = (
    "query    one node  four nodes     next to  arrived at clairvoyant   disturbed        qoop   announced pinned plan"
    "  switches"
)


def run(options: RayArriveOptions, progress: Callable[[str], None] = print) -> list[Arrived]:
    """Run all queries. Raises ConfigError without Ray, or data, or where nodes cannot have a part of a processor."""
    done = []
    with (
        LocalNodes(processors=options.processors) as nodes,
        LocalNodes(processors=options.processors) as others,
        TemporaryDirectory() as folder,
        Oracle(options.directory) as oracle,
    ):
        progress(HEADER)
        for number in options.queries:
            bench = _Bench(
                nodes, others, options.directory, Path(folder) / str(number), text(number, directory=options.directory),
                _OURS if options.processors is not None else (*_OURS, _NEXT_TO),
            )  # fmt: skip
            done.append(bench.measured(number, options.repeat, oracle))
            progress(done[-1].line())
    return done


@dataclass(frozen=True)
class _Bench:
    nodes: LocalNodes
    others: LocalNodes
    directory: Path
    folder: Path
    query: str
    ways: tuple[str, ...]

    def measured(self, number: int, repeat: int, oracle: Oracle) -> Arrived:
        """All runs of one query, one after another."""
        try:
            theirs = oracle.answer(self.query)
            few = self._alone(FEW, repeat, oracle, theirs)
            beginning = self._beginning()
            runs = [
                {way: self._arriving(few, beginning, way, oracle, theirs) for way in self.ways} for _ in range(repeat)
            ]
            many = self._alone(MANY, repeat, oracle, theirs)
        except QoopError as error:
            return Arrived(number, error=f"{type(error).__name__}: {error}".splitlines()[0])
        adaptive = [ran["adaptive"] for ran in runs]
        moments = [moment for ran in runs for one in ran.values() if (moment := _joined_at(one)) is not None]
        if not moments:
            return Arrived(number, error="it ended before any node had arrived")
        switches = sum(isinstance(record, Switched) for one in adaptive for record in one) - len(adaptive)
        ways = {way: median(ended(ran[way]) for ran in runs) for way in self.ways}
        return Arrived(number, few, many, ways, median(moments), switches)

    def _alone(self, count: int, repeat: int, oracle: Oracle, theirs: pa.Table) -> float:
        """The median of runs on a number of nodes, by the plan that is made for them, after one that is not timed."""
        with self._session(count, replan=False) as session:
            return median([ended(self._ran(session, oracle, theirs)) for _ in range(repeat + 1)][1:])

    def _beginning(self) -> float:
        """Seconds from the request of the other nodes until a session has them."""
        with self._session(FEW, replan=False) as session:
            began = time.monotonic()
            wait_for_nodes(session, self.nodes, MANY)
            return time.monotonic() - began

    def _arriving(self, few: float, beginning: float, way: str, oracle: Oracle, theirs: pa.Table) -> Sequence[Record]:
        """The history of a run that gets the other nodes when a third of `few` seconds is over. way: one of `ways`."""
        with self._session(FEW, replan=way in ("adaptive", "announced")) as session:
            self._ran(session, oracle, theirs)  # tables are read for the first time, and statistics
            early = beginning - MOMENT * few  # they may be to be begun before the query is
            bring = partial(self.others.be, MANY - FEW) if way == _NEXT_TO else partial(self.nodes.be, MANY)
            bringer = threading.Timer(max(0.0, -early), bring)
            bringer.start()
            time.sleep(max(0.0, early))
            if way == "announced":
                session.expect([(MOMENT * few, MANY)])
            try:
                return self._ran(session, oracle, theirs)
            finally:
                bringer.join()
                self.others.be(0)

    def _ran(self, session: Session, oracle: Oracle, theirs: pa.Table) -> Sequence[Record]:
        job = session.submit(self.query)
        difference = oracle.judge(self.query, job.result().arrow(), theirs)
        if difference is not None:
            raise ExecutionError(str(difference))
        return job.history()

    def _session(self, count: int, replan: bool) -> Session:
        """A session that has a number of nodes, and keeps what its queries have put out nowhere for the next ones."""
        self.nodes.be(count)
        session = connect(ray=self.nodes.address, checkpoints=self.folder, replan=replan, reuse=False, staged=True)
        try:
            session.register_folder(self.directory)
            wait_for_nodes(session, self.nodes, count)
        except BaseException:
            session.close()
            raise
        return session


def _joined_at(history: Sequence[Record]) -> float | None:
    """The mean time of arrival of the other nodes, which arrive one by one; None: none arrived in time.

    A clairvoyant with all nodes from then on is as quick as one with each from its arrival, if each node adds the same
    speed."""
    came: dict[MachineId, float] = {}
    for record in history:
        if isinstance(record, CapacityReported) and record.capacity is not None and record.capacity.cpu >= 1:
            came.setdefault(record.machine, record.at)
    others = sorted(came.values())[FEW:]
    others += [ended(history)] * (MANY - FEW - len(others))
    return fmean(others) if others[0] < ended(history) else None


def table(done: Sequence[Arrived]) -> str:
    """The sums of the queries that ran, next to the clairvoyant's."""
    ran = [one for one in done if one.error is None]
    known = sum(one.clairvoyant for one in ran)
    disturbed = sum(one.disturbed for one in ran)
    lines = ["", f"clairvoyant {known:.2f} s; next to nodes that begin {disturbed:.2f} s"]
    for name, way in (("qoop", "adaptive"), ("announced", "announced"), ("pinned plan", "pinned")):
        seconds = sum(one.ways[way] for one in ran)
        ratios = [seconds / one if one else 0.0 for one in (known, disturbed)]
        lines.append(f"{name} {seconds:.2f} s = {ratios[0]:.2f} x; {ratios[1]:.2f} x")
    return "\n".join(lines)
