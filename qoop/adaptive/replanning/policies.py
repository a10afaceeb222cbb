"""The policies that choose the plan of a job, all behind :class:`~qoop.adaptive.replanning.decision.Policy`.

::

    greedy     Greedy     the plan that ends first, if the share lasts for ever, or becomes what it should
    cheapest   Priced     the plan and the number of slots with the fewest slot seconds, by the deadline if there is one

A trace holds these with all their parameters, so that a replay decides as they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.price import Priced


def policy_named(name: str) -> Policy:
    """The policy that the option `policy` of a session names, with its usual parameters."""
    policies: Mapping[str, Policy] = {"greedy": Greedy(), "cheapest": Priced(((0.0, 1.0),))}
    return policies[name]


def written() -> Mapping[str, type[Any]]:
    """The classes of policies that a trace holds whole, by name."""
    return {kind.__name__: kind for kind in (Greedy, Priced)}


def by_deadline(policy: Policy, deadline: float) -> Policy:
    """The policy of a job with a deadline, in seconds from its start; infinite: it has none."""
    if deadline < inf and isinstance(policy, Greedy | Priced):
        return replace(policy, deadline=deadline)
    return policy
