"""The remaining work of a run of the cluster, for the policies that read it
(:mod:`qoop.adaptive.schedulers.remaining_work`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log

from qoop.adaptive.replanning.decision import Option, propagate
from qoop.adaptive.schedulers.remaining_work import Latest, Rest, Way, latest, longest_path
from qoop.engine.clock import Clock
from qoop.engine.run import Run
from qoop.planner.finish import Done
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, StageId
from qoop.planner.search.candidate import Candidate

_FRESH = 0.05
"""Part of a schedule's length after which it is made again from what has been done since."""

_ROUNDED = 0.02
"""Parts of the cluster that differ by less count as one."""

_MEMORY = 1e9
"""Bytes a slot, before the job has a share."""


class RunRemainingWork:
    """The remaining work of one run. It keeps the schedule that it has made, since every grant reads it.

    The job's end on its share is fixed when it is first read, and again when the share or the plan changes. If each
    read put it off, a job could yield for ever.
    """

    def __init__(
        self, run: Run, clock: Clock, served: Callable[[], float], options: Callable[[], Sequence[Option]]
    ) -> None:
        """served: slot seconds that the job has held. options: the plans that it keeps, the one that runs first."""
        self._run = run
        self._clock = clock
        self._served = served
        self._options = options
        self._path = -1.0, 0.0
        self._others: tuple[float, tuple[Plan, ...], tuple[Way, ...]] = inf, (), ()
        self._alone: dict[tuple[int, int], float] = {}
        self._basis: tuple[Resources, Plan] | None = None
        self._end = 0.0
        self._schedule = Latest(0.0, ((0.0, 0.0),))
        self._stages = -1
        self._stale = -inf

    @property
    def work(self) -> float:
        """Slot seconds left."""
        return self._run.work_left

    def needed(self, share: Resources) -> float:
        """Slots to have in use now; see :class:`~qoop.adaptive.schedulers.remaining_work.RemainingWork`."""
        left = self._run.left()
        if not left:
            return 0.0
        now, basis = self._clock.now(), (share, self._run.plan)
        other = basis != self._basis
        if other or len(left) != self._stages or now >= self._stale:
            self._schedule = latest(self._rest(now), share.cpu)
            self._stages, self._stale = len(left), now + _FRESH * self._schedule.seconds
        if other:
            self._basis, self._end = basis, now + self._schedule.seconds
        return self._schedule.slots(self._end - now)

    @property
    def served(self) -> float:
        """Slot seconds held so far."""
        return self._served()

    def ways(self) -> Sequence[Way]:
        """The rest under each plan that the job keeps, the one that runs first; finished work counts for all that can
        use it. For plans that do not run it is computed again once a part of the work is done."""
        work, options = self.work, self._options()
        if self._path[0] != work:
            self._path = work, longest_path([stage for stage, _ in self._run.left()])
        own = Way(work, self._path[1])
        if len(options) < 2:
            return (own,)
        before, plans, ways = self._others
        now = tuple(option.candidate.plan for option in options)
        if plans != now or not (1.0 - _FRESH) * before <= work <= before:
            finished = self._run.finished(self._clock.now())
            ways = tuple(_rest_of(option, propagate(option, finished, options[0])) for option in options[1:])
            self._others = work, now, ways
        return (own, *ways)

    def finish(self, slots: float) -> float:
        """See :class:`~qoop.adaptive.schedulers.remaining_work.RemainingWork`."""
        return min([way.seconds(slots) for way in self.ways()])

    def alone(self, slots: float) -> float:
        """See :class:`~qoop.adaptive.schedulers.remaining_work.RemainingWork`; the number of slots rounded to 2 %."""
        plans = [option.candidate for option in self._options()]
        key = round(log(slots) / _ROUNDED) if slots < inf else -1, len(plans)
        if key not in self._alone:
            self._alone[key] = min(_whole(plan, slots, self._memory) for plan in plans)
        return self._alone[key]

    def alone_later(self) -> Callable[[float], float]:
        """The same as a function, for when the run is gone."""
        plans, memory = [option.candidate for option in self._options()], self._memory
        return lambda slots: min(_whole(plan, slots, memory) for plan in plans)

    @property
    def _memory(self) -> float:
        share = self._run.share
        return share.memory / share.cpu if share is not None and share.cpu > 0 else _MEMORY

    def _rest(self, now: float) -> list[Rest]:
        spent: dict[StageId, float] = {}
        for one in self._run.running():
            stage = one.attempt.task.stage
            spent[stage] = spent.get(stage, 0.0) + min(1.0, one.spent(now) / max(one.seconds, 1e-6))
        return [Rest(stage, max(0.0, tasks - spent.get(stage.id, 0.0))) for stage, tasks in self._run.left()]


def _rest_of(option: Option, done: Done) -> Way:
    """The rest of a job under a plan that it may go over to."""
    plan = option.candidate.plan
    left = list(zip(plan.stages, option.candidate.finish.needed(done), strict=True))
    work = sum(count * stage.slots * on_threads(stage.estimate.task_seconds, stage.slots) for stage, count in left)
    return Way(work, longest_path([stage for stage, count in left if count]))


def _whole(plan: Candidate, slots: float, memory: float) -> float:
    """Seconds of a plan alone on a number of slots, each with that many bytes; less than one: one for a part of the
    time."""
    if slots == inf:
        return longest_path(plan.plan.stages)
    return plan.finish.seconds(Resources(max(1.0, slots), max(1.0, slots) * memory)) / min(1.0, slots)
