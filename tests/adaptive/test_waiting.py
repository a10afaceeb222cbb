"""Requests that are kept from grant to grant are found by share as if they were sorted again."""

from __future__ import annotations

import random
from dataclasses import replace

from scheduler_world import request

from qoop.adaptive.schedulers.max_min import by_share
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.planner.packing import Available
from qoop.planner.plan import Resources


def test_whatever_changes_the_order_is_that_of_the_current_shares() -> None:
    chance = random.Random(1)
    waiting = Waiting()
    capacities = [Resources(10, 100), Resources(20, 50)]
    now = {}
    for _ in range(2000):
        job = f"j{chance.randrange(12)}"
        wants = [(chance.randint(1, 4), chance.randint(0, 50)) for _ in range(chance.randrange(3))]
        now[job] = request(job, *wants, used=Resources(chance.randint(0, 9), chance.randint(0, 90)))
        waiting.put(now[job])
        if chance.random() < 0.1:
            waiting.drop(job)
            now.pop(job)
        capacity = chance.choice(capacities) if chance.random() < 0.1 else capacities[0]
        expected = sorted(
            (one for one in now.values() if one.demands), key=lambda one: (one.share_of(capacity), one.arrival)
        )
        assert list(waiting.by_share(capacity)) == expected == list(by_share(list(waiting), _available(capacity)))
        assert len(waiting) == len(expected)
        assert all(one.most.fits(waiting.bound) for one in expected)


def _available(capacity: Resources) -> dict[str, Available]:
    return {"m": Available(capacity, capacity)}


def test_tenants_with_equal_shares_go_by_what_they_have_had_for_their_weights() -> None:
    """One slot, which a task holds for a second; both have always something to do."""
    waiting, capacity, had = Waiting(), Resources(1, 100), {"many": 0, "few": 0}
    jobs = {
        name: replace(request(f"j{place}", (1, 1)), tenant=name, tenant_weight=weight)
        for place, (name, weight) in enumerate((("many", 1.0), ("few", 3.0)), 1)
    }
    for second in range(80):
        waiting.now = float(second)
        for one in jobs.values():
            waiting.put(one)  # what ran has ended
        first = next(waiting.by_share(capacity))
        had[first.tenant] += 1
        waiting.put(replace(first, used=Resources(1, 1)))
    assert had == {"many": 20, "few": 60}


def test_some_requests_are_put_in_the_order_of_their_tenants() -> None:
    waiting, capacity = Waiting(), Resources(10, 100)
    one, two, three = (
        replace(request(f"j{place}", (1, 1)), tenant=name) for place, name in enumerate(("a", "b", "a"), 1)
    )
    for each in (one, two, three):
        waiting.put(each)
    waiting.put(replace(one, used=Resources(1, 1)))
    assert waiting.fairly([three, two], capacity) == [two, three]
    assert waiting.fairly([three], capacity) == [three]


def test_slots_on_top_of_those_there_are_count_for_what_a_tenant_has_had() -> None:
    waiting, capacity = Waiting(), Resources(1, 100)
    one, two = (replace(request(f"j{place}", (1, 1)), tenant=name) for place, name in enumerate(("a", "b"), 1))
    waiting.put(replace(one, extra=1.0))
    waiting.put(two)
    waiting.now = 10.0
    waiting.put(one)
    assert [each.tenant for each in waiting.by_share(capacity)] == ["b", "a"]
    assert waiting.fairly([one, two], capacity) == [two, one]


def test_who_was_away_has_saved_nothing_up() -> None:
    waiting, capacity = Waiting(), Resources(1, 100)
    old, new = (replace(request(f"j{place}", (1, 1)), tenant=name) for place, name in enumerate(("old", "new"), 1))
    waiting.put(replace(old, used=Resources(1, 1)))
    waiting.now = 100.0
    waiting.put(old)
    waiting.put(new)
    assert [one.tenant for one in waiting.by_share(capacity)] == ["old", "new"]
