"""CREATE, DROP and COPY: from text to what they ask for."""

from __future__ import annotations

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value
from qoop.planner.sql.bind import without_end
from qoop.statements.views import View
from qoop.statements.words import Words


@value
class CreateView:
    """replace: in place of a view of that name. unless: do nothing if there is one."""

    view: View
    replace: bool
    unless: bool


@value
class CreateTable:
    """CREATE TABLE … AS. replace, unless: as for a view."""

    name: str
    text: str
    replace: bool
    unless: bool


@value
class Drop:
    """kind: TABLE or VIEW. exists: do nothing if there is none."""

    kind: str
    name: str
    exists: bool


@value
class Copy:
    """text: the query whose rows go to the file. options: as written, in DuckDB's own words."""

    text: str
    path: str
    options: str


def created(text: str) -> CreateView | CreateTable:
    """The definition in a CREATE statement. Raises QueryError for what is not to be created here."""
    words = Words(without_end(text))
    replace = words.take("CREATE", "OR", "REPLACE") or not words.take("CREATE")
    _ = words.take("TEMP") or words.take("TEMPORARY")
    is_view = words.take("VIEW")
    if is_view or words.take("TABLE"):
        unless = words.take("IF", "NOT", "EXISTS")
        name = words.take_name()
        columns = words.parenthesised() if is_view else None
        if name and words.take("AS") and words.next is not None:
            if is_view:
                return CreateView(View(name, columns or "", words.rest), replace, unless)
            return CreateTable(name, words.rest, replace, unless)
    raise QueryError(
        "a session creates views, CREATE [OR REPLACE] VIEW name AS …, and tables out of queries, "
        "CREATE [OR REPLACE] TABLE name AS …, under a name without a schema; data comes in through register()"
    )


def dropped(text: str) -> Drop:
    """The names in a DROP statement. Raises QueryError for what is not to be dropped here."""
    words = Words(without_end(text))
    is_table = words.take("DROP", "TABLE")
    if is_table or words.take("DROP", "VIEW"):
        exists = words.take("IF", "EXISTS")
        name = words.take_name()
        _ = words.take("CASCADE") or words.take("RESTRICT")
        if name and words.next is None:
            return Drop("TABLE" if is_table else "VIEW", name, exists)
    raise QueryError("a session drops tables and views: DROP TABLE|VIEW [IF EXISTS] name")


def copied(text: str) -> Copy:
    """The order in a COPY statement. Raises QueryError for one that reads a file."""
    words = Words(without_end(text))
    if words.take("COPY"):
        query = words.parenthesised()
        name = None if query else words.take_name()
        if (query or name) and words.take("TO"):
            path = words.string()
            if path:
                return Copy(query[1:-1].strip() if query else f"FROM {_quoted(str(name))}", path, words.rest)
    raise QueryError("a session copies to files: COPY (query) TO 'file' (options); FROM 'file' reads one")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
