"""The cost of a Ray cluster: one node of it against as many slots of this process.

Both sessions have the same plans, since neither may change them, and answer in turn; which comes first alternates. A
task that does nothing shows what one costs at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from qoop.catalog.errors import QoopError
from qoop.engine.history import Started
from qoop.monitor.available import available_memory
from qoop.session import Session, connect
from qoop.tpcds.on_ray.ray_nodes import LocalNodes
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts


@dataclass(frozen=True, slots=True)
class RayCostOptions:
    """queries: none: all 99. repeat: timed runs of each on either side. slots: of the node, and of this process."""

    directory: Path
    queries: tuple[int, ...] = ()
    repeat: int = 2
    slots: int = 2


@dataclass(frozen=True, slots=True)
class QueryCost:
    """One query: seconds of every run here and on Ray, and tasks of one. error: why it could not be measured."""

    query: int
    local: tuple[float, ...] = ()
    ray: tuple[float, ...] = ()
    tasks: int = 0
    error: str | None = None

    def line(self) -> str:
        """A line below HEADER."""
        if self.error is not None:
            return f"{self.query:5d} {self.error}"
        here, there = sum(self.local) / len(self.local), sum(self.ray) / len(self.ray)
        return f"{self.query:5d} {here:8.3f} {there:8.3f} {there / here:6.2f} {self.tasks:6d}"


HEADER = "query    local      ray  ratio  tasks"


def run(options: RayCostOptions, told: Callable[[str], None] = print) -> list[QueryCost]:
    """Measure. Raises ConfigError without Ray, or data."""
    with (
        LocalNodes(options.slots, int(0.5 * available_memory())) as nodes,
        connect(slots=options.slots, replan=False, reuse=False, staged=True) as here,
        connect(ray=nodes.address, replan=False, reuse=False, staged=True) as there,
        Oracle(options.directory) as oracle,
    ):
        for session in (here, there):
            session.register_folder(options.directory)
        told(HEADER)
        done = []
        chosen = texts(directory=options.directory)
        for number in options.queries or chosen:
            done.append(_query(number, chosen[number], here, there, oracle, options.repeat))
            told(done[-1].line())
        return done


def _query(number: int, text: str, here: Session, there: Session, oracle: Oracle, repeat: int) -> QueryCost:
    tasks = 0
    taken: dict[Session, list[float]] = {here: [], there: []}
    try:
        for session in (here, there):  # plans, statistics and files are warm afterwards
            difference = oracle.judge(text, session.sql(text).arrow())
            if difference is not None:
                return QueryCost(number, error=str(difference))
        for repetition in range(repeat):
            for session in (there, here) if repetition % 2 else (here, there):
                began = time.perf_counter()
                job = session.submit(text)
                job.result()
                taken[session].append(time.perf_counter() - began)
                tasks = sum(isinstance(record, Started) for record in job.history())
    except QoopError as error:
        return QueryCost(number, error=f"{type(error).__name__}: {error}".splitlines()[0])
    return QueryCost(number, tuple(taken[here]), tuple(taken[there]), tasks)


def summary(done: Sequence[QueryCost]) -> str:
    """The ratio of sums, and what a task costs more on Ray."""
    good = [one for one in done if one.error is None]
    if not good:
        return "no query could be measured"
    here, there = (sum(sum(getattr(one, side)) / len(one.local) for one in good) for side in ("local", "ray"))
    tasks = sum(one.tasks for one in good)
    lines = [
        f"{len(good)} queries, {tasks} tasks: {here:.2f} s here, {there:.2f} s on a Ray node, ratio {there / here:.3f}",
        f"a task costs {(there - here) / tasks * 1e3:.2f} ms more there",
    ]
    failed = [f"{one.query} ({one.error})" for one in done if one.error is not None]
    return "\n".join([*lines, *([f"failed: {', '.join(failed)}"] if failed else [])])


def to_json(done: Sequence[QueryCost]) -> dict[str, object]:
    """The results as JSON values."""
    return {"queries": [asdict(one) for one in done]}
