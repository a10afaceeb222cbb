"""The job with the least left to do goes first.

Source: shortest remaining time first (Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time
Discipline", Operations Research 1968), as cluster schedulers are compared with it (Grandl et al., SIGCOMM 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim
from qoop.schedulers.max_min import first_fitting


class SJF:
    """Least estimated slot seconds left; of equal ones the earlier job. What does not fit is passed over.

    It knows the work of a job by its :class:`~qoop.schedulers.outlook.Outlook`. A long job can wait for as long as
    shorter ones keep coming.
    """

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        return first_fitting(shortest_first(claims), rooms)

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        """The shortest job can count on everything, the others on nothing."""
        first = shortest_first(claims)[:1]
        return {claim.job: capacity if claim in first else Resources() for claim in claims}


def shortest_first(claims: Sequence[Claim]) -> list[Claim]:
    """By the work that is left, then in the order they came."""
    return sorted(claims, key=lambda claim: (claim.outlook.work, claim.arrival))
