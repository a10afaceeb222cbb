"""Changes of tables that statements have created: DuckDB computes the rows of the pieces that change, from those of
before, and those that are added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.errors import OutOfMemory, QueryError, SourceError
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import Columns
from qoop.catalog.value import value
from qoop.query.statements.created.storage import PIECE_NAME, PiecesScan, TableChange, cut, grouped
from qoop.query.statements.reading import changes_rows_apart, pieces_query
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.query.statements.databases.schemas import NameParts
    from qoop.query.statements.reading import ChangeTable, CreateEmpty

Rows = tuple[pa.Table, Columns]
"""Rows in Arrow's lossless form, and the names and DuckDB types of their columns."""

Made = Callable[[pa.Table, Columns], "Result"]
_ROWS = "qoop rows"
_LOST = """SELECT constraint_text FROM duckdb_constraints()
    UNION ALL SELECT 'DEFAULT ' || column_default FROM duckdb_columns()
    WHERE NOT internal AND column_default IS NOT NULL"""


@value
class Target:
    """A table that changes. name: with its schema. pieces: the rows of each, by name. rows: of a piece, in Arrow's
    lossless form. scan, put: see `Storage`."""

    name: NameParts
    columns: Columns
    pieces: Mapping[str, int]
    rows: Callable[[str], pa.Table]
    scan: Callable[[], PiecesScan]
    put: Callable[[Result], str]


@value
class Reads:
    """The tables that a change may read. others: names with databases and schemas, by their names in the session.

    run: runs a query. made: makes a result of rows. default: the schema of names without one."""

    others: Mapping[str, NameParts]
    run: Callable[[str], Result]
    made: Made
    default: str | None = None


class Workbench:
    """A DuckDB that computes changes, each in a transaction that is rolled back. Not thread-safe.

    It stays open: to open one takes longer than a small change. folder: that of created tables, which it may read."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folders = [] if folder is None else [str(folder)]
        self._settings: Settings = ()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._keeps = False  # rows that a transaction has committed

    @contextmanager
    def opened(self, settings: Settings, alone: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A DuckDB without tables. alone: for files and databases, which it may then open; it closes afterwards."""
        if alone or self._connection is None or self._settings != settings:
            self.close()
            self._connection, self._settings = opened(settings, alone, self._folders), settings
            self._connection.execute("SET arrow_lossless_conversion = true")
        connection, stays = self._connection, False
        try:
            if not alone:
                connection.execute("BEGIN")
            yield connection
            if not (alone or self._keeps):
                connection.execute("ROLLBACK")
                connection.execute("RESET search_path")
                stays = True
        finally:
            if not stays:
                self.close()

    def keep(self) -> None:
        """Commit what is there: further transactions begin with it. The DuckDB closes afterwards."""
        assert self._connection is not None
        self._connection.execute("COMMIT")
        self._keeps = True

    def close(self) -> None:
        """Free the memory."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._keeps = False


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of DuckDB are converted to ours."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise OutOfMemory(reason(error)) from error
    except duckdb.IOException as error:
        raise SourceError(reason(error)) from error
    except duckdb.Error as error:
        raise QueryError(reason(error)) from error


def empty(statement: CreateEmpty, settings: Settings) -> Rows:
    """A table without rows. Raises QueryError for columns that DuckDB does not take, and for constraints and defaults,
    which a session does not store."""
    with _explained(), Workbench().opened(settings, alone=True) as connection:
        name = sql_name(statement.name[-1])
        connection.execute(f"CREATE TABLE {name} {statement.columns}")
        _check_kept(connection, statement.name[-1])
        return _read(connection, name)


def apply(statement: ChangeTable, target: Target, reads: Reads, bench: Workbench, settings: Settings) -> TableChange:
    """The effect of a statement on the pieces of a table. Pieces in which it changes no row are not loaded.

    Where the change of a row depends on no other row, few pieces are in memory at a time. The rows that an INSERT adds
    are inserted in parts. Raises QueryError for statements that DuckDB does not take, SourceError for files that it
    cannot read, OutOfMemory, DiskFull.
    """
    rows = None if statement.query is None else reads.run(statement.query)
    others = (
        {} if rows is not None else {parts: reads.run(f"FROM {sql_name(one)}") for one, parts in reads.others.items()}
    )
    change = _Change(statement, target, reads, rows, others)
    query = None if change.alone or statement.adds else pieces_query(statement.text, PIECE_NAME)
    with _explained():
        try:
            return change.on(bench, settings, query)
        except _NotFoundError:
            return change.on(bench, settings)


class _NotFoundError(Exception):
    """The query for the pieces that change has failed. DuckDB may run the statement, or reports what is wrong."""


@value
class _Change:
    """A statement and the rows that it reads. rows: those that it inserts; None: it has no query. others: by name."""

    statement: ChangeTable
    target: Target
    reads: Reads
    rows: Result | None
    others: Mapping[NameParts, Result]

    @property
    def names(self) -> list[NameParts]:
        """Of all tables."""
        return [self.target.name, *self.others]

    @property
    def alone(self) -> bool:
        """True if it reads files or databases, for which another DuckDB opens."""
        return self.statement.files or any(len(parts) > 2 for parts in self.names)

    def on(self, bench: Workbench, settings: Settings, query: str | None = None) -> TableChange:
        """The effect. query: for the names of the pieces that may change; None: all may. Raises _NotFoundError."""
        target = self.target
        with bench.opened(settings, self.alone) as connection:
            _make_places(connection, self.names)
            for parts, found in self.others.items():
                _fill(connection, _dotted(parts), found)
            touched = target.pieces if query is None else self._touched(connection, query)
            steps = list(self._steps(touched))
            if len(steps) == 1 or self.alone:
                done = [self._step(connection, *step) for step in steps]
            else:
                bench.keep()
                done = [self._step_apart(connection, *step) for step in steps]
        replaced = {piece: now for one in done for piece, now in one.replaced.items()}
        return TableChange(sum(one.count for one in done), replaced, tuple(chain(*(one.added for one in done))))

    def _steps(self, touched: Collection[str]) -> Iterator[tuple[Collection[str], Result | None]]:
        """The pieces, and the rows to insert, of each step of the change. touched: the pieces that it may change."""
        statement, pieces = self.statement, self.target.pieces
        if statement.adds:
            yield from (((), rows) for rows in ([self.rows] if self.rows is None or self.alone else cut(self.rows)))
        elif not self.alone and self.rows is None and changes_rows_apart(statement.text):
            groups = grouped({one: pieces[one] for one in pieces if one in touched})
            yield from ((group, None) for group in groups or [[]])  # without rows DuckDB checks the statement
        else:
            yield [one for one in pieces if one in touched], self.rows

    def _step_apart(
        self, connection: duckdb.DuckDBPyConnection, names: Collection[str], rows: Result | None
    ) -> TableChange:
        """The change of some pieces within a transaction: the memory is free afterwards."""
        connection.execute("BEGIN")
        found = self._step(connection, names, rows)
        connection.execute("ROLLBACK")
        return found

    def _step(self, connection: duckdb.DuckDBPyConnection, names: Collection[str], rows: Result | None) -> TableChange:
        """The change of some pieces as the whole table. rows: that it inserts."""
        statement, target = self.statement, self.target
        name, input_ = _dotted(target.name), sql_name(_ROWS)
        pieces = {one: target.rows(one) for one in names}
        _create(connection, name, target.columns)
        for piece in pieces.values():
            _insert(connection, name, piece)
        self._search(connection)
        if rows is not None:
            _fill(connection, input_, rows)
        before = _Before.of(connection, name, target.columns, pieces)
        text = statement.text if rows is None else f"{statement.head} FROM {input_}"
        counted = connection.execute(text).fetchone()
        found = before.change(connection, name, 0 if counted is None else int(counted[0]), self)
        connection.execute("RESET search_path")
        return found

    def _search(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Look for names without a schema in the default one first, if one of the tables is there."""
        default = self.reads.default
        if default is not None and default.lower() in {".".join(parts[:-1]).lower() for parts in self.names}:
            connection.execute(f"SET search_path = {sql_string(f'{default},memory.main')}")

    def _touched(self, connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
        """The names of the pieces that a query finds."""
        name, scan = _dotted(self.target.name), self.target.scan()
        try:
            for one, rows in scan.inputs.items():
                arrow_input.register(connection, one, rows)
            connection.execute(f"CREATE VIEW {name} AS {scan.sql}")
            self._search(connection)
            found = {str(piece) for (piece,) in connection.execute(query).fetchall()}
            connection.execute("RESET search_path")
            connection.execute(f"DROP VIEW {name}")
        except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.InterruptException):
            raise
        except duckdb.Error as error:
            raise _NotFoundError from error
        finally:
            for one in scan.inputs:
                connection.unregister(one)
        return found


def reshaped(statement: ChangeTable, target: Target, settings: Settings) -> Rows:
    """All rows of a table after ALTER TABLE. Raises as `apply`."""
    with _explained(), Workbench().opened(settings, alone=True) as connection:
        _make_places(connection, [target.name])
        name = _dotted(target.name)
        _create(connection, name, target.columns)
        for piece in target.pieces:
            _insert(connection, name, target.rows(piece))
        connection.execute(statement.text)
        _check_kept(connection, target.name[-1])
        return _read(connection, name)


@value
class _Before:
    """The rows of a table before it changes. first: the number of the first; None: its rows have no numbers."""

    columns: Columns
    pieces: Mapping[str, pa.Table]
    first: int | None

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, name: str, columns: Columns, pieces: Mapping[str, pa.Table]
    ) -> _Before:
        """A table as it is now, whose rows are those of the pieces."""
        if any(column.lower() == "rowid" for column, _ in columns):
            return cls(columns, pieces, None)
        first = connection.execute(f"SELECT min(rowid) FROM {name}").fetchone()
        return cls(columns, pieces, (first and first[0]) or 0)

    def change(self, connection: duckdb.DuckDBPyConnection, name: str, count: int, change: _Change) -> TableChange:
        """The change that has led to the present rows. DuckDB appends rows that it inserts, and some that it
        updates."""

        def rows(where: str) -> Result:
            return change.reads.made(arrow_output.table(connection, f"FROM {name} WHERE {where}"), self.columns)

        def put(*results: Result) -> tuple[str, ...]:
            return tuple(change.target.put(one) for one in results if len(one))

        if self.first is None:
            return TableChange(count, dict.fromkeys(self.pieces, ()), put(*cut(rows("true"))))
        replaced, begin = dict[str, tuple[str, ...]](), self.first
        for piece, before in self.pieces.items():
            now = rows(f"rowid >= {begin} AND rowid < {begin + before.num_rows}")
            if len(now) != before.num_rows or not now.lossless().equals(before):
                replaced[piece] = put(now)
            begin += before.num_rows
        return TableChange(count, replaced, put(*cut(rows(f"rowid >= {begin}"))))


def _check_kept(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Raise QueryError if columns have constraints or defaults, which a session does not store."""
    lost = sorted({text for (text,) in connection.execute(_LOST).fetchall()})
    if lost:
        raise QueryError(f"table {table} has columns with types alone: it cannot keep {', '.join(lost)}")


def _make_places(connection: duckdb.DuckDBPyConnection, names: Collection[NameParts]) -> None:
    """Create the databases and schemas of tables."""
    databases = {parts[:1] for parts in names if len(parts) > 2}
    for database in databases:
        connection.execute(f"ATTACH ':memory:' AS {_dotted(database)}")
    for schema in {parts[:-1] for parts in names if len(parts) > 1} - databases:
        connection.execute(f"CREATE SCHEMA {_dotted(schema)}")


def _dotted(parts: NameParts) -> str:
    return ".".join(map(sql_name, parts))


def _fill(connection: duckdb.DuckDBPyConnection, name: str, rows: Result) -> None:
    """Create a table of rows, with their DuckDB types, which Arrow does not represent in full. name: in SQL."""
    _create(connection, name, tuple(zip(rows.unique_columns, rows.types, strict=True)))
    _insert(connection, name, rows.lossless())


def _create(connection: duckdb.DuckDBPyConnection, name: str, columns: Columns) -> None:
    typed = ", ".join(f"{sql_name(column)} {type_}" for column, type_ in columns)
    connection.execute(f"CREATE TABLE {name} ({typed})")


def _insert(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    arrow_input.register(connection, "qoop input", rows)
    connection.execute(f'INSERT INTO {name} FROM "qoop input"')
    connection.unregister("qoop input")


def _read(connection: duckdb.DuckDBPyConnection, name: str) -> Rows:
    query = f"FROM {name}"
    columns = describe(connection, query)
    return arrow_output.table(connection, query), columns
