"""The division of a cluster's slots between sessions."""

from __future__ import annotations

import random
from collections import Counter

from qoop.adaptive.cluster.arbiter import LEASE, Arbiter, RayShare, Wants

SLOTS = {"m1": 2, "m2": 2}


def wants(slots: float) -> Wants:
    """Of a session whose jobs name no tenant."""
    return {"": (1.0, slots)}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_session_has_all_there_is() -> None:
    assert Arbiter().tick("a", wants(0), SLOTS, {}) == SLOTS


def test_what_one_has_no_use_for_goes_to_the_other() -> None:
    arbiter = Arbiter()
    arbiter.tick("a", wants(0), SLOTS, {})
    arbiter.tick("b", wants(9), SLOTS, {})
    assert sum(arbiter.tick("a", wants(1), SLOTS, {}).values()) == 1
    assert sum(arbiter.tick("b", wants(9), SLOTS, {}).values()) == 3


def test_slots_in_use_are_not_taken() -> None:
    arbiter = Arbiter()
    arbiter.tick("a", wants(9), SLOTS, {})
    arbiter.tick("b", wants(9), SLOTS, {})
    assert sum(arbiter.tick("a", wants(9), SLOTS, SLOTS).values()) == 2  # it is told at once
    assert sum(arbiter.tick("b", wants(9), SLOTS, {}).values()) == 0  # and ends what it has begun
    assert sum(arbiter.tick("a", wants(9), SLOTS, {"m1": 2}).values()) == 2
    assert sum(arbiter.tick("b", wants(9), SLOTS, {}).values()) == 2


def test_a_dead_session_leaves_its_slots() -> None:
    clock = Clock()
    arbiter = Arbiter(clock)
    arbiter.tick("a", wants(9), SLOTS, SLOTS)
    arbiter.tick("b", wants(9), SLOTS, {})
    clock.now = LEASE + 1
    assert arbiter.tick("b", wants(9), SLOTS, {}) == SLOTS


def test_slots_go_by_weight() -> None:
    arbiter = Arbiter()
    for _ in range(2):
        given = {name: arbiter.tick(name, {name: (weight, 9)}, SLOTS, {}) for name, weight in (("a", 3.0), ("b", 1.0))}
    assert [sum(slots.values()) for slots in given.values()] == [3, 1]


def test_jobs_count_for_their_tenants_whichever_session_they_are_in() -> None:
    """Session a works for both tenants, b for y alone: y has a half, however many sessions ask for it."""
    arbiter, slots = Arbiter(), {"m1": 8}
    asked: dict[str, Wants] = {"a": {"x": (1.0, 20), "y": (1.0, 20)}, "b": {"y": (1.0, 20)}}
    for _ in range(2):
        given = {name: arbiter.tick(name, asked[name], slots, {}) for name in asked}
    assert [sum(one.values()) for one in given.values()] == [6, 2]
    asked["a"] = {"x": (3.0, 1), "y": (1.0, 20)}  # what x has no use for goes to y
    for _ in range(2):
        given = {name: arbiter.tick(name, asked[name], slots, {}) for name in asked}
    assert [sum(one.values()) for one in given.values()] == [5, 3]  # y's seven are shared by the two sessions
    assert arbiter.sessions()[0]["tenant"] == "x, y"


def test_a_share_asks_for_each_tenant_by_its_weight() -> None:
    share = RayShare("x", {"y": 2.0})
    assert share.wants_now() == {"x": (1.0, 0.0)}
    share.wants = lambda: {"y": 3.0}
    assert share.wants_now() == {"x": (1.0, 0.0), "y": (2.0, 3.0)}


def test_no_slot_is_ever_given_twice() -> None:
    for seed in range(30):
        chance, clock = random.Random(seed), Clock()
        arbiter, given, held = Arbiter(clock), dict[str, dict[str, int]](), dict[str, dict[str, int]]()
        slots = {f"m{number}": chance.randint(1, 3) for number in range(3)}
        for _ in range(60):
            clock.now += 0.1
            name = chance.choice("abc")
            before = held.get(name, {})
            held[name] = {one: chance.randint(0, count) for one, count in before.items()}  # some attempts have ended
            given[name] = dict(arbiter.tick(name, wants(chance.choice([0, 1, 5, 20])), slots, held[name]))
            for one, count in given[name].items():  # and others begun in what is free
                held[name][one] = max(held[name].get(one, 0), count)
            total = Counter[str]()
            for each in held.values():
                total.update(each)
            assert all(total[one] <= slots[one] for one in slots), f"seed {seed}"
