"""A job that the cluster's loop has, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qoop.engine.task import JobId

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.adaptive.cluster.messages import JobRequest
    from qoop.adaptive.cluster.remaining_work import RunRemainingWork
    from qoop.adaptive.replanning.replanner import Replanner
    from qoop.engine.events import Command
    from qoop.engine.run import Run

Order = Callable[[JobId, "Iterable[Command]"], None]
"""Obeys what a job's run says after something was done to it."""


@dataclass(slots=True)
class ActiveJob:
    """A job from its submission to its end.

    arrival: its place in the order of jobs. submitted, ends_at: seconds of the cluster's clock; ends_at: it fails then,
    None: it may take any time.
    """

    handle: JobHandle
    run: Run
    request: JobRequest
    arrival: int
    submitted: float
    ends_at: float | None
    replanner: Replanner | None
    remaining_work: RunRemainingWork

    @property
    def tenant(self) -> str:
        """The tenant of the job."""
        return self.request.terms.tenant
