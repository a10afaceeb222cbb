"""Deadlines of running jobs: whether each is likely to be met, told as soon as that is known, and told again if it
changes.

After MLFS (Wang, Liu and Shen, CoNEXT 2020), where a job that will be late is known by its remaining time. Here that is
a range (:func:`qoop.control.job_status.left_of`): its likely end past the deadline is a warning, its earliest end past
it a certainty. A deadline ends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qoop.control.job_status import Left, left_of
from qoop.engine.history import DeadlineTold
from qoop.engine.run import Run
from qoop.engine.task import JobId
from qoop.planner.plan import Resources
from qoop.replanning.decision import Option
from qoop.schedulers.shares import times

LOOK, LOOK_PART = 0.5, 0.05
"""Seconds between looks at a job at least, or that part of what is left until its deadline or its end."""

MARGIN = 0.1
"""A verdict is told if the likely end is past the deadline, or before it, by that part of what is left."""

_MORE = (2, 4, 8, 16)
"""Times the slots of the share that may be needed."""

IN_TIME, LATE, MISSED = "in time", "late", "missed"


@dataclass(slots=True)
class _Watched:
    run: Run
    runs: Callable[[], Option]
    needed_at: float
    look_at: float
    verdict: str = IN_TIME


class Deadlines:
    """The jobs that have deadlines. next_at: when one of them is to be looked at next; infinite: never."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Watched] = {}

    @property
    def next_at(self) -> float:
        return min((one.look_at for one in self._jobs.values()), default=math.inf)

    def add(self, run: Run, runs: Callable[[], Option], needed_at: float, now: float) -> None:
        """A job whose answer is needed by that time has come. runs: the plan that it runs."""
        self._jobs[run.job] = _Watched(run, runs, needed_at, now + LOOK)

    def remove(self, job: JobId) -> None:
        """It has ended."""
        self._jobs.pop(job, None)

    def look(self, now: float) -> Iterator[tuple[Run, DeadlineTold]]:
        """News of jobs since the last time, as records of their histories."""
        for one in self._jobs.values():
            if now >= one.look_at:
                told = _look(one, now)
                if told is not None:
                    yield one.run, told


def _look(one: _Watched, now: float) -> DeadlineTold | None:
    slack, left = one.needed_at - now, _left(one, now)
    one.look_at = now + max(LOOK, LOOK_PART * min(abs(slack), left.likely if left is not None else math.inf))
    verdict = verdict_of(left, slack, one.verdict)
    if verdict == one.verdict:
        return None
    one.verdict = verdict
    late = left.likely - slack if left is not None else -slack
    return DeadlineTold(0.0, late, verdict == MISSED, _enough(one, now, slack) if verdict == LATE else None)


def verdict_of(left: Left | None, slack: float, before: str) -> str:
    """left: until the end, None: not known. slack: seconds until the deadline. before: the last verdict, which stands
    unless another one is clear.

    >>> verdict_of(Left(5.0, 2.0, 9.0), 4.0, IN_TIME), verdict_of(Left(5.0, 4.5, 9.0), 4.0, LATE)
    ('late', 'missed')
    """
    if slack < 0 or (left is not None and left.least > slack):
        return MISSED
    if left is None:
        return before
    if left.likely > slack * (1.0 + MARGIN):
        return LATE
    return IN_TIME if left.likely < slack * (1.0 - MARGIN) else before


def _enough(one: _Watched, now: float, slack: float) -> float | None:
    """The slots with which the job would likely end in time, where some number would do."""
    share = one.run.share
    if share is None or slack <= 0:
        return None
    for more in _MORE:
        left = _left(one, now, times(share, more))
        if left is not None and left.likely <= slack:
            return share.cpu * more
    return None


def _left(one: _Watched, now: float, share: Resources | None = None) -> Left | None:
    run = one.run
    share = share or run.share
    if share is None or run.ending or not run.plans:
        return None
    return left_of(one.runs(), run.finished(now), share)
