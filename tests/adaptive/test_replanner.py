"""Decisions alone: declare what is finished, with these statistics, and read what is decided. Nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.answers import Answer, PlannerRequest, answer
from qoop.adaptive.replanning.decision import (
    AGAIN,
    START,
    DecisionInput,
    Option,
    Stay,
    Switch,
    complete,
    left_out,
    own_progress,
    propagate,
    reestimate,
    useful,
)
from qoop.adaptive.replanning.decision import SHARE as CHANGED
from qoop.adaptive.replanning.greedy import Greedy
from qoop.engine.history import Remaining
from qoop.engine.progress import Finished
from qoop.engine.task import JobId, content_of
from qoop.planner.estimate.observed import NOTHING, Observation, Observations
from qoop.planner.estimate.reestimate import ROW_SECONDS
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageId, StageInput
from qoop.planner.search.candidate import Candidate, plan_name

COLUMNS = (("x", "INTEGER"),)


def option(text: str, name: str = "A") -> Option:
    """``id width seconds [reads …] [as=signature] [rows=n] [parts=n] [island]``, the last line is the root."""
    plan = Plan(tuple(_stage(line.split()) for line in text.strip().splitlines()), COLUMNS)
    return Option(name, Candidate(plan, ""))


def _stage(words: list[str]) -> Stage:
    name, width, seconds, *rest = words
    told = dict(word.split("=") for word in rest if "=" in word)
    reads = [word for word in rest if "=" not in word and word != "island"]
    return Stage(
        name,
        "",
        tuple(StageInput(read, read, "all") for read in reads),
        COLUMNS,
        int(width),
        told.get("as", name),
        layout=Layout(("x",), int(told["parts"])) if "parts" in told else Layout(),
        estimate=Estimate(rows=float(told.get("rows", 100)), task_seconds=float(seconds)),
        shareable="island" not in rest,
    )


def finished(
    by: Option, done: Mapping[StageId, int], running: Mapping[StageId, float] | None = None, **spent: float
) -> Finished:
    """That many parts of the stages of a plan, which runs, are held; one attempt each at some has run so long."""
    content = {stage.id: content_of(stage) for stage, _, _ in by.stages}
    usable = {stage.id for stage, _, usable in by.stages if usable}
    return Finished(
        present={content[id]: parts for id, parts in done.items() if id in usable},
        spent={content[id]: spent.get(id, 1.0 * parts) for id, parts in done.items()},
        running={content[id]: (seconds,) for id, seconds in (running or {}).items()},
        done=dict.fromkeys(content, 0) | dict(done),
    )


A = option("scan 4 1\njoin 2 3 scan\nroot 1 1 join", "A")
B = option("first 4 1 as=scan\nother 8 1 first\nroot 1 1 other", "B")
SHARE = Resources(4, 0)


def ask(*options: Option, done: Finished, share: Resources = SHARE, running: int = 0) -> DecisionInput:
    return DecisionInput(options, running, done, share)


# --- progress ---------------------------------------------------------------------------------------------


def test_finished_parts_count_for_every_plan_that_has_the_same_stage_under_whatever_name() -> None:
    done = propagate(B, finished(A, {"scan": 3}, {"scan": 0.25}), A)
    assert done.parts == {"first": 3} and done.running == {"first": (0.25,)}


def test_a_running_task_that_makes_the_same_of_other_things_says_nothing_of_another_plan() -> None:
    whole = option("all 1 100 as=root", "A")
    fine = option("scan 4 20\nroot 1 1 scan", "B")
    running = finished(whole, {}, {"all": 60.0})
    assert propagate(fine, running, whole).running == {}
    assert own_progress(whole, running).running == {"all": (60.0,)}
    assert ask(whole, fine, done=running).remaining[1].seconds == pytest.approx(21.0, abs=0.1)
    assert propagate(whole, finished(fine, {"scan": 4}, {"root": 0.5}), fine).running == {}


def test_parts_cut_otherwise_do_not_count() -> None:
    cut = option("first 4 1 as=scan parts=8\nroot 1 1 first", "B")
    assert propagate(cut, finished(A, {"scan": 4}), A).parts == {}


def test_what_rests_on_a_non_deterministic_stage_counts_for_its_own_plan_only() -> None:
    mine = option("draw 1 1 island\nuse 1 1 draw\nroot 1 1 use")
    same = option("draw 1 1 island\nuse 1 1 draw\nroot 1 2 use as=other", "B")
    progress = finished(mine, {"draw": 1, "use": 1})
    assert propagate(same, progress, mine).parts == {}
    assert propagate(same, replace(progress, present={content: 1 for _, content, _ in same.stages}), mine).parts == {}
    assert own_progress(mine, progress).parts == {"draw": 1, "use": 1, "root": 0}


def test_a_finished_stage_far_up_makes_all_below_it_needless() -> None:
    deep = option("a 9 5\nb 9 5 a\nc 2 1 b\nroot 1 1 c", "B")
    top = option("c 2 1\nroot 1 1 c as=r", "A")
    seconds = ask(top, deep, done=finished(top, {"c": 2})).remaining[1].seconds
    assert seconds == pytest.approx(1.0, abs=0.1)


# --- the work left out ------------------------------------------------------------------------------------


def test_work_is_left_out_where_the_new_plan_has_neither_the_stage_nor_what_was_made_of_it() -> None:
    assert left_out(A, B, finished(A, {"scan": 4, "join": 1})) == 1.0
    assert left_out(A, B, finished(A, {"scan": 4})) == 0.0


def test_work_that_went_into_a_finished_stage_of_the_new_plan_is_not_left_out() -> None:
    only_join = option("join 2 3\nmore 1 1 join\nroot 1 1 more", "B")
    assert left_out(A, only_join, finished(A, {"scan": 4, "join": 2})) == 0.0
    assert left_out(A, only_join, finished(A, {"scan": 4, "join": 1})) == 4.0


def test_kept_is_what_another_plan_could_take_over() -> None:
    assert content_of(A.candidate.plan.stages[0]) in useful([A, B], 0)
    assert content_of(A.candidate.plan.stages[1]) not in useful([A, B], 0)
    assert content_of(B.candidate.plan.stages[1]) in useful([A, B], 0), "it may be gone back to"


def test_only_whole_stages_are_offered_to_other_plans() -> None:
    assert [one.stage.id for one in complete([A, B], finished(A, {"scan": 4, "join": 1}))] == ["scan"]


# --- the choice -------------------------------------------------------------------------------------------


def test_the_plan_that_ends_first_on_the_share_is_chosen() -> None:
    done = finished(A, {"scan": 4})
    wide = ask(A, B, done=done, share=Resources(8, 0))
    narrow = ask(A, B, done=done, share=Resources(1, 0))
    decision = Greedy().decide(wide)
    assert isinstance(decision, Switch) and decision.plan == 1
    before, after = (decision.candidates[place].seconds for place in (0, 1))
    assert decision.keep == ("first",) and after < before
    assert isinstance(Greedy().decide(narrow), Stay)


def test_the_end_that_a_plan_was_chosen_for_is_told_once_it_runs() -> None:
    """Tasks took three times as long as estimated, and nothing of the new plan has told anything else yet."""
    asked = ask(A, B, done=finished(A, {"scan": 4}, scan=12.0), share=Resources(8, 0))
    decision = Greedy().decide(asked)
    assert asked.slowdown > 2 and isinstance(decision, Switch)
    options = Answer(asked, asked.options, decision, False, NOTHING, None, 0.0).options
    fresh = ask(*options, done=finished(B, {}), share=Resources(8, 0), running=1)
    assert fresh.slowdown == asked.slowdown and options[0].slowdown == 1.0


def test_plans_with_little_in_common_must_differ_by_more() -> None:
    apart = option("first 3 1\nsecond 2 2 first\nroot 1 1 second", "B")
    alike = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "C")
    questions = [ask(A, other, done=finished(A, {"scan": 1}), share=Resources(1, 0)) for other in (apart, alike)]
    assert all(isinstance(Greedy(careful=False).decide(question), Switch) for question in questions)
    first, second = (Greedy().decide(question) for question in questions)
    assert isinstance(first, Stay) and "only one of both" in first.reason
    assert isinstance(second, Switch)


def test_where_the_best_plan_has_too_little_in_common_the_next_is_looked_at() -> None:
    apart = option("first 3 1\nsecond 2 1.9 first\nroot 1 1 second", "B")
    alike = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "C")
    question = ask(A, apart, alike, done=finished(A, {"scan": 1}), share=Resources(1, 0))
    assert question.least == question.remaining[1].seconds < question.remaining[2].seconds
    decision = Greedy().decide(question)
    assert isinstance(decision, Switch) and decision.plan == 2


def test_a_small_gain_is_no_reason() -> None:
    nearly = option("scan 4 1\nother 2 2.8 scan\nroot 1 1 other", "B")
    question = ask(A, nearly, done=finished(A, {"scan": 4}))
    assert isinstance(stay := Greedy(careful=False).decide(question), Stay) and "15%" in stay.reason
    assert isinstance(Greedy(hysteresis=0.01).decide(question), Switch)


def test_after_misestimates_a_gain_must_be_larger_to_be_believed() -> None:
    better = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "B")  # a quarter sooner
    question = ask(A, better, done=finished(A, {"scan": 4}))
    assert isinstance(Greedy().decide(question), Switch)
    assert isinstance(Greedy().decide(replace(question, misestimates=2)), Stay)


def test_changes_that_lose_work_must_gain_ever_more() -> None:
    better = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "B")  # a quarter sooner
    question = replace(ask(A, better, done=finished(A, {"scan": 4})), causes=("share",))
    assert question.by_share
    decided = [isinstance(Greedy().decide(replace(question, losses=losses)), Switch) for losses in range(4)]
    assert decided == [True, True, False, False], "10, 19, 34, 57 %"
    assert isinstance(Greedy(careful=False).decide(replace(question, losses=3)), Switch)


def test_a_change_that_leaves_out_a_tenth_of_the_work_loses() -> None:
    other = option("first 4 1\nroot 1 1 first", "B")
    shared = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "C")
    question = ask(A, other, shared, done=finished(A, {"scan": 2}, {"join": 0.1}))
    assert [question.loses(place) for place in range(3)] == [False, True, False]
    assert ask(A, shared, done=finished(A, {"scan": 1}, {"join": 0.5})).loses(1), "tasks that run count, too"


def test_before_anything_is_seen_a_gain_must_be_larger_to_be_believed() -> None:
    better = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "B")
    slow = option("scan 4 1\nother 2 9 scan\nroot 1 1 other", "A")
    assert isinstance(Greedy().decide(ask(A, better, done=finished(A, {}))), Stay)
    assert isinstance(Greedy().decide(ask(slow, better, done=finished(slow, {}))), Switch)


def test_what_is_to_come_is_what_plans_are_compared_on() -> None:
    """The first plan is better on one slot, the other, of eight small tasks, on four."""
    alone, soon = ask(A, B, done=finished(A, {}), share=Resources(1, 0)), ((0.5, Resources(8, 0)),)
    told = replace(alone, coming=soon)
    assert alone.remaining[0].seconds < alone.remaining[1].seconds
    assert told.remaining[1].seconds < told.remaining[0].seconds < alone.remaining[0].seconds
    slow = replace(told, finished=finished(A, {"scan": 2}, scan=6.0))
    on_eight = replace(slow, coming=(), share=Resources(8, 0))
    assert slow.slowdown > 1.5 and slow.remaining[0].seconds > on_eight.remaining[0].seconds


def test_a_plan_that_was_chosen_for_a_share_that_will_not_last_has_no_privilege() -> None:
    better = option("scan 4 1\nother 2 2.7 scan\nroot 1 1 other", "B")  # a twentieth sooner
    question = replace(ask(A, better, done=finished(A, {})), causes=(START,))
    assert isinstance(Greedy().decide(question), Stay)
    told = replace(question, coming=((2.0, Resources(5, 0)),))
    assert told.unfitted and isinstance(Greedy().decide(told), Switch)
    too_late = replace(question, coming=((60.0, Resources(8, 0)),))
    assert not too_late.unfitted and isinstance(Greedy().decide(too_late), Stay)
    begun = replace(told, finished=finished(A, {"scan": 1}))
    assert not begun.unfitted and isinstance(Greedy().decide(begun), Stay)


def test_running_tasks_count_for_the_running_plan() -> None:
    faster = option("scan 4 1\nother 2 2 scan\nroot 1 1 other", "B")
    started = finished(A, {"scan": 4}, {"join": 2.5})
    assert isinstance(Greedy().decide(ask(A, faster, done=finished(A, {"scan": 4}))), Switch)
    both = replace(started, running=dict.fromkeys(started.running, (2.5, 2.5)))
    assert isinstance(Greedy().decide(ask(A, faster, done=both)), Stay)


def test_of_equal_plans_the_first_is_chosen_and_the_running_one_stays() -> None:
    twin = option("scan 4 1\nother 8 1 scan\nroot 1 1 other", "C")
    done = finished(A, {"scan": 4})
    chosen = Greedy().decide(ask(A, B, twin, done=done, share=Resources(8, 0)))
    assert isinstance(chosen, Switch) and chosen.plan == 1
    assert isinstance(Greedy().decide(ask(B, twin, done=finished(B, {"first": 4}))), Stay)


def test_what_cannot_be_made_is_never() -> None:
    recipe = content_of(A.candidate.plan.stages[1]), frozenset({"scan"})
    question = ask(A, B, done=replace(finished(A, {"scan": 4}), exhausted=frozenset({recipe})), share=Resources(1, 0))
    assert question.remaining[0] == Remaining("A", float("inf"))
    assert isinstance(Greedy().decide(question), Switch)


def test_what_cannot_be_made_of_some_inputs_may_be_made_of_others() -> None:
    whole = option("all 1 3 as=root", "A")
    recipe = content_of(whole.candidate.plan.root), frozenset[str]()
    done = replace(finished(whole, {}), exhausted=frozenset({recipe}))
    chosen = Greedy().decide(ask(whole, option("scan 4 1\nroot 1 1 scan", "B"), done=done))
    assert isinstance(chosen, Switch) and chosen.plan == 1


def test_part_of_a_slot_is_taken_for_a_whole_one() -> None:
    assert ask(A, B, done=finished(A, {}), share=Resources(0.3, 0)).remaining[0].seconds < float("inf")


def test_true_rows_make_the_work_of_readers_grow() -> None:
    seen = reestimate(A, Observations({"scan": Observation(10_000)}), {})
    scan, join, root = (stage.estimate for stage in seen.candidate.plan.stages)
    assert (scan.rows, join.rows, root.rows) == (10_000, 10_000, 10_000)
    more = 9_900 + 9_900 / 2  # each of two tasks reads all of the scan and puts out half of the join
    assert join.task_seconds == pytest.approx(3 + more * ROW_SECONDS)
    assert reestimate(seen, Observations({"scan": Observation(10_000)}), {}) is seen, "twice is once"


@settings(deadline=None, max_examples=60)
@given(seen=st.dictionaries(st.sampled_from(["scan", "join", "root"]), st.integers(0, 100)), slots=st.integers(1, 8))
def test_fewer_rows_never_make_a_plan_longer(seen: dict[str, int], slots: int) -> None:
    fewer = reestimate(A, Observations({name: Observation(rows) for name, rows in seen.items()}), {})
    before, after = (ask(one, done=finished(A, {})).least for one in (A, fewer))
    assert after <= before
    for old, new in zip(A.candidate.plan.stages, fewer.candidate.plan.stages, strict=True):
        assert new.estimate.task_seconds <= old.estimate.task_seconds


def test_what_was_put_right_first_does_not_weigh_on_what_comes_next() -> None:
    """The scan has one row, so the join should have next to none; but it has a hundred, as planned."""
    few = reestimate(A, Observations({"scan": Observation(1)}), {})
    then = reestimate(few, Observations({"scan": Observation(1), "join": Observation(100)}), {})
    assert then.candidate.plan.root.estimate == A.candidate.plan.root.estimate


def test_memory_that_was_too_little_is_asked_for_from_then_on() -> None:
    raised = reestimate(A, Observations(), {content_of(A.candidate.plan.stages[1]): 5e9})
    assert raised.candidate.plan.stages[1].estimate.task_memory == 5e9


def test_names() -> None:
    assert [plan_name(place) for place in (0, 1, 25, 26)] == ["A", "B", "Z", "A1"]


# --- plans that are not known yet ----------------------------------------------------------------------------


def searches(now: float, cause: str, whole: bool = True, **more: object) -> bool:
    """True if other plans are looked for while one runs that is said to end in a tenth of a second."""
    runs = whole_option(0.1)
    [stage] = runs.candidate.plan.stages
    runs = replace(runs, candidate=Candidate(Plan((replace(stage, whole=whole),), COLUMNS), ""))
    question = replace(ask(runs, done=finished(runs, {})), now=now, causes=(cause,))
    adaptive = Adaptive(lambda _: [B.candidate], SHARE, **more)  # type: ignore[arg-type]
    found = answer(PlannerRequest(question, NOTHING, (), adaptive, JobId("job1"), found=False))
    why = "other plans should take much longer" if more else "too little is left to make other plans"
    assert found.found or found.decision == Stay(why, found.question.remaining)
    return found.found


def test_once_the_share_has_changed_duckdbs_plan_is_taken_to_last_as_long_as_it_has() -> None:
    assert searches(5.0, CHANGED) and not searches(0.01, CHANGED)
    assert not searches(5.0, START), "nothing but its age speaks for it"
    assert not searches(5.0, CHANGED, whole=False), "the tasks of stages have told how long they take"


def test_plans_that_are_far_behind_are_looked_for_once_the_share_has_changed() -> None:
    for far in (True, False):
        look = {"at_once": True, "quick_search": lambda seconds, far=far: () if far and seconds < 3.0 else None}
        assert searches(1.0, START, **look) != far
        assert searches(3.0, START, **look) and searches(1.0, CHANGED, **look)
        assert searches(1.0, "request", **look), "it may have run out of memory"


MANY, ONE = "part 8 0.5 as=parts\nroot 1 0.001 part as=sum", "one 1 1 as=stages"


@pytest.mark.parametrize(
    ("text", "factor", "runs"),
    [(MANY, 1.2, 1), (MANY, 1.4, 0), pytest.param(ONE, 0.9, 1, id="faster"), pytest.param(ONE, 1.2, 0, id="slower")],
)
def test_stages_that_leave_outputs_follow_duckdbs_plan_unless_it_should_win_clearly(
    text: str, factor: float, runs: int
) -> None:
    first, stages = whole_option(1.0), option(text).candidate.slower(factor)
    question = replace(ask(first, done=finished(first, {})), now=0.1, causes=(START,))
    adaptive = Adaptive(lambda _: pytest.fail("no search"), SHARE, at_once=True, quick_search=lambda _: [stages])
    found = answer(PlannerRequest(question, NOTHING, (), adaptive, JobId("job1"), found=False))
    assert found.runs == runs
    assert not found.found, "the search among all plans is still to come"


def whole_option(seconds: float) -> Option:
    """DuckDB's plan of that many seconds."""
    runs = option(f"all 1 {seconds} as=root")
    [stage] = runs.candidate.plan.stages
    return replace(runs, candidate=Candidate(Plan((replace(stage, whole=True),), COLUMNS), ""))


def test_before_its_tasks_tell_a_plan_is_as_slow_as_others_make_the_machine() -> None:
    begun = finished(A, {})
    crowded = ask(A, B, done=replace(begun, slowed=5.0))
    assert ask(A, B, done=begun).slowdown == 1.0 and crowded.slowdown == 5.0
    assert replace(crowded, options=(replace(A, slowdown=7.0), B)).slowdown == 7.0, (
        "the jobs before were slowed as well"
    )


@pytest.mark.parametrize(("seconds", "is_searched"), [(0.5, False), (20.0, True)])
def test_an_overdue_plan_of_duckdb_is_compared_with_known_plans_and_searched_for_only_once_it_has_run_long(
    seconds: float, is_searched: bool
) -> None:
    first, stages, found = whole_option(0.1), option(ONE).candidate, []

    def find(_: Observations) -> list[Candidate]:
        found.append(stages)
        return [stages]

    adaptive = Adaptive(find, SHARE, at_once=True, quick_search=lambda _: [stages])
    overdue = replace(ask(first, done=finished(first, {})), now=seconds, causes=(AGAIN,))
    first_time = answer(PlannerRequest(overdue, NOTHING, (), adaptive, JobId("job1"), found=False))
    assert len(first_time.question.options) == 2 and bool(found) == is_searched == first_time.found
    known = replace(overdue, options=first_time.question.options)
    answer(PlannerRequest(known, NOTHING, (), adaptive, JobId("job1"), found=False))
    assert bool(found) == is_searched, "the plans of the quick search are known by now"
