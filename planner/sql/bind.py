"""SQL text -> :class:`Bound`: parsed by sqlglot, checked and typed by DuckDB.

The binder holds a DuckDB instance with the tables' schemas and no rows.  DuckDB's own binder checks the text there, and
names and types the result's columns, so both agree with DuckDB by construction. Its errors are raised as those of qoop,
with the span underlined.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.duckdb_introspection import known_query
from qoop.catalog.errors import BindError, FunctionError, ParseError, QueryError
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.functions.registry import Functions
from qoop.catalog.lexer import without_end
from qoop.catalog.opening import EXTENSIONS, close_duckdb, listed, open_duckdb
from qoop.catalog.value import changed, value
from qoop.planner.algebra.expr import quote
from qoop.planner.algebra.query_timestamp import QueryTimestamp
from qoop.planner.sql.sources import is_long, is_of_query, refuse_foreign, tables_mentioned

if TYPE_CHECKING:
    from sqlglot import exp

_UNKNOWN = re.compile(r'Table with name (\S+) does not exist!(?P<advice>\nDid you mean "[^\n]*"\?)?')
TypedName = tuple[str, str]
_DESCRIBES_OTHER_CASE = duckdb.__version__.startswith("2.")
"""DuckDB 2.0 describes ``SELECT x AS X`` as `x`; its answer is called `X`."""


@value
class Bound:
    """A query that DuckDB accepts.

    ast: sqlglot's tree, None where only DuckDB can parse the text as it is meant.
    tables: schemas of the registered tables the text reads, by lower-case name: (version, ((column, type), …)).
    columns: names and types of the result, as DuckDB gives them.
    settings: the SET options in force. timestamp: what ``now()`` is.
    functions: of Python, that the text may call, by lower-case name.
    """

    text: str
    ast: exp.Expression | None
    tables: Mapping[str, tuple[str, tuple[TypedName, ...]]]
    columns: tuple[TypedName, ...]
    settings: tuple[tuple[str, str], ...] = field(default=())
    timestamp: QueryTimestamp = field(default_factory=QueryTimestamp.now)
    functions: Mapping[str, UserFunction] = field(default_factory=dict)


@value
class BinderContents:
    """All that a binder knows, so that one in another process can know it, too.

    tables: name, version and columns of each. views: names in lower case. definitions: of views and macros, in
    the order in which they came.
    settings: the SET options in force.
    """

    tables: tuple[tuple[str, str, tuple[TypedName, ...]], ...] = ()
    views: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


class _Zone(threading.local):
    """The time zone of the texts of a thread; None: that of the binder."""

    name: str | None = None


_zone = _Zone()


@contextmanager
def in_zone(name: str | None) -> Iterator[None]:
    """Within the block this thread binds texts for a time zone, as DuckDB spells it; None: for that of the binder."""
    before, _zone.name = _zone.name, name
    try:
        yield
    finally:
        _zone.name = before


def at_present(bound: Bound) -> Bound:
    """The query with the present time as its timestamp."""
    return changed(bound, timestamp=QueryTimestamp.now(dict(bound.settings).get("timezone")))


class Binder:
    """Binds texts against a set of table schemas. Thread-safe.

    locked: texts may only read tables and views (:mod:`qoop.planner.lock`).
    """

    def __init__(self, settings: Mapping[str, str] | None = None, locked: bool = False) -> None:
        self._locked = locked
        self._lock = threading.Lock()
        self._tables: dict[str, tuple[str, tuple[TypedName, ...]]] = {}
        self._views: set[str] = set()  # in lower case
        self._settings: dict[str, str] = {}
        self._functions = Functions()
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._waiting: list[str] = []  # definitions that DuckDB gets before its next use
        self._opening = threading.Lock()  # taken last
        self._catching_up: threading.Thread | None = None
        self._closed = False
        self._definitions: list[str] = []  # of views and macros, and their ends
        for name, setting in (settings or {}).items():
            self.set(name, setting)

    def add_table(self, name: str, version: str, columns: tuple[TypedName, ...]) -> None:
        """Make a table known, or replace it."""
        with self._lock:
            if name.lower() not in self._tables or self._tables[name.lower()][1] != columns:
                definition = ", ".join(f"{_quoted(column)} {type_}" for column, type_ in columns)
                self._waiting.append(f"CREATE OR REPLACE TABLE {_quoted(name)} ({definition})")
            self._tables[name.lower()] = (version, columns)

    def drop_table(self, name: str) -> None:
        """Forget a table."""
        with self._lock:
            self._waiting.append(f"DROP TABLE IF EXISTS {_quoted(name)}")
            self._tables.pop(name.lower(), None)

    def add_view(self, name: str, columns: str, query: str) -> None:
        """Make a view known to `describe`, or replace it. columns: their names, in parentheses; empty: the query's.

        Raises ParseError or BindError."""
        self.define(f"CREATE OR REPLACE VIEW {_quoted(name)}{columns} AS {query}")
        self._views.add(name.lower())

    def drop_view(self, name: str) -> None:
        """Forget a view."""
        self.define(f"DROP VIEW IF EXISTS {_quoted(name)}")
        self._views.discard(name.lower())

    def add_function(self, function: UserFunction, replace: bool = False) -> None:
        """Make a function of Python known. Raises FunctionError if one has its name that it is not to replace."""
        with self._lock:
            before = self._functions.add(function, replace)
            if before is not None:
                self._synced().remove_function(before.name)
            try:
                self._declare(function)
            except BaseException:
                self._functions.remove(function.name)
                raise

    def _declare(self, function: UserFunction) -> None:
        """Here it is only named: nothing is called while texts are bound."""
        try:
            self._synced().create_function(  # type: ignore[call-overload]
                function.name,
                function.call,
                [duckdb.sqltype(one) for one in function.parameters],
                duckdb.sqltype(function.return_type),
                type="arrow" if function.vectorised else "native",
                side_effects=True,  # else DuckDB calls it for constants
            )
        except (duckdb.Error, TypeError) as error:
            raise FunctionError(f"DuckDB does not accept the function {function.signature}: {error}") from error

    def drop_function(self, name: str) -> None:
        """Forget a function. Raises UnknownFunction."""
        with self._lock:
            self._synced().remove_function(self._functions.remove(name).name)

    def functions(self, text: str | None = None) -> Mapping[str, UserFunction]:
        """The functions that a text may call, by lower-case name; without a text all. No lock is taken, as for the
        settings: another thread may bind, which takes milliseconds."""
        return self._functions.named(text)

    def _knows(self, name: str) -> bool:
        """True for the name of a table or view."""
        return name.lower() in self._tables or name.lower() in self._views

    def define(self, text: str) -> None:
        """Make a macro known to `describe`, or forget one: CREATE or DROP MACRO. Raises ParseError or BindError."""
        with self._lock:
            try:
                self._synced().execute(text)
            except duckdb.Error as error:
                raise _explained(error, text, 0, self._here()) from error
            if text in self._definitions:
                self._definitions.remove(text)
            self._definitions.append(text)

    def set(self, name: str, value: str) -> None:
        """Apply a SET option. Raises QueryError where DuckDB refuses it."""
        with self._lock:
            try:
                for statement in _statements(name, value):
                    self._synced().execute(statement)
            except duckdb.Error as error:
                raise QueryError(f"SET {name}: {_message(error)[0]}") from error
            self._settings[name.lower()] = value

    def reset(self, name: str) -> None:
        """Take a SET option back to its default."""
        with self._lock:
            self._synced().execute(f"RESET {quote(name)}")
            self._settings.pop(name.lower(), None)

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The SET options in force."""
        return self._in_force()

    def _in_force(self) -> tuple[tuple[str, str], ...]:
        zone = _zone.name
        return tuple(sorted((self._settings if zone is None else self._settings | {"timezone": zone}).items()))

    def contents(self) -> BinderContents:
        """All that it knows now, but for functions of Python."""
        with self._lock:
            tables = tuple((name, *known) for name, known in self._tables.items())
            definitions, settings = tuple(self._definitions), tuple(sorted(self._settings.items()))
            return BinderContents(tables, tuple(sorted(self._views)), definitions, settings)

    @classmethod
    def of(cls, contents: BinderContents, locked: bool) -> Binder:
        """A binder that knows the same as another."""
        made = cls(dict(contents.settings), locked)
        for table in contents.tables:
            made.add_table(*table)
        for definition in contents.definitions:
            made.define(definition)
        made._views.update(contents.views)
        return made

    def bind(self, text: str, at: str | None = None) -> Bound:
        """Parse and check one SELECT statement. at: its timestamp; None: now.

        Raises ParseError or BindError."""
        from qoop.planner.sql.reading import (
            has_same_reading,
            is_known,
            mark_python,
            parse,
            tables_named,
        )  # loads sqlglot, which only binding needs

        text = without_end(text)
        refuse_foreign(text, self._knows)
        with self._lock:
            columns = self._describe(text)
            known, functions = dict(self._tables), self._functions.named(text)
            settings = self._in_force()
        ast = None if is_long(text) else parse(text)
        names = tables_mentioned(text, known) if ast is None else tables_named(ast)
        tables = {name: known[name] for name in known if name in names}
        ast = ast if ast is not None and has_same_reading(text, ast) and not any(map(is_known, functions)) else None
        if ast is not None:
            mark_python(ast, functions)
        zone = dict(settings).get("timezone")
        return Bound(
            text,
            ast,
            tables,
            columns,
            settings,
            QueryTimestamp(at, zone) if at is not None else QueryTimestamp.now(zone),
            functions,
        )

    def bind_whole(self, text: str, names: Iterable[str], columns: tuple[TypedName, ...] | None = None) -> Bound:
        """Check one SELECT statement that DuckDB is to run as it is. names: in lower case, of the tables it may read.
        columns: of the result of a text that another binder of the same contents has checked.

        Raises ParseError or BindError."""
        text = without_end(text)
        if columns is None:
            refuse_foreign(text, self._knows)
        with self._lock:
            columns = self._describe(text) if columns is None else columns
            tables = {name: self._tables[name] for name in names}
            settings, functions = self._in_force(), self._functions.named(text)
            return Bound(text, None, tables, columns, settings, functions=functions)

    def describe(self, text: str) -> tuple[TypedName, ...]:
        """Names and types of the result of a text. Raises ParseError or BindError."""
        refuse_foreign(text, self._knows)
        with self._lock:
            return self._describe(text)

    def read_ahead(self, text: str) -> None:
        """Parse a text that `admit` is to judge under locks, and remember what it reads."""
        if self._locked:
            from qoop.planner import lock

            with suppress(QueryError):  # `admit` raises it
                lock.names_read(text)

    def admit(self, text: str) -> None:
        """Raise Forbidden for a query that does more than a locked session allows."""
        if self._locked:
            with self._lock:
                self._admit(text)

    def close(self) -> None:
        """Free the DuckDB instance."""
        with self._lock:
            self._closed = True
            thread = self._catching_up
        if thread is not None:
            thread.join()
        with self._lock:
            if self._duckdb is not None:
                close_duckdb(self._duckdb)

    def catch_up(self) -> None:
        """Open DuckDB and define the tables so far in another thread: the next text would wait 20 to 30 ms for that."""
        with self._lock:
            if self._catching_up is not None or self._closed:
                return
            thread = threading.Thread(target=self._catch_up, name="qoop-binder")
            with suppress(RuntimeError):  # from 3.12 on, Python begins no thread at the end of the interpreter
                thread.start()
                self._catching_up = thread

    def _catch_up(self) -> None:
        self._opened()  # tables may be added meanwhile
        more = True
        while more:
            with self._lock:
                try:
                    more = not self._closed and self._defines_next()
                except duckdb.Error:  # the next text has the same fault, and says so
                    more = False
                if not more:
                    self._catching_up = None

    def _defines_next(self) -> bool:
        """Define what has waited longest. False: nothing waits any more."""
        if self._waiting:
            self._opened().execute(self._waiting[0])
            self._waiting.pop(0)
        return bool(self._waiting)

    def _synced(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with all definitions so far."""
        connection = self._opened()
        while self._waiting:
            connection.execute(self._waiting.pop(0))
        return connection

    def _opened(self) -> duckdb.DuckDBPyConnection:
        with self._opening:
            if self._duckdb is None:
                self._duckdb = open_duckdb(files=not self._locked, threads=1, errors_as_json=True)
            return self._duckdb

    def _admit(self, text: str) -> None:
        from qoop.planner import lock

        unknown = lock.names_read(text) - self._tables.keys()
        if unknown:
            lock.check(unknown, self._here())

    def _here(self) -> list[str]:
        """The names of all tables and views."""
        found = self._synced().execute("SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal").fetchall()
        return [*self._tables, *(str(name) for (name,) in found)]

    def _describe(self, text: str) -> tuple[TypedName, ...]:
        if self._locked:
            self._admit(text)
        try:
            rows = self._described_without_row_ids(text) if "rowid" in text.lower() else self._described(text)
        except duckdb.Error as error:
            explained = _explained(error, text, len("DESCRIBE "), self._here(), self._functions.names)
            raise explained from None  # all that it says is there; as JSON it would only be in the way
        return tuple((str(name), str(type_)) for name, type_, *_ in rows)

    def _described(self, text: str) -> list[tuple[object, ...]]:
        query = None if self._settings else known_query(text)  # DuckDB 2.0 parses by its options
        if query is not None:
            with suppress(duckdb.Error):  # DESCRIBE has the same, with the place
                relation = self._synced().sql(query)
                return list(zip(relation.columns, map(str, relation.types), strict=True))
        rows = self._synced().execute(f"DESCRIBE {text}").fetchall()
        if not _DESCRIBES_OTHER_CASE or not _has_other_case(text, [str(row[0]) for row in rows]):
            return rows
        names = self._synced().sql(text).columns
        return [(name, *row[1:]) for name, row in zip(names, rows, strict=True)]

    def _described_without_row_ids(self, text: str) -> list[tuple[object, ...]]:
        """The same, where tables are views: rows of a session's tables have no numbers, as those of DuckDB's have."""
        self._synced().execute("BEGIN")
        try:
            for name in tables_mentioned(text, self._tables):
                columns = ", ".join(f"NULL::{type_} AS {_quoted(column)}" for column, type_ in self._tables[name][1])
                self._synced().execute(f"DROP TABLE {_quoted(name)}; CREATE VIEW {_quoted(name)} AS SELECT {columns}")
            return self._described(text)
        finally:
            self._synced().execute("ROLLBACK")


def _statements(name: str, value: str) -> list[str]:
    if name == EXTENSIONS:
        from qoop.catalog.extensions import load_statements  # few sessions load any

        return load_statements(listed(value))
    return [f"SET {quote(name)} = '{value.replace(chr(39), chr(39) * 2)}'"]


def _has_other_case(text: str, names: Iterable[str]) -> bool:
    """True if a text writes one of the names in another case than it has.

    >>> _has_other_case("SELECT x AS X", ["x"]), _has_other_case("SELECT x AS y", ["y"])
    (True, False)
    """
    lower = text.lower()
    return any(lower.count(name.lower()) != text.count(name) for name in names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _message(error: duckdb.Error) -> tuple[str, int | None, str]:
    """DuckDB's message, the offset in the statement it points at, and its subtype."""
    text = str(error)
    try:
        record = json.loads(text[text.index("{") :])
    except ValueError:
        return text, None, ""
    position = record.get("position")
    message = str(record.get("exception_message", text))
    return message, int(position) if position is not None else None, str(record.get("error_subtype", ""))


def _with_advice(message: str, here: Sequence[str]) -> str:
    """DuckDB's message on an unknown table. It also suggests tables of DuckDB's catalog, which are replaced by
    the nearest table here, if one is near."""

    def written(found: re.Match[str]) -> str:
        advice = found["advice"] or ""
        if any(f'"{name.lower()}"' in advice.lower() for name in here):
            return found[0]
        from difflib import get_close_matches  # loaded where a text is wrong

        near = get_close_matches(found[1].lower(), {name.lower(): name for name in here}, n=1, cutoff=0.7)
        nearest = next((name for name in here if name.lower() in near), None)
        return found[0].removesuffix(advice) + (f'\nDid you mean "{nearest}"?' if nearest else "")

    return _UNKNOWN.sub(written, message)


def _explained(
    error: duckdb.Error, text: str, prefix: int, tables: list[str], functions: Sequence[str] = ()
) -> QueryError:
    message, position, _ = _message(error)
    kind = ParseError if isinstance(error, duckdb.ParserException) else BindError
    here = sorted(name for name in tables if not is_of_query(name))
    if "Table with name" in message:
        message = _with_advice(message, here) + f"\nTables here: {', '.join(here) or 'none'}"
    if "Function with name" in message:
        message += "\nFunctions of Python here: " + (", ".join(functions) or "none (Session.register_function)")
    if position is None:
        return kind(message)
    return kind(f"{message}\n\n{underline(text, position - prefix)}")


def underline(text: str, offset: int) -> str:
    """The line of `text` that holds the offset, with the word at the offset underlined.

    >>> print(underline("select a\\nfrom tt", 14))
    line 2: from tt
                 ^^
    """
    offset = max(0, min(offset, len(text)))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : end if end >= 0 else len(text)]
    length = 0
    while offset - start + length < len(line) and (line[offset - start + length].isalnum() or
                                                   line[offset - start + length] in "_."):  # fmt: skip
        length += 1
    head = f"line {text.count(chr(10), 0, start) + 1}: "
    return f"{head}{line}\n{' ' * (len(head) + offset - start)}{'^' * max(1, length)}"
