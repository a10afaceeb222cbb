"""Tasks that wait at simulated machines, on the real core: idle slots, order, machines that go, plans that change."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.simulation import Fleet, JobRun, SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated_nodes import Heartbeats
from qoop.engine.events import MachineJoined, MachineLost, SlotsChanged
from qoop.engine.history import Began, Started, Stopped, Succeeded, Waiting
from qoop.engine.node_queues.ordering import STRATEGIES, Ordering
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate

BEATS = Heartbeats(3.0, 1.5)


def plan_of(name: str, width: int, seconds: float) -> Plan:
    estimate = Estimate(task_seconds=seconds, task_memory=0.0)
    scan = Stage("scan", "", (), (), width, f"{name}/{width}", estimate=estimate)
    root = Stage("root", "", (StageInput("i", "scan", "all"),), (), 1, name, estimate=Estimate(task_seconds=0.0))
    return Plan((scan, root), ())


def job(name: str, width: int = 8, seconds: float = 5.0, at: float = 0.0) -> SimulatedJob:
    return SimulatedJob(name, at, plan_of(name, width, seconds))


def fleet(count: int, slots: int) -> Fleet:
    return Fleet.uniform(count, Resources(slots, 64e9))


def run(
    fleet: Fleet, jobs: list[SimulatedJob], queueing: NodeQueueing | None, beats: Heartbeats = BEATS
) -> SimulatedRun:
    return simulate(fleet, jobs, check=True, options=SimulationOptions(heartbeats=beats, queueing=queueing))


def count(run: JobRun, kind: type) -> int:
    return sum(isinstance(record, kind) for record in run.history)


def test_a_slot_does_not_wait_for_its_scheduler_where_the_next_task_is_there() -> None:
    alone, queued = (run(fleet(2, 2), [job("a", 40)], queueing) for queueing in (None, NodeQueueing(2)))
    assert alone.seconds > 10 * (5.0 + 1.5)
    assert 50.0 <= queued.seconds < 50.0 + 15.0  # ten tasks a slot, and the way to and fro of the two stages
    assert count(queued.jobs[0], Waiting) == count(queued.jobs[0], Began) > 20
    assert not count(alone.jobs[0], Waiting)


@pytest.mark.parametrize("length", [0, 4])
def test_slots_are_busy_for_as_long_as_queues_filled_up_at_each_beat_keep_them(length: int) -> None:
    truth = exponential(5.0)
    queueing = NodeQueueing(length, Ordering("fifo")) if length else None
    options = SimulationOptions(heartbeats=Heartbeats(3.0), queueing=queueing)
    ran = simulate(fleet(2, 10), [job("a", 1100)], truth, options=options)
    done = [record for record in ran.jobs[0].history if isinstance(record, Succeeded) and 30 <= record.at <= 230]
    busy = sum(record.committed.seconds for record in done) / 20 / 200
    assert busy == pytest.approx(busy_part(10, 3.0, 5.0, length), abs=0.03)


def busy_part(slots: int, gap: float, mean: float, length: int) -> float:
    """The part of the time that slots are busy, where a queue of that length is filled up every `gap` seconds."""
    rng, busy, rounds = random.Random(1), 0.0, 5_000
    for _ in range(rounds):
        ends = [rng.expovariate(1 / mean) for _ in range(slots)]  # exponential: what runs is as good as new
        heapq.heapify(ends)
        waiting = length
        while waiting and ends[0] < gap:
            heapq.heapreplace(ends, ends[0] + rng.expovariate(1 / mean))
            waiting -= 1
        busy += sum(min(end, gap) for end in ends)
    return busy / (slots * gap * rounds)


def exponential(mean: float) -> Callable[[TaskSpec], Outcome]:
    rng = random.Random(3)
    return lambda spec: Outcome(rng.expovariate(1 / mean) if spec.stage.id == "scan" else 0.0)


def test_where_slots_are_free_a_queue_changes_nothing() -> None:
    jobs = [job("a", 3), job("b", 3, at=20.0)]
    for one, other in zip(run(fleet(2, 4), jobs, None).jobs, run(fleet(2, 4), jobs, NodeQueueing(3)).jobs, strict=True):
        assert [record.at for record in one.history] == [record.at for record in other.history]


def test_a_short_job_passes_the_waiting_tasks_of_a_long_one() -> None:
    jobs = [job("long", 60, 10.0), job("short", 4, 1.0, at=15.0)]
    ordered = run(fleet(2, 2), jobs, NodeQueueing(4, Ordering("shortest-job")))
    plain = run(fleet(2, 2), jobs, NodeQueueing(4, Ordering("fifo")))
    assert ordered["short"].seconds < plain["short"].seconds / 1.5
    assert ordered["long"].seconds < 1.1 * plain["long"].seconds


def test_no_more_wait_at_a_machine_than_its_queue_holds() -> None:
    ran = run(fleet(1, 2), [job("a", 40)], NodeQueueing(3, Ordering("fifo")))
    waiting = most = 0
    for record in ran.jobs[0].history:
        waiting += isinstance(record, Waiting) - isinstance(record, Began)
        most = max(most, waiting)
    assert most == 3


def test_waiting_tasks_are_called_back_where_no_slot_is_left_or_one_is_idle_elsewhere() -> None:
    small = fleet(1, 1).after((4.0, MachineJoined("m2", Resources(8, 64e9))))
    ran = run(small, [job("a", 6, 100.0)], NodeQueueing(6, Ordering("fifo"), call_back_after=20.0))
    assert ran.seconds < 250.0
    assert count(ran.jobs[0], Stopped) == 5
    shut = fleet(2, 2).after((7.0, SlotsChanged("m1", Resources(0, 0))))
    assert run(shut, [job("a", 12)], NodeQueueing(4)).jobs[0].error is None


def test_a_change_of_plan_calls_the_old_plans_tasks_back() -> None:
    many, few = plan_of("a", 12, 50.0), plan_of("a", 4, 20.0)
    machines = fleet(2, 2).after((10.0, MachineJoined("m3", Resources(2, 64e9))))
    adaptive = Adaptive(lambda _: [Candidate(many, ""), Candidate(few, "")], machines.available, at_once=True)
    (ran,) = run(machines, [SimulatedJob("a", 0.0, many, adaptive)], NodeQueueing(4)).jobs
    assert ran.switches == 1
    stopped = {record.attempt for record in ran.history if isinstance(record, Stopped)}
    begun = {record.attempt for record in ran.history if isinstance(record, Began)}
    waited = {record.attempt for record in ran.history if isinstance(record, Waiting)}
    assert waited - begun and waited - begun <= stopped


CHANGES = st.lists(
    st.tuples(
        st.floats(0.0, 40.0),
        st.sampled_from(
            [MachineLost("m1"), MachineLost("m2"), MachineJoined("m4", Resources(2, 64e9)),
             SlotsChanged("m3", Resources(0, 64e9)), SlotsChanged("m3", Resources(4, 64e9))]
        ),
    ),
    max_size=4, unique_by=lambda change: change[1],
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    CHANGES, st.sampled_from(list(STRATEGIES)), st.sampled_from([5.0, float("inf")]), st.integers(1, 4),
    st.sampled_from([BEATS, Heartbeats(), Heartbeats(0.0, 1.0), Heartbeats(2.0, 0.0)]),
)  # fmt: skip
def test_whatever_happens_to_machines_every_task_is_done_and_the_accounts_hold(
    changes: list, strategy: str, call_back_after: float, length: int, beats: Heartbeats
) -> None:
    queueing = NodeQueueing(length, Ordering(strategy, 10.0), call_back_after=call_back_after)
    back = (60.0, SlotsChanged("m3", Resources(4, 64e9)))
    jobs = [job("a", 9, 4.0), job("b", 5, 1.0, at=3.0), job("c", 2, 9.0, at=12.0)]
    ran = run(fleet(3, 2).after(*changes, back), jobs, queueing, beats)
    for one in ran.jobs:
        assert one.error is None and one.seconds < 200.0
        assert (
            len({record.key for record in one.history if isinstance(record, Succeeded)})
            == one.plans[0].stages[0].width + 1
        )
        assert count(one, Began) <= count(one, Waiting) <= count(one, Started)
