"""The tasks of a plan that still have to run, and those that can run now, kept up to date event by event.

Need flows backward from the root by reference counts. A task is *wanted* while the job (for the root) or
some active task reads it; it is *active* while it is wanted and its output is not present. An active task
wants everything it reads. So a start, a switch, a lost checkpoint and a finished reader are all the same
thing: a count passes zero and the tasks behind it are looked at again. No event looks at all tasks; over a
run the work is proportional to tasks plus (task, stage read) pairs.

A task is *ready* when it is active, nothing it reads is missing and no attempt at it is alive.

Stages of one plan with equal signature and layout put out the same checkpoints and are one node here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator
from heapq import heappop, heappush

from qoop.engine.task import CheckpointKey, Content, ResolvedInput, checkpoint_key, layout_digest
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Stage, StageId


class TaskNode:
    """One part of a stage. `readers` counts active tasks that read this part alone (forward inputs)."""

    __slots__ = ("active", "busy", "key", "made", "missing", "part", "present", "readers", "ready", "stage")

    def __init__(self, stage: StageNode, part: int, key: CheckpointKey) -> None:
        self.stage = stage
        self.part = part
        self.key = key
        self.readers = 0
        self.missing = 0
        self.active = False
        self.present = False
        self.made = False  # was present at some time
        self.busy = False  # an attempt is alive, be it on its way to stop
        self.ready = False

    @property
    def wanted(self) -> bool:
        return self.stage.readers > 0 or self.readers > 0

    def __str__(self) -> str:
        return f"{self.stage.stage.id}.{self.part}"


class StageNode:
    """A stage of the plan. `readers` counts active tasks that read all of it, and the job for the root.

    tail: estimated seconds from the start of one of its tasks to the end of the job on the longest path:
        the upward rank of HEFT (Topcuoglu, Hariri, Wu 2002).
    dependent: the output depends on a non-deterministic stage (law 12), so it must not serve another plan.
    left: how many of its tasks are active. work: estimated slot seconds of each.
    weights: of its tasks by what they read, once that is known and somebody asked; see `progress`.
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
                    node.present += 1
            for task, missing in zip(node.tasks, node.missing(), strict=True):
                task.missing = missing
        self.root = self.nodes[plan.root.id]
        self.root.readers = 1
        self._review(self.root.tasks)
        self.spare = [task for task in self.tasks() if task.present and not task.wanted]
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
        """An attempt at the task has started."""
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
        """Give up an output that is not wanted. It is made again should it ever be."""
        self._remove(task)

    def drain(self) -> tuple[list[TaskNode], list[TaskNode], list[TaskNode]]:
        """Return and forget (tasks with an attempt but no use for it, present tasks that are not wanted, tasks whose
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
            wanted = task.wanted
            active = wanted and not task.present
            if active != task.active:
                task.active = active
                step = 1 if active else -1
                task.stage.left += step
                self.work += step * task.stage.work
                self._count_reader(task, stack)
                if active and task.made and not task.stage.stage.shareable:
                    self._redo.append(task.stage)
            if task.present and not wanted:
                self.spare.append(task)
            if task.busy and not active:
                self.surplus.append(task)
            self._refresh(task)
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
        touched = []
        for node in cone:
            for task in node.tasks:
                task.made = False
                if task.present:
                    self._remove(task)
                    touched.append(task)
                elif task.busy:
                    touched.append(task)
        self.spoiled.extend(touched)
        return touched

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
        ready = task.active and task.missing == 0 and not task.busy
        if ready == task.ready:
            return
        task.ready = ready
        self.changes += 1
        node = task.stage
        node.ready += 1 if ready else -1
        if ready:
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
                assert task.ready == (task.active and not missing and not task.busy), f"{task}: ready is {task.ready}"
        for node in self.stages:
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
