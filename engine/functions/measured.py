"""Rows and seconds of functions of Python, as tasks have measured them, and the facts that kernels share."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa

from qoop.catalog.value import value
from qoop.engine.functions.ordering import Counter

_QUICK, _TIMED_AT_FIRST, _SKIPPED = 100e-6, 64, 15
"""Calls that take less are timed once in sixteen, after the first ones: looking at the clock takes as long as they."""


@value
class FunctionCalls:
    """The calls of one function in one task. function: its key. rows: it was called for. seconds: it took."""

    function: str
    rows: int
    seconds: float


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of BOOLEAN as Arrow's own: where no value may lose anything DuckDB gives bytes."""
    if getattr(column.type, "extension_name", "") != "arrow.bool8":
        return column
    return pa.chunked_array([chunk.storage.cast(pa.bool_()) for chunk in column.chunks], pa.bool_())


class Meter:
    """Rows and seconds of one function in one kernel. Of many quick calls only some are timed.

    skip: calls until the next that is timed. Calls that are not are counted with the next one that is.
    """

    __slots__ = ("_counted", "_skipped", "seconds", "skip", "timed")

    def __init__(self) -> None:
        self._counted, self._skipped, self.timed, self.seconds, self.skip = 0, 0, 0, 0.0, 0

    @property
    def rows(self) -> int:
        """The rows that the function was called for."""
        return self._counted + self._skipped - self.skip

    def add(self, rows: int, seconds: float) -> None:
        """Count a call that was timed, and those before it that were not."""
        self._counted += rows + self._skipped
        self.timed += rows
        self.seconds += seconds
        quick = seconds < _QUICK and self.timed >= _TIMED_AT_FIRST
        self.skip = self._skipped = _SKIPPED if quick else 0

    def count(self, rows: int) -> None:
        """Count calls that were not timed."""
        self._counted += rows


def row_seconds(meters: Sequence[Meter]) -> float | None:
    """Seconds a row, as the kernels have measured it; None: it was not called."""
    timed = sum(one.timed for one in meters)
    return sum(one.seconds for one in meters) / timed if timed else None


class Ledger:
    """The facts that the kernels of one process have observed of functions and predicates, for the tasks to come.

    functions: by key, a meter for each kernel. predicates: by text. as_written: filters that failed in another order
    than that of the text. apart: filters whose predicates cannot be fused. lock: of the counters, which
    kernels and their threads share.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[Meter]] = {}
        self.predicates: dict[str, Counter] = {}
        self.as_written: set[tuple[str, ...]] = set()
        self.apart: set[tuple[str, ...]] = set()
        self.lock = threading.Lock()
