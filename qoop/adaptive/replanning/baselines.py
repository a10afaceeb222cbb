"""Baselines for adapting: planners that choose once, and the best choice in hindsight (paper section 6).

Each takes the plans of one query and names one of them. :class:`AtLaunch` makes the same choice inside a run, where
what a job is given at its start is not known before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from qoop.adaptive.replanning.decision import Decision, DecisionInput, Policy, Stay, switch_to
from qoop.adaptive.replanning.triggers import Triggers
from qoop.catalog.value import value
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

NEVER = Triggers(share=inf, rows=inf)
"""Nothing that changes is a reason to think again about the plan; it is chosen at the start."""

NO_ROW_COUNTS = Triggers(rows=inf)
"""Only what happens to resources is a reason to think again, as in the paper."""


def volcano(candidates: Sequence[Candidate]) -> Candidate:
    """The plan of the least total work, whatever there is to run it on; of equal ones the first.

    Source: the cost-based choice of Graefe and McKenna, "The Volcano Optimizer Generator", ICDE 1993. The cost is slot
    seconds of all tasks, moving rows between stages included. Into how many tasks a plan is cut is no part of that
    choice (there it follows from the data): only plans count that were made for as many slots as any. Among all plans
    the least work is always one of hardly any tasks, hundreds of times slower than the others: no engine would run it.
    """
    widest = max(one.available.cpu for one in candidates)
    return min((one for one in candidates if one.available.cpu == widest), key=lambda one: one.finish.work())


def clarinet(candidates: Sequence[Candidate], share: Resources) -> Candidate:
    """The plan that ends first on the resources there are at launch, to be kept whatever becomes of them.

    Source: Viswanathan, Ananthanarayanan and Akella, "Clarinet: WAN-Aware Optimization for Analytics Queries", OSDI
    2016, as the paper takes it for a baseline. Of equal ones the first.
    """
    return min(candidates, key=lambda one: one.finish.seconds(share))


@value
class Hindsight:
    """The best single plan for resources that were known all along. seconds: that the query takes with it; all: with
    each of the plans, in their order."""

    candidate: Candidate
    seconds: float
    all: tuple[float, ...]


def hindsight(candidates: Sequence[Candidate], seconds: Callable[[Candidate], float]) -> Hindsight:
    """The plan with which the query would have ended first. seconds: how long it takes, held to that plan, under the
    resources as they turned out; the plans are run one after the other."""
    every = tuple(seconds(one) for one in candidates)
    best = min(range(len(every)), key=lambda place: every[place])
    return Hindsight(candidates[best], every[best], every)


@value
class AtLaunch:
    """As long as nothing of the query has run: the plan that ends first on the share told, however little it gains.

    The same if the plan that runs cannot come to its end.

    then: decides from there on; None: the plan is kept. With None and the triggers :data:`NEVER` that is
    Clarinet for a job whose share is known only when it comes; with :class:`~qoop.adaptive.replanning.greedy.Greedy` it
    is a re-planner that starts with the same plan as Clarinet.
    """

    then: Policy | None = None

    def decide(self, question: DecisionInput) -> Decision:
        if question.at_launch or question.remaining[question.running].seconds == inf:
            places = range(len(question.options))
            best = min(places, key=lambda i: (question.remaining[i].seconds, i != question.running, i))
            return _go(question, best, "no other plan would end sooner")
        if self.then is not None:
            return self.then.decide(question)
        return Stay("the plan is kept that was chosen at launch", question.remaining)


def _go(question: DecisionInput, place: int, why: str) -> Decision:
    return Stay(why, question.remaining) if place == question.running else switch_to(question, place)
