"""One agent a node for all sessions of a Ray cluster (`connect(node_queue=…)`); it, and a session, are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qoop
from qoop.engine.backends.ray.agent import agents as agents_of
from qoop.engine.backends.ray.nodes import load
from qoop.engine.history import Succeeded
from qoop.engine.state import State
from qoop.interfaces.commands.cluster import cluster_status
from tests.ray.test_node_queue import WIDTH, count, submitted

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]


def agents() -> list[Any]:
    return [agent for _, agent in agents_of(load())]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sessions_share_an_agent_that_ends_after_the_last(make_nodes: NodesMaker) -> None:
    with make_nodes(1) as nodes, qoop.connect(ray=nodes.address) as looking:
        with qoop.connect(ray=nodes.address, node_queue=2) as first:
            with qoop.connect(ray=nodes.address, node_queue=2) as second:
                [agent] = agents()
                process = load().get(agent.process.remote())
                assert os.getuid() or os.getpriority(os.PRIO_PROCESS, process) < 15, "Ray's niceness for its workers"
                handles = [submitted(first), submitted(second)]
                until(lambda: all(count(one, Succeeded) for one in handles))
                assert len(load().get(agent.slots.remote())) == 2
                assert sum(sum(one.queued.values()) for one in cluster_status(nodes.address).sessions) > 0
                for handle in handles:
                    handle.wait()
                    assert handle.state is State.SUCCEEDED, handle.error
                    assert count(handle, Succeeded) == WIDTH
                second.cluster.check()
            assert load().get(agents()[0].process.remote()) == process
            assert first.sql("SELECT 41 + 1").fetchall() == [(42,)]
        until(lambda: not agents())
        with qoop.connect(ray=nodes.address, node_queue=2) as again:
            assert load().get(agents()[0].process.remote()) != process
            assert again.sql("SELECT 2").fetchall() == [(2,)]
        assert looking.sql("SELECT 1").fetchall() == [(1,)]


def test_a_session_that_was_taken_for_dead_comes_again(make_nodes: NodesMaker) -> None:
    with make_nodes(1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        [agent] = agents()
        [name] = load().get(agent.slots.remote())
        handle = submitted(session)
        until(lambda: count(handle, Succeeded) > 0)
        load().get(agent.leave.remote(name))
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        [agent] = agents()  # another one, if the session took so long that the first has ended
        [other] = load().get(agent.slots.remote())
        assert other != name
        session.cluster.check()


def test_an_agent_that_is_killed_loses_only_time(make_nodes: NodesMaker) -> None:
    with make_nodes(1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        [agent] = agents()
        process = load().get(agent.process.remote())
        handle = submitted(session)
        until(lambda: count(handle, Succeeded) > 0)
        os.kill(process, signal.SIGKILL)
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        [agent] = agents()
        assert load().get(agent.process.remote()) != process
        session.cluster.check()


DRIVER = """
import sys, qoop
from tests.ray.test_node_queue import submitted
with qoop.connect(ray=sys.argv[1], node_queue=2) as session:
    handles = [submitted(session) for _ in range(20)]
    print("busy", flush=True)
    handles[-1].wait()
"""


def test_a_session_that_is_killed_leaves_its_slots_to_others(make_nodes: NodesMaker) -> None:
    with make_nodes(1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        [agent] = agents()
        there = Path(__file__).parents[2]
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, nodes.address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=there
        )
        assert process.stdout is not None and process.stdout.readline() == b"busy\n"
        until(lambda: len(load().get(agent.slots.remote())) == 2)
        handle = submitted(session)
        until(lambda: count(handle, Succeeded) > 0)
        process.kill()
        process.communicate()
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        assert count(handle, Succeeded) == WIDTH
        until(lambda: len(load().get(agent.slots.remote())) == 1)
