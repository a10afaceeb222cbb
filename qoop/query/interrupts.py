"""Ctrl-C while DuckDB does something short in the main thread (for what may take long: `catalog/interrupts.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block, and in functions that it decorates, Ctrl-C is a KeyboardInterrupt.

    DuckDB's client stops its query at any signal, but raises RuntimeError("Query interrupted") in place of what the
    signal's handler raises; that is its cause, and says by what the process is to end (`EndedBySignal`).
    """
    try:
        yield
    except RuntimeError as error:
        if "Query interrupted" in str(error):
            meant = error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else KeyboardInterrupt()
            raise meant from None
        raise
