"""The users whose jobs have made outputs: where users share a session, an output serves jobs of its user alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from qoop.engine.events import Committed
from qoop.engine.task import CheckpointKey

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.schedulers.terms import Terms

_MOST_KEYS = 20_000
"""Outputs whose owners are known; the others serve no user's job."""


class OutputOwners:
    """Tenant and user of each job that has ended with an output, by the output's key. An answer that is there at once
    would show what other users have queried."""

    def __init__(self) -> None:
        self._owners: OrderedDict[CheckpointKey, set[tuple[str, str]]] = OrderedDict()

    def __contains__(self, key: CheckpointKey) -> bool:
        return key in self._owners

    def add(self, job: ActiveJob, keys: Iterable[CheckpointKey]) -> None:
        """A user's job has succeeded with a plan that has these outputs."""
        if not job.request.own_outputs:
            return
        for key in keys:
            self._owners.setdefault(key, set()).add(owner_of(job.request.terms))
            self._owners.move_to_end(key)
        while len(self._owners) > _MOST_KEYS:
            self._owners.popitem(last=False)

    def readable(self, job: ActiveJob, found: Iterable[Committed]) -> tuple[Committed, ...]:
        """Those of the outputs that the job may use."""
        if not job.request.own_outputs:
            return tuple(found)
        owner = owner_of(job.request.terms)
        return tuple(one for one in found if owner in self._owners.get(one.key, ()))


def owner_of(terms: Terms) -> tuple[str, str]:
    """Tenant and user of a job."""
    return terms.tenant, terms.user
