"""A search for plans ends where these are of no use any more: it looks at each of its steps.

What its steps have remembered so far stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from qoop.catalog.errors import PlanError


def never() -> bool:
    """The search is of use beyond its job."""
    return False


_over: ContextVar[Callable[[], bool]] = ContextVar("over", default=never)


@contextmanager
def until(over: Callable[[], bool]) -> Iterator[None]:
    """Searches of this thread in the block raise PlanError at their next step, once `over` is true."""
    before = _over.set(over)
    try:
        yield
    finally:
        _over.reset(before)


def go_on() -> None:
    """A search begins its next step. Raises PlanError if it is of no use any more."""
    if _over.get()():
        raise PlanError("the plans that are searched for are of no use any more")
