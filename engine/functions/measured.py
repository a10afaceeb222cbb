"""Rows and seconds of functions of Python, as tasks have seen them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qoop.catalog.value import value

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
