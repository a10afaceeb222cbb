"""The garbage collector waits for planning, and only for that."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from qoop.planner.collector import collector_waits


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_waits_to_the_end_of_the_outermost_block() -> None:
    with collector_waits():
        with collector_waits():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    @collector_waits()
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError("planning failed")

    with pytest.raises(ValueError, match="planning failed"):
        fail()
    assert gc.isenabled()


def test_one_that_is_switched_off_stays_so() -> None:
    gc.disable()
    with collector_waits():
        pass
    assert not gc.isenabled()
