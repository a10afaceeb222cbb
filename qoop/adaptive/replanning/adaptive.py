"""The parts that a job needs to change plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.triggers import Triggers
from qoop.catalog.value import value
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

Find = Callable[[Observations], Sequence[Candidate]]
QuickSearch = Callable[[float], Sequence[Candidate] | None]


def _at_all(_: float) -> None:
    return None


@value
class Known:
    """The seconds that the best plan of a query took which has run, but for those by which other programs slowed it,
    and whether it was DuckDB's own."""

    seconds: float
    by_duckdb: bool


@value
class Adaptive:
    """Lets a job change plan.

    find: makes the alternatives, given what is known better than when its statistics were collected. Called in
        the planner thread, at most once for the start and once for every time that no known plan is good; a pure
        function. at_once: it has them ready (a plan cache), so it is called at the start.
    quick_search: called before that, in the planner thread, with the seconds that the job has run by DuckDB's plan,
        without those by which other programs slowed it.
        Makes the first plans to compare that with, all others only once there is a reason. Empty: none should come near
        it.
        None: all plans are to be compared at once.
    available: the share that the plan was made for.
    search_after: seconds of undisturbed work by DuckDB's plan after which `quick_search` is called, if `at_once`.
    begin_with: slots that are taken at most until the first decision, where that decides on slots, too; None: all.
    known: a plan that has run; while the job runs by one of the other kind, that is a trial, which ends when it should
    take longer.
    """

    find: Find
    available: Resources
    at_once: bool = False
    policy: Policy = field(default_factory=Greedy)
    triggers: Triggers = field(default_factory=Triggers)
    begin_with: float | None = None
    quick_search: QuickSearch = _at_all
    known: Known | None = None
    search_after: float = 0.0
