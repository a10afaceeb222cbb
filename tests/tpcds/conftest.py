"""Data, sessions and DuckDB for the queries of the benchmarks; each is set up once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle

SLOTS = (2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow))
TPCH_SCALES = (0.1, pytest.param(1, marks=pytest.mark.slow))


@pytest.fixture(scope="session", params=SLOTS, ids="slots{}".format)
def slots(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="session")
def tpcds_session(benchmark_texts: None, tpcds_test: Path, slots: int) -> Iterator[Session]:
    with connect(slots=slots) as session:
        session.register_folder(tpcds_test)
        yield session


@pytest.fixture(scope="session")
def tpcds_unstaged(benchmark_texts: None, tpcds_test: Path, slots: int) -> Iterator[Session]:
    """A session in which DuckDB's own plan is one of the alternatives."""
    with connect(slots=slots, staged=False) as session:
        session.register_folder(tpcds_test)
        yield session


@pytest.fixture(scope="session")
def tpcds_oracle(benchmark_texts: None, tpcds_test: Path) -> Iterator[Oracle]:
    with Oracle(tpcds_test, threads=2) as oracle:
        yield oracle


@pytest.fixture(scope="session", params=TPCH_SCALES, ids="sf{}".format)
def tpch_test(request: pytest.FixtureRequest, benchmark_data: Callable[[str, float], Path]) -> Path:
    """A folder of TPC-H data."""
    return benchmark_data("tpch", request.param)


@pytest.fixture(scope="session")
def tpch_session(benchmark_texts: None, tpch_test: Path) -> Iterator[Session]:
    with connect(slots=2) as session:
        session.register_folder(tpch_test)
        yield session


@pytest.fixture(scope="session")
def tpch_oracle(benchmark_texts: None, tpch_test: Path) -> Iterator[Oracle]:
    with Oracle(tpch_test, threads=2) as oracle:
        yield oracle
