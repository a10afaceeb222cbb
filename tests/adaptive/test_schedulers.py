"""Scheduling policies: max-min by current share, work conserving, never beyond the capacity, nobody starves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_world import empty, fill, request

from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.described import MODULES, NAMES, made, named
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.catalog.errors import ConfigError
from qoop.engine.events import Demand, Grant
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.query.options import SCHEDULERS
from qoop.session.opening import connect


def test_the_job_with_the_lowest_current_share_goes_first() -> None:
    requests = [request("j1", (1, 1), used=Resources(2, 1)), request("j2", (1, 1), used=Resources(1, 1))]
    grant = MaxMin().next_grant(requests, empty(m=(4, 100)))
    assert grant is not None and grant.job == "j2"


def test_equal_shares_go_to_the_earlier_job() -> None:
    grant = MaxMin().next_grant([request("j2", (1, 1)), request("j1", (1, 1))], empty(m=(4, 100)))
    assert grant is not None and grant.job == "j1"


def test_the_share_is_that_of_the_scarcest_resource() -> None:
    total = Resources(10, 100)
    assert request("j1", used=Resources(2, 50)).share_of(total) == 0.5
    assert request("j1", used=Resources(2, 50), weight=2.0).share_of(total) == 0.25


def test_resources_go_to_another_job_if_the_poorest_does_not_fit() -> None:
    requests = [request("j1", (4, 1)), request("j2", (1, 1), used=Resources(1, 1))]
    grant = MaxMin().next_grant(requests, empty(m=(3, 100)))
    assert grant is not None and grant.job == "j2"


def test_slots_are_shared_by_weight() -> None:
    requests = [request("j1", (1, 0)), request("j2", (1, 0), weight=2.0)]
    grants = fill(MaxMin(), requests, empty(m=(9, 100)), endless=True)
    assert [sum(grant.job == job for grant in grants) for job in ("j1", "j2")] == [3, 6]


def test_fair_shares_are_the_capacity_by_weight() -> None:
    shares = MaxMin().fair_shares([request("j1"), request("j2", weight=3.0)], Resources(4, 100))
    assert shares == {"j1": Resources(1, 25), "j2": Resources(3, 75)}


wants = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=5)
sizes = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 100)), min_size=1, max_size=3)


@pytest.mark.parametrize("policy", [MaxMin, lambda: Reserving(MaxMin())])
@given(jobs=st.lists(wants, min_size=1, max_size=4), machines=sizes)
def test_no_resources_are_left_that_a_task_fits_and_none_is_given_twice(
    policy: type[MaxMin], jobs: list[list[tuple[float, float]]], machines: list[tuple[float, float]]
) -> None:
    requests = [request(f"j{i}", *tasks) for i, tasks in enumerate(jobs)]
    availability = empty(**{f"m{i}": size for i, size in enumerate(machines)})
    grants = fill(policy(), requests, availability)
    assert all(Resources().fits(available.free) for available in availability.values())
    granted = {grant.task for grant in grants}
    assert len(granted) == len(grants)
    for waiting in (demand for one in requests for demand in one.demands if demand.task not in granted):
        assert not any(waiting.resources.fits(available.free) for available in availability.values())


@given(weights=st.lists(st.integers(1, 4), min_size=2, max_size=4), slots=st.integers(4, 40))
def test_endless_jobs_end_up_at_most_one_task_from_equal_shares(weights: list[int], slots: int) -> None:
    requests = [request(f"j{i}", (1, 0), weight=weight) for i, weight in enumerate(weights)]
    grants = fill(MaxMin(), requests, empty(m=(slots, 1)), endless=True)
    held = {c.job: sum(grant.job == c.job for grant in grants) for c in requests}
    for poor in requests:
        for rich in requests:
            # before its last grant nobody's share was above anybody else's
            assert (held[rich.job] - 1) / rich.weight <= held[poor.job] / poor.weight + 1e-9


def pseudocode_1(requests: Sequence[Request], availability: dict[str, Available]) -> Grant | None:
    """One step of the published scheduler, word by word: of the jobs of which a task fits somewhere, the one with the
    lowest current share (ties: earliest arrival); of its tasks and machines the largest dot product."""
    whole = [
        sum(getattr(available.capacity, name) for available in availability.values()) for name in ("cpu", "memory")
    ]

    def share(request: Request) -> Fraction:
        used = (request.used.cpu, request.used.memory)
        parts = [Fraction(u) / Fraction(w) for u, w in zip(used, whole, strict=True) if w]
        return max(parts, default=Fraction(0)) / Fraction(request.weight)

    def product(need: Resources, available: Available) -> Fraction:
        return sum(
            Fraction(getattr(need, name))
            * Fraction(getattr(available.free, name))
            / Fraction(getattr(available.capacity, name)) ** 2
            for name in ("cpu", "memory")
        )  # type: ignore[return-value]

    def fitting(request: Request) -> list[tuple[Demand, str]]:
        return [
            (d, m) for d in request.demands for m, available in availability.items() if d.resources.fits(available.free)
        ]

    able = [request for request in requests if fitting(request)]
    if not able:
        return None
    chosen = min(able, key=lambda request: (share(request), request.arrival))
    demand, machine = max(fitting(chosen), key=lambda pair: product(pair[0].resources, availability[pair[1]]))
    return Grant(chosen.job, demand.task, machine, demand.resources)


@given(
    jobs=st.lists(st.tuples(wants, st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 3)), min_size=1, max_size=4),
    machines=sizes,
)
def test_every_grant_is_that_of_pseudocode_1(
    jobs: list[tuple[list[tuple[float, float]], float, int]], machines: list[tuple[float, float]]
) -> None:
    requests = [request(f"j{i}", *tasks, weight=w, used=Resources(u, 7 * u)) for i, (tasks, w, u) in enumerate(jobs)]
    availability = empty(**{f"m{i}": size for i, size in enumerate(machines)})
    now = {request.job: request for request in requests}
    while True:
        grant = MaxMin().next_grant(tuple(now.values()), availability)
        assert grant == pseudocode_1(tuple(now.values()), availability)
        if grant is None:
            return
        available, owner = availability[grant.machine], now[grant.job]
        availability[grant.machine] = replace(available, free=available.free - grant.resources)
        left = tuple(demand for demand in owner.demands if demand.task != grant.task)
        now[grant.job] = replace(owner, used=owner.used + grant.resources, demands=left)


@given(
    jobs=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.sampled_from([1.0, 2.0])), min_size=2, max_size=5),
    slots=st.integers(1, 24),
)
def test_shares_are_max_min_fair(jobs: list[tuple[int, int, float]], slots: int) -> None:
    """No job that wants more holds less, for its weight, than another: but for one task, since tasks are whole."""
    requests = [request(f"j{i}", *[(1, 0)] * (width * 3), weight=w) for i, (width, _, w) in enumerate(jobs)]
    grants = fill(MaxMin(), requests, empty(m=(slots, 1)))
    held = {c.job: sum(grant.job == c.job for grant in grants) for c in requests}
    assert sum(held.values()) == min(slots, sum(len(c.demands) for c in requests))  # work conserving
    for poor in requests:
        if held[poor.job] == len(poor.demands):
            continue
        for rich in requests:
            assert (held[rich.job] - 1) / rich.weight <= held[poor.job] / poor.weight + 1e-9


def test_shares_equal_but_for_rounding_are_ties() -> None:
    third = Resources(1, 100 / 3)
    late = request("j2", (1, 1), used=third + third + third)
    early = request("j1", (1, 1), used=Resources(3, 100.00000000000001))
    grant = MaxMin().next_grant([late, early], empty(m=(6, 100)))
    assert grant is not None and grant.job == "j1"


def test_a_task_that_needs_a_whole_machine_is_not_passed_over_for_ever() -> None:
    """Slots become free one at a time, and small tasks always wait for them."""
    policy = Reserving(MaxMin(), patience=5)
    machine = Available(Resources(2, 100), Resources(1, 50))
    wide, small = request("j1", (2, 10)), request("j2", (1, 10))
    for _ in range(5):
        grant = policy.next_grant([wide, small], {"m": machine})
        assert grant is not None and grant.job == "j2"
    assert policy.next_grant([wide, small], {"m": machine}) is None
    other = Available(Resources(2, 100), Resources(1, 50))
    elsewhere = policy.next_grant([wide, small], {"m": machine, "n": other})
    assert elsewhere is not None and (elsewhere.job, elsewhere.machine) == ("j2", "n")
    grant = policy.next_grant([wide, small], {"m": replace(machine, free=machine.capacity)})
    assert grant is not None and (grant.job, grant.machine) == ("j1", "m")
    # and all is as before
    grant = policy.next_grant([small], {"m": machine})
    assert grant is not None and grant.job == "j2"


def test_resources_are_not_kept_for_a_task_that_is_gone() -> None:
    policy = Reserving(MaxMin(), patience=1)
    machine = Available(Resources(2, 100), Resources(1, 50))
    policy.next_grant([request("j1", (2, 10)), request("j2", (1, 10))], {"m": machine})
    assert policy.next_grant([request("j1", (2, 10)), request("j2", (1, 10))], {"m": machine}) is None
    grant = policy.next_grant([request("j2", (1, 10))], {"m": machine})
    assert grant is not None and grant.job == "j2"


@pytest.mark.parametrize("name", MODULES)
def test_a_scheduler_is_made_again_from_what_a_trace_says_of_it(name: str) -> None:
    text = f"{name}(MaxMin())" if name == "Reserving" else f"{name}()"
    scheduler = made(text)
    again = made(repr(scheduler))
    assert repr(again) == repr(scheduler) and type(again) is type(scheduler)


def test_every_scheduler_that_a_session_can_have_is_known_by_its_name() -> None:
    assert tuple(NAMES) == SCHEDULERS
    assert repr(named("max_min")) == "Reserving(policy=MaxMin(tenants=True), patience=16)"
    for text in ("Nothing()", "MaxMin(", "1", "MaxMin(x=1)", "__import__('os')"):
        with pytest.raises(ConfigError, match="describes no scheduler"):
            made(text)
    for text, said in (
        ("Tetris(fairness='x')", "fairness must be like 0.25, not 'x'"),
        ("Urgency(tenants=1)", "tenants must be like True, not 1"),
        ("Urgency(alpha=True)", "alpha must be like 0.05, not True"),
        ("Reserving(policy=3)", "policy must be a scheduler, such as MaxMin\\(\\), not 3"),
    ):
        with pytest.raises(ConfigError, match=said):
            made(text)
    with pytest.raises(ConfigError, match="scheduler must be one of max_min"):
        connect(scheduler="fastest")
