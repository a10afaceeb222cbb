"""The policies that choose the plan of a job, all behind :class:`~qoop.replanning.decision.Policy`.

::

    greedy     Greedy     the plan that ends first, if the share lasts for ever, or becomes what it should
    robust     Robust     at the start the plan of the least regret over likely shares; after that as greedy
    forecast   Forecast   the plan that ends first in the mean, if the share moves on as it did
    cheapest   Priced     the plan and the number of slots with the fewest slot seconds, by the deadline if there is one

A trace holds these with all their parameters, so that a replay decides as they did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from qoop.replanning.decision import Policy
from qoop.replanning.greedy import Greedy


def policy_named(name: str) -> Policy:
    """The policy that the option `policy` of a session names, with its usual parameters."""
    made: Mapping[str, Callable[[], Policy]] = {
        "greedy": Greedy, "robust": _robust, "forecast": _forecast, "cheapest": _cheapest,
    }  # fmt: skip
    return made[name]()


def written() -> Mapping[str, type[Any]]:
    """The classes of policies that a trace holds whole, by name."""
    from qoop.replanning.forecast import Forecast
    from qoop.replanning.price import Priced
    from qoop.replanning.robust import Robust

    return {kind.__name__: kind for kind in (Greedy, Robust, Forecast, Priced)}


def _robust() -> Policy:  # loaded only where it is wanted, as the next is
    from qoop.replanning.robust import Robust

    return Robust()


def _cheapest() -> Policy:
    from qoop.replanning.price import Priced

    return Priced(((0.0, 1.0),))


def by_deadline(policy: Policy, deadline: float) -> Policy:
    """The policy of a job with a deadline, in seconds from its start; infinite: it has none."""
    if deadline == inf:
        return policy
    if isinstance(policy, Greedy):
        return replace(policy, deadline=deadline)
    from qoop.replanning.forecast import Forecast
    from qoop.replanning.price import Priced
    from qoop.replanning.robust import Robust

    if isinstance(policy, Priced):
        return replace(policy, deadline=deadline)
    if isinstance(policy, Forecast):
        return replace(policy, greedy=replace(policy.greedy, deadline=deadline))
    if isinstance(policy, Robust) and policy.then is not None:
        return replace(policy, then=replace(policy.then, deadline=deadline))
    return policy


def _forecast() -> Policy:
    from qoop.replanning.forecast import Forecast

    return Forecast()
