"""Queries over rows of Arrow that are planned once: over some hundred rows, planning takes most of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.lexer import quoted

if TYPE_CHECKING:
    import duckdb

    from qoop.catalog.table import Columns

_FEW = 10_000
"""Batches of fewer rows are copied into one: DuckDB takes a tenth of a millisecond for each batch."""
_MOST = 256
"""Statements that a connection keeps: those of views that were dropped go with the rest."""


class Prepared:
    """The queries of one connection. Not thread-safe."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._inputs: dict[pa.Schema, arrow_input.Input] = {}
        self._names: dict[str, str] = {}  # of statements, by text

    def answer(self, rows: pa.Table, columns: Columns, query: Callable[[str], str]) -> pa.Table:
        """The rows of a query over rows. columns: their names and types. query: by the query of these rows."""
        rows = rows.rename_columns([name for name, _ in columns])
        rows = rows.combine_chunks() if rows.num_rows <= _FEW * max(rows.column(0).num_chunks, 1) else rows
        source = self._inputs.get(rows.schema)
        if source is None:
            source = arrow_input.Input(self._connection, f"qoop_rows{len(self._inputs)}", rows.schema)
            self._inputs[rows.schema] = source
        with source.having(rows):
            text = query(typed(source.name, columns))
            if text not in self._names:
                if len(self._names) >= _MOST:
                    self._forget()
                name = f"qoop_statement{len(self._names)}"
                self._connection.execute(f"PREPARE {name} AS {text}")
                self._names[text] = name
            return arrow_output.table(self._connection, f"EXECUTE {self._names[text]}")

    def _forget(self) -> None:
        for name in self._names.values():
            self._connection.execute(f"DEALLOCATE {name}")
        self._names.clear()


def typed(name: str, columns: Columns) -> str:
    """A query for rows with exactly these names and types. name: of rows with these names."""
    items = ", ".join(f"{quoted(column)}::{type_} AS {quoted(column)}" for column, type_ in columns)
    return f"SELECT {items} FROM {name}"
