"""Partial groups are merged, and finished as the rows of a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.lexer import quoted
from qoop.programs.approximate.core import CORE
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    from qoop.programs.approximate.eligibility import Columns
    from qoop.programs.approximate.growth import Growth, Term

_TOTALS = "qoop_totals"


class Merging:
    """Merges the partial groups of one view. types: names and types of their columns. Not thread-safe."""

    def __init__(self, growth: Growth, types: Columns, settings: Settings) -> None:
        self._growth = growth
        self._types = types
        self._connection = opened(settings, threads=1)
        self._connection.execute("SET arrow_lossless_conversion = true")

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()

    def merged(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The groups of several parts as one."""
        self._load(parts)
        return arrow_output.table(self._connection, f"FROM {_TOTALS}")

    def final(self, parts: Sequence[pa.Table], exact: Mapping[str, tuple[pa.Table, Columns]]) -> pa.Table:
        """The rows of the view. exact: tables that the query around the sums reads, with their columns."""
        self._load(parts)
        for name, (rows, columns) in exact.items():
            self._create(name, [rows], columns)
        try:
            return arrow_output.table(self._connection, self._final_sql())
        finally:
            for name in exact:
                self._connection.execute(f"DROP TABLE {quoted(name)}")

    def columns(self, exact: Mapping[str, Columns]) -> Columns:
        """The columns of the view. Raises duckdb.Error where the query around the sums needs more than these."""
        self._create(_TOTALS, [], self._types)
        for name, columns in exact.items():
            self._create(name, [], columns)
        found = self._connection.execute(f"DESCRIBE {self._final_sql()}").fetchall()
        for name in exact:
            self._connection.execute(f"DROP TABLE {quoted(name)}")
        return tuple((str(row[0]), str(row[1])) for row in found)

    def _load(self, parts: Sequence[pa.Table]) -> None:
        """Merge the parts into the table of totals."""
        self._create("qoop_parts", parts, self._types)
        keys = [name for name, _ in self._types if name.startswith("k")]
        sums = [f"{self._merged(name)}::{type_} AS {name}" for name, type_ in self._types if name not in keys]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        text = f"SELECT {', '.join([*keys, *sums])} FROM qoop_parts{grouped}"
        self._connection.execute(f"CREATE OR REPLACE TABLE {_TOTALS} AS {text}")
        self._connection.execute("DROP TABLE qoop_parts")

    def _merged(self, name: str) -> str:
        return f"{self._growth.measures[int(name[1:])].merged_by}({name})"

    def _create(self, name: str, parts: Sequence[pa.Table], columns: Columns) -> None:
        """Make a table of the rows of all parts."""
        named = [part.rename_columns([column for column, _ in columns]) for part in parts]
        if named:
            arrow_input.register(self._connection, "qoop_rows", pa.concat_tables(named))
            items = ", ".join(f"{quoted(column)}::{type_} AS {quoted(column)}" for column, type_ in columns)
            text = f"SELECT {items} FROM qoop_rows"
        else:
            items = ", ".join(f"NULL::{type_} AS {quoted(column)}" for column, type_ in columns)
            text = f"SELECT {items} LIMIT 0"
        self._connection.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS {text}")
        if named:
            self._connection.unregister("qoop_rows")

    def _final_sql(self) -> str:
        """The query that makes the rows of the view from the totals."""
        around = self._growth.around
        own = self._own_sql()
        if around is None:
            return own
        self._connection.execute(f"CREATE OR REPLACE TABLE {CORE} AS {own}")
        return around.text

    def _own_sql(self) -> str:
        growth = self._growth
        finished = [f"{_finished(term)} AS {name}{place}" for place, term in enumerate(growth.terms) for name in "eu"]
        columns = growth.own_columns or growth.columns
        figures = {one.place for one in growth.figures}
        items = [
            f"({item})::{type_} AS {quoted(name)}" if place in figures else f"{item} AS {quoted(name)}"
            for place, (item, (name, type_)) in enumerate(zip(growth.items, columns, strict=True))
        ]
        inner = f"SELECT {', '.join(['*', *finished])} FROM {_TOTALS}"
        return f"SELECT {', '.join(items)} FROM ({inner}) {growth.tail}"


def _finished(term: Term) -> str:
    """The value of an aggregate over its merged sums."""
    if term.x is not None:
        return f"(t{term.y} / nullif(t{term.x}, 0))"
    return f"coalesce(t{term.y}, 0)" if term.op == "count" else f"t{term.y}"
