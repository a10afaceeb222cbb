"""Tasks that are granted a place in the queue of a machine (:mod:`qoop.engine.node_queues`), and called back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.engine.task import AttemptId, JobId, MachineId
from qoop.planner.packing import Availability, Available

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.adaptive.cluster.granting.granter import Granter
    from qoop.adaptive.schedulers.base import Scheduler
    from qoop.engine.driver import Driver
    from qoop.engine.node_queues.policy import NodeQueueing


class NodePlaces:
    """Sends ready tasks of a cluster ahead to where they should begin first."""

    def __init__(
        self,
        jobs: Mapping[JobId, ActiveJob],
        driver: Driver,
        scheduler: Scheduler,
        queueing: NodeQueueing,
        order: Order,
    ) -> None:
        self._jobs = jobs
        self._driver = driver
        self._scheduler = scheduler
        self._order = order
        self._call_back_after = queueing.call_back_after
        self._placement = queueing.placer()
        self._called_back: set[AttemptId] = set()

    def grant(self, granter: Granter, now: float) -> None:
        """Have ready tasks wait at machines, and call back those that would begin sooner elsewhere."""
        self._send_ahead(granter, now)
        self._call_back(bool(granter.waiting), now)

    def _send_ahead(self, granter: Granter, now: float) -> None:
        """Have ready tasks wait where they should begin first, as far as the queues of the machines go."""
        nodes, availability = self._driver.nodes, self._driver.availability()
        assert nodes is not None
        machines = self._busy()
        waiting = {request.job: request for request in granter.waiting} if machines else {}
        empty = Availability((name, Available(one.capacity, one.capacity)) for name, one in availability.items())
        left = {name: job.run.job_left for name, job in self._jobs.items()} if waiting else {}
        while waiting:
            grant = self._scheduler.next_grant(tuple(waiting.values()), empty, now)
            if grant is None:
                return
            grant = replace(grant, waits=True)
            fitting = [name for name in machines if grant.resources.fits(availability[name].capacity)]
            machine = self._placement.choose(fitting, nodes, self._driver.ticket(grant, now), left, now)
            if machine is None:
                del waiting[grant.job]
                continue
            granter.start(replace(grant, machine=machine), now)
            job = self._jobs[grant.job]
            left[grant.job], waiting[grant.job] = job.run.job_left, granter.request(job)
            if not waiting[grant.job].demands:
                del waiting[grant.job]

    def _busy(self) -> list[MachineId]:
        """The machines that stay and have no slot free. Nothing waits for an elastic task: it gives slots back as soon
        as tasks need them."""
        elastic = {one.machine for job in self._jobs.values() for one in job.run.elastic()}
        return [
            name
            for name, one in self._driver.availability().items()
            if one.capacity.cpu >= 1 and one.free.cpu < 1 and name not in self._driver.leaving and name not in elastic
        ]

    def _idle(self) -> int:
        """Free slots that no task was called back for."""
        availability = self._driver.availability()
        return max(
            0, sum(math.floor(availability[name].free.cpu) for name in availability.open) - len(self._called_back)
        )

    def _call_back(self, others_wait: bool, now: float) -> None:
        """Call back tasks that wait where no slot is left, or for longer than a slot that is idle elsewhere.

        others_wait: other tasks wait for the slots that are free.
        """
        nodes, availability = self._driver.nodes, self._driver.availability()
        assert nodes is not None
        waiting = [(attempt, machine) for attempt, machine in nodes.waiting() if attempt not in self._called_back]
        self._called_back.intersection_update(attempt for attempt, _ in nodes.waiting())
        waits = {machine: nodes.next_end(machine, now) for _, machine in waiting}
        long = [one for one in waiting if waits[one[1]] > self._call_back_after]
        moved = sorted(long, key=lambda one: -waits[one[1]])[: 0 if others_wait else self._idle()]
        gone = [one for one in waiting if availability[one[1]].capacity.cpu < 1]
        for attempt, _ in dict.fromkeys([*gone, *moved]):
            self._called_back.add(attempt)
            job = self._jobs.get(attempt.task.job)
            if job is not None:
                why = "it waits at its machine, and another has a slot"
                self._order(job.run.job, job.run.give_up([attempt], why, now=now))
