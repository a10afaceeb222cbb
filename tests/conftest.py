"""Fixtures for all tests: generated data, made once and kept outside the tree, and golden files."""

from __future__ import annotations

import difflib
import fcntl
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import hypothesis
import pytest

from qoop.catalog.errors import ConfigError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.probe import Probe

sys.path.insert(0, str(Path(__file__).parent / "support"))  # modules that tests of all folders use

if sys.dont_write_bytecode:  # each of the many processes of the tests would compile all that it imports
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path(__file__).parent.parent / "build" / "compiled")
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GOLDEN = Path(__file__).parent / "golden"
DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")
"""Generated data, also used by `make demo` and `make bench`; test runs may share it."""

DRAWN = os.environ.get("QOOP_SEED") or "0"
"""The seed that tests draw by: each run of `make test` draws alike, so that it fails for a change, not by chance."""

hypothesis.settings.register_profile("alike", deadline=None, derandomize=DRAWN != "random")
hypothesis.settings.load_profile("alike")  # without deadlines: how busy the machine is, is not for a test to say

_NOT_IN_DUCKDB_2 = {
    duckdb.DuckDBPyConnection: ("arrow", "fetch_arrow_table", "fetch_record_batch", "pl"),
    duckdb.DuckDBPyRelation: ("execute", "fetch_df_chunk", "fetchmany", "fetchone"),
    duckdb: ("fetch_arrow_table", "fetch_record_batch", "pl"),
}

Golden = Callable[[str, str], None]
BenchmarkData = Callable[[str, float], Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="write the golden files instead of comparing them")
    parser.addoption(
        "--need-benchmarks", action="store_true", help="fail instead of skipping where data or queries are missing"
    )
    parser.addoption("--scale", type=float, default=1, help="of the TPC-DS data on which queries run (1)")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and tests stay to the end: without this, each search for cyclic garbage would walk over all of them.

    Searches are rarer than usual, too: they took 5 % of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` asserts that `text` is what tests/golden/<name>.txt holds."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--golden-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"there is no {path.relative_to(GOLDEN.parent)}: run `make golden`"
        held = path.read_text()
        if text != held:
            changes = difflib.unified_diff(held.splitlines(), text.splitlines(), "held", "now", lineterm="", n=1)
            pytest.fail("\n".join([f"{path.name} differs; if that is meant, run `make golden`", *changes]), False)

    return compare


@pytest.fixture(scope="session")
def seed() -> int:
    """QOOP_SEED, a number to repeat what a message tells, or "random" to look for something new."""
    return random.SystemRandom().randrange(10**6) if DRAWN == "random" else int(DRAWN)


@pytest.fixture(scope="session", autouse=True)
def heeds_signals() -> None:
    """A process that starts the tests in the background may ignore some signals, for this process and its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def no_more_than_duckdb_2_has() -> Iterator[None]:
    """Names that DuckDB 1.5.5 has and 2.0 lacks fail in all tests: a kernel of either version must do."""
    with pytest.MonkeyPatch.context() as patch:
        for class_, names in _NOT_IN_DUCKDB_2.items():
            for name in names:
                patch.delattr(class_, name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_statistics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Statistics are collected by the code under test: none from earlier runs are read, none are left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tests have a key of their own, and the tester's qoop.toml does not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        for name in ("QOOP_KEY", "QOOP_KEY_FILE", "QOOP_CONFIG"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def in_stages() -> Iterator[None]:
    """Most tests are about stages, and their data are small: DuckDB's own plan would answer every query."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QOOP_STAGED", "on")
        yield


@pytest.fixture(scope="session", autouse=True)
def of_one_size() -> Iterator[None]:
    """Sessions keep their size in a control group with limits too: there the tests take CPUs from one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QOOP_WATCH_MACHINE", "off")
        yield


@pytest.fixture(scope="session", autouse=True)
def without_reuse() -> Iterator[None]:
    """Most tests are about how queries run: a text that comes again would be answered without a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qoop.query.config.REUSE_IN_MEMORY", False)
        yield


@pytest.fixture
def as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's own plan is one of the alternatives, and outputs serve later queries, as it is for users."""
    monkeypatch.delenv("QOOP_STAGED", raising=False)
    monkeypatch.setattr("qoop.query.config.REUSE_IN_MEMORY", True)


@pytest.fixture(scope="session", autouse=True)
def on_guard() -> Iterator[None]:
    """Outputs that two plans of one session make under one signature are compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QOOP_GUARD", "always")
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_instances() -> Iterator[None]:
    """One DuckDB compares the outputs of all sessions, and one reads the schemas: to open one for each takes 12 ms."""
    opened: dict[tuple[int, str], duckdb.DuckDBPyConnection] = {}
    lock = threading.Lock()

    def cursor(**options: Any) -> duckdb.DuckDBPyConnection:
        with lock:
            key = os.getpid(), repr(options)
            if key not in opened:
                opened[key] = open_duckdb(**options)
            return opened[key].cursor()

    begin = Probe.__init__

    def begin_opened(probe: Probe) -> None:
        begin(probe)
        probe._connection = cursor()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qoop.engine.digest.open_duckdb", cursor)
        patch.setattr(Probe, "__init__", begin_opened)
        yield
    for (process, _), connection in opened.items():
        if process == os.getpid():
            connection.close()


@pytest.fixture(scope="session")
def missing(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`missing(what)` skips the test, or fails it where all that belongs to the benchmarks must be there."""
    return pytest.fail if request.config.getoption("--need-benchmarks") else pytest.skip


@pytest.fixture(scope="session")
def benchmark_data(missing: Callable[[str], None]) -> BenchmarkData:
    """`benchmark_data(suite, scale)` is a folder of the tables of "tpcds" or "tpch"."""

    def folder(suite: str, scale: float) -> Path:
        from qoop.tpcds.data import find_generator, generate

        try:
            find_generator()
        except ConfigError as error:
            missing(str(error))
        name = f"{suite}-sf{scale:g}"
        DATA.mkdir(parents=True, exist_ok=True)
        with (DATA / f"{name}.lock").open("w") as lock:  # another test run may be making the same data
            fcntl.flock(lock, fcntl.LOCK_EX)
            generate(scale, DATA / name, suite=suite)
        return DATA / name

    return folder


@pytest.fixture(scope="session")
def benchmark_texts(benchmark_data: BenchmarkData, missing: Callable[[str], None]) -> Iterator[None]:
    """Has the texts of the queries come from generated data where DuckDB is not the version they come with.

    Skips if they are in neither.
    """
    from qoop.tpcds import queries

    with pytest.MonkeyPatch.context() as patch:
        try:
            queries.shipped(queries.TPCDS)
        except ConfigError as error:
            folders = {suite: benchmark_data(suite.name, 0.01) for suite in queries.SUITES.values()}
            if not all(queries.are_kept(suite, folder) for suite, folder in folders.items()):
                missing(str(error))
            patch.setattr(queries, "shipped", cache(lambda suite: queries.kept(suite, folders[suite])))
        yield


@pytest.fixture(scope="session")
def tpcds_small(benchmark_data: BenchmarkData) -> Path:
    """A folder of TPC-DS data at scale 0.01: 24 tables in 4 MB."""
    return benchmark_data("tpcds", 0.01)


@pytest.fixture(scope="session")
def tpcds_test(request: pytest.FixtureRequest, benchmark_data: BenchmarkData) -> Path:
    """A folder of TPC-DS data at scale 1, on which all 99 queries have an answer that is not empty (0.5: only 89)."""
    return benchmark_data("tpcds", request.config.getoption("--scale"))
