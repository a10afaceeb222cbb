"""Leaves of few rows: a DuckDB of all views computes them, which costs less cpu than planning and starting a job.

It keeps the columns that leaves read of other tables, such as dimensions, once for all views. Without that, each new
file would read them again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.errors import CatalogError
from qoop.catalog.lexer import quoted
from qoop.programs.prepared import Prepared
from qoop.programs.views.query_limit import QueryLimit

if TYPE_CHECKING:
    from qoop.catalog.table import Columns, Table
    from qoop.programs.file_rows import FileRows
    from qoop.programs.shared_duckdb import SharedDuckDB
    from qoop.query.statements.settings import Settings

MOST_ROWS = 400_000
"""Of all tables that a leaf reads: more rows are for a job, which can use all slots and be stopped."""

_LIMIT = QueryLimit(2.0)


class SmallLeaves:
    """Computes leaves of one view in the caller's thread. Not thread-safe. shared: may read files. file_rows:
    rows that other views have read."""

    def __init__(self, settings: Settings, shared: SharedDuckDB, file_rows: FileRows) -> None:
        self._file_rows = file_rows
        self._connection = shared.connection(settings)
        self._connection.execute("SET preserve_insertion_order = true")  # `FileRows` takes rows apart by file
        self._prepared = Prepared(self._connection)
        self._shared = shared.copies(settings)
        self._copies: dict[str, tuple[str, frozenset[str]]] = {}  # version and columns, by name of table

    def close(self) -> None:
        """Release the memory."""
        for name, (version, _) in self._copies.items():
            self._shared.leave(self, self._connection, name, version)
        self._copies.clear()
        self._connection.close()

    def rows(self, sql: str, pieces: Table, others: Mapping[str, Table], few: bool = False) -> pa.Table | None:
        """The rows of a query over pieces and other tables, by name; None: a job has to compute them, or to raise the
        error. few: the pieces are new, so that other views read them about now."""
        if _is_much([pieces, *others.values()]):
            return None
        columns = _columns_read(sql, pieces)
        self._file_rows.note(self, pieces.columns, columns)
        try:
            if few and self._file_rows.serves(pieces, columns):
                rows = self._file_rows.rows(pieces, columns, self._read)
                found = self._over(sql, replace(pieces, columns=_typed(pieces, columns)), rows, others)
            else:
                found = self._joined(sql, pieces, self._scan(pieces, columns), others)
            pieces.check()
        except (duckdb.Error, CatalogError):
            return None
        return found

    def joined(self, sql: str, groups: Table, rows: pa.Table, others: Mapping[str, Table]) -> pa.Table | None:
        """The same for a query over a table of these rows in memory."""
        if _is_much([groups, *others.values()]):
            return None
        try:
            return self._over(sql, groups, rows, others)
        except (duckdb.Error, CatalogError):
            return None

    def _over(self, sql: str, table: Table, rows: pa.Table, others: Mapping[str, Table]) -> pa.Table:
        """The rows of a query over these rows of a table, and over copies of other tables."""
        self._copy_all(sql, others)
        with _LIMIT.over(self._connection):
            return self._prepared.answer(rows, table.columns, lambda typed: _with(sql, table, typed))

    def _read(self, sql: str) -> pa.Table:
        with _LIMIT.over(self._connection):
            return arrow_output.table(self._connection, sql)

    def _joined(self, sql: str, table: Table, rows: str, others: Mapping[str, Table]) -> pa.Table:
        """The rows of a query over the rows of a table, which are those of a query, and over copies of other tables."""
        self._copy_all(sql, others)
        return self._read(_with(sql, table, rows))

    def _copy_all(self, sql: str, others: Mapping[str, Table]) -> None:
        """Have what a query reads of other tables in this DuckDB."""
        for name, other in others.items():
            self._copy(name, other, _columns_read(sql, other))

    def _copy(self, name: str, table: Table, columns: Collection[str]) -> None:
        """Have these columns of a table, or one if there are none, under this name."""
        columns = columns or [table.columns[0][0]]
        version, there = self._copies.get(name, ("", frozenset()))
        if version == table.version and there >= set(columns):
            return
        needed = there.union(columns) if version == table.version else frozenset(columns)

        def scan(required: Collection[str]) -> str:
            return self._scan(table, [column for column, _ in table.columns if column in required])

        with _LIMIT.over(self._connection):
            copy = self._shared.take(self, self._connection, table, needed, scan)
        items = ", ".join(quoted(column) for column, _ in table.columns if column in needed)
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT {items} FROM {copy}")
        self._copies[name] = table.version, needed
        if version not in ("", table.version):
            self._shared.leave(self, self._connection, name, version)

    def _scan(self, table: Table, columns: Sequence[str]) -> str:
        """A query for these columns of a table; of none, another one has its number of rows."""
        scan = table.scan(columns)
        if isinstance(scan, str):
            return scan
        rows = _rows_of(table)
        arrow_input.register(self._connection, rows, scan)
        return arrow_input.scan(rows, scan.schema) or f"FROM {quoted(rows)}"


def _typed(table: Table, columns: Sequence[str]) -> Columns:
    """These columns of a table with their types."""
    types = dict(table.columns)
    return tuple((name, types[name]) for name in columns)


def _with(sql: str, table: Table, rows: str) -> str:
    """A query over a table whose rows are those of a query."""
    return f"WITH {quoted(table.name)} AS NOT MATERIALIZED ({rows}) FROM ({sql})"


def _rows_of(table: Table) -> str:
    """The name under which DuckDB knows the rows of a table in memory."""
    return f"{table.name}:rows"


def _is_much(tables: Sequence[Table]) -> bool:
    """True for tables that a job has to read."""
    return sum(table.rows for table in tables) > MOST_ROWS or any(map(_is_elsewhere, tables))


def _columns_read(sql: str, table: Table) -> list[str]:
    """The columns of a table that a query may read."""
    names = _names_in(sql)
    return [column for column, _ in table.columns if names is None or column.lower() in names]


@lru_cache(maxsize=256)
def _names_in(sql: str) -> frozenset[str] | None:
    """The names in a query, in lower case; None: it reads columns that it does not name."""
    query = parse_one(sql, read="duckdb")
    stars = [star for star in query.find_all(exp.Star, exp.Columns) if not isinstance(star.parent, exp.Count)]
    tables = {table.alias_or_name.lower() for table in query.find_all(exp.Table)}
    rows = [column for column in query.find_all(exp.Column) if column.name.lower() in tables]
    if stars or rows or any(join.args.get("method") for join in query.find_all(exp.Join)):
        return None
    return frozenset(one.name.lower() for one in query.find_all(exp.Identifier))


def _is_elsewhere(table: Table) -> bool:
    """True for rows that lie in a bucket, or in a database that has to be attached."""
    return bool(table.source.places().remote) or table.attach() is not None
