"""The judge of answers: DuckDB's answer on the same files, compared by the oracle, whatever types an engine has.

Engines differ in names and types of columns, which the texts leave open, but not in values. So columns are matched by
place, and each is brought to one type without loss. Where DuckDB has a DOUBLE, an average or a quotient, another engine
may have a DECIMAL, whose last digits it cuts. If that has four digits or more, both are compared in single precision,
for which the oracle takes 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from qoop.tpcds.oracle import Oracle, compare
from qoop.tpcds.ordering import Ordering, ordering

_CUT_DIGITS = 4
_Bring = Callable[[pa.ChunkedArray], pa.ChunkedArray]


class Judge:
    """Compares answers to texts with DuckDB's. Use it as a context manager."""

    def __init__(self, directory: Path, threads: int | None = None) -> None:
        self._oracle = Oracle(directory, threads)
        self._known: dict[str, pa.Table] = {}
        self._orders: dict[str, Ordering] = {}
        self._made: set[str] = set()
        self._last_whole: tuple[str, pa.Table] | None = None

    def verdict(self, text: str, answer: Path) -> str | None:
        """The reason why the answer in a file is wrong, None if it is right. Raises duckdb.Error."""
        try:
            ours = _read(answer)
        except (OSError, pa.ArrowInvalid) as error:
            return f"the answer cannot be read: {error}"
        return self.compare(text, ours)

    def compare(self, text: str, ours: pa.Table) -> str | None:
        """The same for rows."""
        theirs = self.answer(text)
        if ours.num_columns != theirs.num_columns:
            return f"{ours.num_columns} columns, but there should be {theirs.num_columns}"
        try:
            brought = [_brought(own.type, other.type) for own, other in zip(ours.schema, theirs.schema, strict=True)]
            mine = _table(ours, [own for own, _ in brought], theirs.column_names)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, _Unlike) as error:
            return f"the types of columns differ: {error}"

        def conform(table: pa.Table) -> pa.Table:
            return _table(table, [other for _, other in brought], theirs.column_names)

        if text not in self._orders:
            self._orders[text] = ordering(text, theirs.column_names)
        order = self._orders[text]
        found = compare(
            mine, conform(theirs), order=order, unlimited=lambda: conform(self._whole(order.unlimited or ""))
        )
        return None if found is None else str(found)

    def make(self, tables: Mapping[str, str]) -> None:
        """Have tables, each of the rows of a text that may read those before it. Raises duckdb.Error."""
        for name, text in tables.items():
            if name not in self._made:
                self._oracle.keep(name, text, "memory")
                self._made.add(name)

    def answer(self, text: str) -> pa.Table:
        """DuckDB's answer, computed once. Raises duckdb.Error."""
        if text not in self._known:
            self._known[text] = self._oracle.answer(text)
        return self._known[text]

    def _whole(self, text: str) -> pa.Table:
        """The answer to a text without its LIMIT; only the last is remembered, since some are large."""
        if self._last_whole is None or self._last_whole[0] != text:
            self._last_whole = text, self._oracle.answer(text)
        return self._last_whole[1]

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self._oracle.close()


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


class _Unlike(Exception):
    """Two types of columns that cannot hold the same values."""


def _table(table: pa.Table, brings: list[_Bring], names: list[str]) -> pa.Table:
    """The columns of an answer, brought to those types, under those names; further columns stay as they are."""
    count = len(brings)
    columns = [bring(column) for bring, column in zip(brings, table.columns[:count], strict=True)]
    return pa.table([*columns, *table.columns[count:]], names=[*names, *table.column_names[count:]])


@dataclass(frozen=True, slots=True)
class _Cast:
    kind: pa.DataType

    def __call__(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_float32(self.kind) and column.type != self.kind:
            column = column.cast(pa.float64())
        return column if column.type == self.kind else column.cast(self.kind, safe=not pa.types.is_float32(self.kind))


def _brought(own: pa.DataType, other: pa.DataType) -> tuple[_Bring, _Bring]:
    """The functions that bring a column of an engine, and that of DuckDB, to one type. Raises _Unlike."""
    own, other = _plain(own), _plain(other)
    if own == other:
        return _Cast(own), _Cast(own)
    if _is_number(own) and _is_number(other):
        return _numbers(own, other)
    if pa.types.is_null(own) or (_is_text(own) and _is_text(other)):
        return _Cast(other), _Cast(other)
    if pa.types.is_temporal(own) and pa.types.is_temporal(other):
        return _Cast(other), _Cast(other)
    raise _Unlike(f"{own} in place of {other}")


def _plain(kind: pa.DataType) -> pa.DataType:
    return _plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _numbers(own: pa.DataType, other: pa.DataType) -> tuple[_Bring, _Bring]:
    if pa.types.is_floating(other) and pa.types.is_decimal(own):
        both = _Cast(pa.float32() if own.scale >= _CUT_DIGITS else pa.float64())
        return both, both
    if pa.types.is_floating(own) or pa.types.is_floating(other):
        return _Cast(pa.float64()), _Cast(pa.float64())
    scale = max(_scale(own), _scale(other))
    return _Cast(pa.decimal256(60, scale)), _Cast(pa.decimal256(60, scale))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0
