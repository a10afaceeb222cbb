"""Extra slots: a job that waits with nothing running gets a slot that its machine has not got.

A running task is never made to yield, so a short query would wait for the end of a long one, and a second long
one for ever behind one that never ends. Threads share a CPU well; so a job that waits may run one task on top of the
slots there are: at once if it is believed to be short, else after a while. Its memory comes out of a part that no job
is denied, so it is little. As soon as a slot is free, the attempt has that, and its job has its share like any other.

The last extra slots are for jobs that are believed to be short. One that turns out not to be may keep it where another
is left; else it is interrupted, and waits as a long one does. So a text of unknown length is tried out, and loses no
more than a second. Tenants whose texts were short go first there
(:mod:`~qoop.adaptive.cluster.granting.short_tenants`). Where others use the CPU a short task may be late, too: so a job
with an estimate is tried several times before it waits as a long one. A text in a process of its own is judged by the
CPU seconds of that process, as soon as these are reported.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.short_tenants import Rank, ShortTenants
from qoop.adaptive.schedulers.base import Request
from qoop.engine.events import Grant, Running
from qoop.engine.history import Started
from qoop.engine.run import Run
from qoop.engine.state import State
from qoop.engine.task import AttemptId, JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import ISOLATED, Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob

BRIEF_SECONDS = 1.0
"""Estimated slot seconds up to which a job does not wait for an extra slot."""

PATIENCE_SECONDS = 1.0
"""Any other job waits for so long, with nothing running, before it gets one."""

PRESSED_SECONDS = 0.2
"""While a short job waits for an extra slot, another has that for so long, or a few times what it should take; of a
tenant with short jobs twice as long with each further try."""

OUTRANKED_SECONDS = 0.05
"""The same while the job that waits is of a tenant with a better rank; twice as long with each further try."""

_TRIES = 4
"""The tries of a job with an estimate, or of a tenant whose last query was short; any other has one."""

_MORE_SHORT = 1
"""Slots of each machine that only short jobs have. Measured in the 2 s after ten bombs of unknown tenants came to a
server of two CPUs, next to 50 short queries a second: with one slot they took 26 and 32 ms in the mean, 105 and 115 in
the 99th percentile; with two 50 and 211, as more bombs are tried at a time; with none 62 and 229. While interrupted
attempts counted, with one slot they waited for each other for seconds."""

_MOST_STOPPING = 4
"""Attempts that were interrupted and do not count. What DuckDB has grouped or sorted takes it 0.2 s to free on a full
machine, behind all others; meanwhile short jobs waited for the slot."""

_LATE = 4.0
"""A short job whose task takes longer than that multiple of its estimate is not short: others share its CPU."""

_SHORT_CPU_SECONDS = 0.1
"""A text in a process of its own is short while it has used less; its process goes behind others before."""

_UNREPORTED_SECONDS = 0.3
"""The least that it gets until its first report, which comes after 0.25 s."""

_UNSERVED_SECONDS = 4.0
"""For so long it may have used less. On a full machine, 20 ms of a CPU took over a second next to ten bombs."""

MEMORY_PART = 0.25
"""All extra attempts together get that part of what the kernels of a machine may use, on top of it,"""
LEAST_MEMORY = float(32 << 20)
"""and each no less than the smallest task asks for: else a short query waits on a small machine."""


def most_extra(capacity: Resources) -> int:
    """The number of extra attempts that a machine may have: as many as it has slots, and two at least.

    >>> most_extra(Resources(1)), most_extra(Resources(8)), most_extra(Resources(0))
    (2, 8, 0)
    """
    return max(2, math.floor(capacity.cpu)) if capacity.cpu >= 1 else 0


def most_short(capacity: Resources) -> int:
    """The number that it may have if the last of them are short: they end soon, and others need not wait for that.

    >>> most_short(Resources(1)), most_short(Resources(8)), most_short(Resources(0))
    (3, 9, 0)
    """
    return most_extra(capacity) + _MORE_SHORT if capacity.cpu >= 1 else 0


def on_slots(jobs: Mapping[JobId, ActiveJob]) -> list[Running]:
    """All attempts on slots that machines have."""
    return [item for job in jobs.values() for item in job.run.running() if not item.extra]


class ExtraSlots:
    """The jobs of a cluster that wait with nothing running, and since when.

    next_at: the next moment at which one of them has waited for long enough, or one that runs is not short after all;
    infinite if there is none. since: when they began to wait. tenants: what is known of them.
    """

    def __init__(self) -> None:
        self.next_at = math.inf
        self.since: dict[JobId, float] = {}
        self._brief: set[AttemptId] = set()  # that have an extra slot since they are believed to be short
        self._long: set[JobId] = set()  # that were believed to be short, and are not
        self._tries: Counter[JobId] = Counter()  # that a job has had, and was late in
        self.tenants = ShortTenants()

    def is_brief(self, run: Run) -> bool:
        """True for a job that is believed to be short."""
        return run.work_left <= BRIEF_SECONDS and run.job not in self._long

    def was_late(self, job: JobId) -> bool:
        """True for a job that has not ended in a try."""
        return self._tries[job] > 0

    def rank(self, job: ActiveJob) -> Rank:
        """The rank of a job among those that should be short; the lowest goes first."""
        return self.tenants.rank(job.tenant, _is_estimated(job.run))

    def begun(self, attempt: AttemptId, brief: bool) -> None:
        """The attempt has an extra slot."""
        if brief:
            self._brief.add(attempt)

    def ended(self, job: ActiveJob, now: float) -> None:
        """The job has ended."""
        self._long.discard(job.run.job)
        self._tries.pop(job.run.job, None)
        if job.run.state is State.SUCCEEDED and now - _started(job) <= BRIEF_SECONDS:
            self.tenants.note(job.tenant, True)

    def not_brief(
        self, extra: Sequence[Running], jobs: Mapping[JobId, ActiveJob], pressed: Rank | None, now: float
    ) -> list[Running]:
        """Attempts on extra slots that have turned out not to be short, each told once.

        extra: all that have one. jobs: theirs. pressed: the best rank of short jobs that wait for one.
        """
        self._brief &= {one.attempt for one in extra}
        tried = [one for one in extra if one.attempt in self._brief]
        until = {one.attempt: one.started + self._believed(one, jobs, pressed) for one in tried}
        late = [one for one in tried if until[one.attempt] <= now]
        for one in late:
            self._brief.remove(one.attempt)
            self._note_late(jobs[one.attempt.task.job], one, now)
        self.next_at = min([self.next_at, *(at for at in until.values() if at > now)])
        return late

    def _believed(self, one: Running, jobs: Mapping[JobId, ActiveJob], pressed: Rank | None) -> float:
        """Seconds after which an attempt no longer counts as short."""
        job = jobs[one.attempt.task.job]
        rank, longer = self.rank(job), 2.0 ** self._tries[job.run.job]
        if pressed is not None and pressed < rank:
            return min(max(PRESSED_SECONDS, _LATE * one.seconds), OUTRANKED_SECONDS * longer, BRIEF_SECONDS)
        if one.cpu_seconds is not None:
            return 0.0 if _is_long(one) else _UNSERVED_SECONDS
        if pressed is None:
            return BRIEF_SECONDS
        seconds = max(PRESSED_SECONDS if _is_estimated(job.run) else _UNREPORTED_SECONDS, _LATE * one.seconds)
        if rank is Rank.SHORT:  # the machine may be full
            seconds *= longer
        return min(BRIEF_SECONDS, seconds)

    def _note_late(self, job: ActiveJob, one: Running, now: float) -> None:
        """A job has not ended in a try."""
        name, rank = job.run.job, self.rank(job)
        self._tries[name] += 1
        most = _TRIES if _is_estimated(job.run) or rank is Rank.SHORT else 1
        if self._tries[name] >= most or one.spent(now) >= BRIEF_SECONDS or _is_long(one):
            self._long.add(name)
            self.tenants.note(job.tenant, False)

    def long_ones(self, extra: Iterable[AttemptId]) -> int:
        """The number of attempts on extra slots that are not believed to be short."""
        return sum(attempt not in self._brief for attempt in extra)

    def due(self, waiting: Sequence[Request], run: Callable[[JobId], Run], now: float) -> list[Request]:
        """Of the requests of jobs that wait those that may have an extra slot now, the longest waiting first."""
        if not waiting:
            self.since, self.next_at = {}, math.inf
            return []
        idle = [request for request in waiting if not run(request.job).alive]
        self.since = {request.job: self.since.get(request.job, now) for request in idle}
        until = {one.job: self.since[one.job] + patience(self.is_brief(run(one.job))) for one in idle}
        self.next_at = min((at for at in until.values() if at > now), default=math.inf)
        return sorted((one for one in idle if until[one.job] <= now), key=lambda one: self.since[one.job])


def patience(brief: bool) -> float:
    """Seconds that a job waits for an extra slot."""
    return 0.0 if brief else PATIENCE_SECONDS


def _is_estimated(run: Run) -> bool:
    """True for a job whose plan says how long it should take: a text in a child process has no estimate."""
    return not any(stage.opaque == ISOLATED for stage in run.plan.stages)


def _is_long(one: Running) -> bool:
    """True for an attempt that is known to have used more than a short text does."""
    return one.cpu_seconds is not None and one.cpu_seconds >= _SHORT_CPU_SECONDS


def _started(job: ActiveJob) -> float:
    """The time when the job began to run, after its wait for a slot."""
    begun = (one.at for one in job.run.history if isinstance(one, Started))
    return max(job.submitted, job.run.began + next(begun, 0.0))


def uncounted(extra: Iterable[AttemptId], running: Iterable[Running]) -> frozenset[AttemptId]:
    """Of the attempts on extra slots a few that were interrupted. running: those that were not."""
    going_on = {one.attempt for one in running}
    return frozenset(islice((attempt for attempt in extra if attempt not in going_on), _MOST_STOPPING))


def extra_grant(
    request: Request,
    availability: Mapping[MachineId, Available],
    extra: Mapping[AttemptId, MachineId],
    brief: bool,
    allowed: float = math.inf,
) -> Grant | None:
    """A task of the job on the machine with the fewest extra attempts; None if none may have one more.

    extra: the attempts that count. brief: the job is believed to be short; one that is not leaves the last extra slots
    of each machine to those.

    An extra attempt has one slot, and a fixed memory, or the bytes that are allowed; a task that needs more waits.
    """
    taken = Counter(extra.values())
    for machine in sorted(availability, key=lambda machine: taken[machine]):
        capacity = availability[machine].capacity
        number = most_extra(capacity)
        if taken[machine] >= (most_short(capacity) if brief else number - 1):
            continue
        share = max(LEAST_MEMORY, capacity.memory * MEMORY_PART / number)
        resources = Resources(1, float(math.floor(min(share, allowed))))
        for demand in request.demands:
            if demand.resources.fits(resources):
                return Grant(demand.job, demand.task, machine, resources, extra=True)
    return None
