"""The resources that a session uses of a cluster are taken in Ray's own accounts, and come back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import qoop

if TYPE_CHECKING:
    from tests.ray.conftest import Nodes

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

NODE_MEMORY = 2 << 30
"""That each node of the tests has."""


@pytest.fixture
def connected(two_nodes: Nodes) -> Iterator[None]:
    """This process is one of the cluster's whether there is a session or not."""
    import ray

    ray.init(two_nodes.address, log_to_driver=False, namespace="qoop")
    yield
    ray.shutdown()


def free() -> tuple[float, int]:
    """CPUs that Ray has to give, and memory in units of a node's."""
    import ray

    found = ray.available_resources()
    return found.get("CPU", 0.0), round(found.get("memory", 0) / NODE_MEMORY)


def becomes(cpus: float, memory: int) -> None:
    deadline = time.monotonic() + 120
    while free() != (cpus, memory):
        assert time.monotonic() < deadline, free()
        time.sleep(0.1)


ALL, NONE = (2.0, 3), (0.0, 1)
"""Of two nodes of one CPU and a head of none."""


def test_the_slots_of_a_session_are_taken_while_it_is_there(two_nodes: Nodes, connected: None) -> None:
    becomes(*ALL)
    with qoop.connect(ray="auto") as session:
        becomes(*NONE)
        with qoop.connect(ray="auto") as other:  # of the same resources
            assert other.sql("SELECT 42").fetchall() == [(42,)]
        assert session.sql("SELECT 42").fetchall() == [(42,)]
        assert free() == NONE
    becomes(*ALL)


def test_a_session_may_leave_slots_for_others(two_nodes: Nodes, connected: None) -> None:
    import ray

    becomes(*ALL)
    with qoop.connect(ray="auto", ray_reserve=False) as session:
        becomes(1.98, 3)  # next to nothing, that nodes are not idle
        assert session.sql("SELECT 42").fetchall() == [(42,)]
        assert ray.get(ray.remote(num_cpus=0.9)(lambda: 7).remote(), timeout=120) == 7
    becomes(*ALL)


CODE = """
import qoop, sys
session = qoop.connect(ray=sys.argv[1])
print("there", flush=True)
sys.stdin.read()
"""


def test_the_slots_of_a_session_that_is_killed_come_back(two_nodes: Nodes, connected: None) -> None:
    becomes(*ALL)
    command = [sys.executable, "-c", CODE, two_nodes.address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        becomes(*NONE)
    finally:
        process.kill()
        process.communicate()
    becomes(*ALL)
