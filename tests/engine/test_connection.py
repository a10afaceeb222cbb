"""The connection between a session and its process on a node, without Ray: what passes, and what is refused."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pyarrow as pa
import pytest
from waits import until

from qoop.catalog.errors import ExecutionError
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Table
from qoop.catalog.value import changed
from qoop.engine.backends.ray.connection import Connection, NodeEnd, SessionEnd, new_key
from qoop.engine.backends.ray.messages import read, written
from qoop.engine.backends.ray.orders import NO_STAGE, Allow, Begin, Change, Drop, End, Order, Promote, stage_text
from qoop.engine.backends.ray.peers import Place
from qoop.engine.digest import Digest
from qoop.engine.events import (
    Begun,
    CallsObserved,
    CheckpointLost,
    CheckpointSaved,
    Committed,
    Event,
    Queued,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.task import (
    AttemptId,
    CheckpointKey,
    OperatorProfile,
    ResolvedInput,
    TaskAccount,
    TaskId,
    TaskProfile,
    TaskSpec,
)
from qoop.planner.plan import Resources, Stage

KEY = new_key()
LARGE = "x" * 3_000_000


def said(name: str) -> list[Order | Event]:
    """Something that can be said in either direction."""
    return [Drop(name, ()), TaskStopped(AttemptId(TaskId(name, "s1", 2), 3))]


class Node:
    """A node's end: what it was told, and what it is to tell."""

    def __init__(self, tls: bool = False) -> None:
        self.told, self.happened = queue.SimpleQueue[Any](), queue.SimpleQueue[Any]()
        self.end = NodeEnd("127.0.0.1", KEY, tls, self.obey, self.wait)

    def obey(self, orders: Any) -> None:
        if orders == said("fail"):
            raise ValueError("nobody can do that")
        self.told.put(orders)

    def wait(self) -> Any:
        try:
            return self.happened.get(timeout=0.05)
        except queue.Empty:
            return ()


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.end.close()


def session_at(node: Node, tls: bool = False, address: str | None = None) -> SessionEnd:
    return SessionEnd(address or node.end.address, KEY, tls, node.end.bring, node.end.fetch)


def heard(end: SessionEnd) -> Any:
    [found] = until(lambda: [one for one in [end.receive(0.05)] if one is not None])
    return found


@pytest.mark.parametrize("tls", [False, True])
def test_orders_go_there_and_events_come_back_in_order(shows: Callable[[str], None], tls: bool) -> None:
    shows("ours")
    node = Node(tls)
    session = session_at(node, tls)
    assert session.receive(0.01) is None
    every = [said(f"{number} {LARGE if number % 10 == 0 else ''}") for number in range(20)]
    for one in every:
        session.send(one)
        node.happened.put(one)
    assert [node.told.get(timeout=60) for _ in every] == every
    assert [heard(session) for _ in every] == every
    session.close()
    node.end.close()


def test_what_json_cannot_hold_is_carried_by_ray_and_keeps_its_turn(node: Node) -> None:
    odd = [TaskFailed(AttemptId(TaskId("job", "s1", 2), 3), ExecutionError("no"), True)]
    every: list[list[Any]] = [said("first"), [object()], said("second"), odd, said("third")]
    late: list[tuple[int, Any]] = []
    session = SessionEnd(node.end.address, KEY, False, lambda *one: late.append(one), node.end.fetch)
    for one in every:
        session.send(one)
        node.happened.put(one)
    assert node.told.get(timeout=60) == every[0]
    for one in reversed(late):
        node.end.bring(*one)
    assert [node.told.get(timeout=60) for _ in every[1:]] == every[1:] and len(late) == 2
    assert [heard(session) for _ in every] == every
    session.close()


def test_orders_and_events_are_the_same_again() -> None:
    attempt, key, more = AttemptId(TaskId("job", "s1", 2), 3), CheckpointKey("a", "b", 7), CheckpointKey("c", "d", 1)
    resources, place = Resources(2.0, 1.5e9), Place("grpc://node:1", "secret")
    inputs = ResolvedInput("i", (key, CheckpointKey("a", "b", 9), more), 4), ResolvedInput("j", ())
    spec = TaskSpec(
        attempt, NO_STAGE, key, inputs, {}, resources, (("TimeZone", "UTC"),),
        True, True, True, True, (), 5, True, True,
        Ticket(attempt, 1, 0.5, 17.25, JobLeft(3.5, 8), resources, True, inf), 12.5,
    )  # fmt: skip
    calls, digest = (FunctionCalls("f", 10, 0.25),), Digest(3, 1 << 100, ())
    committed = Committed(key, (1, 2), (3, 4), 0.1, 0.2, 5, 6, True, digest, calls)
    profile = TaskProfile(1, 2, None, 0.5, (OperatorProfile(0, "SCAN", "t", 0.25, 9),))
    every: list[Order | Event] = [
        Begin(spec, stage_text(Stage("s", "SELECT 1", (), (("x", "INTEGER"),), 2, "f")), (), ((place, (key, more)),)),
        Begin(changed(spec, ticket=None), "{}", (), (), (), ("f",), True),
        End(attempt), Change(attempt, resources), Promote(attempt), Allow(resources), Drop("job", (key, more)),
        Queued(attempt), Begun(attempt), TaskSucceeded(attempt, committed, TaskAccount(1.0, 2.0, 3.0, 4.0), profile),
        TaskStopped(attempt), TaskRegranted(attempt, resources), CallsObserved(attempt, calls), CheckpointLost(key),
        WorkObserved(attempt, 0.25, 1.5), WorkObserved(attempt, None),
        CheckpointSaved(("job", "other"), key, 5, 0.5, True, 0.25),
    ]  # fmt: skip
    text = written(every)
    assert text is not None
    found = read(json.loads(text))
    assert found == every and [type(one) for one in found] == [type(one) for one in every]
    assert next(one for one in found if isinstance(one, TaskSucceeded)).committed.digest == digest
    table = Table("t", (), "version", ArrowSource.of(pa.table({"x": [1]})), 1)
    assert written([changed(every[0], tables=(table,))]) is None


def test_each_side_learns_that_the_other_is_gone(node: Node) -> None:
    session = session_at(node)
    node.end.close()
    with pytest.raises(OSError):
        while True:
            session.receive(1.0)
    session.close()
    with pytest.raises(OSError):
        session.send(said("anything"))


def test_an_order_that_fails_ends_the_line(node: Node) -> None:
    session = session_at(node)
    session.send(said("fail"))
    with pytest.raises(OSError):
        while True:
            session.receive(1.0)
    session.close()


def test_who_has_not_got_the_key_is_not_let_in_and_keeps_nobody_out(node: Node) -> None:
    connected(node.end.address).close()
    stranger = Connection(connected(node.end.address), new_key())
    stranger.send(b"orders")
    with pytest.raises(OSError):
        stranger.receive(30)
    stranger.close()
    session = session_at(node)
    session.send(said("hello"))
    assert node.told.get(timeout=60) == said("hello") and node.told.empty()
    with pytest.raises(OSError):  # nor is another one who has it
        session_at(node)
    session.close()


class Between:
    """Somebody on the way of the first connection, who hears what the session says and can say it again."""

    def __init__(self, address: str) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.node = connected(address)
        threading.Thread(target=self._pass_on, args=(address,), daemon=True).start()

    def _pass_on(self, address: str) -> None:
        session, _ = self._listener.accept()
        threading.Thread(target=self._copy, args=(self.node, session), daemon=True).start()
        threading.Thread(target=self._second, args=(address,), daemon=True).start()
        while found := session.recv(4096):
            self.heard += found
            self.node.sendall(found)

    def _second(self, address: str) -> None:
        session, _ = self._listener.accept()
        node = connected(address)
        threading.Thread(target=self._copy, args=(node, session), daemon=True).start()
        self._copy(session, node)

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while found := one.recv(4096):
                other.sendall(found)
            other.shutdown(socket.SHUT_RDWR)


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def test_what_was_seen_on_the_way_cannot_be_sent_again(node: Node) -> None:
    between = Between(node.end.address)
    session = session_at(node, address=between.address)
    before = len(between.heard)
    session.send(said("once"))
    assert node.told.get(timeout=60) == said("once")
    between.node.sendall(between.heard[before:])
    with pytest.raises(OSError):  # the node has hung up
        while True:
            session.receive(1.0)
    session.close()
    other = Node()
    connected(other.end.address).sendall(between.heard)
    session = session_at(other)
    session.send(said("hello"))
    assert other.told.get(timeout=60) == said("hello") and other.told.empty() and node.told.empty()
    session.close()
    other.end.close()


def test_certificates_of_another_authority_are_refused_on_both_sides(shows: Callable[[str], None]) -> None:
    shows("ours")
    node = Node(tls=True)
    for tls, whose in ((True, "theirs"), (False, "ours")):
        shows(whose)
        with pytest.raises(OSError):
            session = session_at(node, tls)
            while True:
                session.receive(5.0)
    node.end.close()
    shows("theirs")
    node = Node(tls=True)
    shows("ours")
    with pytest.raises(OSError):
        session_at(node, True)
    node.end.close()
