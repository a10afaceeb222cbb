"""Questions about pg_catalog and information_schema, such as those of ``\\d`` and of drivers.

They name no data, so they are no queries of the engine's. A DuckDB without files and rows answers them, within limits.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog import arrow_output
from qoop.catalog.errors import BindError, Cancelled, Forbidden, QueryError, Timeout
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, quoted, without_end
from qoop.catalog.opening import open_duckdb
from qoop.interfaces.server.postgres.catalog_tables import MACROS, USER, create
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
    "session_user", "current_catalog", "to_regtype", "to_regclass", "format_type", "obj_description", "col_description",
}  # fmt: skip
_OF_DUCKDB = ("duckdb_", "pragma_", "sqlite_")
"""The beginnings of names by which DuckDB tells of itself, such as of folders of this machine."""
_TYPES = {
    "regclass": "VARCHAR", "regtype": "VARCHAR", "regproc": "VARCHAR", "regnamespace": "VARCHAR", "name": "VARCHAR",
    "oid": "BIGINT", "text": "VARCHAR", "char": "VARCHAR", "int2vector": "VARCHAR", "oidvector": "VARCHAR",
}  # fmt: skip

Columns = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of tables, or of views, by name."""

_RENAMED = {"JSON_BUILD_OBJECT": "json_object"}


def is_of_catalog(text: str) -> bool:
    """True if a text may be a question about the catalog.

    >>> is_of_catalog("SELECT pg_catalog.version()"), is_of_catalog("SELECT user FROM t"), is_of_catalog("FROM t")
    (True, True, False)
    """
    return any(_is_catalogs(word) for word in lexed(text).words)


def _is_catalogs(word: Lexeme) -> bool:
    name = (word.name or "").lower()
    return name in _SCHEMAS or name in _CALLS or name.startswith("pg_")


class PgCatalog:
    """The DuckDB that answers, kept until the tables or views of the session change; nothing in it is ever written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    @contextmanager
    def connection_of(self, user: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, Collection[str]]]:
        """A connection of its own for one question of a user, and the names of the session's tables, in lower case."""
        kept = self._begin(self._known())
        try:
            with kept.connection.cursor() as cursor:
                cursor.execute("SET search_path = 'memory.main,memory.pgc'")
                cursor.execute("SET arrow_lossless_conversion = true")
                cursor.execute(f"SET VARIABLE {USER} = {literal(user)}")
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield cursor, {name.lower() for columns in kept.of for name in columns}
        finally:
            with self._lock:
                kept.questions -= 1
                self._close_idle(kept)

    def close(self) -> None:
        """Forget it, once its last question is answered."""
        with self._lock:
            self._forget()

    def _begin(self, known: tuple[Columns, Columns]) -> _Kept:
        with self._lock:
            if self._kept is None or self._kept.of != known:
                self._forget()
                self._kept = _Kept(_made(*known), known)
            self._kept.questions += 1
            return self._kept

    def _forget(self) -> None:
        old, self._kept = self._kept, None
        if old is not None:
            self._close_idle(old)

    def _close_idle(self, kept: _Kept) -> None:
        if kept is not self._kept and not kept.questions:
            kept.connection.close()

    def _known(self) -> tuple[Columns, Columns]:
        session = self._session
        views = set(session.views())
        tables = {name: tuple(table.columns) for name, table in session.tables().items() if name not in views}
        return tables, {name: tuple(_of_view(session, name)) for name in sorted(views)}


@dataclass
class _Kept:
    """A DuckDB with the tables and views it was made of. questions: that are being answered.

    To close it ends these, as their connections are cursors of it: so the last one closes it.
    """

    connection: duckdb.DuckDBPyConnection
    of: tuple[Columns, Columns]
    questions: int = 0


def _made(tables: Columns, views: Columns) -> duckdb.DuckDBPyConnection:
    connection = open_duckdb(files=False, threads=1, memory_limit="200MB")
    create(connection, tables, views)
    for name, columns in (*tables.items(), *((name, columns) for name, columns in views.items() if columns)):
        definitions = ", ".join(f"{quoted(column)} {type_}" for column, type_ in columns)
        connection.execute(f"CREATE TABLE main.{quoted(name)} ({definitions})")
    return connection


class CatalogQuestion:
    """A question of one client, which another thread may stop."""

    def __init__(self, catalog: PgCatalog, user: str) -> None:
        self._catalog, self._user = catalog, user
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._stopped = ""

    def answer(self, text: str) -> Result | None:
        """The answer; None if the text names a table of the session, so that it is a query. Raises BindError."""
        with _at_a_time, self._catalog.connection_of(self._user) as (connection, names):
            late = threading.Timer(_LONGEST, self.stop, ("it took too long",))
            late.daemon = True
            late.start()
            try:
                self._runs_on(connection)
                return _answer(connection, as_duckdb(text, self._user), names)
            except duckdb.Error as error:
                self._check_stopped()
                raise BindError(str(error).partition("\n")[0]) from error
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


def _answer(connection: duckdb.DuckDBPyConnection, query: str, of_session: Collection[str]) -> Result | None:
    if [one.type for one in connection.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        raise BindError("a question about the catalog is one query: nothing else is done there")
    if not _tables_named(query).isdisjoint(of_session):
        return None
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    table = arrow_output.table(connection, query)
    return Result(table, tuple((str(row[0]), str(row[1])) for row in described))


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
    if node.get("catalog_name") or schema not in ("", "main", "information_schema") or name.startswith(_OF_DUCKDB):
        raise Forbidden(f"{schema and schema + '.'}{name} is no table of the catalog: it would tell of the server")
    return name


def _check_function(node: Node, only: Collection[str] | None = None) -> None:
    """Raise Forbidden for a function that may tell of the server. only: names that pass, with the catalog's own."""
    name, place = str(node["function_name"]).lower(), node.get("schema") or node.get("catalog")
    passes = name in only if only is not None else lock.is_harmless(name) or name.startswith("pg_")
    if not (passes if name not in MACROS else not place):  # in another schema it would be DuckDB's own
        raise Forbidden(f"{name}() is refused in a question about the catalog: it would tell of the server")


def _of_view(session: Session, name: str) -> Sequence[tuple[str, str]]:
    """The columns of a view; none of one whose tables are gone, which does not hide the others."""
    try:
        return session.describe(f"FROM {quoted(name)}")
    except QueryError:
        return ()


def as_duckdb(text: str, user: str) -> str:
    """A question in PostgreSQL's SQL as DuckDB takes it.

    >>> as_duckdb("SELECT c.relname::pg_catalog.text WHERE relname OPERATOR(pg_catalog.~) 'x'", "")
    "SELECT c.relname :: VARCHAR WHERE relname ~ 'x'"
    >>> as_duckdb("SELECT t.oid = ANY (p.polroles)", "")
    'SELECT list_contains(p.polroles, t.oid)'
    """
    return " ".join(_rewritten(lexed(without_end(text)).words, user)).replace(" . ", ".")


def _rewritten(words: Sequence[Lexeme], user: str) -> list[str]:
    output: list[str] = []
    at = 0
    while at < len(words):
        at += _rewrite(words, at, output, user)
    return output


def _rewrite(words: Sequence[Lexeme], at: int, output: list[str], user: str) -> int:
    """Add the word there as DuckDB takes it, and return how many words it stands for."""
    word = words[at]
    follows = [one.text.lower() for one in words[at + 1 : at + 6]]
    if word.says("OPERATOR") and follows[1:3] == ["pg_catalog", "."]:
        signs = [one.text for one in takewhile(lambda one: one.text != ")", words[at + 4 :])]
        output.append("".join(signs))
        return 5 + len(signs)
    if word.says("COLLATE") and follows[:2] == ["pg_catalog", "."]:
        return 4
    if word.text == "=" and follows[:2] == ["any", "("] and follows[2:3] != ["select"]:
        end = behind_closing(words, at + 2)
        values = words[at + 3 : end - 1]
        if len(values) == 1 and values[0].text.startswith("'{"):
            output.append(f"IN ({_listed(values[0].text)})")
        else:
            _is_among(output, " ".join(_rewritten(values, user)))
        return end - at
    if (word.name or "").lower() == "pg_catalog" and follows[:1] == ["."]:
        return 2
    if word.says("INFORMATION_SCHEMA") and follows[1:2] == ["_pg_expandarray"]:
        return 2
    if word.text.startswith("'{") and follows[:1] in (["::"], ["as"]) and follows[2:4] == ["[", "]"]:
        output.append(f"'[{word.text[2:-2]}]'")  # DuckDB reads what stands between the braces, but for its own brackets
        return 1
    if output[-1:] == ["::"] and word.name is not None:
        _cast(output, word)
    elif output and output[-1].upper() == "AS" and follows[:1] == [")"]:
        output.append(_type(word))
    elif word.kind == "string" and _is_number_of_schema(output):
        output.append(_schema_number(word.text))
    elif word.says(*_RENAMED):
        output.append(_RENAMED[word.text.upper()])
    elif word.says("CURRENT_USER", "SESSION_USER") and output[-1:] != ["."]:
        output.append(literal(user))
    else:
        output.append(word.text)
    return 1


def _type(word: Lexeme) -> str:
    return _TYPES.get((word.name or "").lower(), word.text)


def _listed(text: str) -> str:
    r"""The values of a list of PostgreSQL's of which no type is said: each fits what it is compared with.

    >>> _listed("'{r,\"a b\"}'"), _listed("'{}'")
    ("'r', 'a b'", 'NULL')
    """
    inner = text[2:-2].replace("''", "'")
    try:
        [values] = csv.reader([inner], escapechar="\\", doublequote=False, strict=True) if inner else [[]]
    except (csv.Error, ValueError) as error:
        raise BindError(f"{text} is no list of PostgreSQL's: {error}") from error
    return ", ".join(map(literal, values)) or "NULL"


def _is_number_of_schema(output: Sequence[str]) -> bool:
    """True behind ``relnamespace =`` and the like: a schema is compared with by its name there."""
    return len(output) > 1 and output[-1] in ("=", "<>", "!=") and output[-2].lower().endswith("namespace")


def _schema_number(name: str) -> str:
    """The number of a schema by its name, as text of SQL. The tables are in main, which is PostgreSQL's public."""
    return f"(SELECT min(oid) FROM pg_namespace WHERE nspname = CASE {name} WHEN 'public' THEN 'main' ELSE {name} END)"


def _is_among(output: list[str], values: str) -> None:
    """Write ``name = ANY (list)`` as a call: DuckDB takes the other only where the list is of no outer query."""
    first = len(output) - 1
    while first >= 2 and output[first - 1] == ".":
        first -= 2
    output[first:] = [f"list_contains({values}, {''.join(output[first:])})"]


def _cast(output: list[str], type_: Lexeme) -> None:
    """Add the type that a cast is to; a name as ``regclass`` or ``regnamespace`` is its number; the catalog's tables
    have none."""
    name, kind = output[-2] if len(output) > 1 else "", (type_.name or "").lower()
    if not name.startswith("'") or kind not in ("regclass", "regnamespace"):
        output.append(_type(type_))
    elif kind == "regnamespace":
        output[-2:] = [_schema_number(name)]
    elif name.startswith(("'pg_", "'information_schema.")):
        output[-2:] = ["NULL::BIGINT"]
    else:
        output[-2:] = [f"(SELECT min(oid) FROM pg_class WHERE relname = {_last_name(name)})"]


def _last_name(text: str) -> str:
    r"""The name of a table in a text that may say its schema, too, and have quotes.

    >>> _last_name("'main.t'"), _last_name("'\"Odd name\"'")
    ("'t'", "'Odd name'")
    """
    names = [word.name for word in lexed(text[1:-1].replace("''", "'")).words if word.name is not None]
    return literal(names[-1]) if names else text
