"""The guard at work: what is run against the advice of greed is counted while it runs, and ends with the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import pytest
from policies_world import finished, option

from qoop.control.cluster import Cluster
from qoop.control.messages import JobRequest
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Decided
from qoop.engine.task import content_of
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.plan import Resources
from qoop.replanning.adaptive import Adaptive
from qoop.replanning.answers import Answer
from qoop.replanning.baselines import NO_ROW_COUNTS
from qoop.replanning.decision import Decision, Policy, Question, Stay
from qoop.replanning.forecast import Forecast, least_work
from qoop.replanning.greedy import Greedy
from qoop.replanning.moves import Moves
from qoop.replanning.regret_budget import RegretBudget

WIDE = option("scan 2 1\nwide 32 2 scan\nroot 1 1 wide", "A")
SLOW = option("scan 2 1\nslow 10 1 scan\nlast 1 8 slow\nroot 1 1 last", "B")  # 21 s of work; on 2 slots 15 s, else 11 s
BOLD = Greedy(careful=False)
FALLING = Moves({Resources(32): 10.0, Resources(2): 1000.0}, {(Resources(32), Resources(2)): 9.0})


@dataclass
class Watched:
    """A policy whose questions and decisions are kept."""

    policy: Policy
    asked: list[Question] = field(default_factory=list)
    decided: list[Decision] = field(default_factory=list)

    def decide(self, question: Question) -> Decision:
        self.asked.append(question)
        self.decided.append(self.policy.decide(question))
        return self.decided[-1]


def run(policy: Policy, slots: float = 32) -> tuple[Watched, float, str]:
    """The watched policy, when the job ended, and the plans it ran."""
    watched, clock = Watched(policy), VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(slots)}, clock), clock=clock, thread=False)
    plans = [WIDE.candidate, SLOW.candidate]
    adaptive = Adaptive(lambda _: plans, Resources(slots), at_once=True, policy=watched, triggers=NO_ROW_COUNTS)
    handle = cluster.submit(JobRequest(plans[0].plan, adaptive=adaptive))
    while cluster.busy:
        cluster.step()
        cluster._driver.check()
    handle.outputs()
    chosen = (record.chosen for record in handle.history() if isinstance(record, Decided) and record.switched)
    return watched, handle.history()[-1].at, "A" + "".join(chosen)


def test_a_wrong_forecast_is_dropped_when_its_budget_is_used_up() -> None:
    """The slots never go. Unguarded it stays with the plan for two of them; guarded it goes back to that of greed."""
    trusting, late, plans = run(Forecast(FALLING, risk=inf, greedy=BOLD, steady=0))
    assert plans == "AB" and trusting.decided[-1].again == inf
    guarded, sooner, changed = run(Forecast(FALLING, risk=0.5, greedy=BOLD, steady=0))
    assert changed == "ABA" and sooner < late
    budget = 0.5 * least_work(guarded.asked[0])
    amounts = [one.wagered for one in guarded.asked]
    assert amounts == sorted(amounts) and amounts[0] == 0
    assert 0.9 * budget <= amounts[-1] <= 1.25 * budget  # what runs when it is looked at, and until then, counts, too
    assert guarded.decided[-1].against is None


def test_greed_is_not_asked_again_and_takes_no_regret() -> None:
    watched, _, plans = run(Forecast(risk=0.5))
    assert plans == "A" and len(watched.asked) == 1 and watched.asked[0].wagered == 0


def test_only_what_the_plan_of_greed_has_no_use_for_is_put_into_regret() -> None:
    served = (WIDE, SLOW)
    question = Question(served, 1, finished(SLOW, {"scan": 2}), Resources(4))
    answer = Answer(question, served, Stay("", question.remaining, against=0), True, NOTHING, None, 0.0)
    regret_budget = RegretBudget().after(answer)
    later = finished(SLOW, {"scan": 2, "slow": 3})
    assert regret_budget.until(later) == pytest.approx(3.0)
    shared = content_of(WIDE.candidate.plan.stages[0])
    assert shared in later.worked and shared in WIDE.contents  # the scan is of use to both
    following = Answer(
        Question(served, 1, later, Resources(4)), served, Stay("", question.remaining), True, NOTHING, None, 0.0
    )
    assert regret_budget.after(following).until(finished(SLOW, {"scan": 2, "slow": 9})) == pytest.approx(3.0)


def test_shares_and_the_time_are_told_in_seconds_of_the_job() -> None:
    watched, _, _ = run(Forecast(FALLING, risk=0.5, greedy=BOLD, steady=0))
    moments: Sequence[float] = [one.now for one in watched.asked]
    assert moments == sorted(moments) and moments[0] == 0
    assert all(one.shares[0] == (0.0, Resources(32)) for one in watched.asked)
