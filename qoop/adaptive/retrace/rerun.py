"""A trace gone through again: the same goes in, and what comes out must be the same.

    trace file ──read_trace──> Recording ──rerun──> Rerun (how many ticks, and the first difference, if there is one)

The cluster, the scheduler, the runs and the re-planner are the real ones (law 3: no second implementation); clock,
backend and callers are the trace. Searches for plans are not made again: what they found is in the trace. Everything
that follows from it, such as estimates put right, remaining times and decisions, is worked out again.

(`qoop.adaptive.profiles.replay` is another thing: it lets the capacity of a session follow a profile.)
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import Answered, Message, PinAsked, ResizeAsked, Submitted, SuspendAsked
from qoop.adaptive.cluster.recording.ticks import Found, Opened, Refused
from qoop.adaptive.cluster.recording.trace import FORMAT, INPUTS, MESSAGES, OUTPUTS, READABLE, Chain, Lines
from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.adaptive.replanning.answers import Answer, Useful
from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.retrace.story import story
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.described import made
from qoop.catalog.errors import CheckpointError, ConfigError, PlanError, QoopError
from qoop.catalog.value import value
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Committed, Event, Start
from qoop.engine.history import Record
from qoop.engine.storage.guard import versions
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Candidate

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.adaptive.program_log import ProgramKinds
    from qoop.engine.node_queues.policy import NodeQueueing

T = TypeVar("T")
Output = Mapping[str, Any]
"""The output, as its line in the trace."""


@value
class RecordedTick:
    """events: of the backend, those of its first answer, then those of the answer to each `Resizing`.
    found: what the backend had of the jobs that came. refused: of each `Resizing`, why it could not be, or None."""

    number: int
    at: float
    events: tuple[tuple[Event, ...], ...]
    messages: tuple[Message, ...]
    found: tuple[Found, ...]
    refused: tuple[str | None, ...]
    outputs: tuple[Output, ...]


@value
class Recording:
    """A trace that was read.

    versions: of qoop and what it stands on. ended: the session was closed; else it was killed, or goes on.
    cut_off: the last line was not whole, and was left out.
    """

    versions: Mapping[str, str]
    opened: Opened
    ticks: tuple[RecordedTick, ...]
    ended: bool
    cut_off: bool

    def remarks(self) -> Iterator[str]:
        """Remarks about the trace itself, a sentence each."""
        own = versions()
        if own != self.versions:
            told = [f"{name} {self.versions.get(name, 'of an unknown version')}, here {own[name]}" for name in own]
            yield f"the trace was made by other versions: {', '.join(told)}"
        if self.cut_off:
            yield "the last line of the trace is cut off, and was left out"
        if not self.ended:
            yield "the trace has no end: its session was killed, or goes on"


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


Seen = Callable[[Cluster, Sequence[JobHandle], bool], object]


def rerun(
    recording: Recording,
    policy: Policy | None = None,
    scheduler: Callable[[], Scheduler] | None = None,
    seen: Seen | None = None,
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
        if seen is not None:
            seen(again.cluster, again.handles, tick is recording.ticks[-1] or difference is not None)
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


def read_trace(path: Path) -> Recording:
    """Read the trace in a file. Raises ConfigError if there is none, or it is damaged or of another version."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"the trace {path} cannot be read: {error.strerror}") from error
    lines = text.split("\n")
    return _Reader(str(path)).read(lines[:-1], cut_off=bool(lines[-1]))


# --- reading ------------------------------------------------------------------------------------------------


@dataclass
class _Pages:
    """A turn being read."""

    number: int
    at: float
    events: list[list[Event]] = field(default_factory=lambda: [[]])
    messages: list[Message] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    refused: list[str | None] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)

    def take(self, what: object) -> None:
        match what:
            case Found():
                self.found.append(what)
            case Refused(message):
                self.refused[-1] = message
            case _ if isinstance(what, MESSAGES):
                self.messages.append(what)
            case _:
                self.events[-1].append(what)  # type: ignore[arg-type]  # the reader knows no other kinds

    def put_out(self, line: Output) -> None:
        self.outputs.append(line)
        if line["out"] == "Resizing":
            self.events.append([])
            self.refused.append(None)

    def closed(self) -> RecordedTick:
        return RecordedTick(
            self.number,
            self.at,
            tuple(map(tuple, self.events)),
            tuple(self.messages),
            tuple(self.found),
            tuple(self.refused),
            tuple(self.outputs),
        )


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._codec = TraceCodec()
        self._chain = Chain()
        self._ticks: list[RecordedTick] = []
        self._tick: _Pages | None = None
        self._opened: Opened | None = None
        self._ended = self._lacks_gains = False

    def read(self, lines: Sequence[str], cut_off: bool) -> Recording:
        header = self._header(lines[0] if lines else "")
        for number, line in enumerate(lines[1:], 2):
            try:
                self._line(json.loads(self._chain.opened(line)))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, QoopError) as error:
                raise ConfigError(f"line {number} of the trace {self._name} is damaged: {error}") from error
        self._close_tick()
        if self._opened is None:
            raise ConfigError(f"the trace {self._name} is empty")
        if self._lacks_gains and "Quality(" in self._opened.scheduler:
            raise ConfigError(f"the trace {self._name} was made with Quality and lacks the gains of programs")
        made_by = {name: str(value) for name, value in header.items() if name not in ("format", "version", "sum")}
        return Recording(made_by, self._opened, tuple(self._ticks), self._ended, cut_off)

    def _header(self, line: str) -> Mapping[str, Any]:
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ConfigError(f"{self._name} is no trace of qoop: it does not begin with a line that says so")
        if header.get("version") not in READABLE:
            known = ", ".join(map(str, READABLE[:-1])) + f" and {READABLE[-1]}"
            raise ConfigError(f"the trace {self._name} is of version {header.get('version')}; only {known} can be read")
        try:
            self._chain.opened(line)
        except ValueError as error:
            raise ConfigError(f"line 1 of the trace {self._name} is damaged: {error}") from error
        return header

    def _line(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise ValueError("it is no object")
        if "define" in line:
            self._codec.define(line)
        elif "tick" in line:
            self._close_tick()
            self._tick = _Pages(int(line["tick"]), float(line["at"]))
        elif "end" in line:
            self._ended = True
        elif "in" in line:
            self._input(line)
        elif line["out"] in OUTPUTS:
            self._open_tick().put_out(line)
        else:
            raise ValueError(f"nothing is called {line['out']}")

    def _input(self, line: Mapping[str, Any]) -> None:
        kind = INPUTS.get(line["in"])
        if kind is None:
            raise ValueError(f"nothing is called {line['in']}")
        if kind is Submitted:
            self._lacks_gains |= line["request"].pop("course", None) is not None  # in its place before version 16
        what = self._codec.read(kind, {name: value for name, value in line.items() if name != "in"})
        if isinstance(what, Opened):
            self._opened = what
        else:
            self._open_tick().take(what)

    def _open_tick(self) -> _Pages:
        if self._tick is None:
            raise ValueError("it belongs to no tick")
        return self._tick

    def _close_tick(self) -> None:
        if self._tick is not None:
            self._ticks.append(self._tick.closed())
            self._tick = None


# --- going through it ---------------------------------------------------------------------------------------


class _Again:
    """A cluster to which what is in a trace happens."""

    def __init__(
        self, recording: Recording, policy: Policy | None, scheduler: Scheduler, program_kinds: ProgramKinds
    ) -> None:
        opened = recording.opened
        self._policy = policy
        self._clock = VirtualClock(opened.at)
        self._backend = _RecordedBackend(opened.machines)
        self._planner = _RecordedPlanner()
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
            case Answered():
                self._cluster.post(self._planner.answered(message))
            case ResizeAsked():  # a recording may be gone through several times, and a promise is kept once
                self._cluster.post(replace(message, done=Future()))
            case PinAsked():
                self._cluster.post(replace(message, done=Future()))
            case SuspendAsked():
                self._cluster.post(replace(message, kept=Future()))
            case _:
                self._cluster.post(message)

    def _searching(self, message: Submitted) -> Submitted:
        adaptive = message.request.adaptive
        if adaptive is None:
            return message
        policy = self._policy or adaptive.policy
        changed = replace(adaptive, find=self._planner.find, first_look=self._planner.first_look, policy=policy)
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
            self.decisions += line["out"] == "Decision"
            self._lines.append(line)

    def flush(self) -> None:
        pass

    def lines(self) -> Sequence[Output]:
        lines, self._lines = self._lines, []
        return lines


class _RecordedPlanner:
    """Answers when the trace says so, with what searches found then."""

    def __init__(self) -> None:
        self._asked: deque[Callable[[], object]] = deque()
        self._message: Answered | None = None

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._asked.append(work)

    def close(self) -> None:
        pass

    def answered(self, message: Answered) -> Answered:
        """The message with the answer to the oldest question, worked out now; or with the error that came of it."""
        if not self._asked:
            return replace(message, error=PlanError("the trace answers a question that the rerun did not ask"))
        work, self._message = self._asked.popleft(), message
        try:
            answer = work()
        except QoopError as error:
            return replace(message, error=error)
        finally:
            self._message = None
        if isinstance(answer, Answer):
            return replace(message, answer=replace(answer, seconds=message.seconds, searching=message.searching))
        return replace(message, answer=answer if isinstance(answer, Useful) else None)

    def first_look(self, _: float) -> Sequence[Candidate] | None:
        """The plans of the first look that the trace tells of; none if they were far behind, None if all plans were
        searched for."""
        message = self._message
        assert message is not None  # it is called while a question is answered
        if message.first_look:
            return message.found
        return () if message.found is None and message.error is None else None

    def find(self, observed: Observations) -> Sequence[Candidate]:
        """The findings of the search that the trace tells of."""
        message = self._message
        if message is None or message.found is None:
            raise message.error if message is not None and message.error is not None else PlanError(
                "the rerun searched for plans where the trace says that there was no search"
            )  # fmt: skip
        return message.found


class _RecordedBackend:
    """Reports what the trace says that a backend has reported, and does nothing."""

    def __init__(self, machines: Mapping[MachineId, Resources]) -> None:
        self._machines = machines
        self._events: Iterator[tuple[Event, ...]] = iter(())
        self._refused: Iterator[str | None] = iter(())
        self._found: dict[JobId, Found] = {}

    def tick(self, tick: RecordedTick) -> None:
        """Answer what is asked next as in this tick."""
        self._events, self._refused = iter(tick.events), iter(tick.refused)
        self._found = {found.job: found for found in tick.found}

    def machines(self) -> Mapping[MachineId, Resources]:
        return self._machines

    def wait(self, timeout: float | None) -> Sequence[Event]:
        return next(self._events, ())

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        found = self._found.get(job or "", Found("", ()))
        if found.error is not None:
            raise found.error
        return found.outputs

    def resize(self, slots: int | None, memory: int | None) -> None:
        refused = next(self._refused, None)
        if refused is not None:
            next(self._events, ())
            raise ConfigError(refused)

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        self.resize(slots, memory)

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        pass

    def stop(self, attempt: AttemptId) -> None:
        pass

    def promote(self, attempt: AttemptId) -> None:
        pass

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        pass

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        pass

    def wake(self) -> None:
        pass

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        raise CheckpointError(f"{key} is an output of which only a trace is left: it has no rows to read")

    def close(self) -> None:
        pass


# --- in words -----------------------------------------------------------------------------------------------


def _shown(line: Output | None) -> str:
    """An output for people: a decision as its sentence."""
    if line is None:
        return "nothing more"
    if line["out"] == "Decision":
        what = TraceCodec().read(OUTPUTS["Decision"], {name: value for name, value in line.items() if name != "out"})
        return f"{line['job']}: {what.record}"
    return json.dumps(line, ensure_ascii=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
