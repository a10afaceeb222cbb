"""The queries of the soak: data on which they have an answer, that answer, and plans to go to and fro between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from pathlib import Path

import pyarrow as pa
from run_plan import narrowed

from qoop.engine.task import content_of
from qoop.planner.plan import Plan, Stage
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Candidate, cluster_grid
from qoop.query.job import Planned
from qoop.session.opening import connect
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import at_scale

SMALL, USUAL = 0.01, 1.0
"""Scales of the data: the small one where it gives an answer that is not empty (83 of the queries)."""

GROWTH = 2000.0
"""The plans are made as if there were that many times the rows, so that small data is cut and exchanged too."""

TASKS = 3
PLANS = 5
_MEMORY = 48 * 2.0**20  # of a task at most: on so few rows it needs no more, and several fit in

Pair = tuple[int, int]


@dataclass(frozen=True)
class Subject:
    """A query. planned: in a session over its folder. plans: that differ. pairs: their places two by two, in both
    directions."""

    number: int
    folder: Path
    planned: Planned
    answer: pa.Table
    plans: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        return text(self.number)

    @property
    def tables(self) -> tuple[str, ...]:
        """Those that it reads."""
        return tuple(self.planned.tables)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(permutations(range(len(self.plans)), 2)) or ((0, 0),)


class Subjects:
    """The queries by number; each is made ready when it is first asked for. A context manager.

    data: gives the folder of a scale.
    """

    def __init__(self, data: Callable[[float], Path]) -> None:
        self._data = cache(data)
        self._opened = ExitStack()
        self.oracle = cache(self._oracle)
        self.of = cache(self._of)
        self.used: list[Subject] = []

    def __enter__(self) -> Subjects:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def judge(self, subject: Subject, ours: pa.Table) -> str | None:
        """The reason why that is not the answer; None if it is."""
        difference = self.oracle(subject.folder).judge(subject.text, ours, subject.answer)
        return None if difference is None else f"query {subject.number}: {difference}"

    def _of(self, number: int) -> Subject:
        for scale in (SMALL, USUAL):
            folder = self._data(scale)
            answer = self.oracle(folder).answer(text(number))
            if not is_empty_answer(answer):
                planned, plans = _planned(folder, number, GROWTH * SMALL / scale)
                self.used.append(Subject(number, folder, planned, answer, plans))
                return self.used[-1]
        raise AssertionError(f"query {number} has no answer to compare")

    def _oracle(self, folder: Path) -> Oracle:
        return self._opened.enter_context(Oracle(folder, threads=1))


def _planned(folder: Path, number: int, growth: float) -> tuple[Planned, tuple[Candidate, ...]]:
    """A query as it is planned, and the plans worth keeping on a cluster if there were that many times the rows, with
    others until there are `PLANS`."""
    with connect(slots=1, memory="1GB", statistics="full") as session:
        session.register_folder(folder)
        prepared, planned = session.prepare(text(number)), session.planning.plan(text(number))
    found_by = keep(pool(at_scale(prepared, growth).planning(), cluster_grid()))
    found: dict[object, Candidate] = {}
    for one in (*found_by.kept, *found_by.pool.candidates):
        plan = tamed(one.plan)
        found.setdefault(tuple(content_of(stage) for stage in plan.stages), replace(one, plan=plan))
    return planned, tuple(found.values())[:PLANS]


def tamed(plan: Plan) -> Plan:
    """The plan with at most `TASKS` tasks and partitions a stage, that ask for little memory."""
    few = narrowed(plan, TASKS)
    return replace(few, stages=tuple(map(_tamed, plan.stages, few.stages)))


def _tamed(stage: Stage, few: Stage) -> Stage:
    estimate = replace(few.estimate, task_memory=min(few.estimate.task_memory, _MEMORY))
    cut = stage.cut if stage.width == few.width else f"{stage.cut}, as {TASKS}"  # its rows fall to other tasks now
    return replace(few, estimate=estimate, cut=cut)
