"""Jobs that take no more than they need to end as early as on their fair share, and leave the rest to others.

Source: Grandl, Chowdhury, Akella and Ananthanarayanan, "Altruistic Scheduling in Multi-Resource Clusters", OSDI 2016:
the share by dominant resource fairness, what a job can do without by a reverse schedule of its plan (section 3.2), the
leftover by shortest remaining work and then packing (section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import by_share, first_fitting, with_available
from qoop.adaptive.schedulers.shares import even_shares
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.tpcds.schedulers.sjf import shortest_first


@dataclass(eq=False)
class Carbyne(Scheduler):
    """First what each job needs of its fair share, the poorest first; then what is left, to the shortest job.

    Work conserving. It knows what a job needs by its :class:`~qoop.adaptive.schedulers.remaining_work.RemainingWork`; a
    job that has no share yet needs nothing.
    """

    _shares: dict[JobId, Resources] = field(default_factory=dict, init=False, repr=False)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if not with_available(availability)[0]:
            return None
        for request in by_share(requests, availability):
            share = self._shares.get(request.job)
            if share is not None and request.used.cpu < min(share.cpu, request.remaining_work.needed(share)):
                grant = first_fitting([request], availability)
                if grant is not None:
                    return grant
        return first_fitting(shortest_first(requests), availability)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        self._shares = even_shares(requests, capacity)
        for request in requests:
            request.remaining_work.needed(self._shares[request.job])  # the end it must keep is fixed now
        return self._shares
