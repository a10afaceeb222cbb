"""Partial groups are merged, and finished as the rows of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.lexer import quoted
from qoop.catalog.sources.files import no_rows
from qoop.programs.approximate.core import CORE
from qoop.programs.prepared import Prepared, typed

if TYPE_CHECKING:
    import duckdb

    from qoop.programs.approximate.eligibility import Columns
    from qoop.programs.approximate.growth import Growth, Term


_EXACT = "qoop_exact"


class Merging:
    """Merges the partial groups of one view. types: names and types of their columns. connection: of this view, which
    may be one to a DuckDB of all. Not thread-safe."""

    def __init__(self, growth: Growth, types: Columns, connection: duckdb.DuckDBPyConnection) -> None:
        self._growth = growth
        self.types = types
        self._connection = connection
        self._prepared = Prepared(self._connection)

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()

    def merged(self, parts: Sequence[pa.Table], types: Columns | None = None) -> pa.Table:
        """The groups of several parts as one. types: of groups by other keys, with the same sums."""
        return self._over(parts, types or self.types, str)

    def final(self, parts: Sequence[pa.Table], exact: Mapping[str, tuple[pa.Table, Columns]]) -> pa.Table:
        """The rows of the view. exact: tables that the query around the sums reads, with their columns."""
        for name, (rows, columns) in exact.items():
            self._create(name, rows, columns)
        try:
            return self._over(parts, self.types, self._final_sql)
        finally:
            self._drop(exact)

    def columns(self, exact: Mapping[str, Columns]) -> Columns:
        """The columns of the view. Raises duckdb.Error where the query around the sums needs more than these."""
        for name, columns in exact.items():
            self._create(name, None, columns)
        totals = self._totals(no_rows(self.types), self.types)
        found = self._connection.execute(f"DESCRIBE {self._final_sql(totals)}").fetchall()
        self._drop(exact)
        return tuple((str(row[0]), str(row[1])) for row in found)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._connection.execute(f"DROP TABLE {quoted(name)}")

    def _over(self, parts: Sequence[pa.Table], types: Columns, finished: Callable[[str], str]) -> pa.Table:
        """The rows of a query over merged parts. finished: the query by that which merges them."""
        if not parts:
            return arrow_output.table(self._connection, finished(self._totals(no_rows(types), types)))
        rows = one_after_another(parts, types)
        return self._prepared.answer(rows, types, lambda typed_rows: finished(self._totals(typed_rows, types)))

    def _totals(self, typed: str, types: Columns) -> str:
        """The query that merges the rows of a query."""
        keys = [name for name, _ in types if name.startswith("k")]
        sums = [f"{self._merged(name)}::{type_} AS {name}" for name, type_ in types if name not in keys]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join([*keys, *sums])} FROM ({typed}){grouped}"

    def _merged(self, name: str) -> str:
        return self._growth.measures[int(name[1:])].merged(name)

    def _create(self, name: str, rows: pa.Table | None, columns: Columns) -> None:
        """Make a table. rows: None: there are none."""
        if rows is None:
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(name)} AS {no_rows(columns)}")
            return
        arrow_input.register(self._connection, _EXACT, rows.rename_columns([column for column, _ in columns]))
        try:
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(name)} AS {typed(_EXACT, columns)}")
        finally:
            self._connection.unregister(_EXACT)

    def _final_sql(self, totals: str) -> str:
        """The query that makes the rows of the view from a query of the totals."""
        around = self._growth.around
        own = self._own_sql(totals)
        if around is None:
            return own
        around_sql = around.text.removeprefix("WITH ")
        before = "WITH RECURSIVE" if around_sql.startswith("RECURSIVE ") else "WITH"
        after = f", {around_sql.removeprefix('RECURSIVE ')}" if around_sql != around.text else f" {around_sql}"
        return f"{before} {CORE} AS MATERIALIZED ({own}){after}"

    def _own_sql(self, totals: str) -> str:
        growth = self._growth
        finished = [f"{_finished(term)} AS {name}{place}" for place, term in enumerate(growth.terms) for name in "eu"]
        columns = growth.own_columns or growth.columns
        figures = {one.place for one in growth.figures}
        items = [
            f"({item})::{type_} AS {quoted(name)}" if place in figures else f"{item} AS {quoted(name)}"
            for place, (item, (name, type_)) in enumerate(zip(growth.items, columns, strict=True))
        ]
        inner = f"SELECT {', '.join(['*', *finished])} FROM ({totals})"
        return f"SELECT {', '.join(items)} FROM ({inner}) {growth.tail}"


def one_after_another(parts: Sequence[pa.Table], types: Columns) -> pa.Table:
    """The groups of several parts, not merged. types: their names and types."""
    return pa.concat_tables([part.rename_columns([name for name, _ in types]) for part in parts])


def _finished(term: Term) -> str:
    """The value of an aggregate over its merged sums."""
    if term.x is not None:
        return f"(t{term.y} / nullif(t{term.x}, 0))"
    if term.op == "distinct":
        return f"coalesce(len(t{term.y}), 0)"
    return f"coalesce(t{term.y}, 0)" if term.op == "count" else f"t{term.y}"
