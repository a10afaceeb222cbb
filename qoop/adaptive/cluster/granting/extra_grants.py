"""Gives extra slots to the jobs of a cluster that wait with nothing running, and interrupts a task where even those are
taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.extra_slots import ExtraSlots, extra_grant, most_extra, on_slots, uncounted
from qoop.adaptive.cluster.granting.short_tenants import Rank
from qoop.engine.task import JobId

if TYPE_CHECKING:
    from collections.abc import Callable

    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.adaptive.cluster.granting.granter import Granter
    from qoop.adaptive.cluster.granting.preemption import Preemption
    from qoop.adaptive.schedulers.base import Request
    from qoop.engine.driver import Driver
    from qoop.engine.events import Running


class ExtraGrants:
    """Applies what :class:`ExtraSlots` and :class:`Preemption` decide. See `Granter` for the arguments."""

    def __init__(
        self, jobs: Mapping[JobId, ActiveJob], driver: Driver, order: Order, note_tick: Callable[[], None]
    ) -> None:
        self._jobs = jobs
        self._driver = driver
        self._order = order
        self._note_tick = note_tick
        self._slots = ExtraSlots()
        self._preemption: Preemption | None = None  # made when a job waits with nothing running

    def is_long(self, job: ActiveJob) -> bool:
        """True for a job that is not believed to be short, or whose tenant's last one was not, and for one that was
        late in a try, unless its tenant's last one was short: then the machine may be full."""
        rank = self._slots.rank(job)
        late = rank is not Rank.SHORT and self._slots.was_late(job.run.job)
        return late or rank is Rank.NOT_SHORT or not self._slots.is_brief(job.run)

    def is_short(self, job: ActiveJob) -> bool:
        """True for a job whose estimate is short, of a tenant whose last short estimate was right."""
        return self.has_short(job.tenant) and self._slots.is_brief(job.run)

    def has_short(self, tenant: str) -> bool:
        """True for a tenant whose last job with a short estimate was short. For any thread."""
        return self._slots.tenants.rank(tenant) is Rank.SHORT

    def promote(self) -> None:
        """Let attempts on extra slots have those that are free, unless one was freed for another job."""
        if self._preemption is None or self._preemption.served is None:
            for attempt in list(self._driver.extra()):
                self._driver.promote(attempt)

    def grant(self, granter: Granter, now: float) -> None:
        """Start a task of each job that has waited for long enough with nothing running, as far as machines go."""
        pressed: list[Rank] = []
        due = granter.waiting.fairly(
            self._slots.due(granter.waiting, lambda job: self._jobs[job].run, now), self._driver.capacity
        )
        ending = uncounted(self._driver.extra(), self._running()) if due else frozenset()
        for request in sorted(due, key=lambda one: self._slots.rank(self._jobs[one.job])):
            brief = self._slots.is_brief(self._jobs[request.job].run)
            allowed = granter.limits.memory(self._jobs[request.job])
            extra = {attempt: place for attempt, place in self._driver.extra().items() if attempt not in ending}
            grant = extra_grant(request, self._driver.availability(), extra, brief, allowed)
            if grant is not None:
                self._slots.begun(granter.start(grant, now), brief)
            elif brief:
                pressed.append(self._slots.rank(self._jobs[request.job]))
        self._end_not_brief(min(pressed, default=None), now)

    def _running(self) -> list[Running]:
        """The attempts on extra slots that are not to end."""
        if not self._driver.extra():
            return []
        return [one for job in self._jobs.values() for one in job.run.running() if one.extra]

    def _end_not_brief(self, pressed: Rank | None, now: float) -> None:
        """Stop attempts that have an extra slot for being thought short, unless another is left for short ones."""
        running = self._running()
        for one in self._slots.not_brief(running, self._jobs, pressed, now):
            self._note_tick()
            here = [other.attempt for other in running if other.machine == one.machine]
            if self._slots.long_ones(here) >= most_extra(self._driver.available(one.machine).capacity):
                running.remove(one)
                why = "it is not short, and the last slot on top of what there is is for those that are"
                job = one.attempt.task.job
                self._order(job, self._jobs[job].run.give_up([one.attempt], why, now=now))
                self._slots.next_at = now  # for the jobs that wait, since it no longer counts

    def interrupt(self, waiting: Sequence[Request], now: float) -> None:
        """Interrupt a task for a job that has waited for long enough with nothing running."""
        since = self._slots.since
        if self._preemption is None:
            if not since:
                return
            self._preemption = _preemption()
        self._preemption.waiting(since, now)
        if not since or self._driver.leaving or any(job.run.stopping for job in self._jobs.values()):
            return
        running = on_slots(self._jobs)
        for request in sorted(waiting, key=lambda one: since.get(one.job, now)):
            found = self._preemption.choose(request, running, self._driver.availability(), now)
            if found is not None:
                self._give_way(self._preemption, found, request.job, now)
                return

    def _give_way(self, resort: Preemption, one: Running, other: JobId, now: float) -> None:
        """Interrupt a task for another job, behind which its own has to wait."""
        job = self._jobs[one.attempt.task.job]
        job.arrival = max(some.arrival for some in self._jobs.values()) + 1
        resort.interrupted(job.run.job, other)
        waited, lost = resort.waited(other, now), one.spent(now)
        why = f"{other} has waited for {waited:.0f} s with nothing running; {lost:.0f} s are lost"
        self._order(job.run.job, job.run.give_up([one.attempt], why, now=now))

    def preemptions(self, job: JobId) -> int:
        """The number of times that a task of the job was interrupted for another job."""
        return self._preemption.times(job) if self._preemption is not None else 0

    def ended(self, job: ActiveJob, now: float) -> None:
        """The job has ended."""
        self._slots.ended(job, now)
        if self._preemption is not None:
            self._preemption.forget(job.run.job)

    def moments(self) -> Iterable[float]:
        """Seconds of the clock at which a job has waited for long enough, or is checked again."""
        yield self._slots.next_at
        if self._preemption is not None and self._preemption.next_at is not None:
            yield self._preemption.next_at


def _preemption() -> Preemption:
    from qoop.adaptive.cluster.granting.preemption import Preemption  # most jobs begin at once

    return Preemption()
