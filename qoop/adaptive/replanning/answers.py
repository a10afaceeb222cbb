"""A question about the plan of a job, and how it is answered: the only place where planning takes time.

``answer`` runs in the planner thread; it is pure but for the seconds that it measures of itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import (
    AGAIN,
    MISSED,
    SHARE,
    START,
    Decision,
    DecisionInput,
    Option,
    Stay,
    Switch,
    observed_errors,
    reestimate,
)
from qoop.catalog.value import value
from qoop.engine.task import Content, JobId, content_of, own_non_deterministic
from qoop.planner.estimate.observed import NOTHING, Observation, Observations, Tables, observe
from qoop.planner.plan import Plan, StageId
from qoop.planner.search.candidate import Candidate, plan_name

SEARCH_SECONDS = 0.03
"""About how long the search for alternatives takes one core, for each stage of the launch plan."""

WORTH_PART = 0.05
"""Part of what is left that the search may take then: most searches find no plan worth going over to."""

WORTH_PART_UNKNOWN = 0.5
"""The same where DuckDB's plan runs: the other plans are still unknown."""

WORTH_PART_SHARE = 0.25
"""The same where the share has changed: that is what other plans are for, and the plan that runs goes on meanwhile."""

WAITS_PART = 0.06
"""Part of the time that DuckDB's plan has run that a search among all plans may take, where a quick search was made.
Over the 99 queries of TPC-DS at scale 10, 12 ran for longer than that plan was estimated to take. The search among all
took them 0.3 s of CPU time in the mean, and found a better plan for none."""

WORTH_SECONDS = 0.3
"""Estimated seconds left below which it is not worth searching again."""

MOST_OPTIONS = 32
"""Plans of a job from which on the search does not run again."""

StageNews = tuple[Plan, StageId, Observation]


@value
class PlannerRequest:
    """A question with what its answer takes. before: what was observed when the options were estimated; news: since
    then; seconds: of functions and of tables that had to be waited for, so far. found: the alternatives are among the
    options."""

    question: DecisionInput
    before: Observations
    news: tuple[StageNews, ...]
    adaptive: Adaptive
    job: JobId
    found: bool
    seconds: Observations = NOTHING

    @cached_property
    def observed(self) -> Observations:
        """All that was observed."""
        observed = self.before if self.seconds.empty else self.before | self.seconds
        for plan, stage, observation in self.news:
            observed = observed | observe(plan, {stage: observation})
        if observed.empty:
            return observed
        return observed | Observations(errors=observed_errors(self.question.options, observed))


@value
class Answer:
    """A decision.

    question: with the options as they are by now; found: the alternatives are among them. served: the options as they
    were decided on, with the finished work of others built in. observed: what the options were estimated with.
    searched: what a search for plans that were not known, or the first look, has found; None: there was none.
    seconds: that the answer took; searching: of these, for that search.
    """

    question: DecisionInput
    served: tuple[Option, ...]
    decision: Decision
    found: bool
    observed: Observations
    searched: tuple[Candidate, ...] | None
    seconds: float
    searching: float = 0.0

    @property
    def runs(self) -> int:
        """The place of the plan that runs from now on."""
        return self.decision.plan if isinstance(self.decision, Switch) else self.question.running

    @property
    def options(self) -> tuple[Option, ...]:
        """The options after a switch: the one that is switched to is as it runs, at the slowdown of the one before."""
        runs = replace(self.served[self.runs], slowdown=self.question.slowdown_of_others)
        return tuple(runs if place == self.runs else option for place, option in enumerate(self.question.options))


@value
class Useful:
    """The options to keep of those that the running plan of some options has read for the last time."""

    options: tuple[Option, ...]
    running: int
    contents: frozenset[Content]


Work = Callable[[], Answer | Useful]


def answer(request: PlannerRequest) -> Answer:
    """Decide on a question; makes the alternatives first, if that was not done and there is time for it.

    Pure, and the only place where planning takes time: this runs in the planner thread.
    """
    begun = time.perf_counter()
    question = reestimate_all(request.question, request.observed)
    launch = question.options[0].candidate.plan
    waits = _waits_for_search(request, question)
    if question.quick_search or (waits and len(question.options) > 1):
        return _among_known(request, question, None, begun)
    left = max(question.remaining[question.running].seconds, _lasting(question))
    found = request.found or request.adaptive.at_once or search_seconds(launch) <= _worth_part(question) * left
    stays = Stay("too little is left to make other plans", question.remaining)
    first_plans = (
        request.adaptive.quick_search(question.now / question.finished.slowed)
        if found and _begins_with_few_plans(request, question)
        else None
    )
    if first_plans is not None and (not first_plans or waits or START in question.causes):
        return _after_quick_search(request, question, first_plans, begun)
    candidates, searching = None, 0.0
    if found and (not request.found or question.least == inf or _none_is_good(request, question)):
        since = time.perf_counter()
        candidates = tuple(request.adaptive.find(request.observed))
        question = searched(request, question, candidates)
        searching = time.perf_counter() - since
    served = question.with_reuse() if found else question
    decision = request.adaptive.policy.decide(served) if found else stays
    seconds = time.perf_counter() - begun
    return Answer(question, served.options, decision, found, request.observed, candidates, seconds, searching)


def _after_quick_search(
    request: PlannerRequest, question: DecisionInput, first_plans: Sequence[Candidate], begun: float
) -> Answer:
    """The decision among DuckDB's plan and those of a first look. The search among all is still to come."""
    if first_plans:
        question = replace(searched(request, question, first_plans), quick_search=True)
        return _among_known(request, question, tuple(first_plans), begun)
    decision = Stay("other plans should take much longer", question.remaining)
    seconds = time.perf_counter() - begun
    return Answer(question, question.options, decision, False, request.observed, None, seconds)


def _among_known(
    request: PlannerRequest, question: DecisionInput, first_plans: tuple[Candidate, ...] | None, begun: float
) -> Answer:
    """The decision among the plans of the quick search. first_plans: if it has only just ended."""
    question = question.with_reuse()
    decision = request.adaptive.policy.decide(question)
    seconds = time.perf_counter() - begun
    return Answer(question, question.options, decision, False, request.observed, first_plans, seconds)


def _begins_with_few_plans(request: PlannerRequest, question: DecisionInput) -> bool:
    """True if DuckDB's plan runs, nothing has happened, and no other plan is known."""
    return not request.found and question.by_duckdb and len(question.options) == 1 and _nothing_but_time(question)


def _waits_for_search(request: PlannerRequest, question: DecisionInput) -> bool:
    """True if DuckDB's plan has only run for longer than it should, and a search among all plans would take much of the
    time that it has run."""
    overdue = not request.found and question.by_duckdb and set(question.causes) == {AGAIN}
    return overdue and WAITS_PART * question.now < search_seconds(question.options[0].candidate.plan)


def _nothing_but_time(question: DecisionInput) -> bool:
    """True if the job has begun, or gone on for longer than it should, and nothing else has happened."""
    return bool(question.causes) and set(question.causes) <= {START, AGAIN}


def _lasting(question: DecisionInput) -> float:
    """Seconds that DuckDB's plan goes on for, by its age alone: as long as it has run.

    Only once the share has changed. Before a search its estimate tells of tables and not of joins, and may be a tenth
    of what it takes.
    """
    running = question.options[question.running].candidate.plan
    return question.now if running.root.whole and _other_share(question) else 0.0


def _worth_part(question: DecisionInput) -> float:
    """Part of what is left that a search may take."""
    if question.options[0].candidate.plan.root.whole:
        return WORTH_PART_UNKNOWN
    return WORTH_PART_SHARE if _other_share(question) else WORTH_PART


def _other_share(question: DecisionInput) -> bool:
    """True if the share has changed, or one that was expected has not come."""
    return not {SHARE, MISSED}.isdisjoint(question.causes)


def search_seconds(launch: Plan) -> float:
    """About how long the search for alternatives of a launch plan takes. DuckDB's plan of one stage tells no more than
    the tables: each is about one stage, and two more join them."""
    stages = 2 + len(launch.root.inputs) if launch.root.whole else len(launch.stages)
    return SEARCH_SECONDS * stages


def searched(request: PlannerRequest, question: DecisionInput, found: Sequence[Candidate]) -> DecisionInput:
    """The question with the plans that a search found, given all that was observed."""
    options = with_candidates(question.options, found, request.job, request.observed.tables)
    return reestimate_all(replace(question, options=options), request.observed)


def reestimate_all(question: DecisionInput, observed: Observations) -> DecisionInput:
    """The question with the estimates of its options put right."""
    if observed.empty and not question.finished.memory:
        return question
    options = tuple(reestimate(option, observed, question.finished.memory) for option in question.options)
    same = all(new is old for new, old in zip(options, question.options, strict=True))
    return question if same else replace(question, options=options)


def _none_is_good(request: PlannerRequest, question: DecisionInput) -> bool:
    """True if even the best option takes much longer than was believed before the news."""
    if len(question.options) >= MOST_OPTIONS or question is request.question or question.least < WORTH_SECONDS:
        return False
    return question.least > request.adaptive.triggers.search * request.question.least


def with_candidates(
    options: tuple[Option, ...], found: Sequence[Candidate], job: JobId, known: frozenset[Tables] = frozenset()
) -> tuple[Option, ...]:
    """The options and the found plans that are not among them, with non-deterministic stages of the job's own.
    known: the tables over which something had been seen when they were found."""
    if len(options) == 1 and found:  # of the launch plan only the plan was known, not the machine it is judged by
        options = (replace(options[0], candidate=replace(found[0], plan=options[0].candidate.plan, origin="launch")),)
    places = {_sketch(option.candidate.plan): place for place, option in enumerate(options)}
    result = list(options)
    for candidate in found:
        plan = own_non_deterministic(candidate.plan, job)
        place = places.setdefault(_sketch(plan), len(result))
        if place < len(result) and plan.root.whole:  # more is known of DuckDB's plan now
            result[place] = replace(result[place], candidate=replace(candidate, plan=plan))
        elif place == len(result):
            result.append(Option(plan_name(len(result)), replace(candidate, plan=plan), known=known))
    return tuple(result)


def _sketch(plan: Plan) -> tuple[object, ...]:
    """Equal for two plans of one query that are the same: by the outputs of their stages and the slots of a task."""
    return tuple((content_of(stage), stage.slots) for stage in plan.stages)
