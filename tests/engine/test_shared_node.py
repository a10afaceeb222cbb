"""One node for several sessions (`engine/node_queues/shared`): turns by weight, short tasks next to long ones."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

import pytest

from qoop.catalog.errors import ConfigError
from qoop.engine.node_queues.policy import usual
from qoop.engine.node_queues.shared import Begun, Member, SharedNode
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.task import AttemptId, TaskId
from qoop.planner.plan import Resources


def ticket(number: int, seconds: float, memory: int = 0) -> Ticket:
    attempt = AttemptId(TaskId("job", "stage", number), number)
    return Ticket(attempt, 0, seconds, 0.0, JobLeft(seconds, 1), Resources(1.0, memory))


def node(*members: Member, slots: int = 1) -> SharedNode:
    found = SharedNode(Resources(slots, 100))
    for member in members:
        found.join(member, usual(2))
    return found


def busy_seconds(there: SharedNode, tasks: Mapping[str, float], until: float) -> Counter[str]:
    """The seconds that each session ran, whose tasks take so long and of which two always wait."""
    ran, ends, numbers = Counter[str](), list[tuple[float, str, int]](), 0
    now = 0.0

    def follow(begun: list[Begun]) -> None:
        for name, attempt in begun:
            heapq.heappush(ends, (now + tasks[name], name, attempt.number))

    def send(name: str) -> None:
        nonlocal numbers
        numbers += 1
        follow(there.arrive(name, ticket(numbers, tasks[name]), now))

    for name in [*tasks, *tasks, *tasks]:
        send(name)
    while now < until:
        now, name, number = heapq.heappop(ends)
        ran[name] += tasks[name]
        follow(there.release(name, ticket(number, 0.0).attempt, now))
        send(name)
    return ran


def test_shares_hold_over_a_second_by_weight() -> None:
    there = node(Member("a", "x", 3.0), Member("b", "y", 1.0))
    ran = busy_seconds(there, {"a": 0.05, "b": 0.05}, until=4.0)
    assert ran["a"] / ran.total() == pytest.approx(0.75, abs=0.05)


def test_sessions_of_one_tenant_share_its_weight() -> None:
    there = node(Member("a", "x"), Member("b", "x"), Member("c", "y"), slots=2)
    ran = busy_seconds(there, {"a": 0.05, "b": 0.05, "c": 0.05}, until=8.0)
    assert ran["c"] / ran.total() == pytest.approx(0.5, abs=0.05)


def test_long_tasks_take_no_more_than_their_share() -> None:
    there = node(Member("long"), Member("short"))
    ran = busy_seconds(there, {"long": 5.0, "short": 0.05}, until=100.0)
    assert ran["short"] / ran.total() == pytest.approx(0.5, abs=0.05)


def test_short_tasks_begin_next_to_a_long_one_one_of_them_and_one_of_who_comes() -> None:
    there = node(*(Member(name) for name in ("long", "often", "new", "newer")))
    assert len(there.arrive("long", ticket(1, 5.0), 0.0)) == 1
    assert there.arrive("often", ticket(2, 2.0), 1.0) == []
    assert there.withdraw("often", ticket(2, 2.0).attempt, 1.0)
    assert there.arrive("often", ticket(3, 0.5), 1.0) == [("often", ticket(3, 0.5).attempt)]
    assert there.arrive("often", ticket(4, 0.5), 1.0) == [], "something of it runs"
    assert there.arrive("new", ticket(5, 0.5), 1.0) == [("new", ticket(5, 0.5).attempt)]
    assert there.arrive("newer", ticket(6, 0.5), 1.0) == []
    assert there.release("often", ticket(3, 0.5).attempt, 1.1) == [("newer", ticket(6, 0.5).attempt)]
    assert there.release("new", ticket(5, 0.5).attempt, 1.1) == [], "one that has not just come waits for both"
    assert there.release("newer", ticket(6, 0.5).attempt, 1.2) == [("often", ticket(4, 0.5).attempt)]
    assert there.arrive("new", ticket(7, 0.5), 1.3) == [], "it had something to do a moment ago"
    assert there.withdraw("new", ticket(7, 0.5).attempt, 1.3)
    assert there.arrive("new", ticket(8, 0.5), 2.5) == [("new", ticket(8, 0.5).attempt)]


def test_nothing_begins_next_to_others_for_want_of_memory_or_where_one_ends_soon() -> None:
    there = node(Member("long"), Member("new"))
    there.arrive("long", ticket(1, 5.0, memory=80), 0.0)
    assert there.arrive("new", ticket(2, 0.1, memory=40), 1.0) == []
    there.withdraw("new", ticket(2, 0.1).attempt, 1.0)
    assert there.arrive("new", ticket(3, 0.1), 4.98) == []
    assert there.release("long", ticket(1, 5.0).attempt, 5.0) == [("new", ticket(3, 0.1).attempt)]


def test_who_leaves_makes_room_and_who_comes_back_has_saved_nothing_up() -> None:
    there = node(Member("a"), Member("b"))
    for number in range(3):
        there.arrive("a", ticket(number, 5.0), 0.0)
    there.arrive("b", ticket(10, 5.0), 0.0)
    assert there.leave("a", 1.0) == [("b", ticket(10, 5.0).attempt)]
    assert there.slots() == {"b": 1.0}
    with pytest.raises(ConfigError, match="no session a is at this node; there are b"):
        there.arrive("a", ticket(4, 1.0), 2.0)
    idle = node(Member("a"), Member("b"))
    busy_seconds(idle, {"a": 0.05}, until=50.0)
    assert idle.arrive("b", ticket(1000, 5.0), 50.0) == []
    with pytest.raises(ConfigError, match="the session b is at this node already"):
        idle.join(Member("b"), usual(2))
