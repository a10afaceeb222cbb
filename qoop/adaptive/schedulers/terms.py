"""The terms of a job: its tenant, and how soon and how urgently its answer is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

USUAL_PRIORITY = 5.0


@value
class Terms:
    """tenant: shares are of tenants first; jobs that name none are for the same one.

    user: whose limits hold besides those of the tenant, see `Cluster.limit`.
    weight: within its tenant, above 0.
    priority: 1 to 10, the more the more urgent, for schedulers that ask.
    deadline: seconds from its submission by which the answer is needed; infinite: at no time. It ends nothing.
    group: the id of the jobs that together have the weight of one, such as the steps of a sweep; empty: it has none.
    Raises ConfigError.
    """

    tenant: str = ""
    weight: float = 1.0
    priority: float = USUAL_PRIORITY
    deadline: float = math.inf
    user: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"the weight of a job must be above 0, not {self.weight}")
        if not self.deadline > 0:
            raise ConfigError(f"deadline must be above 0 seconds, not {self.deadline}")
        if not 1 <= self.priority <= 10:
            raise ConfigError(f"priority must be from 1 to 10, not {self.priority}")

    def later(self, seconds: float) -> Terms:
        """These of a job that is submitted so much later, for an answer that is needed at the same moment.

        >>> Terms(deadline=5.0).later(2.0).deadline, Terms(deadline=5.0).later(6.0).deadline
        (3.0, 0.001)
        """
        return replace(self, deadline=max(_AT_ONCE, self.deadline - seconds))


_AT_ONCE = 0.001
"""Seconds from its submission by which a job is needed that is late already."""


def tenant_weights(name: str, weights: Mapping[str, float] | str) -> dict[str, float]:
    """The weights of tenants, of a mapping or a text. Raises ConfigError.

    >>> tenant_weights("tenants", "dashboards=2, night=0.5")
    {'dashboards': 2.0, 'night': 0.5}
    """
    try:
        if isinstance(weights, str):
            pairs = [part.rsplit("=", 1) for part in weights.split(",") if part.strip()]
            weights = {tenant.strip(): float(weight) for tenant, weight in pairs}
        found = {str(tenant): float(weight) for tenant, weight in weights.items()}
    except (ValueError, TypeError, AttributeError):
        found = {"": math.nan}
    if not all(0 < weight < math.inf for weight in found.values()):
        raise ConfigError(f"{name} must be names with weights above 0, such as 'dashboards=2,night=1', not {weights!r}")
    return found
