"""Dollars and seconds: offers and their Pareto line by hand, what is taken of it, and that a job keeps to its slots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_world import ask, option

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Stay, Switch
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.price import Offer, Priced, offers, pareto
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Started
from qoop.planner.finish import NOTHING
from qoop.planner.plan import Resources

WIDE = option("wide 32 2\nroot 1 1 wide", "A")  # 65 s of work
LEAN = option("lean 4 10\nroot 1 1 lean", "B")  # 41 s of work, never under 11 s
CENT = ((0.0, 0.01),)


def runs(question: DecisionInput, decision: Decision) -> int:
    """The place of the plan that runs from now on."""
    return decision.plan if isinstance(decision, Switch) else question.running


def taken(policy: Priced, slots: float = 32, **told: object) -> tuple[int, float]:
    question = ask(WIDE, LEAN, slots=slots, **told)  # type: ignore[arg-type]
    decision = policy.decide(question)
    assert decision.slots is not None
    return runs(question, decision), decision.slots


def test_the_line_by_hand() -> None:
    line = pareto(offers([WIDE.candidate.finish, LEAN.candidate.finish], [NOTHING] * 2, Resources(32), 0.01))
    assert (line[0].place, line[0].slots) == (1, 1)
    assert line[0].seconds == pytest.approx(41, abs=0.1) and line[0].dollars == pytest.approx(0.41, abs=0.01)
    assert (line[-1].place, line[-1].slots) == (0, 32)
    assert line[-1].seconds == pytest.approx(3, abs=0.1) and line[-1].dollars == pytest.approx(0.96, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=20))
def test_no_offer_beats_one_on_the_line_and_each_other_is_beaten(pairs: list[tuple[int, int]]) -> None:
    found = [Offer(0, 1, float(seconds), float(dollars)) for seconds, dollars in pairs]
    line = pareto(found)

    def beats(one: Offer, other: Offer) -> bool:
        no_worse = one.seconds <= other.seconds and one.dollars <= other.dollars
        return no_worse and (one.seconds, one.dollars) != (other.seconds, other.dollars)

    assert not any(beats(one, other) for one in found for other in line)
    points = {(one.seconds, one.dollars) for one in line}
    assert all((one.seconds, one.dollars) in points or any(beats(other, one) for other in line) for one in found)


def test_if_seconds_are_worth_nothing_the_least_work_on_one_slot_is_taken() -> None:
    assert taken(Priced(CENT)) == (1, 1)


def test_if_seconds_are_worth_all_it_ends_as_soon_as_greed_does() -> None:
    place, slots = taken(Priced(CENT, worth=1e6))
    assert place == 0 and slots == 32


def test_with_a_deadline_the_cheapest_that_meets_it_is_taken() -> None:
    assert taken(Priced(CENT, deadline=50)) == (1, 1)
    assert taken(Priced(CENT, deadline=12)) == (1, 4)
    assert taken(Priced(CENT, deadline=5.5))[0] == 0
    assert taken(Priced(CENT, deadline=1)) == (0, 32)


def test_the_later_it_is_the_more_a_deadline_takes() -> None:
    assert taken(Priced(CENT, deadline=50), now=38.0) == (1, 4)


def test_the_price_of_the_moment_counts() -> None:
    rising = Priced(((0.0, 0.0001), (10.0, 1.0)), worth=0.05)
    assert taken(rising)[1] > taken(rising, now=20.0)[1]


def test_a_plan_is_not_changed_for_little() -> None:
    twin = option("lean 4 9.5 as=twin\nroot 1 1 lean", "B")
    question = replace(ask(LEAN, twin, slots=4), now=0.0)
    assert isinstance(Priced(CENT).decide(question), Stay)
    assert isinstance(Priced(CENT, hysteresis=0.01).decide(question), Switch)


def test_where_nothing_can_end_greed_decides() -> None:
    question = ask(WIDE, slots=4)
    assert Priced(CENT).best([]) is None
    assert runs(question, Priced(CENT).decide(question)) == runs(question, Greedy().decide(question))


def test_prices_must_be_prices() -> None:
    with pytest.raises(ConfigError, match="from 0 seconds"):
        Priced(((1.0, 0.1),))


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1), st.integers(2, 40))
def test_a_job_never_holds_more_slots_than_it_has_decided_for(worth: float, slots: int) -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(slots)}, clock), clock=clock, thread=False)
    policy = Priced(CENT, worth=worth)
    plans = [WIDE.candidate, LEAN.candidate]
    adaptive = Adaptive(lambda _: plans, Resources(slots), at_once=True, policy=policy)
    handle = cluster.submit(JobRequest(plans[0].plan, adaptive=adaptive))
    most = 0.0
    cluster.step()  # the first tasks start before anything is decided
    while cluster.busy:
        replanner = cluster._jobs[handle.id].replanner if handle.id in cluster._jobs else None
        cluster.step()
        if replanner is not None and replanner.slots is not None:
            begun = [r for r in handle.history() if isinstance(r, Started) and r.at == clock.now()]
            if begun and clock.now() > 0:
                most = max(most, cluster._driver.used_by(handle.id).cpu - replanner.slots)
    assert most <= 0
    handle.outputs()
