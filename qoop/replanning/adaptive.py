"""The parts that a job needs to change plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from qoop.catalog.value import value
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate
from qoop.replanning.decision import Policy
from qoop.replanning.greedy import Greedy
from qoop.replanning.triggers import Triggers

Find = Callable[[Observations], Sequence[Candidate]]
Behind = Callable[[float], bool]


def _never(_: float) -> bool:
    return False


@value
class Adaptive:
    """Lets a job change plan.

    find: makes the alternatives, given what is known better than when its statistics were collected. Called in
        the planner thread, at most once for the start and once for every time that no known plan is good; a pure
        function. at_once: it has them ready (a plan cache), so it is called at the start.
    behind: called before that, in the planner thread, with the seconds that the job has run. True if other plans should
        take so much longer than DuckDB's, by which it has begun, that none are to be made before something happens.
    available: the share that the plan was made for. demand_aware: the scheduler hears how many resources the chosen
    plan has a use for (:mod:`qoop.schedulers.demand_aware`). begin_with: slots that are taken at most until the first
    decision, where that decides on slots, too; None: all.
    """

    find: Find
    available: Resources
    at_once: bool = False
    policy: Policy = field(default_factory=Greedy)
    triggers: Triggers = field(default_factory=Triggers)
    demand_aware: bool = False
    begin_with: float | None = None
    behind: Behind = _never
