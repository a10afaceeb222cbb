"""Connections and cursors of PEP 249 over a session, and their errors; :mod:`qoop.interfaces.dbapi` has the rest of
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qoop.catalog import errors

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from qoop.query.result import Description, Result


class Warning(Exception):
    """Never raised; PEP 249 asks for it."""


class Error(Exception):
    """Root of what this module raises; its cause is the :class:`~qoop.catalog.errors.QoopError` behind it."""


class InterfaceError(Error):
    """The connection or cursor is closed, or was used as it cannot be."""


class DatabaseError(Error):
    """Something with the data or the engine."""


class DataError(DatabaseError):
    """The data cannot be read, or has changed."""


class OperationalError(DatabaseError):
    """The engine could not do it: memory, disk, slots, cancelled."""


class IntegrityError(DatabaseError):
    """Never raised; PEP 249 asks for it."""


class InternalError(DatabaseError):
    """Two plans disagree, or the planner has made something inconsistent."""


class ProgrammingError(DatabaseError):
    """The text, its parameters or an option are at fault."""


class NotSupportedError(DatabaseError):
    """There are no transactions that could be rolled back."""


_KINDS: tuple[tuple[type[errors.QoopError], type[Error]], ...] = (
    (errors.SessionClosed, InterfaceError),
    (errors.QueryError, ProgrammingError),
    (errors.ConfigError, ProgrammingError),
    (errors.UnknownTable, ProgrammingError),
    (errors.CatalogError, DataError),
    (errors.PlanError, InternalError),
    (errors.GuardMismatch, InternalError),
    (errors.QoopError, OperationalError),
)


@contextmanager
def errors_of_pep_249() -> Iterator[None]:
    """Within the block, errors of qoop become those of PEP 249."""
    try:
        yield
    except errors.QoopError as error:
        kind = next(ours for theirs, ours in _KINDS if isinstance(error, theirs))
        raise kind(str(error)) from error


class RunsStatements(Protocol):
    """A session, as far as a connection uses it."""

    def sql(self, text: str, parameters: Sequence[object] | Mapping[str, object] = ...) -> Result: ...

    def close(self) -> None: ...


class Connection:
    """One session. Statements take effect at once; there are no transactions."""

    def __init__(self, session: RunsStatements, owned: bool) -> None:
        self._session: RunsStatements | None = session
        self._owned = owned

    @property
    def session(self) -> RunsStatements:
        """The session of the connection. Raises InterfaceError if the connection is closed."""
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def cursor(self) -> Cursor:
        """A new cursor."""
        return Cursor(self)

    def execute(self, text: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> Cursor:
        """The result of a new cursor's `execute`."""
        return self.cursor().execute(text, parameters)

    def commit(self) -> None:
        """Has no effect: statements take effect at once."""
        self.session  # noqa: B018  # it says if the connection is closed

    def rollback(self) -> None:
        """Raises NotSupportedError: statements take effect at once."""
        raise NotSupportedError("there are no transactions: statements take effect at once")

    def close(self) -> None:
        """Close the session, if it was opened for this connection."""
        session, self._session = self._session, None
        if session is not None and self._owned:
            with errors_of_pep_249():
                session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


T = TypeVar("T")


class Cursor:
    """Runs statements and returns the rows of the last one. arraysize: rows that `fetchmany` returns by default."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._open = True

    @property
    def description(self) -> list[Description] | None:
        """Name and DuckDB type of each column of the answer; None without one."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self) -> int:
        """Rows of the answer; -1 without one."""
        return -1 if self._result is None else len(self._result)

    def execute(self, text: str, parameters: Sequence[object] | Mapping[str, object] | None = ()) -> Cursor:
        """Run a text; of several statements the rows are those of the last."""
        session = self._session()
        self._result = None
        with errors_of_pep_249():
            self._result = session.sql(text, () if parameters is None else parameters)
        return self

    def executemany(self, text: str, rows: Sequence[Sequence[object] | Mapping[str, object]]) -> Cursor:
        """Run a text once for each set of parameters."""
        for parameters in rows:
            self.execute(text, parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last."""
        return self._fetch(lambda result: result.fetchone())

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """That many of the next rows."""
        count = self.arraysize if size is None else size
        return self._fetch(lambda result: result.fetchmany(count))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return list(self)

    def df(self) -> pandas.DataFrame:
        """All rows of the answer as a pandas data frame."""
        return self._fetch(lambda result: result.df())

    def pl(self) -> polars.DataFrame:
        """All rows of the answer as a Polars data frame."""
        return self._fetch(lambda result: result.pl())

    def arrow(self) -> pa.Table:
        """All rows of the answer as a pyarrow.Table."""
        return self._fetch(lambda result: result.arrow())

    fetchdf, to_arrow_table = df, arrow  # as DuckDB has them

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Let go of the rows."""
        self._result, self._open = None, False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _fetch(self, take: Callable[[Result], T]) -> T:
        self._session()
        if self._result is None:
            raise ProgrammingError("there are no rows: nothing was executed")
        with errors_of_pep_249():
            return take(self._result)

    def _session(self) -> RunsStatements:
        if not self._open:
            raise InterfaceError("the cursor is closed")
        return self.connection.session
