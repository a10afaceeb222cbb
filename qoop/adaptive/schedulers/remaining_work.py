"""The work that a job has left, for the policies that read it: an estimate, computed on access.

Max-min fairness reads no plan and nothing of this (paper section 1). The policies it is compared with do:
they go by the remaining work of a job (SJF, Tetris) or by what it can wait with (Carbyne).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from qoop.catalog.value import value
from qoop.planner.packing import on_threads
from qoop.planner.plan import Resources, Stage


@value
class Way:
    """The rest of a job under one of its plans. work: slot seconds. path: seconds of its longest chain of tasks."""

    work: float
    path: float

    def seconds(self, slots: float) -> float:
        """Time that it takes at least on a number of slots: its longest path, and its work spread evenly."""
        return max(self.path, self.work / slots)


class RemainingWork(Protocol):
    """The remaining work of a job in its request, by the estimates of its plans; of the one that runs, where not said
    otherwise."""

    @property
    def work(self) -> float:
        """Slot seconds left; tasks that run count as a whole."""

    @property
    def served(self) -> float:
        """Slot seconds that it has held so far."""

    def needed(self, share: Resources) -> float:
        """Slots that the job must have in use now so as to end no later than it would with just this share."""
        ...

    def finish(self, slots: float) -> float:
        """Time that the rest takes at least on a number of slots with the plan that is best there: a job is judged by
        the plan that it would go over to."""
        ...

    def alone(self, slots: float) -> float:
        """Time that the whole job takes alone on a number of slots with the plan that is best there; infinite slots:
        the time that it takes at least."""
        ...


class Unknown:
    """Nothing is known: any amount of work, and all of the share is needed."""

    work = served = 0.0

    def needed(self, share: Resources) -> float:
        return share.cpu

    def finish(self, slots: float) -> float:
        return 0.0

    def alone(self, slots: float) -> float:
        return 0.0


UNKNOWN = Unknown()


@value
class Rest:
    """The rest of one stage. tasks: those that have not ended; of a running one the part that is left."""

    stage: Stage
    tasks: float


@value
class Latest:
    """A schedule that does everything as late as it can.

    seconds: that it takes. steps: (s, slots in use from s seconds before its end on), the latest step first.
    """

    seconds: float
    steps: tuple[tuple[float, float], ...]

    def slots(self, before_end: float) -> float:
        """Slots in use that many seconds before the end; none before the schedule begins.

        >>> Latest(5.0, ((2.0, 1.0), (5.0, 3.0))).slots(4.0)
        3.0
        """
        if before_end > self.seconds * (1.0 + _EARLY):
            return 0.0
        return next((slots for since, slots in self.steps if before_end <= since), self.steps[-1][1])


_EARLY = 1e-9


def latest(rest: Sequence[Rest], slots: float) -> Latest:
    """The schedule of what is left of a plan on `slots` slots, built from its end backwards.

    Source: the altruistic reverse schedule of Grandl et al., "Altruistic Scheduling in Multi-Resource Clusters" (OSDI
    2016, section 3.2): a list schedule of the plan with its edges turned round. Here by stage, not by task: a stage has
    as many slots as it has tasks and are free, until it is done.

    rest: by stage of the plan, in its order; those that are done may be left out.
    """
    schedule = _Backwards(rest, slots)
    steps: list[tuple[float, float]] = []
    while (step := schedule.step()) is not None:
        steps.append(step)
    return Latest(schedule.now, tuple(steps) or ((0.0, 0.0),))


def longest_path(stages: Sequence[Stage]) -> float:
    """Seconds of the longest chain of tasks through these stages of a plan, which are in its order."""
    paths: dict[str, float] = {}
    for stage in stages:
        before = max((paths.get(item.stage, 0.0) for item in stage.stage_inputs), default=0.0)
        paths[stage.id] = before + _seconds(stage)
    return max(paths.values(), default=0.0)


class _Backwards:
    """Time runs from the end to the beginning: a stage can be worked on once all of its readers are."""

    def __init__(self, rest: Sequence[Rest], slots: float) -> None:
        self.now = 0.0
        self.slots = max(1.0, slots)
        self.left = {one.stage.id: one.tasks * _seconds(one.stage) * one.stage.slots for one in rest if one.tasks > 0}
        self.most = {one.stage.id: max(1.0, one.tasks) * one.stage.slots for one in rest if one.tasks > 0}
        self.reads = {
            one.stage.id: [item.stage for item in one.stage.stage_inputs if item.stage in self.left]
            for one in rest
            if one.tasks > 0
        }
        self.readers = dict.fromkeys(self.left, 0)
        for sources in self.reads.values():
            for source in sources:
                self.readers[source] += 1
        self.behind = self._paths(rest)
        self.open = [id for id, count in self.readers.items() if not count]

    def _paths(self, rest: Sequence[Rest]) -> dict[str, float]:
        """By stage the seconds of the longest path from the beginning through it: the longer, the sooner it goes."""
        paths: dict[str, float] = {}
        for one in rest:
            if one.tasks > 0:
                before = max((paths[source] for source in self.reads[one.stage.id]), default=0.0)
                paths[one.stage.id] = before + _seconds(one.stage)
        return paths

    def step(self) -> tuple[float, float] | None:
        """To the next end of a stage: (when, slots in use until then); None when all is done."""
        if not self.open:
            return None
        slots_of = self._slots_by_stage()
        passed = min(self.left[id] / slots for id, slots in slots_of.items())
        self.now += passed
        for id, slots in slots_of.items():
            self.left[id] -= passed * slots
            if self.left[id] <= 1e-9 * slots:
                self._close(id)
        return self.now, sum(slots_of.values())

    def _slots_by_stage(self) -> dict[str, float]:
        """Slots of each open stage."""
        free = self.slots
        slots_of: dict[str, float] = {}
        for id in sorted(self.open, key=lambda id: -self.behind[id]):
            slots = min(self.most[id], free)
            if slots > 0:
                slots_of[id] = slots
                free -= slots
        return slots_of

    def _close(self, id: str) -> None:
        self.open.remove(id)
        for source in self.reads[id]:
            self.readers[source] -= 1
            if not self.readers[source]:
                self.open.append(source)


def _seconds(stage: Stage) -> float:
    return max(1e-6, on_threads(stage.estimate.task_seconds, stage.slots))
