"""Makes the helper modules of these tests, and those of the planner's, importable; data and a session for them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "planner")]

from qoop.session.opening import connect  # noqa: E402
from qoop.session.session import Session  # noqa: E402


@pytest.fixture(scope="session")
def planner(benchmark_texts: None, tpcds_test: Path) -> Iterator[Session]:
    """A session that plans queries on the statistics of scale 1."""
    with connect(slots=2, memory="4GB") as session:
        session.register_folder(tpcds_test)
        yield session
