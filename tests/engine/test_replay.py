"""The replay of a job's history: attempts with their intervals, for pictures, spans and waiting times."""

import time
from itertools import accumulate, pairwise

import pytest

from qoop.adaptive.simulation import Fleet, JobRun, SimulatedJob, simulate
from qoop.engine.backends.simulated import Outcome
from qoop.engine.events import Committed, MachineLost, SlotsChanged
from qoop.engine.history import Began, Record, Regranted, Started, Stopped, Succeeded, Switched, Waiting
from qoop.engine.replay import Interval, JobReplay
from qoop.engine.task import AttemptId, CheckpointKey, TaskId
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.query.drawing.timeline import timeline

ONE, TWO = Resources(1, 1e9), Resources(2, 2e9)
KEY = CheckpointKey("s", "l", 0)


def attempt(number: int) -> AttemptId:
    return AttemptId(TaskId("job1", "s1", 0), number)


def done(at: float, id: AttemptId, seconds: float = 1.0) -> Succeeded:
    return Succeeded(at, id, Committed(KEY, (1,), (8,), seconds), True)


def test_an_attempt_that_waits_has_not_begun_since_it_was_granted() -> None:
    one = attempt(1)
    history: list[Record] = [Switched(0.0, 1, 1, 0, (), ()), Started(1.0, one, KEY, "m", ONE)]
    assert JobReplay.of(history).waited(9.0) == 1.0
    history += [Waiting(1.5, one, KEY, "m")]
    assert JobReplay.of(history).first_began is None and JobReplay.of(history).attempts[one].is_queued
    history += [Began(3.0, one, KEY, "m", 2.0), Regranted(4.0, one, KEY, "m", TWO), done(6.0, one)]
    replay = JobReplay.of(history)
    assert replay.waited(9.0) == replay.attempts[one].began == 3.0
    assert replay.attempts[one].intervals == [
        Interval(1.0, 3.0, ONE, queued=True), Interval(3.0, 4.0, ONE), Interval(4.0, 6.0, TWO),
    ]  # fmt: skip
    assert not replay.attempts[one].kept_its_slots
    assert replay.attempts[one].thread_seconds(3.5) == 0.5
    assert 1.0 + 2.0 < replay.attempts[one].thread_seconds(6.0) <= 1.0 + 2 * 2.0


def test_what_begins_as_it_is_granted_has_waited_for_no_time() -> None:
    one, two = attempt(1), attempt(2)
    history: list[Record] = [
        Started(1.0, one, KEY, "m", ONE), Began(1.0, one, KEY, "m", 0.0), Started(1.0, two, KEY, "m", ONE),
        Stopped(2.0, two, KEY), done(3.0, one),
    ]  # fmt: skip
    replay = JobReplay.of(history)
    assert [len(found.intervals) for found in replay.attempts.values()] == [1, 1]
    assert [(end.attempt, end.at) for _, end in replay.succeeded()] == [(one, 3.0)]
    bars = timeline(history).bars
    assert [(bar.attempt, bar.ended, bar.outcome) for bar in bars] == [(one, 3.0, "done"), (two, 2.0, "stopped")]


@pytest.fixture(scope="module")
def ran() -> JobRun:
    """A job of two stages on machines that come, go and shrink."""
    types = (("x", "INTEGER"),)
    stages = (
        Stage("s1", "", (), types, 12, "one", estimate=Estimate(1.0)),
        Stage("s2", "", (StageInput("i", "s1", "all"),), types, 4, "two", estimate=Estimate(1.0)),
    )
    fleet = Fleet.uniform(2, TWO).after(
        (1.5, MachineLost("m2")), (2.5, SlotsChanged("m1", ONE)), (6.0, SlotsChanged("m1", TWO))
    )
    run = simulate(fleet, [SimulatedJob("a", 0.0, Plan(stages, types))], lambda spec: Outcome(0.9), check=True)
    return run.jobs[0]


def test_records_taken_one_by_one_come_to_the_same(ran: JobRun) -> None:
    whole, bit_by_bit = JobReplay.of(ran.history), JobReplay()
    for record in ran.history:
        bit_by_bit.take([record])
        bit_by_bit.waited(0.0)
    assert bit_by_bit == whole and whole.taken == len(ran.history) and whole.ended is not None


def test_intervals_of_attempts_follow_each_other(ran: JobRun) -> None:
    replay = JobReplay.of(ran.history)
    assert len(replay.attempts) == ran.attempts and len(replay.stages) == 2
    for one in replay.attempts.values():
        assert one.end is not None and one.intervals[-1].end == one.end.at
        assert all(first.end == second.begin for first, second in pairwise(one.intervals))
    changes = sorted(
        (at, sign * one.intervals[0].resources.cpu)
        for one in replay.attempts.values()
        for at, sign in ((one.granted, 1), (one.intervals[-1].end or 0.0, -1))
    )
    held = list(accumulate(slots for _, slots in changes))
    assert max(held) == 4 and held[-1] == 0
    assert {capacity.cpu for _, capacity in replay.capacity} == {1, 2, 4}


def test_a_timeline_takes_as_long_for_each_record_however_many_there_are() -> None:
    def seconds(attempts: int) -> float:
        history: list[Record] = []
        for number in range(attempts):
            id, at = attempt(number), float(number)
            history += [Started(at, id, KEY, "m", ONE), Regranted(at + 0.5, id, KEY, "m", ONE), done(at + 0.9, id)]
        begun = time.process_time()
        assert len(timeline(history).bars) == 2 * attempts
        return time.process_time() - begun

    few = min(seconds(500) for _ in range(3))
    assert min(seconds(4_000) for _ in range(2)) < 24 * few, "8 times as many; the square of 8 is 64"
