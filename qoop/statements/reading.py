"""CREATE, DROP, COPY and changes of tables: from text to what they ask for.

Names are given in parts, as they are written: database, schema and name, or less.
"""

from __future__ import annotations

from qoop.catalog.errors import QueryError
from qoop.catalog.lexed import quoted
from qoop.catalog.value import value
from qoop.planner.sql.bind import without_end
from qoop.statements.words import Words


@value
class CreateView:
    """columns: names in parentheses, as written, or empty. text: of the query. replace: in place of a view of that
    name. unless: do nothing if there is one."""

    name: tuple[str, ...]
    columns: str
    text: str
    replace: bool
    unless: bool


@value
class CreateTable:
    """CREATE TABLE … AS. replace, unless: as for a view."""

    name: tuple[str, ...]
    text: str
    replace: bool
    unless: bool


@value
class CreateEmpty:
    """CREATE TABLE with columns. columns: as written, in parentheses. replace, unless: as for a view."""

    name: tuple[str, ...]
    columns: str
    replace: bool
    unless: bool


@value
class Change:
    """INSERT, UPDATE, DELETE or MERGE. query: of which rows are inserted, after `head`; None: all is in `text`."""

    name: tuple[str, ...]
    text: str
    head: str = ""
    query: str | None = None


@value
class Drop:
    """kind: TABLE or VIEW. exists: do nothing if there is none."""

    kind: str
    name: tuple[str, ...]
    exists: bool


@value
class Copy:
    """text: the query whose rows go to the file. options: as written, in DuckDB's own words."""

    text: str
    path: str
    options: str


def created(text: str) -> CreateView | CreateTable | CreateEmpty:
    """The definition in a CREATE statement. Raises QueryError for what is not to be created here."""
    words = Words(without_end(text))
    replace = words.take("CREATE", "OR", "REPLACE") or not words.take("CREATE")
    _ = words.take("TEMP") or words.take("TEMPORARY")
    is_view = words.take("VIEW")
    if is_view or words.take("TABLE"):
        unless = words.take("IF", "NOT", "EXISTS")
        name = words.parts()
        columns = words.parenthesised()
        if name and columns and not is_view and words.next is None:
            _check_columns(columns)
            return CreateEmpty(name, columns, replace, unless)
        if name and (is_view or not columns) and words.take("AS") and words.next is not None:
            if is_view:
                return CreateView(name, columns or "", words.rest, replace, unless)
            return CreateTable(name, words.rest, replace, unless)
    raise QueryError(
        "a session creates views, CREATE [OR REPLACE] VIEW name AS …, tables, "
        "CREATE [OR REPLACE] TABLE name AS … or (column type, …), and schemas, CREATE SCHEMA name; "
        "data comes in through register()"
    )


def _check_columns(columns: str) -> None:
    if any(word.says("COLLATE") for word in Words(columns).left):
        raise QueryError("a table cannot keep COLLATE: write it in the queries")


def changed(text: str) -> Change:
    """The change in an INSERT, UPDATE, DELETE or MERGE statement. Raises QueryError for what is not done here."""
    text = without_end(text)
    words = Words(text)
    if any(word.says("RETURNING") for word in words.left):
        raise QueryError("a change answers with the number of rows: it takes no RETURNING")
    inserts = words.take("INSERT", "INTO")
    if inserts or words.take("UPDATE") or words.take("DELETE", "FROM") or words.take("MERGE", "INTO"):
        name = words.parts()
        if name:
            return (_inserted(name, text, words) if inserts else None) or Change(name, text)
    raise QueryError(
        "a session changes tables that it has created: INSERT INTO name …, UPDATE name SET …, DELETE FROM name …, "
        "MERGE INTO name …"
    )


def _inserted(name: tuple[str, ...], text: str, words: Words) -> Change | None:
    """An INSERT of the rows of a query; None for one that DuckDB does alone."""
    _ = words.parenthesised()
    _ = words.take("BY", "NAME") or words.take("BY", "POSITION")
    if words.next is None or not words.next.says("SELECT", "FROM", "WITH"):
        return None
    return Change(name, text, text[: words.next.start], words.rest)


def dropped(text: str) -> Drop:
    """The names in a DROP statement. Raises QueryError for what is not to be dropped here."""
    words = Words(without_end(text))
    is_table = words.take("DROP", "TABLE")
    if is_table or words.take("DROP", "VIEW"):
        exists = words.take("IF", "EXISTS")
        name = words.parts()
        _ = words.take("CASCADE") or words.take("RESTRICT")
        if name and words.next is None:
            return Drop("TABLE" if is_table else "VIEW", name, exists)
    raise QueryError("a session drops tables, views and schemas: DROP TABLE|VIEW|SCHEMA [IF EXISTS] name")


def copied(text: str) -> Copy:
    """The order in a COPY statement. Raises QueryError for one that reads a file."""
    words = Words(without_end(text))
    if words.take("COPY"):
        query = words.parenthesised()
        name = () if query else words.parts()
        if (query or name) and words.take("TO"):
            path = words.string()
            if path:
                return Copy(query[1:-1].strip() if query else f"FROM {'.'.join(map(quoted, name))}", path, words.rest)
    raise QueryError("a session copies to files: COPY (query) TO 'file' (options); FROM 'file' reads one")
