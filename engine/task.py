"""A task: a stage's fragment, its part number, and the places of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from hashlib import blake2b
from math import ceil, log2, sqrt
from typing import TYPE_CHECKING

from qoop.catalog.functions.function import UserFunction
from qoop.catalog.sizes import size, span
from qoop.catalog.table import Split, Table
from qoop.catalog.value import changed, value
from qoop.planner.plan import Layout, Plan, Resources, Signature, Stage, StageId, TableInput

if TYPE_CHECKING:
    from qoop.engine.node_queues.ticket import Ticket

JobId = str
MachineId = str
Content = tuple[Signature, str]
"""Signature and layout digest: what the outputs of a whole stage have in common."""

Recipe = tuple[Content, frozenset[str]]
"""The output of a stage and its inputs (:func:`~qoop.planner.plan.read_by`): a stage of another plan may make the same
of other inputs, in less memory."""


@value
class CheckpointKey:
    """Names the output of one task by content (law 1): what it means, how it is cut, which part it is."""

    signature: Signature
    layout: str
    part: int

    def __hash__(self) -> int:
        return hash(self.signature) + self.part  # called twenty times with every task

    @property
    def content(self) -> Content:
        return self.signature, self.layout

    def __str__(self) -> str:
        return f"{self.signature[:12]}.{self.layout[:8]}.{self.part}"


def layout_digest(stage: Stage) -> str:
    """Digest of everything that decides which rows land in which part and partition of a stage's output.

    `stage.cut` says how the rows fall to the tasks: the third quarter of a table holds other rows than the
    third half of it.
    """
    return _digest(stage.layout, stage.width, stage.cut)


@lru_cache(maxsize=10_000)
def _digest(layout: Layout, width: int, cut: str) -> str:
    return _hex(repr(("duckdb-hash", layout, width, cut)))


def _hex(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def checkpoint_key(stage: Stage, part: int) -> CheckpointKey:
    """The key under which part `part` of the stage's output is kept."""
    return CheckpointKey(stage.signature, layout_digest(stage), part)


def checkpoint_keys(*stages: Stage) -> list[CheckpointKey]:
    """The keys of all outputs of stages."""
    return [checkpoint_key(stage, part) for stage in stages for part in range(stage.width)]


def joined_key(task: CheckpointKey) -> CheckpointKey:
    """The key under which is kept of which slices the output of a task consists."""
    return changed(task, layout=_hex(f"{task.layout} joined"))


def content_of(stage: Stage) -> Content:
    """The name of the outputs of a stage, whichever part."""
    return stage.signature, layout_digest(stage)


def own_non_deterministic(plan: Plan, owner: JobId) -> Plan:
    """The plan with separate signatures for its non-deterministic stages and for what depends on them (law 12).

    Two runs of a non-deterministic stage may differ, so no other job, and no other stage of this one, however
    alike, may take its output for its own.
    """
    if all(stage.shareable for stage in plan.stages):
        return plan
    own = dependents(plan)
    return changed(plan, stages=tuple(_owned(stage, owner) if stage.id in own else stage for stage in plan.stages))


def dependents(plan: Plan) -> set[StageId]:
    """The non-deterministic stages of a plan, and those that depend on them."""
    found: set[StageId] = set()
    for stage in plan.stages:
        if not stage.shareable or any(item.stage in found for item in stage.stage_inputs):
            found.add(stage.id)
    return found


def _owned(stage: Stage, owner: JobId) -> Stage:
    text = f"{owner}|{stage.id}|{stage.signature}"
    return changed(stage, signature=_hex(text))


@value
class TaskId:
    """One part of one stage of one job."""

    job: JobId
    stage: StageId
    part: int

    def __str__(self) -> str:
        return f"{self.job}/{self.stage}.{self.part}"


@value
class AttemptId:
    """One try of a task; numbers count up within a job and are never used twice."""

    task: TaskId
    number: int

    def __hash__(self) -> int:
        return hash((self.task.job, self.number))

    def __str__(self) -> str:
        return f"{self.task}#{self.number}"


@value
class ResolvedInput:
    """The place of a stage input: these checkpoints of one stage, and of each this partition; None: every one.

    The keys are one tuple for all tasks of a stage, of which there may be thousands.
    """

    name: str
    keys: tuple[CheckpointKey, ...]
    partition: int | None = None

    @property
    def reads(self) -> tuple[tuple[CheckpointKey, int | None], ...]:
        """The (checkpoint, partition) pairs to read."""
        return tuple((key, self.partition) for key in self.keys)


@value
class Slice:
    """A part of a task's rows: those whose hash leaves `number` when divided by `of`, or that part of its split.

    of: a power of two, so that a slice consists of two of twice as many (`halves`).
    """

    number: int = 0
    of: int = 1

    def halves(self) -> tuple[Slice, Slice]:
        return Slice(self.number, 2 * self.of), Slice(self.number + self.of, 2 * self.of)

    def key(self, task: CheckpointKey) -> CheckpointKey:
        """The key under which the slice of a task's output is kept."""
        return CheckpointKey(task.signature, _hex(f"{task.layout}|{task.part} in {self.of}"), self.number)

    def begun(self, task: CheckpointKey) -> CheckpointKey:
        """The key of an empty output that says that slices of this size take long: a process has begun one."""
        return self.key(changed(task, layout=f"{task.layout} begun"))

    def split(self, split: Split) -> Split:
        """Its rows of a split: of short runs of pieces, dealt out in turn. Where a table is in the order of what it is
        filtered by, one stretch of it has all the work.

        >>> from qoop.catalog.table import Range
        >>> whole = Split(tuple(Range("f", first, 1) for first in range(5)))
        >>> [str(Slice(number, 2).split(whole)) for number in range(2)]
        ['f[0:1] + f[2:3] + f[4:5]', 'f[1:2] + f[3:4]']
        """
        run = ceil(len(split.ranges) / _RUNS)
        return Split(tuple(one for place, one in enumerate(split.ranges) if place // run % self.of == self.number))

    def condition(self, layout: Layout) -> str:
        """SQL for its rows of one partition of an output.

        >>> Slice(1, 2).condition(Layout(("a", "b"), 8))
        'hash(a, b) // 8 % 2 = 1'
        """
        return f"hash({', '.join(layout.keys)}) // {layout.parts} % {self.of} = {self.number}"


@value
class Slicing:
    """The cut of a task into slices that are computed, and saved, one after the other.

    most: their number, a power of two, unless there are finer ones. layouts: of the outputs that it reads by partition,
        by the names of its inputs. seconds: that a slice may take; one that takes longer, and is lost, is cut finer.
    """

    most: int
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    seconds: float = 0.0


_RUNS = 64
"""The most runs that the pieces of a split are dealt out in: to read one costs 1.8 ms."""

MOST_SLICES = 16
"""Each slice reads the inputs of its task again, and computes again what is not divided."""


SLICE_SECONDS = 0.03
"""Seconds that one more slice of a task costs: its inputs are read again. A fourth of 3 million rows is found in
0.03 s."""

AGAIN_PART = 0.2
"""The part of a task that each of its slices does again, where it reads outputs by partition: the hashes of all
rows. Of tasks of query 78 at scale 10 of 0.4 to 1.4 s, a sixteenth takes 0.08 to 0.13 s."""


def slices_of(stage: Stage, takes: float, seconds: float) -> int:
    """The number of slices of each task of a stage, a power of two, for slices of at most about that many estimated
    seconds; 0: it cannot be cut. takes: estimated seconds of a task.

    Tasks can be cut that could as well be more: what is divided among them can be divided further. What reads outputs
    is cut less (`AGAIN_PART`).
    """
    divided = any(item.split for item in stage.table_inputs)
    modes = {item.mode for item in stage.stage_inputs}
    if stage.width == 1 or not (divided or "partition" in modes) or "forward" in modes or stage.opaque:
        return 0
    dearer = 1.0 if divided else sqrt(1.0 + AGAIN_PART * takes / SLICE_SECONDS)
    return min(MOST_SLICES, 1 << ceil(log2(max(1.0, takes / (seconds * dearer)))))


@value
class TaskAccount:
    """The seconds of one attempt, from its grant to its report.

    waited: in the queue of its machine. read: for outputs of other stages, from memory, files or other machines.
    computed: in DuckDB, which reads tables meanwhile, and for getting ready. wrote: for handing over its output,
    to memory or to files; what is written behind is not in it (:class:`~qoop.engine.events.CheckpointSaved`).
    """

    waited: float = 0.0
    read: float = 0.0
    computed: float = 0.0
    wrote: float = 0.0

    def __add__(self, other: TaskAccount) -> TaskAccount:
        return TaskAccount(
            self.waited + other.waited, self.read + other.read, self.computed + other.computed, self.wrote + other.wrote
        )

    @property
    def seconds(self) -> float:
        """All of them together."""
        return self.waited + self.read + self.computed + self.wrote


@value
class OperatorProfile:
    """An operator of DuckDB's plan. depth: below the root, whose is 0. detail: what it works on, in a line. seconds:
    of all threads, without those of the operators below it. rows: that it has put out."""

    depth: int
    name: str
    detail: str
    seconds: float
    rows: int


@value
class TaskProfile:
    """The profile of a task, or of several, by DuckDB.

    peak_memory: most bytes that DuckDB held at a time. spilled: most bytes that lay in its temporary files. read: bytes
    that were read from files, of what was spilled too; None: unknown. cpu_seconds: of its operators in all threads.
    operators: of a stage that runs whole, in depth-first order.
    """

    peak_memory: int
    spilled: int
    read: int | None
    cpu_seconds: float
    operators: tuple[OperatorProfile, ...] = ()


def together(profiles: Iterable[TaskProfile | None]) -> TaskProfile | None:
    """The tasks of a stage as one: the most memory and spill of any, the sum of the rest; None: none is known.

    >>> together([TaskProfile(5, 0, 10, 1.0), None, TaskProfile(3, 2, 20, 0.5)])
    TaskProfile(peak_memory=5, spilled=2, read=30, cpu_seconds=1.5, operators=())
    """
    known = [one for one in profiles if one is not None]
    if not known:
        return None
    reads = [one.read for one in known if one.read is not None]
    return TaskProfile(
        max(one.peak_memory for one in known), max(one.spilled for one in known),
        sum(reads) if len(reads) == len(known) else None, sum(one.cpu_seconds for one in known),
        known[0].operators if len(known) == 1 else (),
    )  # fmt: skip


@value
class TaskSpec:
    """All a backend needs to run one attempt, wherever it runs.

    tables: the pinned tables by name; each checks its version when read.
    resources: those granted: cpu = threads, memory = bytes the kernel may use.
    settings: SET options that change results, e.g. ("TimeZone", "UTC").
    durable: the output must survive the process (it still goes through the write-behind queue).
    shared: the output may serve another plan or job; False for what depends on a non-deterministic stage (law 12).
    answer: the output is part of the answer, which the session reads though its machine be gone by then.
    locked: the stage must open no file but those of its tables. functions: of Python, that it may call.
    most: slots that it can be granted while it runs; 0: it keeps its resources to the end.
    extra: it runs on a slot that its machine has not got. profiled: its profile is taken.
    ticket: what its node has to know where it may wait there; None: nodes have no queues.
    path: estimated seconds from its beginning to the end of the job, on the longest path.
    slicing: the task is cut into slices; None: it is not. slice: the one that is computed now; None: all rows.
    """

    attempt: AttemptId
    stage: Stage
    key: CheckpointKey
    inputs: tuple[ResolvedInput, ...]
    tables: Mapping[str, Table]
    resources: Resources
    settings: tuple[tuple[str, str], ...] = ()
    durable: bool = False
    shared: bool = False
    answer: bool = False
    locked: bool = False
    functions: tuple[UserFunction, ...] = ()
    most: int = 0
    extra: bool = False
    profiled: bool = False
    ticket: Ticket | None = None
    path: float = 0.0
    slicing: Slicing | None = None
    slice: Slice | None = None

    @property
    def waits(self) -> bool:
        """True if it was granted before there was a slot for it, and waits at its machine."""
        return self.ticket is not None and self.ticket.waits

    def split(self, item: TableInput) -> Split | None:
        """The rows of a table that the attempt reads; None: all."""
        if not item.split:
            return None
        split = self.tables[item.table].split(self.stage.width)[self.attempt.task.part]
        return split if self.slice is None else self.slice.split(split)

    def condition(self, name: str) -> str:
        """SQL for the rows of a stage input that the attempt computes with; empty: all that it reads."""
        layout = self.slicing.layouts.get(name) if self.slicing is not None else None
        return "" if self.slice is None or layout is None else self.slice.condition(layout)


def spent(account: TaskAccount) -> str:
    """The seconds of tasks by what they went into, as far as that is worth a word.

    >>> spent(TaskAccount(0.25, 0.0, 1.5, 0.003))
    '250 ms waiting, 1.5 s computing, 3 ms writing'
    """
    parts = (
        (account.waited, "waiting"), (account.read, "reading"), (account.computed, "computing"),
        (account.wrote, "writing"),
    )  # fmt: skip
    sentence = [f"{span(seconds)} {what}" for seconds, what in parts if seconds >= LEAST_SECONDS]
    return ", ".join(sentence) or f"{span(account.seconds)} in all"


LEAST_SECONDS = 0.001
"""Seconds that are worth a word."""


def available_of(resources: Resources) -> str:
    """Slots and memory for people.

    >>> available_of(Resources(1, 10**9))
    '1 slot and 1 GB'
    """
    return f"{resources.cpu:g} {'slot' if resources.cpu == 1 else 'slots'} and {size(resources.memory)}"
