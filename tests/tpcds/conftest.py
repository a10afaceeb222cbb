"""Data, sessions and DuckDB for the queries of the benchmarks; each is set up once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.errors import ConfigError
from qoop.session import Session, connect
from qoop.tpcds.data import find_generator, generate_tpch
from qoop.tpcds.oracle import Oracle


@pytest.fixture(scope="session")
def benchmark_texts() -> None:
    """Skips what needs the texts of the queries where DuckDB is not the version they come with."""
    pytest.importorskip("duckdb_extension_tpcds")
    if duckdb.__version__ != "1.5.5":
        pytest.skip("the texts of the queries need duckdb 1.5.5")


@pytest.fixture(scope="session")
def tpch_test() -> Path:
    """A folder of TPC-H data at scale 0.1, made once and kept outside the tree."""
    try:
        find_generator()
    except ConfigError as error:
        pytest.skip(str(error))
    cache = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "tests")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "h0.1.lock").open("w") as lock:  # another test run may be making the same data
        fcntl.flock(lock, fcntl.LOCK_EX)
        generate_tpch(0.1, cache / "h0.1")
    return cache / "h0.1"


@pytest.fixture(scope="session")
def tpcds_session(benchmark_texts: None, tpcds_test: Path) -> Iterator[Session]:
    with connect(slots=2) as session:
        session.register_folder(tpcds_test)
        yield session


@pytest.fixture(scope="session")
def tpcds_oracle(benchmark_texts: None, tpcds_test: Path) -> Iterator[Oracle]:
    with Oracle(tpcds_test, threads=2) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def tpch_session(benchmark_texts: None, tpch_test: Path) -> Iterator[Session]:
    with connect(slots=2) as session:
        session.register_folder(tpch_test)
        yield session


@pytest.fixture(scope="session")
def tpch_oracle(benchmark_texts: None, tpch_test: Path) -> Iterator[Oracle]:
    with Oracle(tpch_test, threads=2) as oracle:
        yield oracle
