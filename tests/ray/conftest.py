"""Ray clusters of several nodes on this machine, started for a module and gone with it.

A node is a raylet that claims one or two of the CPUs; its actors are processes of their own, as on other hosts. The
process of the tests is the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STORE = 80 << 20
"""Bytes of Ray's own object store; it holds next to nothing, since exchanged rows do not go through it."""


class Nodes:
    """A cluster whose head has no CPU, with nodes that can be added and taken away while queries run."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address
        self.there: list[Any] = []

    def add(self, cpus: int = 1) -> Any:
        """A new node; returns before it is known to all."""
        node = self._cluster.add_node(wait=False, num_cpus=cpus, memory=2 << 30, object_store_memory=STORE)
        self.there.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Take a node away with all its processes, as a machine goes that loses its power."""
        self.there.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def wait(self) -> None:
        """Until the nodes that were added are known."""
        self._cluster.wait_for_nodes()


@contextmanager
def nodes(*cpus: int) -> Iterator[Nodes]:
    """A cluster with nodes of so many CPUs. Ends every process that it began."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ["RAY_DEDUP_LOGS"] = "0"
    system = {"health_check_failure_threshold": 3, "health_check_period_ms": 500, "health_check_timeout_ms": 500}
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "_system_config": system}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        found = Nodes(cluster)
        for count in cpus:
            found.add(count)
        found.wait()
        yield found
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Nodes]:
    """A cluster of two nodes of one CPU each that nobody takes away."""
    with nodes(1, 1) as found:
        yield found


NodesMaker = Callable[..., Any]


@pytest.fixture
def make_nodes() -> NodesMaker:
    """`with make_nodes(1, 1) as nodes:` a cluster of one's own, for tests that take nodes away."""
    return nodes


@pytest.fixture(scope="session")
def tpcds(tpcds_small: Path, benchmark_texts: None) -> Path:
    """TPC-DS at scale 0.01, with texts."""
    return tpcds_small
