"""The caution of the greedy choice depends on the cause; a trace holds policies with their parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policies_world import ask, option

from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import START, Policy, Stay, Switch
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.policies import policy_named
from qoop.adaptive.replanning.price import Priced
from qoop.catalog.errors import ExecutionError
from qoop.planner.plan import Resources
from qoop.query.options import POLICIES


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
        Priced(((0.0, 1.0), (5.0, 2.0)), deadline=30.0, greedy=Greedy(0.3)),
    ],
)
def test_a_trace_holds_policies_with_their_parameters(policy: Policy) -> None:
    def find(_: object) -> tuple[()]:
        return ()

    told = TraceCodec().write(Adaptive(find, Resources(2), policy=policy))
    assert TraceCodec().read(Adaptive, told).policy == policy
    assert told["policy"]["policy"] == type(policy).__name__


def test_a_policy_that_no_trace_knows_is_named_once_it_has_to_decide() -> None:
    """An old trace under a policy that was removed is read, and can be replayed under another."""
    written = TraceCodec().write(Adaptive(lambda _: (), Resources(2)))
    old = written | {"demand_aware": True, "policy": {"policy": "Forecast", "risk": 0.5, "greedy": {}}}
    found = TraceCodec().read(Adaptive, old)
    with pytest.raises(ExecutionError, match="no policy Forecast; there are Greedy, Priced: give one"):
        found.policy.decide(ask(option("scan 2 4\nroot 1 1 scan")))
    assert TraceCodec().read(Adaptive, written | {"policy": {"hysteresis": 0.2}}).policy == Greedy(0.2)


def test_policies_have_names() -> None:
    assert [type(policy_named(name)) for name in POLICIES] == [Greedy, Priced]
