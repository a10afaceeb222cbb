"""Several jobs that together have the weight of one, such as the steps of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.shares import even_shares
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.engine.task import JobId


class JobGroup:
    """Jobs with the weight of one: those that are submitted with its `terms`.

    id: unique in its cluster.
    slots: the whole slots of its share, at least 1; as many of its jobs should run at once. changed: is called in the
    cluster's thread when these are others.
    """

    def __init__(self, id: str, terms: Terms, tenant_weight: float, slots: int) -> None:
        """terms: of all jobs together."""
        self.id = id
        self._terms = replace(terms, group=id)
        self._whole = Request(id, 0, terms.weight, Resources(), (), tenant=terms.tenant, tenant_weight=tenant_weight)
        self.slots = slots
        self.changed: Callable[[], object] = lambda: None

    @property
    def terms(self) -> Terms:
        """The terms of one of `slots` jobs."""
        return replace(self._terms, weight=self._terms.weight / self.slots)

    def divide(self, jobs: Mapping[JobId, ActiveJob], requests: Sequence[Request], capacity: Resources) -> None:
        """Compute the slots again. requests: of all active jobs."""
        others = [one for one in requests if jobs[one.job].request.terms.group != self.id]
        slots = max(1, round(even_shares([*others, self._whole], capacity)[self.id].cpu))
        if slots != self.slots:
            self.slots = slots
            self.changed()
