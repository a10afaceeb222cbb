"""Deadlines of running jobs: whether each is likely to be met, told as soon as that is known, and told again if it
changes.

After MLFS (Wang, Liu and Shen, CoNEXT 2020), where a job that will be late is known by its remaining time. Here that is
a range (:func:`qoop.adaptive.cluster.job_status.remaining_time`): its likely end past the deadline is a warning, its
earliest end past it a certainty. A deadline ends nothing.

The ways to meet it are told with it: more slots; another time, where the query would take less than it was given if it
had all slots; an approximate answer, where statistics say how much of its tables that would read
(:class:`~qoop.adaptive.cluster.recording.messages.SampleOffered`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.job_status import RemainingTime, remaining_time
from qoop.adaptive.cluster.recording.messages import SampleOffered
from qoop.adaptive.replanning.decision import slowdown_of
from qoop.adaptive.replanning.slowdown import finish_time
from qoop.adaptive.schedulers.shares import times
from qoop.engine.notices import AnotherTime, DeadlineReported, InPart
from qoop.engine.run import Run
from qoop.engine.task import JobId
from qoop.planner.finish import Done
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob

CHECK_SECONDS, CHECK_PART = 0.5, 0.05
"""Seconds between checks of a job at least, or that part of what is left until its deadline or its end."""

MARGIN = 0.1
"""A verdict is told if the likely end is past the deadline, or before it, by that part of what is left."""

_MORE = (2, 4, 8, 16)
"""Times the slots of the share that may be needed."""

IN_TIME, LATE, MISSED = "in time", "late", "missed"


@dataclass(slots=True)
class _Watched:
    job: ActiveJob
    check_at: float
    verdict: str = IN_TIME
    sample: SampleOffered | None = None


class Deadlines:
    """The jobs that have deadlines.

    active: all jobs, those without deadlines too. capacity: of all machines.
    """

    def __init__(self, active: Mapping[JobId, ActiveJob], capacity: Callable[[], Resources]) -> None:
        self._jobs: dict[JobId, _Watched] = {}
        self._active = active
        self._capacity = capacity

    @property
    def next_at(self) -> float:
        """The time of the next check of a job; infinite: there is none."""
        return min((one.check_at for one in self._jobs.values()), default=math.inf)

    def add(self, job: ActiveJob, now: float) -> None:
        """Watch a job that has come, if it has a deadline."""
        if job.needed_at < math.inf:
            self._jobs[job.run.job] = _Watched(job, now + CHECK_SECONDS)

    def take(self, sample: SampleOffered) -> None:
        """The part that an approximate answer would read has become known."""
        if sample.job in self._jobs:
            self._jobs[sample.job].sample = sample

    def check_at(self, now: float) -> None:
        """Check all jobs then."""
        for one in self._jobs.values():
            one.check_at = now

    def remove(self, job: JobId) -> None:
        """The job has ended."""
        self._jobs.pop(job, None)

    def verdicts(self, now: float) -> Iterator[tuple[Run, DeadlineReported]]:
        """The verdicts that have changed, as records of the jobs' histories."""
        for one in self._jobs.values():
            if now >= one.check_at:
                changed = self._checked(one, now)
                if changed is not None:
                    yield one.job.run, changed

    def _checked(self, one: _Watched, now: float) -> DeadlineReported | None:
        slack, left = one.job.needed_at - now, _remaining_time(one.job, now)
        seconds = CHECK_PART * min(abs(slack), left.likely if left is not None else math.inf)
        one.check_at = now + max(CHECK_SECONDS, seconds)
        verdict = verdict_of(left, slack, one.verdict)
        if verdict == one.verdict:
            return None
        one.verdict = verdict
        late = left.likely - slack if left is not None else -slack
        if verdict == IN_TIME:
            return DeadlineReported(0.0, late, False)
        enough = _enough(one.job, now, slack) if verdict == LATE else None
        return DeadlineReported(
            0.0, late, verdict == MISSED, enough, self._another_time(one, now), _in_part(one, now, slack)
        )

    def _another_time(self, one: _Watched, now: float) -> AnotherTime | None:
        """The time at which the others that there are will have ended, if that is what the job lacks."""
        seconds = _whole(one.job, now, self._capacity())
        others = [job for job in self._active.values() if job is not one.job and not job.run.ending]
        if not others or seconds is None or seconds * (1.0 + MARGIN) > one.job.request.terms.deadline:
            return None
        left = [_likely(job, now) for job in others]
        wait = max((each for each in left if each is not None), default=None)
        return AnotherTime(tuple(job.run.job for job in others), None if None in left else wait, seconds)


def verdict_of(left: RemainingTime | None, slack: float, before: str) -> str:
    """left: until the end, None: not known. slack: seconds until the deadline. before: the last verdict, which stands
    unless another one is clear.

    >>> verdict_of(RemainingTime(5.0, 2.0, 9.0), 4.0, IN_TIME), verdict_of(RemainingTime(5.0, 4.5, 9.0), 4.0, LATE)
    ('late', 'missed')
    """
    if slack < 0 or (left is not None and left.least > slack):
        return MISSED
    if left is None:
        return before
    if left.likely > slack * (1.0 + MARGIN):
        return LATE
    return IN_TIME if left.likely < slack * (1.0 - MARGIN) else before


def _enough(job: ActiveJob, now: float, slack: float) -> float | None:
    """The slots with which the job would likely end in time, where some number would do."""
    share = job.run.share
    if share is None or slack <= 0:
        return None
    for more in (1, *_MORE) if job.run.expected(now) else _MORE:  # those there are would do, if they stayed
        left = _remaining_time(job, now, times(share, more))
        if left is not None and left.likely <= slack:
            return share.cpu * more
    return None


def _in_part(one: _Watched, now: float, slack: float) -> InPart | None:
    """An approximate answer that begins now, if it would be in time."""
    if one.sample is None or one.job.run.share is None:
        return None
    seconds = _whole(one.job, now, one.job.run.share)
    if seconds is None or seconds * one.sample.part > slack:
        return None
    return InPart(one.sample.within, seconds * one.sample.part)


def _whole(job: ActiveJob, now: float, share: Resources) -> float | None:
    """Seconds of the whole job on a share, by the plan and at the present slowdown; None: not known.

    No less than its longest running task has taken and what is left then: of DuckDB's plan only that tells its
        slowdown.
    """
    left = _remaining_time(job, now, share)
    if left is None:
        return None
    option, finished, slots = job.plans.running, job.run.finished(now), min(1.0, share.cpu)
    whole = times(share, 1.0 / slots)
    seconds = finish_time(option.candidate.finish, Done(), whole, slowdown_of(option, finished, whole)) / slots
    spent = max((max(each) for each in finished.running.values() if each), default=0.0)
    return max(seconds, left.likely + spent)


def _likely(job: ActiveJob, now: float) -> float | None:
    left = _remaining_time(job, now)
    return left.likely if left is not None else None


def _remaining_time(job: ActiveJob, now: float, share: Resources | None = None) -> RemainingTime | None:
    """share: in place of what the job has and should have later."""
    run = job.run
    if run.share is None or run.ending or not run.plans:
        return None
    coming = run.expected(now) if share is None else ()
    return remaining_time(job.plans.running, run.finished(now), share or run.share, coming)
