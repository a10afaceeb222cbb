"""The slots of a node in front of the backends of several sessions, with real kernels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

import pytest

from qoop.engine.backends.local import LocalBackend
from qoop.engine.backends.ray.slot_gate import GateClient, SlotGate
from qoop.engine.events import Event, TaskFailed, TaskStopped, TaskSucceeded
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.shared import Member
from qoop.engine.task import AttemptId, ResolvedInput, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Resources, Stage, StageInput
from tests.engine.test_local_queue import COLUMNS, ENDLESS, QUICK, spec_of

MADE = Stage("made", QUICK, (), COLUMNS, 1, "made")
READING = Stage(
    "reading", "SELECT sum(n)::BIGINT AS n FROM r", (StageInput("r", "made", "all"),), COLUMNS, 1, "reading"
)
LONG = Stage("long", ENDLESS, (), COLUMNS, 1, "long")


@contextmanager
def clients(*names: str) -> Iterator[list[GateClient]]:
    """Ways into a machine of one slot."""
    gate, found = SlotGate(Resources(1, 2**28)), list[GateClient]()
    try:
        for name in names:
            client = gate.open(Member(name), NodeQueueing(2))
            client.machine, client.backend = name, LocalBackend(2, 2**29, machine=name, watcher=client)
            found.append(client)
        yield found
    finally:
        for client in found:
            client.backend.close()


def task(stage: Stage, number: int, job: str = "job", seconds: float = 5.0) -> TaskSpec:
    attempt = AttemptId(TaskId(job, stage.id, 0), number)
    inputs = (ResolvedInput("r", (checkpoint_key(MADE, 0),)),) if stage is READING else ()
    spec = spec_of(stage, number, inputs=inputs)
    assert spec.ticket is not None
    return replace(spec, attempt=attempt, ticket=replace(spec.ticket, attempt=attempt, seconds=seconds))


UNREAD: WeakKeyDictionary[GateClient, deque[Event]] = WeakKeyDictionary()
"""Reports that came together with an earlier one."""


def ended(client: GateClient) -> Event:
    """The next report on an attempt."""
    unread = UNREAD.setdefault(client, deque())
    while not unread:
        reports = (TaskSucceeded, TaskStopped, TaskFailed)
        unread += [event for event in client.backend.wait(60) if isinstance(event, reports)]
    return unread.popleft()


def test_what_a_waiting_task_reads_is_kept_though_the_job_that_made_it_ends() -> None:
    with clients("a") as [client]:
        client.start(task(MADE, 1, "made"), informed=False)
        assert isinstance(ended(client), TaskSucceeded)
        client.start(task(LONG, 2), informed=False)
        client.start(task(READING, 3), informed=True)
        client.backend.release("made", [checkpoint_key(MADE, 0)])
        client.stop(task(LONG, 2).attempt)
        assert isinstance(ended(client), TaskStopped)
        event = ended(client)
        assert isinstance(event, TaskSucceeded), event
        assert client.backend.read(checkpoint_key(READING, 0)).to_pylist() == [{"n": 499500}]


def test_a_task_that_cannot_begin_is_reported_to_its_own_session_and_the_next_has_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with clients("a", "b", "c") as [first, second, third]:
        first.start(task(LONG, 1), informed=False)
        second.start(task(MADE, 2), informed=True)
        third.start(task(MADE, 3), informed=True)
        monkeypatch.setattr(second.backend, "start", full)
        first.stop(task(LONG, 1).attempt)
        assert isinstance(ended(first), TaskStopped)
        failed = ended(second)
        assert isinstance(failed, TaskFailed) and "can't start new thread" in str(failed.error)
        assert isinstance(ended(third), TaskSucceeded)
        assert not any(first.gate.slots().values())


def test_a_session_that_leaves_makes_room_for_what_waits() -> None:
    with clients("a", "b") as [first, second]:
        first.start(task(LONG, 1), informed=False)
        second.start(task(MADE, 2), informed=True)
        assert first.gate.waiting() == {"a": 0, "b": 1}
        first.gate.shut("a")
        assert isinstance(ended(second), TaskSucceeded)
        assert first.gate.slots() == {"b": 0.0}
