"""Kernels that wait for tasks: the one used last comes first, and no more wait than may."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.engine.backends.warm_kernels import WarmKernels
from qoop.engine.kernel import Kernel


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels that were closed, in their order."""
    found: list[Kernel] = []
    close = Kernel.close

    def noted(kernel: Kernel) -> None:
        found.append(kernel)
        close(kernel)

    monkeypatch.setattr(Kernel, "close", noted)
    return found


def test_the_kernel_that_was_used_last_is_used_first(tmp_path: Path, closed: list[Kernel]) -> None:
    kernels = WarmKernels(tmp_path, 2)
    kernels.open_ahead()
    kernels.open_ahead()  # one waits already
    with kernels.taken() as first, kernels.taken() as second:
        assert first is not second
    with kernels.taken() as again, kernels.taken() as other:
        assert (again, other) == (first, second)  # the first was given back last
    kernels.limit(0)
    assert closed == [second, first]


def test_beyond_the_limit_a_kernel_is_closed_after_its_task(tmp_path: Path, closed: list[Kernel]) -> None:
    kernels = WarmKernels(tmp_path, 1)
    with kernels.taken() as first:
        with kernels.taken() as second:
            pass
        assert not closed  # those in use do not count
    assert closed == [first]
    with kernels.taken() as again:
        assert again is second
        kernels.limit(0)
        assert closed == [first]
    assert closed == [first, second]


def test_replaced_kernels_are_closed_those_in_use_after_their_tasks(tmp_path: Path, closed: list[Kernel]) -> None:
    kernels = WarmKernels(tmp_path, 2)
    with kernels.taken() as first:
        with kernels.taken() as second:
            pass
        kernels.replace()
        assert closed == [second]
    assert closed == [second, first]
    with kernels.taken() as new:
        assert new not in closed
    kernels.limit(0)


def test_a_task_that_fails_gives_its_kernel_back(tmp_path: Path, closed: list[Kernel]) -> None:
    kernels = WarmKernels(tmp_path, 1)
    with pytest.raises(ZeroDivisionError), kernels.taken() as kernel:
        raise ZeroDivisionError
    with kernels.taken() as again:
        assert again is kernel
    assert not closed
    kernels.limit(0)


def test_a_kernel_that_cannot_be_opened_is_the_error_of_its_task(
    tmp_path: Path, closed: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = WarmKernels(tmp_path, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "_new", lambda kernel: 1 / 0)
        kernels.open_ahead()  # which nothing has asked for
        with pytest.raises(ZeroDivisionError), kernels.taken():
            pass
    with kernels.taken():
        pass
    assert not closed  # it waits: the one that failed is not in use
    kernels.limit(0)
