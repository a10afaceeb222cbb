"""The forecast decides within the options, is greed where it knows nothing, and stops where its budget ends."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_world import ask, option

from qoop.planner.plan import Resources
from qoop.replanning.decision import Stay, Switch, runs
from qoop.replanning.forecast import Forecast, least_work
from qoop.replanning.greedy import Greedy
from qoop.replanning.moves import Moves

WIDE = option("scan 2 1\nwide 32 2 scan\nroot 1 1 wide", "A")  # 64 s of work, 2 s on 32 slots
NARROW = option("scan 2 1\nnarrow 2 10 scan\nroot 1 1 narrow", "B")  # 20 s of work, never under 10 s
FALLING = Moves({Resources(32): 10.0, Resources(2): 1000.0}, {(Resources(32), Resources(2)): 9.0})
STEADY = Moves({Resources(32): 1000.0, Resources(2): 10.0}, {(Resources(2), Resources(32)): 9.0})
BEGUN = {"scan": 2}


def test_a_share_that_is_soon_gone_is_not_counted_on() -> None:
    question = ask(WIDE, NARROW, slots=32, done=BEGUN)
    assert isinstance(Greedy().decide(question), Stay)
    decision = Forecast(FALLING, steady=0).decide(question)
    assert isinstance(decision, Switch) and decision.plan == 1 and decision.against == 0
    assert decision.again < inf


def test_slots_that_will_be_back_are_waited_for() -> None:
    question = ask(WIDE, NARROW, slots=2, done=BEGUN)
    greedy = Greedy().decide(question)
    assert isinstance(greedy, Switch) and greedy.plan == 1
    decision = Forecast(STEADY, steady=0).decide(question)
    assert isinstance(decision, Stay) and decision.against == 1 and "as the share moves" in decision.reason


def test_what_the_job_has_seen_itself_counts_like_a_history() -> None:
    shares = tuple((at + more, Resources(slots)) for at in range(0, 1000, 100) for more, slots in ((0, 32), (3, 2)))
    question = ask(WIDE, NARROW, slots=32, done=BEGUN, now=1000.0, shares=(*shares, (1000.0, Resources(32))))
    assert runs(question, Greedy().decide(question)) == 0
    assert runs(question, Forecast(steady=100.0).decide(question)) == 0  # too little was seen
    assert runs(question, Forecast(steady=0.1).decide(question)) == 1


def test_with_its_budget_used_up_it_does_what_greed_does() -> None:
    question = ask(WIDE, NARROW, slots=32, done=BEGUN)
    policy = Forecast(FALLING, risk=0.5, steady=0)
    least = least_work(question)
    assert least == pytest.approx(23, abs=0.1)
    assert policy.decide(replace(question, wagered=0.4 * least)).against == 0
    assert policy.decide(replace(question, wagered=0.46 * least)) == Greedy().decide(question)
    assert Forecast(FALLING, risk=0.0, steady=0).decide(question) == Greedy().decide(question)
    assert Forecast(FALLING, risk=inf, steady=0).decide(replace(question, wagered=1e9)).against == 0


def test_it_asks_again_when_all_slots_together_could_have_used_up_the_budget() -> None:
    question = ask(WIDE, NARROW, slots=32, done=BEGUN)
    decision = Forecast(FALLING, risk=0.5, steady=0).decide(question)
    assert decision.again == pytest.approx(0.5 * least_work(question) / 32)


options = st.lists(
    st.builds(
        lambda name, width, seconds: option(f"scan 2 1\n{name} {width} {seconds} scan\nroot 1 1 {name}", name),
        st.sampled_from("abcdef"), st.integers(1, 40), st.floats(0.1, 30),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
seen = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 40)), max_size=8).map(
    lambda rows: tuple((at, Resources(slots)) for at, slots in sorted(rows))
)


@settings(max_examples=80, deadline=None)
@given(options, seen, st.integers(1, 40), st.data())
def test_whatever_it_is_told_it_runs_one_of_the_options(found, shares, slots, data) -> None:  # type: ignore[no-untyped-def]
    running = data.draw(st.integers(0, len(found) - 1))
    question = ask(*found, slots=slots, running=running, shares=shares, now=100.0, done=BEGUN)
    policy = Forecast(FALLING)
    decision = policy.decide(question)
    assert 0 <= runs(question, decision) < len(found)
    assert decision == policy.decide(question)
    assert decision.against is None or decision.against == runs(question, Greedy().decide(question))


@settings(max_examples=80, deadline=None)
@given(options, st.integers(1, 40), st.data())
def test_a_share_that_has_never_moved_makes_it_greed(found, slots, data) -> None:  # type: ignore[no-untyped-def]
    running = data.draw(st.integers(0, len(found) - 1))
    told = ((0.0, Resources(slots)), (7.0, Resources(slots)))
    question = ask(*found, slots=slots, running=running, shares=told, now=50.0, done=BEGUN)
    assert Forecast().decide(question) == Greedy().decide(question)
