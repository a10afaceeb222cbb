"""Gives what machines have free to the tasks that are ready, in every turn of the loop.

::

    scheduler.next_grant(requests, available, now) -> Grant -> run -> Start -> backend      until nothing fits
    tasks that wait at machines                                                    node_places.py
    extra slots, and preemption                                                    extra_grants.py
    elastic tasks                                                                  elastic.py
    tasks whose machines shrink                                                    revocation.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.elastic import ElasticAttempts
from qoop.adaptive.cluster.granting.extra_grants import ExtraGrants
from qoop.adaptive.cluster.granting.extra_slots import on_slots
from qoop.adaptive.cluster.granting.revocation import Fate, decide, offers, shared_evenly
from qoop.adaptive.cluster.granting.spare_resources import with_spare_memory, with_spare_slots
from qoop.adaptive.cluster.granting.tenant_limits import TenantLimits, within
from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.task import AttemptId, JobId
from qoop.planner.packing import Availability, Available
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.adaptive.cluster.granting.node_places import NodePlaces
    from qoop.adaptive.cluster.options import ClusterOptions
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.engine.driver import Driver
    from qoop.engine.events import Grant
    from qoop.engine.node_queues.policy import NodeQueueing

_WHY = {
    Fate.MOVE: "its resources will be taken away before it ends; others are free elsewhere",
    Fate.STOP: "its resources will be taken away before it ends; another task can end before that",
}


class Granter:
    """Starts the tasks of a cluster's jobs.

    jobs: those that there are; the cluster changes them. order: see `Order`. note_tick: is called before something is
    decided that no event led to. long: jobs that were not believed to be short when they got their last slots. short:
    those that were, and whose tenants' last ones were short.
    """

    def __init__(
        self,
        jobs: Mapping[JobId, ActiveJob],
        driver: Driver,
        scheduler: Scheduler,
        order: Order,
        note_tick: Callable[[], None],
        options: ClusterOptions,
    ) -> None:
        self._jobs = jobs
        self._driver = driver
        self._scheduler = scheduler
        self._order = order
        self._tenants = options.tenants
        self.waiting = Waiting()
        self.limits = TenantLimits(jobs, driver)
        self.long: set[JobId] = set()
        self.short: set[JobId] = set()
        self.extra = ExtraGrants(jobs, driver, order, note_tick) if options.extra_slots else None
        self._elastic = ElasticAttempts(jobs, driver, self.limits, order)
        queueing = options.queueing
        self._places = None if queueing is None else _node_places(jobs, driver, scheduler, queueing, order)

    def grant(self, now: float) -> None:
        """Start what can be started, and change what those that run have."""
        if self.extra is not None:
            self.extra.promote()
        self._grant_all(now)
        if self._places is not None:
            self._places.grant(self, now)
        if self.extra is not None:
            self.extra.grant(self, now)
        if self._elastic.any:
            self._elastic.regrant({request.job for request in self.waiting}, now)
        if self.extra is not None:
            self.extra.interrupt(self.waiting, now)
        if self._driver.leaving:
            self._clear_out(now)

    def ended(self, job: ActiveJob) -> None:
        """The job has ended."""
        self.waiting.drop(job.run.job)
        self.long.discard(job.run.job)
        self.short.discard(job.run.job)
        if self.extra is not None:
            self.extra.ended(job, self.waiting.now)

    def moments(self) -> Iterable[float]:
        """Seconds of the clock at which something is to be granted, or looked at, though nothing has happened."""
        return () if self.extra is None else self.extra.moments()

    def request(self, job: ActiveJob) -> Request:
        """The resources that a job has and could use, with all that schedulers ask of it."""
        run, replanner = job.run, job.replanner
        used, ready, terms = self._driver.used_by(run.job), run.ready(), job.request.terms
        if self._places is not None:  # or one job would get all places in the queues
            used = used + self._driver.promised_to(run.job)
        if replanner is not None and replanner.slots is not None:
            ready = within(ready, used, Resources(replanner.slots, math.inf, math.inf, math.inf))
        return Request(
            run.job, job.arrival, terms.weight, used,
            self.limits.allowed(job, ready) if self.limits.any else ready, job.remaining_work,
            terms.tenant, self.tenant_weight(terms),
            job.submitted, job.submitted + terms.deadline, terms.priority, self._driver.extra_slots(run.job),
            job.request.gain,
        )  # fmt: skip

    def tenant_weight(self, terms: Terms) -> float:
        """The weight of the tenant of a job."""
        return self._tenants.get(terms.tenant, 1.0) if self._tenants else 1.0

    def start(self, grant: Grant, now: float) -> AttemptId:
        """Start what was granted; its job waits for what it has ready besides."""
        job = self._jobs[grant.job]
        if self.extra is not None and self.extra.is_long(job):
            self.long.add(grant.job)
            self.short.discard(grant.job)
        elif self.extra is not None and self.extra.is_short(job):
            self.short.add(grant.job)
        spec = self._driver.apply(grant, now).spec
        if spec.most:
            self._elastic.begun(grant.job)
        self._let_wait([job])
        return spec.attempt

    def _let_wait(self, jobs: Sequence[ActiveJob]) -> None:
        """Jobs of which something has changed wait with what they hold and want now."""
        for job in self.limits.with_limited(jobs) if self.limits.any else jobs:
            self.waiting.put(self.request(job))

    def _grant_all(self, now: float) -> None:
        """Start tasks until the scheduler finds none that fits."""
        self._let_wait(dirty_jobs(self._jobs, self._driver))
        self._driver.dirty_jobs.clear()
        availability = self._driver.availability()
        while self.waiting and availability.open:
            found = self._next_grant(self.waiting, availability, now)
            if found is None:
                return
            grant, available = found
            grant = with_spare_slots(grant, available, self._most_slots(grant))
            allowed = self.limits.memory(self._jobs[grant.job]) if self.limits.any else math.inf
            self.start(with_spare_memory(grant, available, self.waiting, allowed), now)

    def _next_grant(
        self, requests: Sequence[Request], availability: Availability, now: float
    ) -> tuple[Grant, Available] | None:
        """The scheduler's next grant, and the resources out of which it may have spare memory."""
        leaving = self._driver.leaving
        if not leaving:
            grant = self._scheduler.next_grant(requests, availability, now)
            return None if grant is None else (grant, availability[grant.machine])
        for some, places in offers(requests, availability, leaving, on_slots(self._jobs), now):
            grant = self._scheduler.next_grant(some, places, now)
            if grant is not None:
                return grant, shared_evenly(places[grant.machine], availability[grant.machine])
        return None

    def _most_slots(self, grant: Grant) -> float:
        job = self._jobs[grant.job]
        most = job.run.most_slots(grant.task)
        if not most:
            return 0.0
        most = self.limits.bounded(job, most)
        return most if job.replanner is None or job.replanner.slots is None else min(most, job.replanner.slots)

    def _clear_out(self, now: float) -> None:
        """Stop the attempts that will lose their resources and have better to do."""
        waiting = [demand for job in self._jobs.values() for demand in job.run.ready()]
        fates = decide(on_slots(self._jobs), self._driver.leaving, self._driver.availability(), waiting, now)
        for attempt, fate in fates.items():
            why = _WHY.get(fate)
            if why is not None:
                job = attempt.task.job
                self._order(job, self._jobs[job].run.give_up([attempt], why, now=now))


def dirty_jobs(jobs: Mapping[JobId, ActiveJob], driver: Driver) -> list[ActiveJob]:
    """The jobs that anything has happened to since they last got resources, in the order in which they came."""
    found = [jobs[name] for name in driver.dirty_jobs if name in jobs]
    return found if len(found) < 2 else sorted(found, key=_arrival)


def _arrival(job: ActiveJob) -> int:
    return job.arrival


def _node_places(
    jobs: Mapping[JobId, ActiveJob], driver: Driver, scheduler: Scheduler, queueing: NodeQueueing, order: Order
) -> NodePlaces:
    from qoop.adaptive.cluster.granting.node_places import NodePlaces  # most machines begin what they get

    return NodePlaces(jobs, driver, scheduler, queueing, order)
