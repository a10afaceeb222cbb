"""Requests that are kept from grant to grant are found by share as if they were sorted again."""

from __future__ import annotations

import random

from scheduler_world import request

from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.max_min import by_share
from qoop.schedulers.waiting import Waiting


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
