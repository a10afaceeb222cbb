"""The status of a running job, for people: its finished work, the resources it uses, and its end.

The end is the completion time estimate of the re-planner (paper section 4) for the plan that runs: the number that its
decisions compare, over the announced shares, if there are any. The remaining tasks may take longer or shorter than
estimated, so the end is a range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf, isfinite
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.decision import Option, own_progress, slowdown_of, slowdowns_of_duckdb, whole_slots
from qoop.adaptive.replanning.end_seconds import LEAST, MOST
from qoop.adaptive.replanning.slowdown import NEVER_OVER, ends_of_stages, finish_time
from qoop.adaptive.schedulers.shares import times
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import QoopError
from qoop.catalog.value import value
from qoop.engine.history import (
    Coming,
    Ended,
    Failed,
    Record,
)
from qoop.engine.progress import Finished, Progress
from qoop.engine.task import JobId
from qoop.planner.plan import Plan, Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle

_OVERHEAD = 0.1
"""Seconds that are always uncertain: what starting tasks and handing over the answer take."""


@value
class RemainingTime:
    """Seconds until the end: the most likely number, and from what to what it may be."""

    likely: float
    least: float
    most: float


@value
class JobStatus:
    """The status of a job.

    elapsed: seconds since it was submitted. share: its guaranteed resources, None before the first division. used: by
    its running tasks. left: None if it has ended, cannot go on (there is no slot, and none is expected), or waits for
    one.
    blocked_by: the jobs that have the slots then. preemptions: how often a task of it was interrupted for another job.
    waited: of the elapsed seconds, those before its first task began. place: in the queue of jobs that are not admitted
    yet, from 1; None: it is not in it. deadline: seconds until its answer is needed,
    below 0: that is over; None: it has none. rho: the time that it takes, to its likely end, over the time that it
    would take alone on its share (:mod:`qoop.adaptive.schedulers.finish_time`); None: not known.
    helps: ways to meet the deadline, as clauses, from the last warning that it will be missed.
    notices: sentences about outputs of earlier runs, and about outputs that would not outlive the process.
    """

    progress: Progress
    elapsed: float
    share: Resources | None
    used: Resources
    left: RemainingTime | None
    blocked_by: tuple[JobId, ...] = ()
    preemptions: int = 0
    waited: float = 0.0
    place: int | None = None
    deadline: float | None = None
    rho: float | None = None
    helps: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def queued(self) -> int:
        """Tasks that have slots, but have not begun: they wait at their machines."""
        return self.progress.queued

    @property
    def late(self) -> float | None:
        """Seconds by which it is likely to miss its deadline; below 0: it will not. None: nothing is known of it."""
        if self.deadline is None:
            return None
        return -self.deadline if self.left is None else self.left.likely - self.deadline


Alone = Callable[[float], float]
"""The seconds that a job takes alone on a number of slots."""

_TELLING = 0.1
"""Seconds that a job must take alone: of shorter ones the overhead tells more than the share."""


@value
class PastJob:
    """A job that has ended. slots: of its share, in the mean over its life. alone: see `Alone`."""

    tenant: str
    seconds: float
    slots: float
    alone: Alone

    @cached_property
    def rho(self) -> float | None:
        """See `rho_of`. It takes a simulation, so it is computed once."""
        return rho_of(self.seconds, self.slots, self.alone)


@value
class EndedJob:
    """A job that has ended, with the interface of :class:`~qoop.adaptive.cluster.job_handle.JobHandle`.

    It keeps the records and plans: no outputs and no tables. An error is kept without its traceback, which refers to
    the variables of all frames.
    """

    id: JobId
    text: str
    terms: Terms
    submitted: float
    began: float
    past: PastJob
    records: tuple[Record, ...]
    run: tuple[Plan, ...]
    known: tuple[Option, ...]

    @classmethod
    def of(cls, handle: JobHandle, past: PastJob) -> EndedJob:
        return cls(
            handle.id, handle.text, handle.terms, handle.submitted, handle.began, past,
            tuple(map(_light, handle.history())), handle.plans(), tuple(handle.options()),
        )  # fmt: skip

    def news(self, since: int) -> Sequence[Record]:
        """The events after the first `since`."""
        return self.records[since:]

    def plans(self) -> tuple[Plan, ...]:
        """The plans it has run, in order."""
        return self.run

    def options(self) -> Sequence[Option]:
        """The plans that it could have run."""
        return self.known


def _light(record: Record) -> Record:
    match record:
        case Failed(error=error) | Ended(error=QoopError() as error):
            return replace(record, error=_detached(error))
    return record


def _detached(error: QoopError) -> QoopError:
    """An error of the same class that says the same, and holds on to nothing."""
    kind = type(error)
    return kind.__new__(kind, str(error))


def rho_of(seconds: float, slots: float, alone: Alone) -> float | None:
    """The time that a job takes over the time alone on its share; None: it had none, or it is too short to tell."""
    whole = alone(slots) if slots > 0 else 0.0
    return seconds / whole if _TELLING <= whole < inf else None


def remaining_time(option: Option, finished: Finished, share: Resources, coming: Coming = ()) -> RemainingTime | None:
    """The time to the end of a job, if its share changes no more than it should; None: it never ends so. Its likely
    number is that of the decisions (:mod:`qoop.adaptive.replanning.slowdown`).

    option: the plan that runs. A share of less than a slot is one for a part of the time. coming: (seconds from now,
    share), those that should take its place; they do not count where one of all is less than a slot, or none is left in
    the end.
    """
    if 0 < share.cpu < 1:
        whole = remaining_time(option, finished, times(share, 1.0 / share.cpu))
        return whole and RemainingTime(whole.likely / share.cpu, whole.least / share.cpu, whole.most / share.cpu)
    if option.by_duckdb:
        slowdowns, factors = slowdowns_of_duckdb(option, finished, share, (LEAST, 0.5, MOST)), (1.0, 1.0, 1.0)
    else:
        rest = ends_of_stages(option.candidate.finish, own_progress(option, finished))
        slowdowns = [slowdown_of(option, finished, share)] * 3
        factors = min(1.0, rest.at(LEAST)), 1.0, max(1.0, rest.at(MOST))
    ends = partial(finish_time, option.candidate.finish, own_progress(option, finished), share)
    least, likely, most = map(ends, slowdowns)
    if coming and not any(0 < one.cpu < 1 for _, one in coming):
        later = [ends(slowdown, coming) for slowdown in slowdowns]
        if isfinite(later[1]):  # less may be expected, and not come
            least, likely, most = min(later[0], least), later[1], later[2]
    if not isfinite(likely):
        return None
    return RemainingTime(likely, max(0.0, least * factors[0] - _OVERHEAD), most * factors[2] + _OVERHEAD)


def work_done(option: Option, finished: Finished, ended: float, share: Resources) -> float:
    """The part of the work that is done, that of running tasks included, as far as the time they have taken tells.

    ended: the part of the tasks that have ended. Each counts by what it reads: a partition ten times as large as others
    ten times. DuckDB's plan is one task: the part of its seconds up to the likely end.
    """
    done = own_progress(option, finished)
    if option.by_duckdb:
        spent = max((max(one) for one in done.running.values() if one), default=0.0)
        left = remaining_time(option, finished, whole_slots(share)) if spent else None
        return ended if left is None else max(ended, min(NEVER_OVER, spent / (spent + left.likely)))
    slowdown, total, within = slowdown_of(option, finished, share), 0.0, 0.0
    for stage, content, _ in option.stages:
        seconds = stage.estimate.task_seconds
        total += stage.width * seconds
        pairs = zip(done.running.get(stage.id, ()), finished.weights.get(content, ()), strict=False)
        within += sum(min(NEVER_OVER * weight * seconds, spent / slowdown) for spent, weight in pairs)
    return min(1.0, ended + within / total) if total > 0 else ended
