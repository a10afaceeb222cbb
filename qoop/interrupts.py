"""Ctrl-C while DuckDB does something short in the main thread (for what may take long: `catalog/interrupts.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, and in functions it decorates, Ctrl-C is a KeyboardInterrupt.

    DuckDB's client stops its query at Ctrl-C, but raises RuntimeError("Query interrupted") in its place.
    """
    try:
        yield
    except RuntimeError as error:
        if "Query interrupted" in str(error):
            raise KeyboardInterrupt from error
        raise
