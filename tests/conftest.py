"""Fixtures for all tests: generated data, made once and kept outside the tree, and golden files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="write the golden files instead of comparing them")


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
        assert text == path.read_text(), f"{path.name} differs: if that is meant, run `make golden`"

    return compare


@pytest.fixture(scope="session")
def tpcds_small() -> Path:
    """A folder of TPC-DS data at scale 0.01: 24 tables in 4 MB."""
    return _generated(0.01)


@pytest.fixture(scope="session")
def tpcds_test() -> Path:
    """A folder of TPC-DS data at scale 1, on which all 99 queries have an answer that is not empty (0.5: only 89)."""
    return _generated(1)


def _generated(scale: float) -> Path:
    from qoop.tpcds.data import find_generator, generate

    try:
        find_generator()
    except ConfigError as error:
        pytest.skip(str(error))
    cache = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "tests")
    folder = cache / f"sf{scale:g}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"sf{scale:g}.lock").open("w") as lock:  # another test run may be making the same data
        fcntl.flock(lock, fcntl.LOCK_EX)
        generate(scale, folder)
    return folder
