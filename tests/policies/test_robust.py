"""A robust launch plan is good on likely shares, and nearly the best on the one at hand; caution goes by the cause."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from policies_world import ask, option

from qoop.catalog.errors import PlanError
from qoop.control.trace_codec import TraceCodec
from qoop.planner.plan import Plan, Resources
from qoop.replanning.adaptive import Adaptive
from qoop.replanning.decision import START, Policy, Stay, Switch, runs
from qoop.replanning.forecast import Forecast
from qoop.replanning.greedy import Greedy
from qoop.replanning.likely import Likely
from qoop.replanning.moves import Moves
from qoop.replanning.policies import policy_named
from qoop.replanning.robust import Robust

FITTED = option("scan 2 10\nfitted 4 5 scan as=f\nroot 1 1 fitted", "A")  # 8 slots are no use to it
ELASTIC = option("scan 2 10\nelastic 32 0.63 scan as=e\nroot 1 1 elastic", "B")  # hardly slower on 4 slots
SLOW = option("scan 2 12\nslow 64 0.63 scan as=s\nroot 1 1 slow", "C")
WIDE = Resources(16)


def wide(plan_option):  # type: ignore[no-untyped-def]
    return replace(plan_option, candidate=replace(plan_option.candidate, available=WIDE))


def test_the_launch_plan_is_good_on_likely_shares_and_nearly_the_best_on_the_one_at_hand() -> None:
    question = ask(FITTED, wide(ELASTIC), wide(SLOW), slots=4)
    first, second, third = (one.seconds for one in question.remaining)
    assert first < second < 1.02 * first and third > 1.02 * first
    decision = Robust().decide(question)
    assert isinstance(decision, Switch) and decision.plan == 1
    assert isinstance(Robust(loss=0.0).decide(question), Stay)
    assert isinstance(Greedy().decide(question), Stay)


def test_minimax_takes_the_least_worst_regret_over_given_shares() -> None:
    question = ask(FITTED, ELASTIC, SLOW, slots=4)
    policy = Robust(Likely((Resources(1), Resources(64))), loss=inf, worst=True, then=None)
    assert runs(question, policy.decide(question)) == 1
    later = replace(ask(FITTED, SLOW, slots=64, done={"scan": 2}), causes=("share",))
    assert isinstance(policy.decide(later), Stay), "nobody decides after the start"
    assert isinstance(Robust().decide(later), Switch), "greed decides after the start"


def test_likely_shares_are_those_of_a_history_or_a_spread_within_what_plans_were_made_for() -> None:
    around = Likely().around(Resources(4, 4e9), 8)
    assert [share.cpu for share, _ in around] == [1, 2, 4, 8] and sum(weight for _, weight in around) == 1
    assert around[0][0].memory == 1e9
    known = Likely(history=Moves({Resources(2): 30.0, Resources(6): 10.0})).around(Resources(4, 4e9), 8)
    assert known == ((Resources(2, 2e9), 0.75), (Resources(6, 6e9), 0.25))


def test_where_only_the_share_has_changed_a_tenth_is_enough() -> None:
    apart = option("first 8 1 as=f\nroot 1 1 first", "B")
    running = option("scan 8 1.19\nroot 1 1 scan", "A")  # 13 % longer, with nothing in common
    question = ask(running, apart, slots=4)
    assert isinstance(Greedy().decide(question), Stay)
    by_share = replace(question, causes=("share",))
    assert isinstance(Greedy().decide(by_share), Switch)
    assert isinstance(Greedy(share_hysteresis=0.14).decide(by_share), Stay)
    for cautious in ({"causes": ("share", START)}, {"causes": ("rows of s1",)}, {"misestimates": 1}):
        assert isinstance(Greedy().decide(replace(by_share, **cautious)), Stay)  # type: ignore[arg-type]


def test_a_plan_that_meets_the_deadline_needs_no_more_than_to_do_so() -> None:
    apart = option("first 8 1 as=f\nroot 1 1 first", "B")  # 3 s
    running = option("scan 8 1.19\nroot 1 1 scan", "A")  # 3.38 s
    question = ask(running, apart, slots=4, now=7.0)
    assert isinstance(Greedy().decide(question), Stay)
    assert isinstance(Greedy(deadline=10.2).decide(question), Switch)
    assert isinstance(Greedy(deadline=10.5).decide(question), Stay)  # both meet it
    assert isinstance(Greedy(deadline=9.9).decide(question), Stay)  # neither does
    assert isinstance(Greedy(deadline=10.2).decide(replace(question, losses=1)), Stay)


@pytest.mark.parametrize(
    "policy",
    [
        Greedy(share_hysteresis=0.05),
        Greedy(deadline=30.0),
        Robust(Likely((Resources(3, 5.0),)), loss=inf, worst=True, then=None),
        Robust(Likely(history=Moves({Resources(2): 3.0}), spread=((1.0, 1.0),))),
        Forecast(Moves({Resources(2): 3.0}, {(Resources(2), Resources(1)): 2.0}), risk=inf, greedy=Greedy(0.3)),
    ],
)
def test_a_trace_holds_policies_with_their_parameters(policy: Policy) -> None:
    def find(_: object) -> tuple[()]:
        return ()

    told = TraceCodec().write(Adaptive(find, Resources(2), policy=policy))
    assert TraceCodec().read(Adaptive, told).policy == policy
    assert told["policy"]["policy"] == type(policy).__name__


def test_a_policy_that_no_trace_knows_is_named() -> None:
    told = TraceCodec().write(Adaptive(lambda _: (), Resources(2)))
    with pytest.raises(PlanError, match="no policy Bold; there are Greedy, Robust, Forecast"):
        TraceCodec().read(Adaptive, told | {"policy": {"policy": "Bold"}})
    assert TraceCodec().read(Adaptive, told | {"policy": {"hysteresis": 0.2}}).policy == Greedy(0.2)


def test_policies_have_names() -> None:
    assert [type(policy_named(name)) for name in ("greedy", "robust", "forecast")] == [Greedy, Robust, Forecast]


def test_of_duckdbs_own_plan_it_is_known_that_it_does_not_grow() -> None:
    stage = replace(option("all 1 20").candidate.plan.root, slots=16, opaque="DuckDB plans the whole query", whole=True)
    own = replace(FITTED, candidate=replace(FITTED.candidate, plan=Plan((stage,), FITTED.candidate.plan.columns)))
    staged = wide(option("scan 16 1.26\nroot 1 0.02 scan", "B"))
    question = ask(own, staged, slots=1)
    assert isinstance(Greedy().decide(question), Stay)
    assert isinstance(Robust().decide(question), Switch)
