"""The backend when nodes go, on simulated nodes: a test can stop at every moment of a loss."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from qoop.catalog.errors import CheckpointError, ExecutionError
from qoop.catalog.value import changed
from qoop.engine.backends.ray import backend as module
from qoop.engine.backends.ray import channel, home
from qoop.engine.backends.ray.backend import RayBackend
from qoop.engine.backends.ray.nodes import ControlAway, Node
from qoop.engine.backends.ray.orders import NO_STAGE, Begin, Drop, Order, stage_of
from qoop.engine.backends.ray.peers import Place
from qoop.engine.backends.ray.worker import Introduced, NodeConfig
from qoop.engine.events import (
    CheckpointLost,
    Committed,
    Event,
    MachineLost,
    Queued,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.task import AttemptId, CheckpointKey, ResolvedInput, TaskId, TaskSpec
from qoop.planner.algebra.facts import Facts, LazyFacts
from qoop.planner.plan import Layout, Resources, Stage

pytestmark = pytest.mark.ray

A, B = "a" * 56, "b" * 56
AVAILABLE = Resources(1, 1 << 30)
PLACE = Place("grpc://127.0.0.1:1", "nobody's")


class Actor:
    """A node's: `says` events, is told `orders`."""

    def __init__(self, config: NodeConfig) -> None:
        import duckdb

        self.name, self.orders, self.told = config.machine, list[Order](), queue.SimpleQueue[Sequence[Event]]()
        self.introduce = Call(lambda: Introduced(AVAILABLE, PLACE, config.machine, 1, duckdb.__version__))
        self.close = Call(lambda: None)

    def says(self, *events: Event) -> None:
        self.told.put(events)

    def begun(self) -> list[int]:
        """The numbers of the attempts that it was told to begin."""
        return [order.spec.attempt.number for order in self.orders if isinstance(order, Begin)]


class Call:
    """A method of an actor, whose result is there at once."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method

    def options(self, **_: object) -> Call:
        return self


class Connection:
    """The connection to an actor; `broken` when that is gone."""

    def __init__(self, actor: Actor) -> None:
        self.actor, self.broken = actor, False

    def send(self, orders: Sequence[Order]) -> None:
        self.actor.orders.extend(orders)

    def receive(self, timeout: float) -> Sequence[Event] | None:
        with contextlib.suppress(queue.Empty):
            return self.actor.told.get(timeout=min(timeout, 0.05))
        if self.broken:
            raise ConnectionResetError
        return None

    def close(self) -> None:
        self.broken = True


class Ray:
    """As much of the module as the backend uses."""

    def __init__(self) -> None:
        import ray

        self.exceptions, self.actors, self.lines = ray.exceptions, dict[str, Actor](), dict[str, Connection]()
        self.nodes: Callable[[], dict[str, Node]] = self.both

    def both(self) -> dict[str, Node]:
        return {id_: Node(id_, "host", 1, 1 << 30) for id_ in (A, B)}

    def only_b(self) -> dict[str, Node]:
        return {B: self.both()[B]}

    def remote(self, **_: object) -> Callable[[object], object]:
        return lambda kind: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self.begin))

    def begin(self, config: NodeConfig) -> Actor:
        actor = self.actors[config.machine.removeprefix("node-")[0]] = Actor(config)
        return actor

    def connection(self, name: str, *_: object) -> Connection:
        made = self.lines[name] = Connection(self.actors[name.removeprefix("node-")[0]])
        return made

    def wait(self, what: Sequence[Any], **_: object) -> tuple[list[Any], list[Any]]:
        return list(what), []

    def get(self, what: Any, timeout: float) -> Any:
        return what

    def kill(self, actor: Actor) -> None:
        pass


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    pytest.importorskip("ray")
    made = Ray()
    monkeypatch.setattr(module, "load", lambda: made)
    monkeypatch.setattr(channel, "load", lambda: made)
    monkeypatch.setattr(module, "Attachment", lambda *_: SimpleNamespace(leave=lambda: None))
    monkeypatch.setattr(module, "host", lambda: "127.0.0.1")
    monkeypatch.setattr(home, "host", lambda: "127.0.0.1")
    monkeypatch.setattr(module, "living", lambda: made.nodes())
    monkeypatch.setattr(channel, "SessionEnd", made.connection)
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    return made


@pytest.fixture
def backend(ray: Ray) -> Iterator[RayBackend]:
    found = RayBackend("auto")
    yield found
    found.close()


class Looks:
    """Looks into the store that last as long as one likes. held: what is found there."""

    def __init__(self, present: Sequence[Committed] = ()) -> None:
        self.present, self.began, self.may_end = present, threading.Event(), threading.Event()

    def __call__(self, keys: Sequence[CheckpointKey], job: str | None = None) -> Sequence[Committed]:
        self.began.set()
        assert self.may_end.wait(60)
        return [one for one in self.present if one.key in keys]


@pytest.fixture
def looks(backend: RayBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    made = Looks()
    monkeypatch.setattr(backend.store, "present", made)
    yield made
    made.may_end.set()


def key(part: int) -> CheckpointKey:
    return CheckpointKey("signature", "layout", part)


def fact(part: int) -> Committed:
    return Committed(key(part), (1,), (8,), 0.1)


def spec(number: int, *reads: int, answer: bool = False) -> TaskSpec:
    stage = Stage("s", "", (), (("x", "INTEGER"),), 9, "signature of s", Layout())
    inputs = (ResolvedInput("i", tuple(map(key, reads)), None),) if reads else ()
    attempt = AttemptId(TaskId("job", "s", number), number)
    return TaskSpec(attempt, stage, key(100 + number), inputs, {}, AVAILABLE, answer=answer)


def until(backend: RayBackend, kind: type[Event]) -> list[Event]:
    """The events of the backend up to the first one of a kind."""
    found: list[Event] = []
    deadline = time.monotonic() + 60
    while not any(isinstance(event, kind) for event in found):
        assert time.monotonic() < deadline, found
        found += backend.wait(0.05)
    return found


def put_out(backend: RayBackend, actor: Actor, *parts: int) -> None:
    """Have tasks run on a node; what they put out lies there."""
    for part in parts:
        backend.start(actor.name, spec(part))
        backend.wait(0.0)
        actor.says(TaskSucceeded(spec(part).attempt, fact(part)))
        until(backend, TaskSucceeded)


def test_while_it_is_looked_up_what_a_lost_node_held_all_else_goes_on(
    ray: Ray, backend: RayBackend, looks: Looks
) -> None:
    a, b = ray.actors["a"], ray.actors["b"]
    put_out(backend, a, 1, 2)
    ray.nodes = ray.only_b
    assert looks.began.wait(60)
    put_out(backend, b, 3)  # is begun, and what it says is heard
    assert set(backend.machines()) == {b.name}
    backend.start(b.name, spec(4, 1))
    backend.start(b.name, spec(5, 3))
    assert backend.wait(0.0) == [Queued(spec(4, 1).attempt)] and b.begun() == [3, 5]
    looks.may_end.set()
    told = until(backend, CheckpointLost)
    while len(told) < 3:
        told += backend.wait(0.05)
    assert told == [MachineLost(a.name), CheckpointLost(key(1)), CheckpointLost(key(2))]
    backend.wait(0.0)
    assert b.begun() == [3, 5, 4]  # it may find what it reads made again


def test_what_was_put_off_can_be_stopped(ray: Ray, backend: RayBackend, looks: Looks) -> None:
    a, b = ray.actors["a"], ray.actors["b"]
    put_out(backend, a, 1)
    ray.nodes = ray.only_b
    assert looks.began.wait(60)
    backend.start(b.name, spec(2, 1))
    backend.stop(spec(2).attempt)
    assert until(backend, TaskStopped) == [Queued(spec(2).attempt), TaskStopped(spec(2).attempt)]
    looks.may_end.set()
    until(backend, CheckpointLost)
    backend.wait(0.0)
    assert b.orders == []


def test_a_stage_goes_to_nodes_in_the_same_text_with_each_task_and_without_its_facts(
    ray: Ray, backend: RayBackend
) -> None:
    def asked() -> Facts:
        raise AssertionError("only plans are compared by facts, and they may take long to find")

    stage, a = changed(spec(1).stage, facts=LazyFacts(asked)), ray.actors["a"]
    for number in (1, 2):
        backend.start(a.name, changed(spec(number), stage=stage))
    backend.wait(0.0)
    [one, other] = a.orders
    assert isinstance(one, Begin) and isinstance(other, Begin)
    assert one.spec.stage == other.spec.stage == NO_STAGE and one.stage is other.stage
    found = stage_of(one.stage)
    assert found == stage and found.facts.value is None


def test_a_part_of_the_answer_is_here_before_it_counts_so_its_node_may_go(
    ray: Ray, backend: RayBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, a = pa.table({"x": [7]}), ray.actors["a"]
    monkeypatch.setattr(backend._peers, "read", lambda place, reads: [(rows,) for _ in reads])
    backend.start(a.name, spec(1, answer=True))
    put_out(backend, a, 2)  # no part of it
    a.says(TaskSucceeded(spec(1).attempt, fact(1)))
    until(backend, TaskSucceeded)
    ray.nodes = ray.only_b
    assert until(backend, CheckpointLost) == [MachineLost(a.name), CheckpointLost(key(2))]
    monkeypatch.undo()
    assert backend.read(key(1)) == rows
    backend.release("job", [key(1)])
    assert backend.present([key(1)]) == [] and backend.store.used == 0


def test_a_part_of_the_answer_that_does_not_arrive_was_not_made(ray: Ray, backend: RayBackend) -> None:
    a = ray.actors["a"]  # where nobody listens
    backend.start(a.name, spec(1, answer=True))
    backend.wait(0.0)
    a.says(TaskSucceeded(spec(1).attempt, fact(1)))
    [failed] = until(backend, TaskFailed)
    assert isinstance(failed, TaskFailed) and failed.retryable
    assert isinstance(failed.error, CheckpointError) and failed.error.stage == "s"
    backend.wait(0.0)
    assert a.orders[-1] == Drop("job", (key(1),)) and backend.present([key(1)]) == []


def test_what_is_found_in_files_is_read_from_there(ray: Ray, backend: RayBackend, looks: Looks) -> None:
    a, b = ray.actors["a"], ray.actors["b"]
    put_out(backend, a, 1, 2)
    looks.present = [fact(1)]
    ray.nodes = ray.only_b
    assert looks.began.wait(60)
    backend.start(b.name, spec(3, 1))
    looks.may_end.set()
    assert until(backend, CheckpointLost)[-1] == CheckpointLost(key(2))
    backend.wait(0.0)
    [order] = b.orders
    assert isinstance(order, Begin) and order.queued  # its node will say when it has begun
    [(place, keys)] = order.places
    assert keys == (key(1),) and place != PLACE  # but from the process of the session


def test_what_nobody_needs_any_more_once_it_is_found_was_not_lost(ray: Ray, backend: RayBackend, looks: Looks) -> None:
    put_out(backend, ray.actors["a"], 1)
    ray.nodes = ray.only_b
    assert looks.began.wait(60)
    backend.release("job", [key(1)])
    looks.may_end.set()
    assert until(backend, MachineLost) == [MachineLost("node-aaaaaaaa")]
    assert backend.wait(0.05) == []


def test_a_node_is_lost_though_the_store_does_not_answer(
    ray: Ray, backend: RayBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Sequence[Committed]:
        raise CheckpointError("the store is away")

    put_out(backend, ray.actors["a"], 1)
    monkeypatch.setattr(backend.store, "present", fails)
    ray.nodes = ray.only_b
    assert until(backend, CheckpointLost) == [MachineLost("node-aaaaaaaa"), CheckpointLost(key(1))]


def test_a_control_service_that_is_away_is_waited_for(
    ray: Ray, backend: RayBackend, caplog: pytest.LogCaptureFixture
) -> None:
    asked = threading.Semaphore(0)

    def away() -> dict[str, Node]:
        asked.release()
        raise ControlAway("nobody there")

    with caplog.at_level(logging.INFO, "qoop"):
        ray.nodes = away
        assert all(asked.acquire(timeout=60) for _ in range(3))
        assert len(backend.machines()) == 2
        ray.nodes = ray.only_b
        until(backend, MachineLost)
        deadline = time.monotonic() + 60
        while len(caplog.messages) < 2:
            assert time.monotonic() < deadline, caplog.messages
            time.sleep(0.01)
    [missed, found] = caplog.messages
    assert "does not answer: nobody there" in missed and "answers again" in found


def test_an_error_that_nobody_foresaw_ends_the_waiting(ray: Ray, backend: RayBackend) -> None:
    def fails() -> dict[str, Node]:
        raise ExecutionError("this process has left the Ray cluster")

    ray.nodes = fails
    with pytest.raises(ExecutionError, match="cannot be followed any more: this process has left"):
        until(backend, TaskStopped)
