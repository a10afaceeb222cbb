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

_ALONE = "group"
"""The name of the one job that stands for the group, where shares are divided."""


class JobGroup:
    """Jobs with the weight of one: those that are submitted with its `terms`.

    slots: the whole slots of its share, at least 1; as many of its jobs should run at once. changed: is called in the
    cluster's thread when these are others.
    """

    def __init__(self, terms: Terms, tenant_weight: float, slots: int) -> None:
        """terms: of all jobs together."""
        self._terms = terms
        self._whole = Request(
            _ALONE, 0, terms.weight, Resources(), (), tenant=terms.tenant, tenant_weight=tenant_weight
        )
        self._issued: dict[int, Terms] = {}
        self.slots = slots
        self.changed: Callable[[], object] = lambda: None

    @property
    def terms(self) -> Terms:
        """The terms of one of `slots` jobs."""
        if self.slots not in self._issued:
            self._issued[self.slots] = replace(self._terms, weight=self._terms.weight / self.slots)
        return self._issued[self.slots]

    def divide(self, jobs: Mapping[JobId, ActiveJob], requests: Sequence[Request], capacity: Resources) -> None:
        """Compute the slots again. requests: of all active jobs."""
        mine = {id(one) for one in tuple(self._issued.values())}
        others = [one for one in requests if id(jobs[one.job].request.terms) not in mine]
        slots = max(1, round(even_shares([*others, self._whole], capacity)[_ALONE].cpu))
        if slots != self.slots:
            self.slots = slots
            self.changed()
