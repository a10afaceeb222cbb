"""A trace gone through again: the same goes in, and what comes out must be the same.

    trace file ──read_trace──> Recording ──rerun──> Rerun (how many ticks, and the first difference, if there is one)

The cluster, the scheduler, the runs and the re-planner are the real ones (law 3: no second implementation); clock,
backend and callers are the trace. Searches for plans are not made again: what they found is in the trace. Everything
that follows from it, such as estimates put right, remaining times and decisions, is worked out again.

(`qoop.adaptive.profiles.replay` is another thing: it lets the capacity of a session follow a profile.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import (
    Message,
    PinRequested,
    PlannerReplied,
    ResizeRequested,
    Submitted,
    SuspendRequested,
)
from qoop.adaptive.cluster.recording.ticks import PlanDecided
from qoop.adaptive.cluster.recording.trace import OUTPUTS, Lines
from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.retrace.reading import Output, RecordedTick, Recording
from qoop.adaptive.retrace.recorded import RecordedBackend, RecordedPlanner
from qoop.adaptive.retrace.story import story
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.described import made
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Start
from qoop.engine.history import Record
from qoop.engine.task import JobId
from qoop.planner.plan import Plan

if TYPE_CHECKING:
    from qoop.adaptive.program_log import ProgramKinds
    from qoop.engine.node_queues.policy import NodeQueueing


@value
class Difference:
    """The first output that was not the same; None on a side where nothing came out."""

    tick: int
    at: float
    recorded: Output | None
    rerun: Output | None

    def __str__(self) -> str:
        return (
            f"in turn {self.tick}, at {self.at:.3f} s, the rerun differs\n"
            f"  recorded: {_shown(self.recorded)}\n  rerun:    {_shown(self.rerun)}"
        )


@value
class RerunJob:
    """A job as the rerun went through it."""

    job: JobId
    text: str
    history: Sequence[Record]
    plans: Sequence[Plan]


@value
class Rerun:
    """ticks, decisions: how many were gone through and found the same, decisions about plans among all outputs."""

    ticks: int
    decisions: int
    jobs: tuple[RerunJob, ...]
    difference: Difference | None

    def __str__(self) -> str:
        counted = f"{_count(self.ticks, 'tick')}, {_count(self.decisions, 'decision')}"
        return f"{counted}: all the same" if self.difference is None else f"after {counted}, {self.difference}"


TickObserver = Callable[[Cluster, Sequence[JobHandle], bool], object]


def rerun(
    recording: Recording,
    policy: Policy | None = None,
    scheduler: Callable[[], Scheduler] | None = None,
    observer: TickObserver | None = None,
    program_kinds: ProgramKinds = tuple,
) -> Rerun:
    """Go through a trace again, to its end or to the first difference.

    policy, scheduler: to be used in place of those of the trace: when would another have decided otherwise?
    seen: is shown the cluster and its jobs after every tick, and whether it was the last.
    program_kinds: the programs that the trace may have messages to, such as `qoop.programs.kinds.program_kinds`.
    Raises ConfigError if the trace was made with a scheduler of one's own and none is given.
    """
    divided_by = scheduler() if scheduler is not None else _recorded(recording.opened.scheduler)
    again = _Again(recording, policy, divided_by, program_kinds)
    ticks, difference = 0, None
    for tick in recording.ticks:
        last = tick is recording.ticks[-1] and not recording.ended
        difference = again.tick(tick, partial=last)
        if observer is not None:
            observer(again.cluster, again.handles, tick is recording.ticks[-1] or difference is not None)
        if difference is not None:
            break
        ticks += 1
    return Rerun(ticks, again.decisions, again.jobs(), difference)


def _recorded(scheduler: str) -> Scheduler:
    try:
        return made(scheduler)
    except ConfigError as error:
        raise ConfigError(f"the trace does not hold its scheduler: {error}; give one") from error


def _queueing(described: str) -> NodeQueueing | None:
    if not described:
        return None
    from qoop.engine.node_queues.policy import NodeQueueing  # few sessions have queues at their nodes

    return NodeQueueing.described(described)


def stories(found: Rerun, job: JobId | None = None, full: bool = False) -> Iterator[str]:
    """The story of the jobs of a trace, or of one of them, in words. Raises ConfigError if there is no such job."""
    known = [one.job for one in found.jobs]
    if job is not None and job not in known:
        raise ConfigError(f"there is no job {job} in the trace; there are {', '.join(known) or 'none'}")
    for one in found.jobs:
        if job in (None, one.job):
            text = " ".join(one.text.split())
            yield f"{one.job}: {text if len(text) <= 90 else text[:89] + '…'}"
            yield from (f"  {line}" for line in story(one.history, full))


class _Again:
    """A cluster to which what is in a trace happens."""

    def __init__(
        self, recording: Recording, policy: Policy | None, scheduler: Scheduler, program_kinds: ProgramKinds
    ) -> None:
        opened = recording.opened
        self._policy = policy
        self._clock = VirtualClock(opened.at)
        self._backend = RecordedBackend(opened.machines)
        self._planner = RecordedPlanner()
        self._out = _Outputs()
        self._handles: list[tuple[Submitted, JobHandle]] = []
        self._cluster = Cluster(
            self._backend,
            scheduler,
            self._clock,
            self._out,
            thread=False,
            planner=self._planner,
            options=ClusterOptions(
                wait_for_capacity=opened.wait_for_capacity,
                extra_slots=opened.extra_slots,
                tenants=opened.tenants,
                most_jobs=opened.most_jobs,
                queueing=_queueing(opened.queueing),
                program_kinds=program_kinds,
            ),
        )

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    @property
    def handles(self) -> Sequence[JobHandle]:
        return [handle for _, handle in self._handles]

    @property
    def decisions(self) -> int:
        return self._out.decisions

    def jobs(self) -> tuple[RerunJob, ...]:
        return tuple(
            RerunJob(message.job, message.request.text, handle.history(), handle.plans())
            for message, handle in self._handles
        )

    def tick(self, tick: RecordedTick, partial: bool) -> Difference | None:
        """Go through one turn. partial: not all that came out of it is in the trace."""
        self._clock.advance_to(tick.at)
        self._backend.tick(tick)
        for message in tick.messages:
            self._post(message)
        self._cluster.step()
        return _compared(tick, self._out.lines(), partial)

    def _post(self, message: Message) -> None:
        match message:
            case Submitted():
                message = self._searching(message)
                self._handles.append((message, self._cluster.enter(message)))
            case PlannerReplied():
                self._cluster.post(self._planner.answered(message))
            case ResizeRequested():  # a recording may be gone through several times, and a promise is kept once
                self._cluster.post(replace(message, done=Future()))
            case PinRequested():
                self._cluster.post(replace(message, done=Future()))
            case SuspendRequested():
                self._cluster.post(replace(message, kept=Future()))
            case _:
                self._cluster.post(message)

    def _searching(self, message: Submitted) -> Submitted:
        adaptive = message.request.adaptive
        if adaptive is None:
            return message
        policy = self._policy or adaptive.policy
        changed = replace(adaptive, find=self._planner.find, quick_search=self._planner.quick_search, policy=policy)
        return replace(message, request=replace(message.request, adaptive=changed))


def _compared(tick: RecordedTick, lines: Sequence[Output], partial: bool) -> Difference | None:
    for place in range(max(len(tick.outputs), len(lines))):
        recorded = tick.outputs[place] if place < len(tick.outputs) else None
        again = lines[place] if place < len(lines) else None
        if recorded != again and not (partial and recorded is None):
            return Difference(tick.number, tick.at, recorded, again)
    return None


class _Outputs:
    """The trace of the rerun: what came out of the last turn."""

    def __init__(self) -> None:
        self.decisions = 0
        self._written = Lines()
        self._lines: list[Output] = []

    def record(self, at: float, what: object) -> None:
        if isinstance(what, Start) or type(what).__name__ in OUTPUTS:
            line = json.loads(self._written.of(what)[-1])
            self.decisions += line["out"] == PlanDecided.__name__
            self._lines.append(line)

    def flush(self) -> None:
        pass

    def lines(self) -> Sequence[Output]:
        lines, self._lines = self._lines, []
        return lines


def _shown(line: Output | None) -> str:
    """An output for people: a decision as its sentence."""
    if line is None:
        return "nothing more"
    if line["out"] == PlanDecided.__name__:
        what = TraceCodec().read(PlanDecided, {name: value for name, value in line.items() if name != "out"})
        return f"{line['job']}: {what.record}"
    return json.dumps(line, ensure_ascii=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
