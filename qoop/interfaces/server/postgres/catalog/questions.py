"""Questions about pg_catalog and information_schema, such as those of ``\\d`` and of drivers.

They name no data, so they are no queries of the engine's. A DuckDB without files and rows answers them, within limits.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog import arrow_output
from qoop.catalog.errors import BindError, Cancelled, Forbidden, QoopError, QueryError, Timeout
from qoop.catalog.lexer import Lexeme, lexed, quoted
from qoop.catalog.opening import open_duckdb
from qoop.interfaces.server.postgres.catalog.carriers import selected, shown
from qoop.interfaces.server.postgres.catalog.database import create
from qoop.interfaces.server.postgres.catalog.functions import (
    ACTIVITY,
    ACTIVITY_TYPE,
    DATABASE,
    END,
    NAMES,
    PROCESS,
    SET,
    SETTINGS,
    USER,
)
from qoop.interfaces.server.postgres.catalog.growth import growth_in
from qoop.interfaces.server.postgres.catalog.translation import SCHEMA_OF_INFORMATION, Numbers, as_duckdb
from qoop.interfaces.server.postgres.catalog.viewer import Viewer
from qoop.planner import lock
from qoop.planner.parse_tree import Node, is_common_table, nodes, tree_of
from qoop.query.result import Result
from qoop.query.statements.parameters import literal

if TYPE_CHECKING:
    from qoop.session.session import Session

_LONGEST = 10.0  # seconds that a question may take
_at_a_time = threading.BoundedSemaphore(4)  # they may take 200 MB together
_SCHEMAS = {"pg_catalog", "information_schema"}
_CALLS = {
    "version", "current_schema", "current_schemas", "current_database", "current_setting", "current_user", "user",
    "session_user", "current_catalog", "current_role", "format_type", "obj_description", "col_description",
    "shobj_description", "set_config", "quote_ident", "parse_ident", "array_lower", "array_upper",
}  # fmt: skip
_CALL_BEGINNINGS = ("pg_", "has_", "to_reg", "inet_client", "inet_server", "txid_")
_REGULAR = {"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole"}
_OF_DUCKDB = ("duckdb_", "pragma_", "sqlite_")
"""The beginnings of names by which DuckDB tells of itself, such as of folders of this machine."""

Columns = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of tables, or of views, by name."""


def is_of_catalog(text: str) -> bool:
    """True if a text may be a question about the catalog.

    >>> is_of_catalog("SELECT pg_catalog.version()"), is_of_catalog("SELECT user FROM t"), is_of_catalog("FROM t")
    (True, True, False)
    """
    return any(_is_catalogs(word) for word in lexed(text).words)


def _is_catalogs(word: Lexeme) -> bool:
    name = (word.name or "").lower()
    return name in _SCHEMAS or name in _CALLS or name in _REGULAR or name.startswith(_CALL_BEGINNINGS)


class PgCatalog:
    """The DuckDB that answers, kept until the tables or views of the session change; nothing in it is ever written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    @contextmanager
    def connection_of(
        self, viewer: Viewer, activity: bool = False
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, _Kept]]:
        """A connection of its own for one question of a client, and what it was made of. activity: it is about the
        connections of the server."""
        kept = self._begin(self._known(), viewer)
        try:
            with kept.connection.cursor() as cursor:
                cursor.execute("SET search_path = 'memory.main,memory.pgc'")
                cursor.execute("SET arrow_lossless_conversion = true")
                for name, expression in _variables(viewer, activity).items():
                    cursor.execute(f"SET VARIABLE {name} = {expression}")
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield cursor, kept
        finally:
            with self._lock:
                kept.viewers.remove(viewer)
                self._close_idle(kept)

    def may_name_table(self, text: str) -> bool:
        """True if a word of the text is the name of a table or view of the session."""
        names = {name.lower() for columns in self._known() for name in columns}
        return any((word.name or "").lower() in names for word in lexed(text).words)

    def close(self) -> None:
        """Forget it, once its last question is answered."""
        with self._lock:
            self._forget()

    def _begin(self, known: tuple[Columns, Columns], viewer: Viewer) -> _Kept:
        with self._lock:
            if self._kept is None or self._kept.of != known:
                self._forget()
                self._kept = _made(known)
            self._kept.viewers.append(viewer)
            return self._kept

    def _forget(self) -> None:
        old, self._kept = self._kept, None
        if old is not None:
            self._close_idle(old)

    def _close_idle(self, kept: _Kept) -> None:
        if kept is not self._kept and not kept.viewers:
            kept.connection.close()

    def _known(self) -> tuple[Columns, Columns]:
        session = self._session
        views = set(session.views())
        tables = {name: tuple(table.columns) for name, table in session.tables().items() if name not in views}
        return tables, {name: tuple(_of_view(session, name)) for name in sorted(views)}


@dataclass
class _Kept:
    """A DuckDB with the tables and views it was made of. viewers: the clients whose questions are being answered.

    To close it ends these, as their connections are cursors of it: so the last one closes it.
    """

    connection: duckdb.DuckDBPyConnection
    of: tuple[Columns, Columns]
    numbers: Numbers = field(default_factory=lambda: Numbers({}))
    viewers: list[Viewer] = field(default_factory=list)
    names: Collection[str] = ()
    failed: dict[int, QoopError] = field(default_factory=dict)

    def viewer(self, process: int) -> Viewer:
        """The client of that number whose question is being answered."""
        return next(one for one in self.viewers if one.process == process)

    def end(self, process: int, other: int, whole: bool) -> bool:
        """Answer pg_cancel_backend and pg_terminate_backend."""
        return self.viewer(process).end(other, whole)

    def configure(self, process: int, name: str, to: str, local: bool) -> str:
        """Answer set_config. An error of ours is kept: DuckDB hands on its text alone."""
        try:
            return self.viewer(process).configure(name, to, local)
        except QoopError as error:
            self.failed[process] = error
            raise


def _made(known: tuple[Columns, Columns]) -> _Kept:
    connection = open_duckdb(files=False, threads=1, memory_limit="200MB")
    kept = _Kept(connection, known, names={name.lower() for columns in known for name in columns})
    numbers, texts = ["INTEGER", "BIGINT", "BOOLEAN"], ["INTEGER", "VARCHAR", "VARCHAR", "BOOLEAN"]
    connection.create_function(END, kept.end, numbers, "BOOLEAN", side_effects=True)  # type: ignore[arg-type]
    connection.create_function(SET, kept.configure, texts, "VARCHAR", side_effects=True)  # type: ignore[arg-type]
    kept.numbers = create(connection, *known)
    return kept


def _variables(viewer: Viewer, activity: bool) -> Mapping[str, str]:
    """The variables of a client's connection, as expressions."""
    settings = viewer.settings()
    names, values = (f"[{', '.join(map(literal, texts))}]" for texts in (settings.keys(), settings.values()))
    found = {
        USER: literal(viewer.user), DATABASE: literal(viewer.database), PROCESS: str(viewer.process),
        SETTINGS: f"MAP({names}, {values})", ACTIVITY: "NULL",
    }  # fmt: skip
    if activity:
        rows = ", ".join(_activity(*asdict(one).values()) for one in viewer.activity())
        found[ACTIVITY] = f"CAST([{rows}] AS {ACTIVITY_TYPE})"
    return found


def _activity(*values: object) -> str:
    return f"row({', '.join(map(literal, values))})"


class CatalogQuestion:
    """A question of one client, which another thread may stop."""

    def __init__(self, catalog: PgCatalog, viewer: Viewer) -> None:
        self._catalog, self._viewer = catalog, viewer
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stopped = ""

    def answer(self, text: str) -> CatalogAnswer | None:
        """The answer; None if the text names a table of the session, so that it is a query. Raises BindError."""
        return self._answered(text, run=True)

    def described(self, text: str) -> CatalogAnswer | None:
        """The columns of the answer, without its rows."""
        return self._answered(text, run=False)

    def _answered(self, text: str, run: bool) -> CatalogAnswer | None:
        if (growth := growth_in(text)) is not None:
            if self._catalog.may_name_table(text):
                return None  # the session runs it, within the limits of the client
            raise Forbidden(growth)
        about_activity = "pg_stat_activity" in text.lower()
        with _at_a_time, self._catalog.connection_of(self._viewer, about_activity) as (connection, kept):
            late = threading.Timer(_LONGEST, self.stop, ("it took too long",))
            late.daemon = True
            late.start()
            try:
                self._runs_on(connection)
                return _answer(connection, as_duckdb(text, kept.numbers, self._viewer.database), kept.names, run)
            except duckdb.Error as error:
                self._check_stopped()
                ours = kept.failed.pop(self._viewer.process, None)
                raise ours or BindError(str(error).partition("\n")[0]) from error
            finally:
                late.cancel()
                self._runs_on(None)

    def stop(self, why: str) -> None:
        """Stop it, from any thread."""
        with self._lock:
            self._stopped = why
            if self._connection is not None:
                self._connection.interrupt()

    def _runs_on(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        with self._lock:
            self._connection = connection
        if connection is not None:
            self._check_stopped()

    def _check_stopped(self) -> None:
        if self._stopped:
            kind = Timeout if "too long" in self._stopped else Cancelled
            raise kind(f"a question about the catalog was stopped: {self._stopped}")


@dataclass(frozen=True)
class CatalogAnswer:
    """An answer. columns: with the types of PostgreSQL that DuckDB does not have, such as oid."""

    rows: Result
    columns: Sequence[tuple[str, str]]


def _answer(
    connection: duckdb.DuckDBPyConnection, query: str, of_session: Collection[str], run: bool
) -> CatalogAnswer | None:
    if [one.type for one in connection.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        raise BindError("a question about the catalog is one query: nothing else is done there")
    if not _tables_named(query).isdisjoint(of_session):
        return None
    described = [(str(row[0]), str(row[1])) for row in connection.execute(f"DESCRIBE {query}").fetchall()]
    types = [type_ for _, type_ in described]
    last = query
    if (names := [f"c{number}" for number in range(len(types))]) != (
        shown_columns := list(map(selected, names, types))
    ):
        last = f"SELECT {', '.join(shown_columns)} FROM ({query}) AS t({', '.join(names)})"
    plain = [_plain(type_) for type_ in types]
    table = arrow_output.table(connection, last if run else f"SELECT * FROM ({last}) LIMIT 0")
    columns = [name for name, _ in described]
    return CatalogAnswer(
        Result(table, tuple(zip(columns, plain, strict=True))), list(zip(columns, shown(types), strict=True))
    )


def _plain(type_: str) -> str:
    """The type of DuckDB that a column has once it is selected last."""
    [found] = shown([type_])
    return type_ if found.startswith("oid") else found.replace("char", "VARCHAR")


def _tables_named(query: str) -> set[str]:
    """The names of tables in a question, in lower case: its parse tree says them, and needs no tables for that.

    Raises Forbidden for what tells of the server, with tables of the catalog or without.
    """
    names = set()
    for node, named in nodes(tree_of(query)):
        if node.get("type") == "SHOW_REF":
            raise Forbidden(
                "SHOW and DESCRIBE are refused in a question about the catalog: they would tell of the server"
            )
        if node.get("type") == "TABLE_FUNCTION":
            _check_function(node["function"], lock.TABLE_FUNCTIONS)
        elif node.get("type") == "BASE_TABLE" and not is_common_table(node, named):
            names.add(_checked_table(node))
        elif "function_name" in node and node.get("type") != "TABLE_FUNCTION":
            _check_function(node)
    return names


def _checked_table(node: Node) -> str:
    name, schema = str(node["table_name"]).lower(), str(node.get("schema_name", "")).lower()
    if schema == SCHEMA_OF_INFORMATION and not node.get("catalog_name"):
        return f"{schema}.{name}"
    if node.get("catalog_name") or schema not in ("", "main", "public") or name.startswith(_OF_DUCKDB):
        raise Forbidden(f"{schema and schema + '.'}{name} is no table of the catalog: it would tell of the server")
    return name


def _check_function(node: Node, only: Collection[str] | None = None) -> None:
    """Raise Forbidden for a function that may tell of the server. only: names that pass, with the catalog's own."""
    name, place = str(node["function_name"]).lower(), node.get("schema") or node.get("catalog")
    passes = name in only if only is not None else lock.is_harmless(name)
    is_own = name.startswith("qoop_")  # what the macros call, for the client that asks alone
    if is_own or not (passes if name not in NAMES else not place):  # in another schema it would be DuckDB's own
        raise Forbidden(
            f"{name}() is refused in a question about the catalog: it would tell of the server, or change it"
        )


def _of_view(session: Session, name: str) -> Sequence[tuple[str, str]]:
    """The columns of a view; none of one whose tables are gone, which does not hide the others."""
    try:
        return session.describe(f"FROM {quoted(name)}")
    except QueryError:
        return ()
