"""Observations of a session about its stages: true rows, bytes, seconds and memory, for the plans it makes later.

    committed outputs ──outputs──> Observation by stage ──SessionObservations.add──> Observations ──> planning

A stage counts once all its parts are there, whichever of a job's plans they were made for.  Observations go by
signature and by meaning (:mod:`qoop.planner.estimate.observed`), which hold the versions of the tables, so what was
seen of a table that has changed since is never found again; it is dropped as the oldest is.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from qoop.engine.events import Committed
from qoop.engine.history import Record, Succeeded
from qoop.engine.task import CheckpointKey, checkpoint_key, layout_digest
from qoop.planner.estimate.observed import (
    LEAST_ROWS,
    MISJUDGED,
    Joined,
    Observation,
    Observations,
    Tables,
    q_error,
    tables_below,
)
from qoop.planner.plan import Plan, Signature, Stage, StageId, read_by

MOST = 4096
"""Signatures that a session remembers; the oldest are forgotten first."""


def committed(history: Iterable[Record]) -> list[Committed]:
    """The outputs of the attempts of a job."""
    return [record.committed for record in history if isinstance(record, Succeeded)]


def outputs(plan: Plan, facts: Iterable[Committed]) -> dict[StageId, Observation]:
    """The facts about the plan's stages from committed outputs, be they of its own tasks or of another plan's."""
    parts: dict[tuple[Signature, str], dict[int, Committed]] = {}
    for fact in facts:
        parts.setdefault((fact.key.signature, fact.key.layout), {})[fact.key.part] = fact
    found: dict[StageId, Observation] = {}
    for stage in plan.stages:
        done = parts.get((stage.signature, layout_digest(stage)), {})
        if len(done) == stage.width:
            found[stage.id] = _observation(stage, list(done.values()))
    return found


def done_parts(plan: Plan, present: Collection[CheckpointKey]) -> dict[StageId, int]:
    """The number of parts of each stage that are there, of stages whose outputs may serve other runs."""
    counts = {
        stage.id: sum(checkpoint_key(stage, part) in present for part in range(stage.width))
        for stage in plan.stages
        if stage.shareable
    }
    return {id: count for id, count in counts.items() if count}


def _observation(stage: Stage, facts: Sequence[Committed]) -> Observation:
    """Processor seconds where they are known; else wall seconds of all the threads a task had."""
    return Observation(
        rows=sum(sum(fact.rows) for fact in facts),
        bytes=sum(sum(fact.bytes) for fact in facts),
        seconds=sum(fact.cpu_seconds or fact.seconds * stage.slots for fact in facts),
        memory=max(fact.peak_memory for fact in facts) or None,
    )


def misestimate(plan: Plan, observed: Mapping[StageId, Observation]) -> float:
    """By what factor the rows of a plan's stages were misjudged at worst; 1.0 if none was, or nothing was seen."""
    return max((_misjudged(plan.by_id[id], one) for id, one in observed.items()), default=1.0)


def _misjudged(stage: Stage, one: Observation) -> float:
    return q_error(max(stage.estimate.rows, LEAST_ROWS), max(one.rows, LEAST_ROWS))


@dataclass
class _Group:
    """The observations over one set of tables. errors: of joins, by estimates of which nothing was known. known: by
    signature. news: by meaning."""

    errors: dict[Joined, float] = field(default_factory=dict)
    known: dict[Signature, Observation] = field(default_factory=dict)
    news: dict[Signature, Observation] = field(default_factory=dict)


class SessionObservations:
    """The observations of a session. Thread-safe, bounded.

    most: the number of digests that are remembered.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: dict[str, float] = {}
        self._groups: dict[Tables, _Group] = {}
        self._order: dict[Signature, Tables] = {}

    def __len__(self) -> int:
        """The number of digests: of outputs, and of rows whatever their columns."""
        return len(self._order)

    def add(self, plan: Plan, observed: Mapping[StageId, Observation]) -> None:
        """Remember what was seen of some stages of a plan. Non-deterministic ones are not (law 12).

        Seconds are not either: they tell how busy the machine was, too, and next to plans that were never run, whose
        seconds are the model's, those that were would look slow on a slow day and never be chosen again.
        """
        from qoop.planner.estimate.join_errors import join_errors, most_alike  # queries in stages alone come here

        below = tables_below(plan)
        with self._lock:
            for stage in plan.stages:
                if stage.id in observed and stage.shareable:
                    one = replace(observed[stage.id], seconds=None, reads=read_by(stage, plan))
                    self._remember(stage, one, below[stage.id])
            for joined, error in join_errors(plan, observed).items():
                group = self._groups.get(joined.tables)
                if group is not None and most_alike(group.errors, joined.filtered, group.errors) is None:
                    group.errors[joined] = error  # else the plan was made with what was known
            while len(self._order) > self._most:
                self._forget(next(iter(self._order)))

    def add_calls(self, row_seconds: Mapping[str, float]) -> None:
        """Remember the seconds a row of functions of Python. Unlike those of stages they are known nowhere else,
        and differ by far more than how busy the machine is."""
        with self._lock:
            for key, seconds in row_seconds.items():
                self._calls.pop(key, None)
                self._calls[key] = seconds
            while len(self._calls) > self._most:
                self._calls.pop(next(iter(self._calls)))

    def calls(self) -> Mapping[str, float]:
        """The seconds a row of functions of Python, by their keys, as they were seen last."""
        with self._lock:
            return dict(self._calls)

    def over(self, tables: Mapping[str, str]) -> Observations:
        """The facts seen over these tables (version by lower-case name) and no others: all that matters to a query."""
        read = frozenset(tables.items())
        with self._lock:
            groups = {below: group for below, group in self._groups.items() if below <= read}
            found: dict[Signature, Observation] = {}
            for group in groups.values():
                found |= group.known
                found |= group.news
        news = frozenset(below for below, group in groups.items() if group.news)
        errors = {joined: error for group in groups.values() for joined, error in group.errors.items()}
        return Observations(found, news, self.calls(), errors=errors)

    def _remember(self, stage: Stage, one: Observation, tables: Tables) -> None:
        group = self._groups.setdefault(tables, _Group())
        group.known[stage.signature] = one
        self._touch(stage.signature, tables)
        news = _misjudged(stage, one) > MISJUDGED
        if stage.meaning and (news or stage.meaning in group.news):
            group.news[stage.meaning] = one
            self._touch(stage.meaning, tables)

    def _touch(self, digest: Signature, tables: Tables) -> None:
        self._order.pop(digest, None)
        self._order[digest] = tables

    def _forget(self, digest: Signature) -> None:
        tables = self._order.pop(digest)
        group = self._groups[tables]
        group.known.pop(digest, None)
        group.news.pop(digest, None)
        if not group.known and not group.news:
            del self._groups[tables]
