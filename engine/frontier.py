"""The tasks of a plan that still have to run, and those that can run now, kept up to date event by event.

Need flows backward from the root by reference counts. A task is *needed* while the job (for the root) or
some active task reads it. An active task wants everything it reads. So a start, a switch, a lost checkpoint and a
finished reader are all the same thing: a count passes zero, and the tasks behind it are reviewed. No event visits all
tasks; over a run the work is proportional to tasks plus (task, stage read) pairs.

::

    state      may become   when
    IDLE       WAITING      a reader needs it, and an input is missing
               READY        a reader needs it, and no input is missing
               RUNNING      a reader needs it, and an attempt is alive (a stop of it may be under way)
               PRESENT      its output is committed
    WAITING    READY        the last missing input is committed
               IDLE         the last reader has gone
               PRESENT      its output is committed
    READY      RUNNING      an attempt begins
               WAITING      an input is lost or released
               IDLE         the last reader has gone
               PRESENT      its output is committed
    RUNNING    PRESENT      its output is committed
               READY        the attempt ends without output, and no input is missing
               WAITING      the attempt ends without output, and an input is missing
               IDLE         the last reader has gone; the attempt is surplus
    PRESENT    IDLE         its output is lost or released, and no reader needs it
               WAITING      its output is lost, a reader needs it, and an input is missing
               READY        its output is lost, a reader needs it, and no input is missing
               RUNNING      its output is lost, a reader needs it, and an attempt is alive

WAITING, READY and RUNNING are the *active* states. An attempt can be alive in RUNNING, and in IDLE and PRESENT until it
has stopped; so `busy` is a separate field.

Stages of one plan with equal signature and layout put out the same checkpoints and are one node here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Mapping
from enum import StrEnum
from heapq import heappop, heappush

from qoop.catalog.errors import PlanError
from qoop.engine.task import CheckpointKey, Content, Recipe, ResolvedInput, checkpoint_key, layout_digest
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Stage, StageId, inputs


class TaskState(StrEnum):
    """State of a task of the plan; see the module's table."""

    IDLE = "IDLE"
    WAITING = "WAITING"
    READY = "READY"
    RUNNING = "RUNNING"
    PRESENT = "PRESENT"


_IDLE, _WAITING, _READY, _RUNNING, _PRESENT = TaskState
TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    _IDLE: frozenset({_WAITING, _READY, _RUNNING, _PRESENT}),
    _WAITING: frozenset({_READY, _IDLE, _PRESENT}),
    _READY: frozenset({_RUNNING, _WAITING, _IDLE, _PRESENT}),
    _RUNNING: frozenset({_PRESENT, _READY, _WAITING, _IDLE}),
    _PRESENT: frozenset({_IDLE, _WAITING, _READY, _RUNNING}),
}


class TaskNode:
    """One part of a stage.

    stage, part, key: its place in the plan, and the output that it makes.
    state: see the module's table; `Frontier` moves it. active: it is to be made. ready: an attempt can begin.
    readers: active tasks that read this part alone (forward inputs). missing: inputs that are not present.
    present: its output can be read. made: it could at some time. busy: an attempt is alive, be it on its way to stop.
    """

    __slots__ = ("active", "busy", "key", "made", "missing", "part", "present", "readers", "ready", "stage", "state")

    def __init__(self, stage: StageNode, part: int, key: CheckpointKey) -> None:
        self.stage = stage
        self.part = part
        self.key = key
        self.readers = 0
        self.missing = 0
        self.present = False
        self.made = False
        self.busy = False
        self.state = _IDLE
        self.active = self.ready = False

    @property
    def needed(self) -> bool:
        return self.stage.readers > 0 or self.readers > 0

    def due_state(self) -> TaskState:
        """The state that follows from the other fields."""
        if self.present:
            return _PRESENT
        return self.active_state() if self.needed else _IDLE

    def active_state(self) -> TaskState:
        """The state that follows while the task is to be made."""
        if self.busy:
            return _RUNNING
        return _WAITING if self.missing else _READY

    def __str__(self) -> str:
        return f"{self.stage.stage.id}.{self.part}"


class StageNode:
    """A stage of the plan. `readers` counts active tasks that read all of it, and the job for the root.

    tail: estimated seconds from the start of one of its tasks to the end of the job on the longest path:
        the upward rank of HEFT (Topcuoglu, Hariri, Wu 2002).
    dependent: the output depends on a non-deterministic stage (law 12), so it must not serve another plan.
    left: how many of its tasks are active. work: estimated slot seconds of each.
    weights: of its tasks by what they read, once that is known and was read; see `progress`.
    """

    __slots__ = (
        "content",
        "dependent",
        "keys",
        "left",
        "order",
        "present",
        "readers",
        "reading",
        "ready",
        "ready_parts",
        "sources",
        "stage",
        "tail",
        "tasks",
        "weights",
        "work",
    )  # fmt: skip

    def __init__(self, stage: Stage, sources: tuple[tuple[StageNode, bool], ...]) -> None:
        digest = layout_digest(stage)
        self.stage = stage
        self.sources = sources
        self.reading: list[tuple[StageNode, bool]] = []
        self.content: Content = stage.signature, digest
        self.keys = tuple(CheckpointKey(stage.signature, digest, part) for part in range(stage.width))
        self.tasks = [TaskNode(self, part, key) for part, key in enumerate(self.keys)]
        self.readers = 0
        self.present = 0
        self.left = 0
        self.work = stage.slots * on_threads(stage.estimate.task_seconds, stage.slots)
        self.weights: tuple[float, ...] | None = None
        self.tail = 0.0
        self.order = 0
        self.dependent: bool = not stage.shareable or any(source.dependent for source, _ in sources)
        self.ready = 0
        self.ready_parts: list[int] = []
        for source, forward in sources:
            source.reading.append((self, forward))

    @property
    def recipe(self) -> Recipe:
        """Its output and its inputs."""
        return self.content, inputs(self.stage, (source.stage.signature for source, _ in self.sources))

    @property
    def complete(self) -> bool:
        return self.present == len(self.tasks)

    def missing(self) -> list[int]:
        """By task, how many of its inputs are not there; counted again."""
        wholes = sum(not source.complete for source, forward in self.sources if not forward)
        forwarded = [source.tasks for source, forward in self.sources if forward]
        return [wholes + sum(not tasks[part].present for tasks in forwarded) for part in range(len(self.tasks))]

    def next_ready(self) -> TaskNode:
        """The ready task of the lowest part. Only while `ready` is positive."""
        while not self.tasks[self.ready_parts[0]].ready:
            heappop(self.ready_parts)
        return self.tasks[self.ready_parts[0]]


class Frontier:
    """The need and readiness of all tasks of one plan, given what is present and what is running.

    present: keys of outputs that can be read. busy: keys at which an attempt is alive.
    reuse_dependents: False: outputs that depend on a non-deterministic stage do not count as present.

    `changes` counts how often a task has become ready or is ready no more.
    `work` are the estimated slot seconds of all active tasks. `surplus`, `spare`, `spoiled` collect what the last
    calls left over, until `drain`.
    """

    def __init__(
        self, plan: Plan, present: Container[CheckpointKey], busy: Container[CheckpointKey], reuse_dependents: bool
    ) -> None:
        self.plan = plan
        self.work = 0.0
        self.nodes: dict[StageId, StageNode] = {}
        self.stages: list[StageNode] = []
        self.by_key: dict[CheckpointKey, TaskNode] = {}
        self.surplus: list[TaskNode] = []
        self.spare: list[TaskNode] = []
        self.spoiled: list[TaskNode] = []
        self.changes = 0
        self._redo: list[StageNode] = []
        self._ready_orders: list[int] = []
        self._build(plan)
        self._rank()
        for node in self.stages:
            for task in node.tasks:
                task.busy = task.key in busy
                if task.key in present and (reuse_dependents or not node.dependent):
                    task.present = task.made = True
                    task.state = _PRESENT
                    node.present += 1
            for task, missing in zip(node.tasks, node.missing(), strict=True):
                task.missing = missing
        self.root = self.nodes[plan.root.id]
        self.root.readers = 1
        self._review(self.root.tasks)
        self.spare = [task for task in self.tasks() if task.present and not task.needed]
        self.surplus = [task for task in self.tasks() if task.busy and not task.active]

    def tasks(self) -> Iterator[TaskNode]:
        """All tasks, stages in plan order."""
        for node in self.stages:
            yield from node.tasks

    def remember_made(self, before: Frontier) -> None:
        """Count as made what the same plan made before, even if it was released since: other outputs may rest on it."""
        for task, known in zip(self.tasks(), before.tasks(), strict=True):
            task.made = task.made or known.made

    def ready_stages(self) -> list[StageNode]:
        """Stages with a ready task: longest estimated path to the end first, then plan order."""
        return [self._by_order[order] for order in self._ready_orders]

    def inputs(self, task: TaskNode) -> tuple[ResolvedInput, ...]:
        """The checkpoints that a task reads."""
        return tuple(
            _resolved(item.name, self.nodes[item.stage], item.mode, task.part) for item in task.stage.stage.stage_inputs
        )

    def begin(self, task: TaskNode) -> None:
        """An attempt at the task has started. Raises PlanError unless it is ready."""
        if not task.ready:
            raise PlanError(f"task {task} is {task.state}: no attempt can begin")
        task.busy = True
        self._refresh(task)

    def end(self, task: TaskNode) -> None:
        """No attempt at the task is alive any more."""
        task.busy = False
        self._refresh(task)

    def commit(self, task: TaskNode) -> None:
        """The task's output can be read."""
        if task.present:
            return
        self._add(task)
        self._review([task])

    def succeed(self, task: TaskNode) -> None:
        """Its attempt has ended, and its output can be read: as `end` and `commit`, but never ready in between."""
        task.busy = False
        self.commit(task)

    def lose(self, task: TaskNode) -> None:
        """The task's output cannot be read any more."""
        if task.present:
            self._remove(task)
            self._review([task])

    def release(self, task: TaskNode) -> None:
        """Give up an output that is not needed. It is made again should it ever be."""
        self._remove(task)
        self._enter(task, _IDLE)

    def drain(self) -> tuple[list[TaskNode], list[TaskNode], list[TaskNode]]:
        """Return and forget (tasks with an attempt but no use for it, present tasks that are not needed, tasks whose
        output or attempt depends on a non-deterministic stage that is being made again)."""
        surplus, spare, spoiled = self.surplus, self.spare, self.spoiled
        self.surplus, self.spare, self.spoiled = [], [], []
        return surplus, spare, spoiled

    def _build(self, plan: Plan) -> None:
        for stage in plan.stages:
            twin = self.by_key.get(checkpoint_key(stage, 0))
            if twin is not None:
                self.nodes[stage.id] = twin.stage
                continue
            sources = dict.fromkeys((self.nodes[item.stage], item.mode == "forward") for item in stage.stage_inputs)
            node = StageNode(stage, tuple(sources))
            self.nodes[stage.id] = node
            self.stages.append(node)
            self.by_key.update((task.key, task) for task in node.tasks)

    def _rank(self) -> None:
        for node in reversed(self.stages):
            behind = max((reader.tail for reader, _ in node.reading), default=0.0)
            node.tail = behind + node.stage.estimate.task_seconds
        places = sorted(range(len(self.stages)), key=lambda place: (-self.stages[place].tail, place))
        self._by_order = [self.stages[place] for place in places]
        for order, node in enumerate(self._by_order):
            node.order = order

    def _review(self, tasks: Iterable[TaskNode]) -> None:
        """Bring `active` of these tasks, and of all that follows from it, up to date."""
        stack = list(tasks)
        while stack:
            task = stack.pop()
            was_active, needed = task.active, task.needed
            self._enter(task, task.due_state())
            active = task.active
            if active != was_active:
                step = 1 if active else -1
                task.stage.left += step
                self.work += step * task.stage.work
                self._count_reader(task, stack)
                if active and task.made and not task.stage.stage.shareable:
                    self._redo.append(task.stage)
            if task.present and not needed:
                self.spare.append(task)
            if task.busy and not active:
                self.surplus.append(task)
            if not stack and self._redo:
                stack.extend(self._spoil(self._redo.pop()))

    def _count_reader(self, task: TaskNode, stack: list[TaskNode]) -> None:
        step = 1 if task.active else -1
        passing_zero = 1 if task.active else 0
        for source, forward in task.stage.sources:
            if forward:
                part = source.tasks[task.part]
                part.readers += step
                if part.readers == passing_zero:
                    stack.append(part)
            else:
                source.readers += step
                if source.readers == passing_zero:
                    stack.extend(source.tasks)

    def _spoil(self, node: StageNode) -> list[TaskNode]:
        """A non-deterministic stage is made again: its output of before, and all that was derived from it, must not be
        mixed with its output of now (law 12)."""
        cone = [node]
        for one in cone:  # grows while it is read
            cone.extend(reader for reader, _ in one.reading if reader not in cone)
        redone = []
        for node in cone:
            for task in node.tasks:
                task.made = False
                if task.present:
                    self._remove(task)
                    redone.append(task)
                elif task.busy:
                    redone.append(task)
        self.spoiled.extend(redone)
        return redone

    def _add(self, task: TaskNode) -> None:
        node = task.stage
        task.present = task.made = True
        node.present += 1
        self._shift_missing(task, -1, whole=node.complete)

    def _remove(self, task: TaskNode) -> None:
        node = task.stage
        was_complete = node.complete
        task.present = False
        node.present -= 1
        self._shift_missing(task, 1, whole=was_complete)

    def _shift_missing(self, task: TaskNode, step: int, whole: bool) -> None:
        for reader, forward in task.stage.reading:
            if not forward and not whole:
                continue
            for reading in [reader.tasks[task.part]] if forward else reader.tasks:
                reading.missing += step
                self._refresh(reading)

    def _refresh(self, task: TaskNode) -> None:
        """An input or an attempt of the task has come or gone, which leaves the need for it as it is."""
        if task.active:
            self._enter(task, task.active_state())

    def _enter(self, task: TaskNode, state: TaskState) -> None:
        before = task.state
        if state is before:
            return
        if state not in TASK_TRANSITIONS[before]:
            raise PlanError(f"task {task} is {before} and cannot become {state}")
        task.state = state
        task.active = state is not _IDLE and state is not _PRESENT
        if state is _READY or before is _READY:
            task.ready = state is _READY
            self._count_ready(task)

    def _count_ready(self, task: TaskNode) -> None:
        """The task has become ready, or is ready no more."""
        self.changes += 1
        node = task.stage
        node.ready += 1 if task.ready else -1
        if task.ready:
            heappush(node.ready_parts, task.part)
            if node.ready == 1:
                insort(self._ready_orders, node.order)
        elif node.ready == 0:
            del self._ready_orders[bisect_left(self._ready_orders, node.order)]

    def check(self) -> None:
        """Recompute everything from what is present and running, and compare; AssertionError says what differs."""
        active = self._active_from_scratch()
        for node in self.stages:
            for task, missing in zip(node.tasks, node.missing(), strict=True):
                assert task.active == (task in active), f"{task}: active is {task.active}, should be {task in active}"
                assert task.missing == missing, f"{task}: {task.missing} inputs missing, should be {missing}"
                assert task.state is task.due_state(), f"{task}: {task.state}, should be {task.due_state()}"
        for node in self.stages:
            assert all(task.ready == (task.state is _READY) for task in node.tasks), f"{node.stage.id}: ready"
            assert node.present == sum(task.present for task in node.tasks), f"{node.stage.id}: present {node.present}"
            assert node.left == sum(task.active for task in node.tasks), f"{node.stage.id}: left {node.left}"
            assert node.ready == sum(task.ready for task in node.tasks), f"{node.stage.id}: ready {node.ready}"
            assert not node.ready or node.next_ready().ready
        work = sum(node.left * node.work for node in self.stages)
        assert abs(self.work - work) <= 1e-6 * max(1.0, work), f"work left is {self.work}, should be {work}"
        assert self._ready_orders == [node.order for node in self._by_order if node.ready]

    def _active_from_scratch(self) -> set[TaskNode]:
        active: set[TaskNode] = set()
        stack = list(self.root.tasks)
        while stack:
            task = stack.pop()
            if task.present or task in active:
                continue
            active.add(task)
            for source, forward in task.stage.sources:
                stack.extend([source.tasks[task.part]] if forward else source.tasks)
        return active


def _resolved(name: str, source: StageNode, mode: str, part: int) -> ResolvedInput:
    if mode == "forward":
        return ResolvedInput(name, (source.tasks[part].key,))
    return ResolvedInput(name, source.keys, part if mode == "partition" else None)
