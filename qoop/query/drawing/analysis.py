"""Lines for EXPLAIN ANALYZE on stages that have run: operators, wall time, skew, where the time went, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from qoop.catalog.sizes import size
from qoop.catalog.value import value
from qoop.engine.history import Record, Succeeded
from qoop.engine.replay import JobReplay
from qoop.engine.task import Content, OperatorProfile, TaskAccount, TaskProfile, content_of, spent, together
from qoop.planner.explain import seconds_text
from qoop.planner.plan import Plan, Stage, StageId
from qoop.planner.readable import operators

_SKEWED = 1.5
"""Times the median that the longest task of a stage takes to be mentioned."""


@value
class StageRun:
    """A stage as it ran. began, ended: of its first and its last task, in seconds of the job. tasks: the seconds of
    each. account: the parts of these seconds, as far as known. profile: DuckDB's profile of them."""

    began: float
    ended: float
    tasks: tuple[float, ...]
    account: TaskAccount | None
    profile: TaskProfile | None = None

    @property
    def skew(self) -> float:
        """The longest task over the median."""
        usual = median(self.tasks)
        return max(self.tasks) / usual if usual > 0 else 1.0


def stage_runs(history: Sequence[Record]) -> Mapping[Content, StageRun]:
    """The stages of which tasks have succeeded, by their contents."""
    found: dict[Content, list[tuple[float, Succeeded]]] = {}
    for attempt, end in JobReplay.of(history).succeeded():
        found.setdefault(end.key.content, []).append((attempt.granted, end))
    return {content: _run(tasks) for content, tasks in found.items()}


def _run(tasks: Sequence[tuple[float, Succeeded]]) -> StageRun:
    accounts = [record.account for _, record in tasks if record.account is not None]
    total = None
    if accounts:
        total = TaskAccount(
            sum(one.waited for one in accounts), sum(one.read for one in accounts),
            sum(one.computed for one in accounts), sum(one.wrote for one in accounts),
        )  # fmt: skip
    return StageRun(
        min(began for began, _ in tasks), max(record.at for _, record in tasks),
        tuple(record.committed.seconds for _, record in tasks), total, together(one.profile for _, one in tasks),
    )  # fmt: skip


def analysis(plan: Plan, history: Sequence[Record]) -> dict[StageId, tuple[str, ...]]:
    """Lines on each stage of a plan that has run."""
    runs = stage_runs(history)
    return {stage.id: tuple(_lines(stage, runs.get(content_of(stage)))) for stage in plan.stages}


def stage_profiles(plan: Plan, history: Sequence[Record]) -> dict[StageId, dict[str, Any] | None]:
    """The profile of each stage of a plan that has run, as JSON has it; None: DuckDB reported none."""
    runs = stage_runs(history)
    found = {stage.id: runs.get(content_of(stage)) for stage in plan.stages}
    profiles = {id: None if run is None else run.profile for id, run in found.items()}
    return {id: None if profile is None else asdict(profile) for id, profile in profiles.items()}


def _lines(stage: Stage, run: StageRun | None) -> Iterator[str]:
    if stage.opaque is None:
        yield from operators(stage.sql)
    if run is None:
        return
    if run.profile is not None:
        yield f"used: {used(run.profile)}"
        yield from map(_operator, run.profile.operators)
    words = [f"{seconds_text(run.ended - run.began)} from {seconds_text(run.began)} on"]
    if len(run.tasks) > 1 and run.skew >= _SKEWED:
        words.append(f"the longest task {run.skew:.1f} × the median")
    if run.account is not None:
        words.append(f"tasks: {spent(run.account)}")
    yield f"time: {'; '.join(words)}"


def used(profile: TaskProfile) -> str:
    """The memory, files and cpu that a stage took, in words.

    >>> used(TaskProfile(30_000_000, 0, 39_200_000, 0.6)), used(TaskProfile(8_000_000, 2_000_000, None, 1.25))
    ('30 MB of memory at most; 39.2 MB read; 600 ms of cpu', '8 MB of memory at most; 2 MB spilled; 1.2 s of cpu')
    """
    words = [f"{size(profile.peak_memory)} of memory at most"]
    words += [f"{size(profile.spilled)} spilled"] if profile.spilled else []
    words += [f"{size(profile.read)} read"] if profile.read is not None else []
    return "; ".join([*words, f"{seconds_text(profile.cpu_seconds)} of cpu"])


def _operator(one: OperatorProfile) -> str:
    """An operator of DuckDB's, below the one that reads its rows."""
    text = f"{'  ' * one.depth}{one.name.strip().replace('_', ' ').lower()}"
    return f"{text}{f' ({one.detail})' if one.detail else ''}: {one.rows:,} rows, {seconds_text(one.seconds)}"
