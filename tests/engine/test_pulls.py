"""Inputs pulled from several nodes at once: faster than one after the other, bounded, in turns, in order."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pytest
from waits import until

from qoop.catalog.errors import CheckpointError
from qoop.engine.backends.attempt_runner import Read
from qoop.engine.backends.ray.peers import PeerInputs, Peers, Place
from qoop.engine.backends.ray.pulls import Pulls, rotated
from qoop.engine.task import AttemptId, CheckpointKey, TaskId, TaskSpec
from qoop.planner.plan import Resources, Stage

LATENCY = 0.05
pa.table({"n": [1]})  # the first one loads pandas, which is not to be on the clock
PLACES = [Place(f"grpc://node{number}:1", "word") for number in range(8)]


class Distant(Peers):
    """Nodes that answer after a while; counts whom was asked, and how many at a time."""

    def __init__(self, latency: float = LATENCY, gone: Sequence[Place] = ()) -> None:
        super().__init__()
        self.asked: list[Place] = []
        self.most = self._now = 0
        self.most_of: Counter[str] = Counter()
        self._latency, self._gone = latency, gone
        self._counting = threading.Lock()

    def read(self, place: Place, reads: Sequence[Read]) -> list[tuple[pa.Table, ...]]:
        with self._counting:
            self.asked.append(place)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(self._latency)
        with self._counting:
            self._now -= 1
        if place in self._gone:
            raise CheckpointError(f"{place.address} is gone")
        return [(pa.table({"part": [key.part]}),) for key, _ in reads]


def spec(part: int) -> TaskSpec:
    stage = Stage("s", "", (), (), 8, "s")
    return TaskSpec(AttemptId(TaskId("job", "s", part), part), stage, key(part), (), {}, Resources(1))


def key(part: int) -> CheckpointKey:
    return CheckpointKey("signature", "layout", part)


@pytest.fixture
def inputs() -> Callable[[Distant], PeerInputs]:
    def made(peers: Distant) -> PeerInputs:
        found = PeerInputs()
        found.peers = peers
        for part, place in enumerate(PLACES):
            found.learn(place, [key(part)])
        return found

    return made


def test_a_task_pulls_from_several_nodes_at_once_but_not_from_all(inputs: Callable[[Distant], PeerInputs]) -> None:
    peers = Distant()
    pulling, wanted = inputs(peers), [(key(part), 0) for part in range(8)]
    found = pulling.fetch(spec(0), wanted)
    assert [table["part"][0].as_py() for table in found.values()] == list(range(8))
    assert list(found) == wanted
    assert 1 < peers.most <= 4
    pulling.close()


def test_readers_begin_at_different_nodes(inputs: Callable[[Distant], PeerInputs]) -> None:
    first = Counter[str]()
    for part in range(8):
        peers = Distant(latency=0.001)
        pulling = inputs(peers)
        pulling._pulls = Pulls(1)  # so that the order is seen
        pulling.fetch(spec(part), [(key(other), 0) for other in range(8)])
        first[peers.asked[0].address] += 1
        pulling.close()
    assert first == {place.address: 1 for place in PLACES}


def test_a_node_that_is_gone_costs_its_own_rows_only(inputs: Callable[[Distant], PeerInputs]) -> None:
    pulling = inputs(Distant(latency=0.001, gone=PLACES[2:4]))
    found = pulling.fetch(spec(0), [(key(part), 0) for part in range(8)])
    assert {one.part for one, _ in found} == {0, 1, 4, 5, 6, 7}
    pulling.close()


def test_tasks_of_a_node_share_its_fan_in(inputs: Callable[[Distant], PeerInputs]) -> None:
    peers = Distant(latency=0.01)
    pulling, wanted = inputs(peers), [(key(part), 0) for part in range(8)]
    tasks = [threading.Thread(target=partial(pulling.fetch, spec(part), wanted)) for part in range(4)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert len(peers.asked) == 32 and peers.most <= 4
    pulling.close()


def test_nodes_that_are_silent_do_not_hold_up_the_others_for_ever() -> None:
    pulls, answer = Pulls(1, patience=0.05), threading.Event()
    silent = threading.Thread(target=lambda: pulls.all([answer.wait]))
    silent.start()
    assert pulls.all([lambda: 1, lambda: 2]) == [1, 2]
    answer.set()
    silent.join()
    pulls.close()


def test_an_error_comes_after_all_have_ended() -> None:
    pulls, ended = Pulls(), []

    def fail() -> None:
        raise CheckpointError("no")

    with pytest.raises(CheckpointError, match="no"):
        pulls.all([fail, lambda: ended.append(time.sleep(0.02))])
    assert ended and rotated(3, 2) == [2, 0, 1]
    pulls.close()


def test_who_has_a_slot_comes_before_who_waits_for_one_and_jobs_take_turns() -> None:
    pulls, order, first = Pulls(1), list[str](), threading.Event()
    asking = threading.Thread(target=lambda: pulls.all([first.wait]))
    asking.start()
    asked = {name: spec(part) for part, name in enumerate(("ahead", "hastened", "older", "newer"), 1)}
    tasks = []
    for name, one in asked.items():
        ask, ahead = partial(order.append, name), name in ("ahead", "hastened")
        tasks.append(threading.Thread(target=partial(pulls.all, [ask], 0, one, ahead)))
        tasks[-1].start()
        until(lambda: len(pulls._waiting) >= len(tasks))
    pulls.hasten(asked["hastened"].attempt)
    first.set()
    for task in (asking, *tasks):
        task.join()
    assert order == ["hastened", "older", "newer", "ahead"]
    pulls.close()
