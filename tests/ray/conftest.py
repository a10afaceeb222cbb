"""Ray clusters of several nodes on this machine, started for a module and gone with it.

A node is a raylet that announces one or two of the CPUs; its actors are processes of their own, as on other hosts. The
process of the tests is the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from qoop.tpcds.on_ray.ray_nodes import LocalNodes as Nodes

NodesMaker = Callable[..., AbstractContextManager[Nodes]]


@contextmanager
def nodes(*cpus: int) -> Iterator[Nodes]:
    """A cluster whose head has no CPU, with nodes of that many. Ends every process that it began."""
    with Nodes() as found:
        for count in cpus:
            found.add(count)
        yield found


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Nodes]:
    """A cluster of two nodes of one CPU each that nobody takes away."""
    with nodes(1, 1) as found:
        yield found


@pytest.fixture
def make_nodes() -> NodesMaker:
    """`with make_nodes(1, 1) as nodes:` a cluster of one's own, for tests that take nodes away."""
    return nodes


@pytest.fixture(scope="session")
def tpcds(tpcds_small: Path, benchmark_texts: None) -> Path:
    """TPC-DS at scale 0.01, with texts."""
    return tpcds_small
