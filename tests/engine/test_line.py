"""The line between a session and its process on a node, without Ray: what passes, and who is not let in."""

from __future__ import annotations

import contextlib
import pickle
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qoop.engine.backends.ray import line as module
from qoop.engine.backends.ray.line import Line, NodeEnd, SessionEnd, new_key

KEY = new_key()
LARGE = b"x" * 3_000_000


class Node:
    """A node's end: what it was told, and what it is to tell."""

    def __init__(self, tls: bool = False) -> None:
        self.told, self.happened = queue.SimpleQueue[Any](), queue.SimpleQueue[Any]()
        self.end = NodeEnd("127.0.0.1", KEY, tls, self.obey, self.wait)

    def obey(self, orders: Any) -> None:
        if orders == "fail":
            raise ValueError("nobody can do that")
        self.told.put(orders)

    def wait(self) -> Any:
        try:
            return self.happened.get(timeout=0.05)
        except queue.Empty:
            return ()


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_pickler", lambda: partial(pickle.dumps, protocol=5))


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders "ours" and "theirs", of an authority each, with a certificate for this machine that it has signed."""
    top = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        (top / name).mkdir()
        script = """
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=authority
        openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj /CN=node
        echo subjectAltName=IP:127.0.0.1 > names
        openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem
        """
        subprocess.run(["sh", "-e", "-c", script], cwd=top / name, check=True, capture_output=True)
    return top


@pytest.fixture
def shows(authorities: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def show(whose: str) -> None:
        for name, file in (("SERVER_CERT", "cert.pem"), ("SERVER_KEY", "key.pem"), ("CA_CERT", "ca.pem")):
            monkeypatch.setenv(f"RAY_TLS_{name}", str(authorities / whose / file))

    return show


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.end.close()


def heard(end: SessionEnd) -> Any:
    deadline = time.monotonic() + 30
    while (found := end.receive(0.05)) is None:
        assert time.monotonic() < deadline
    return found


@pytest.mark.parametrize("tls", [False, True])
def test_orders_go_there_and_events_come_back_in_order(shows: Callable[[str], None], tls: bool) -> None:
    shows("ours")
    node = Node(tls)
    session = SessionEnd(node.end.address, KEY, tls)
    assert session.receive(0.01) is None
    for number in range(20):
        session.send([number, LARGE])
        node.happened.put((number, LARGE))
    assert [node.told.get(timeout=30)[0] for _ in range(20)] == list(range(20))
    assert [heard(session)[0] for _ in range(20)] == list(range(20))
    session.close()
    node.end.close()


def test_each_side_learns_that_the_other_is_gone(node: Node) -> None:
    session = SessionEnd(node.end.address, KEY)
    node.end.close()
    with pytest.raises(OSError):
        while True:
            session.receive(1.0)
    session.close()
    with pytest.raises(OSError):
        session.send("anything")


def test_an_order_that_fails_ends_the_line(node: Node) -> None:
    session = SessionEnd(node.end.address, KEY)
    session.send("fail")
    with pytest.raises(OSError):
        while True:
            session.receive(1.0)
    session.close()


def test_who_has_not_got_the_key_is_not_let_in_and_keeps_nobody_out(node: Node) -> None:
    connected(node.end.address).close()
    stranger = Line(connected(node.end.address), new_key())
    stranger.send(b"orders")
    with pytest.raises(OSError):
        stranger.receive(30)
    stranger.close()
    session = SessionEnd(node.end.address, KEY)
    session.send("hello")
    assert node.told.get(timeout=30) == "hello" and node.told.empty()
    with pytest.raises(OSError):  # nor is another one who has it
        SessionEnd(node.end.address, KEY)
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
    session = SessionEnd(between.address, KEY)
    before = len(between.heard)
    session.send("once")
    assert node.told.get(timeout=30) == "once"
    between.node.sendall(between.heard[before:])
    with pytest.raises(OSError):  # the node has hung up
        while True:
            session.receive(1.0)
    session.close()
    other = Node()
    connected(other.end.address).sendall(between.heard)
    session = SessionEnd(other.end.address, KEY)
    session.send("hello")
    assert other.told.get(timeout=30) == "hello" and other.told.empty() and node.told.empty()
    session.close()
    other.end.close()


def test_certificates_of_another_authority_are_refused_on_both_sides(shows: Callable[[str], None]) -> None:
    shows("ours")
    node = Node(tls=True)
    for tls, whose in ((True, "theirs"), (False, "ours")):
        shows(whose)
        with pytest.raises(OSError):
            session = SessionEnd(node.end.address, KEY, tls)
            while True:
                session.receive(5.0)
    node.end.close()
    shows("theirs")
    node = Node(tls=True)
    shows("ours")
    with pytest.raises(OSError):
        SessionEnd(node.end.address, KEY, True)
    node.end.close()
