"""The queues of nodes: bounds, orders, starvation, placement, estimated wait."""

from __future__ import annotations

import heapq
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.catalog.errors import ConfigError, PlanError
from qoop.engine.node_queues.ordering import STRATEGIES, Ordering
from qoop.engine.node_queues.placement import Placement, estimated_wait
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.queue import NodeQueue
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.node_queues.view import NodesView
from qoop.engine.task import AttemptId, TaskId
from qoop.planner.plan import Resources

ONE = Resources(1.0)


def ticket(number: int, seconds: float = 1.0, since: float = 0.0, job: int = 1, left: float = 1.0) -> Ticket:
    attempt = AttemptId(TaskId(f"job{job}", "s", number), number)
    return Ticket(attempt, job, seconds, since, JobLeft(left, round(left)), waits=True)


@st.composite
def tickets(draw: st.DrawFn) -> list[Ticket]:
    drawn = draw(st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=12))
    return [ticket(i, seconds, since, job, left) for i, (seconds, since, job, left) in enumerate(drawn)]


ORDERINGS = st.builds(
    Ordering, st.sampled_from(list(STRATEGIES)), st.sampled_from([0.0, 2.0, math.inf]),
    st.sampled_from([0.0, 1.5, math.inf]),
)  # fmt: skip


@given(tickets(), ORDERINGS, st.integers(0, 10))
def test_an_order_is_total_and_puts_the_starved_first(waiting: list[Ticket], ordering: Ordering, now: float) -> None:
    keys = [ordering.key(one, {}, now) for one in waiting]
    assert len(set(keys)) == len(keys)
    in_order = sorted(waiting, key=lambda one: ordering.key(one, {}, now))
    starved = [ordering.starved(one, now) for one in in_order]
    assert starved == sorted(starved, reverse=True)
    hungry = [one for one, is_starved in zip(in_order, starved, strict=True) if is_starved]
    assert hungry == sorted(hungry, key=lambda one: (one.arrival, one.since, one.attempt.number))


@given(tickets(), ORDERINGS)
def test_a_task_waits_until_it_is_taken_or_called_back_and_begins_once(
    waiting: list[Ticket], ordering: Ordering
) -> None:
    queue = NodeQueue(ordering, math.inf)
    for one in waiting:
        queue.put(one)
    gone = waiting[0].attempt
    assert queue.withdraw(gone) and not queue.withdraw(gone)
    expected = [one.attempt for one in sorted(queue, key=lambda one: ordering.key(one, {}, 5.0))]
    taken = []
    while (one := queue.take(ONE, 5.0)) is not None:
        taken.append(one.attempt)
    assert taken == expected
    assert {*taken, gone} == {one.attempt for one in waiting}


def test_each_strategy_puts_another_task_first() -> None:
    short = ticket(1, seconds=1.0, since=5.0, job=3, left=90.0)
    near = ticket(2, seconds=9.0, since=4.0, job=2, left=9.0)
    early = ticket(3, seconds=8.0, since=3.0, job=1, left=50.0)
    first = {name: Ordering(name).first([short, near, early], {}, 6.0) for name in STRATEGIES}
    assert first == {
        "fifo": early, "shortest-job": near, "least-tasks": near, "shortest-task": short, "earliest": early,
    }  # fmt: skip


def test_what_is_heard_of_a_job_late_changes_the_order_and_loses_nothing() -> None:
    queue = NodeQueue(Ordering("shortest-job"), 4)
    queue.put(ticket(1, job=1, left=10.0))
    queue.put(ticket(2, job=2, left=20.0))
    queue.hear("job1", JobLeft(30.0, 3))
    queue.hear("job7", JobLeft(0.0, 0))
    begun = [queue.take(ONE, 0.0), queue.take(ONE, 0.0)]
    assert [one and one.job for one in begun] == ["job2", "job1"]


def test_a_full_queue_takes_no_more() -> None:
    queue = NodeQueue(Ordering(), 1)
    queue.put(ticket(1))
    with pytest.raises(PlanError, match="no more may"):
        queue.put(ticket(2))
    queue.put(ticket(2), forced=True)
    with pytest.raises(PlanError, match="waits already"):
        queue.put(ticket(2), forced=True)


@pytest.mark.parametrize("starved_after", [20.0, math.inf])
def test_a_long_task_is_passed_over_for_so_long_only(starved_after: float) -> None:
    queue = NodeQueue(Ordering("shortest-task", starved_after), math.inf)
    queue.put(ticket(0, seconds=100.0))
    begun = None
    for second in range(1, 60):  # short ones keep coming
        queue.put(ticket(second, since=float(second)))
        if queue.take(ONE, float(second)).attempt.number == 0:  # type: ignore[union-attr]
            begun = second
            break
    assert begun == (21 if starved_after == 20.0 else None)


def test_a_task_of_two_slots_is_not_passed_over_by_smaller_ones() -> None:
    queue = NodeQueue(Ordering("fifo"), 4)
    wide = Ticket(AttemptId(TaskId("job1", "w", 0), 9), 1, 1.0, 0.0, JobLeft(1.0, 1), Resources(2.0))
    queue.put(wide)
    queue.put(ticket(1, since=1.0))
    assert queue.take(ONE, 2.0) is None
    assert queue.take(Resources(2.0), 3.0) == wide


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=6), st.lists(st.floats(0.0, 50.0), max_size=8))
def test_the_estimated_wait_is_that_of_serving_in_order(running: list[float], queued: list[float]) -> None:
    slots = list(running)
    for seconds in queued:
        slots.sort()
        slots[0] += seconds
    assert estimated_wait(running, queued) == pytest.approx(min(slots))
    assert estimated_wait(running, queued, free_slots=1.0) == 0.0
    heapq.heapify(slots)


def two_nodes(one: list[float], other: list[float]) -> NodesView:
    view = NodesView()
    number = 0
    for machine, waiting in (("m1", one), ("m2", other)):
        for waits, seconds in ((False, 1.0), *((True, seconds) for seconds in waiting)):
            number += 1
            at = ticket(number, seconds)
            view.granted(machine, Ticket(at.attempt, 1, seconds, 0.0, at.left, ONE, waits), 0.0)
    return view


@pytest.mark.parametrize("by, best", [("length", "m1"), ("wait", "m2")])
def test_two_long_tasks_are_few_by_length_and_long_by_wait(by: str, best: str) -> None:
    view = two_nodes([500.0] * 2, [2.0] * 5)
    placement = Placement(by, Ordering("fifo"), 10)
    assert placement.choose(["m1", "m2"], view, ticket(99, since=1.0), {}, 0.0) == best


def test_no_task_is_sent_where_it_would_wait_too_long_or_nothing_has_a_place() -> None:
    view = two_nodes([3.0], [3.0, 3.0])
    task = ticket(99, since=1.0)
    assert Placement("wait", Ordering("fifo"), 10, most_wait=4.0).choose(["m1", "m2"], view, task, {}, 0.0) is None
    assert Placement("wait", Ordering("fifo"), 2).choose(["m1", "m2"], view, task, {}, 0.0) == "m1"
    assert Placement("wait", Ordering("fifo"), 1).choose(["m1", "m2"], view, task, {}, 0.0) is None


def test_grants_between_two_reports_spread_over_the_nodes() -> None:
    view, placement = two_nodes([], []), Placement("wait", Ordering("fifo"), 10)
    places = []
    for number in range(100, 104):
        task = ticket(number, 5.0, since=1.0)
        machine = placement.choose(["m1", "m2"], view, task, {}, 0.0)
        assert machine is not None
        view.granted(machine, task, 0.0)
        places.append(machine)
    assert sorted(places) == ["m1", "m1", "m2", "m2"]


def test_a_task_of_a_short_job_has_a_place_among_those_of_long_ones() -> None:
    queued = {"m1": [ticket(n, job=1, left=100.0) for n in (1, 2)]}
    view = NodesView()
    for one in queued["m1"]:
        view.granted("m1", one, 0.0)
    placement = Placement("wait", Ordering("shortest-job"), 2)
    assert placement.choose(["m1"], view, ticket(3, job=2, left=1.0), {}, 0.0) == "m1"
    assert placement.choose(["m1"], view, ticket(3, job=2, left=200.0), {}, 0.0) is None


def test_what_began_ended_or_was_lost_waits_no_more() -> None:
    view = two_nodes([1.0, 1.0], [1.0])
    begun, ended = list(view.queued("m1"))
    view.begun(begun, 2.0)
    view.ended(ended)
    view.lost("m2")
    assert not list(view.waiting())
    assert view.running("m1", 2.0) == [-1.0, 1.0]
    view.ended(ended)  # late, or twice


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Ordering("random"), lambda: Ordering(starved_after=-1.0), lambda: NodeQueueing(0),
        lambda: NodeQueueing(1, placement="near"), lambda: NodeQueueing(1, most_wait=0.0),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError):
        wrong()  # type: ignore[operator]
