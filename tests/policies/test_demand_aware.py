"""Plans' wants flow back into the shares, in rounds, until nothing changes: by hand and on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies_world import option

from qoop.control.cluster import ROUNDS, Cluster
from qoop.control.job_handle import JobHandle
from qoop.control.messages import JobRequest
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Grant
from qoop.engine.history import Decided, ShareTold
from qoop.engine.state import State
from qoop.engine.task import MachineId
from qoop.planner.finish import NOTHING
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.replanning.adaptive import Adaptive
from qoop.replanning.decision import Option
from qoop.replanning.demand import TOLERANCE, useful_resources
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.demand_aware import DemandAware
from qoop.schedulers.max_min import MaxMin
from qoop.schedulers.reserving import Reserving
from qoop.schedulers.shares import filled

WIDE = option("scan 2 4\nwide 60 10 scan\nroot 1 1 wide", "A")
LEAN = option("scan 2 4\nlean 4 40 scan\nroot 1 1 lean", "B")  # 160 s of work in place of 600, at most 4 at a time
NARROW = option("one 2 30 as=n\nroot 1 1 one", "C")


def test_a_plan_wants_what_it_can_use_and_no_more() -> None:
    share = Resources(10, 100.0, network=50.0)
    assert useful_resources(LEAN.candidate.finish, NOTHING, share) == Resources(4, 40.0, network=20.0)
    assert useful_resources(NARROW.candidate.finish, NOTHING, share).cpu == 2
    assert useful_resources(WIDE.candidate.finish, NOTHING, share).cpu >= 30


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(0.1, 9)), min_size=1, max_size=5), st.integers(1, 64))
def test_with_what_it_wants_a_plan_ends_nearly_as_soon_as_with_all(stages: list[tuple[int, float]], slots: int) -> None:
    lines = [
        f"s{i} {width} {seconds} {f's{i - 1}' if i % 2 else ''}".strip() for i, (width, seconds) in enumerate(stages)
    ]
    reads = " ".join(f"s{i}" for i in range(len(stages)))
    finish = option("\n".join([*lines, f"root 1 1 {reads}"])).candidate.finish
    wanted = useful_resources(finish, NOTHING, Resources(slots))
    assert finish.seconds(wanted) <= (1 + TOLERANCE) * finish.seconds(Resources(1000)) + 1e-9


def test_shares_are_filled_up_to_what_is_wanted() -> None:
    assert filled([1, 1, 2], [1, 1, 1]) == [0.25, 0.25, 0.5]
    assert filled([1, 1, 2], [0.1, 1, 0.3]) == pytest.approx([0.1, 0.6, 0.3])
    assert filled([1, 1], [0.0, 1.0]) == [0.0, 1.0]


@given(st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 1)), min_size=1, max_size=8))
def test_nobody_gets_less_than_it_wants_of_its_fair_part(jobs: list[tuple[float, float]]) -> None:
    weights, limits = [weight for weight, _ in jobs], [limit for _, limit in jobs]
    parts = filled(weights, limits)
    assert sum(parts) == pytest.approx(1.0)
    for part, weight, limit in zip(parts, weights, limits, strict=True):
        assert part >= min(limit, weight / sum(weights)) - 1e-9
        assert part <= limit + 1e-9 or all(p >= one - 1e-9 for p, one in zip(parts, limits, strict=True))


class Recording(Scheduler):
    """A scheduler that keeps what it was asked, and sees no plan."""

    def __init__(self, policy: Scheduler) -> None:
        self.policy = policy
        self.told: list[dict[str, float]] = []

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        return self.policy.next_grant(requests, availability, now)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[str, Resources]:
        shares = self.policy.fair_shares(requests, capacity, now)
        self.told.append({job: share.cpu for job, share in shares.items()})
        return shares


def run(
    slots: float, *jobs: Sequence[Option], demand_aware: bool = True
) -> tuple[Recording, list[JobHandle], list[float]]:
    """Each job with its launch plan and the others; the seconds at which they ended."""
    clock, scheduler = VirtualClock(), Recording(DemandAware(Reserving(MaxMin())))
    cluster = Cluster(SimulatedBackend({"m": Resources(slots)}, clock), scheduler, clock, thread=False)
    handles = []
    for options in jobs:
        plans = [one.candidate for one in options]
        adaptive = Adaptive(lambda _, plans=plans: plans, Resources(slots), at_once=True, demand_aware=demand_aware)
        handles.append(cluster.submit(JobRequest(plans[0].plan, adaptive=adaptive)))
    while cluster.busy:
        cluster.step()
        cluster._driver.check()
    assert all(handle.state is State.SUCCEEDED for handle in handles)
    return scheduler, handles, [handle.history()[-1].at for handle in handles]


def told(handle: JobHandle) -> list[float]:
    return [record.share.cpu for record in handle.history() if isinstance(record, ShareTold)]


def chosen(handle: JobHandle) -> str:
    return "".join(record.chosen for record in handle.history() if isinstance(record, Decided))


def test_what_a_narrow_plan_leaves_is_promised_to_the_other_job() -> None:
    _, handles, _ = run(40, [NARROW], [WIDE, LEAN])
    assert told(handles[0])[:2] == [20, 2]
    assert told(handles[1])[:2] == [20, 38]


def test_without_the_loop_shares_are_equal_parts() -> None:
    _, handles, _ = run(40, [NARROW], [WIDE, LEAN], demand_aware=False)
    assert told(handles[0]) == [20, 40] and told(handles[1]) == [20]


def test_a_job_that_is_told_the_truth_about_its_share_takes_the_plan_that_suits_it() -> None:
    """On a third of 24 slots the wide plan takes 80 s, the lean one 44 s; with what two narrow jobs leave, 20 slots,
    the wide one takes 35 s. Believing in a third it changes plan for nothing."""
    alone, _, ends = run(24, [NARROW], [NARROW], [WIDE, LEAN], demand_aware=False)
    settled, _, sooner = run(24, [NARROW], [NARROW], [WIDE, LEAN])
    assert max(alone.told[0].values()) == 8
    assert settled.told[1]["job3"] > 8
    assert sooner[2] <= ends[2]


def test_shares_and_plans_settle_in_fewer_rounds_than_there_are_jobs() -> None:
    """Shares are told again while what is wanted changes: they settle where that ends before it must."""
    jobs = [[NARROW], [LEAN, WIDE], [WIDE, LEAN], [NARROW], [LEAN], [WIDE, NARROW]]
    for slots in (7, 30, 60, 200):
        scheduler, handles, _ = run(slots, *jobs)
        rounds = [shares for shares in scheduler.told if len(shares) == len(jobs)]
        assert 2 <= len(rounds) <= len(jobs) < ROUNDS
        assert all(sum(shares.values()) == pytest.approx(slots) for shares in rounds)
        assert all(len(chosen(handle)) <= len(rounds) + len(jobs) for handle in handles)
