"""The baselines of adapting: planners that choose once, and the best plan in hindsight."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from qoop.adaptive.replanning.baselines import AtLaunch, clarinet, hindsight, volcano
from qoop.adaptive.replanning.decision import DecisionInput, Option, Stay, Switch, stages_back
from qoop.adaptive.replanning.greedy import Greedy
from qoop.engine.progress import Finished
from qoop.engine.task import content_of
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate

COLUMNS = (("x", "INTEGER"),)


def candidate(*stages: tuple[str, int, float, tuple[str, ...]]) -> Candidate:
    """Stages as (name, tasks, seconds of each, what it reads)."""
    made = tuple(
        Stage(name, "", tuple(StageInput(one, one, "all") for one in reads), COLUMNS, width, name,
              estimate=Estimate(task_seconds=seconds))
        for name, width, seconds, reads in stages
    )  # fmt: skip
    return Candidate(Plan(made, COLUMNS), stages[0][0])


NARROW = candidate(("scan", 1, 10.0, ()))
WIDE = candidate(("parts", 8, 2.0, ()))


def done(option: Option, *stages: str, running: tuple[tuple[str, float], ...] = ()) -> Finished:
    """These stages of the plan that runs are finished; others have run for some seconds."""
    content = {stage.id: content_of(stage) for stage, _, _ in option.stages}
    width = {stage.id: stage.width for stage, _, _ in option.stages}
    return Finished(
        present={content[id]: width[id] for id in stages},
        spent={content[id]: 1.0 for id in stages},
        running={content[id]: (seconds,) for id, seconds in running},
        done={id: width[id] if id in stages else 0 for id in content},
    )


def test_volcano_takes_the_least_work_whatever_there_is() -> None:
    assert volcano([WIDE, NARROW]) is NARROW


def test_volcano_leaves_out_plans_that_were_cut_for_fewer_slots() -> None:
    wide, narrow = replace(WIDE, available=Resources(8)), replace(NARROW, available=Resources(1))
    assert volcano([narrow, wide]) is wide


def test_clarinet_takes_the_earliest_finisher_on_what_there_is_at_launch() -> None:
    assert clarinet([NARROW, WIDE], Resources(8)) is WIDE
    assert clarinet([NARROW, WIDE], Resources(1)) is NARROW
    assert clarinet([NARROW, NARROW], Resources(1)) is NARROW


def test_hindsight_is_the_plan_that_would_have_ended_first() -> None:
    taken = {NARROW.origin: 7.0, WIDE.origin: 5.0}
    best = hindsight([NARROW, WIDE], lambda one: taken[one.origin])
    assert (best.candidate, best.seconds, best.all) == (WIDE, 5.0, (7.0, 5.0))


A, B = Option("A", NARROW), Option("B", WIDE)


def test_the_choice_at_launch_has_no_hysteresis() -> None:
    nearly = Option("C", candidate(("nearly", 1, 9.9, ())))
    question = DecisionInput((A, nearly), 0, done(A), Resources(1))
    assert isinstance(AtLaunch(Greedy()).decide(question), Switch)
    assert isinstance(Greedy().decide(question), Stay)


def test_a_task_begun_in_this_moment_is_no_reason_to_keep_the_plan() -> None:
    begun = done(A, running=(("scan", 0.0),))
    assert isinstance(AtLaunch().decide(DecisionInput((A, B), 0, begun, Resources(8))), Switch)


def test_once_it_runs_the_plan_is_kept_or_another_policy_decides() -> None:
    question = DecisionInput((A, B), 0, done(A, running=(("scan", 0.5),)), Resources(8))
    assert isinstance(AtLaunch().decide(question), Stay)
    assert isinstance(AtLaunch(Greedy()).decide(question), Switch)


def test_a_plan_that_cannot_end_is_left_even_so() -> None:
    finished = done(A, running=(("scan", 0.5),))
    recipes = frozenset((content, A.made_of[content]) for content in finished.running)
    stuck = Finished(finished.present, finished.spent, finished.running, finished.done, {}, recipes)
    question = DecisionInput((A, B), 0, stuck, Resources(8))
    assert question.remaining[0].seconds == inf
    assert isinstance(AtLaunch().decide(question), Switch)


# --- backtracking -------------------------------------------------------------------------------------------

DEEP = Option("A", candidate(("ab", 1, 1.0, ()), ("abc", 1, 1.0, ("ab",)), ("abcd", 9, 9.0, ("abc",))))
FORTH = Option("B", candidate(("ab", 1, 1.0, ()), ("abc", 1, 1.0, ("ab",)), ("root", 1, 1.0, ("abc",))))
BACK = Option("C", candidate(("ab", 1, 1.0, ()), ("abd", 1, 0.5, ("ab",)), ("root", 1, 0.5, ("abd",))))
OTHER = Option("D", candidate(("dc", 1, 0.5, ()), ("root", 1, 0.1, ("dc",))))


def test_how_deep_a_switch_goes_back() -> None:
    both = done(DEEP, "ab", "abc")
    assert [stages_back(DEEP, to, both) for to in (FORTH, BACK, OTHER)] == [0, 1, 2]
    assert [stages_back(DEEP, to, done(DEEP, "ab")) for to in (FORTH, BACK, OTHER)] == [0, 0, 1]
    assert [stages_back(DEEP, to, done(DEEP)) for to in (FORTH, BACK, OTHER)] == [0, 0, 0]


def test_without_backtracking_only_plans_count_that_go_on_from_what_was_reached() -> None:
    question = DecisionInput((DEEP, BACK, FORTH, OTHER), 0, done(DEEP, "ab", "abc"), Resources(1))
    free, bound = Greedy().decide(question), Greedy(backtracking=False).decide(question)
    assert isinstance(free, Switch) and (free.plan, free.stages_back) == (3, 2)
    assert isinstance(bound, Switch) and (bound.plan, bound.stages_back) == (2, 0)
    only_back = DecisionInput((DEEP, BACK), 0, done(DEEP, "ab", "abc"), Resources(1))
    assert isinstance(Greedy(backtracking=False).decide(only_back), Stay)
