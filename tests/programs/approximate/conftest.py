"""Makes the helper modules of these tests, of schedulers and of faults importable; lets the shortest answers grow."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tpcds")]


@pytest.fixture(scope="package", autouse=True)
def _any_answer_may_grow() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QOOP_EXACT_WITHIN", "0")
        yield
