"""CREATE, DROP, COPY and changes of tables: from text to statements.

Names have parts, as they are written: database, schema and name, or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import LexedText, Lexeme, known_text, lexed, quoted
from qoop.catalog.value import value
from qoop.query.statements.databases.schemas import MAIN, TEMPORARY
from qoop.query.statements.normal_text import is_steady
from qoop.query.statements.words import Words


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
class ChangeTable:
    """INSERT, UPDATE, DELETE, MERGE, TRUNCATE, ALTER TABLE or COPY … FROM. query: of the rows that are
    inserted, after `head`; None: `text` has the whole statement.

    reshapes: it changes columns, so its result is not a number of rows. exists: do nothing if there is no such table.
    files: it reads files. adds: it adds rows, and reads none of the table.
    """

    name: tuple[str, ...]
    text: str
    head: str = ""
    query: str | None = None
    reshapes: bool = False
    exists: bool = False
    files: bool = False
    adds: bool = False


@value
class Rename:
    """ALTER TABLE … RENAME TO. exists: do nothing if there is no such table."""

    name: tuple[str, ...]
    new: str
    exists: bool


@value
class Drop:
    """kind: TABLE or VIEW. exists: do nothing if there is none."""

    kind: str
    name: tuple[str, ...]
    exists: bool


@value
class CopyTo:
    """text: the query whose rows go to the file. options: as written, in DuckDB's syntax."""

    text: str
    path: str
    options: str


def refusal(statement: LexedText) -> QueryError:
    """The error for a statement that a session does not run."""
    from qoop.query.statements.kinds.refused import not_for_a_session  # few texts need it

    return not_for_a_session(Words(statement))


def created(statement: LexedText) -> CreateView | CreateTable | CreateEmpty:
    """The definition in a CREATE statement. Raises QueryError for objects that a session does not create."""
    words = Words(statement)
    replace = words.take("CREATE", "OR", "REPLACE") or not words.take("CREATE")
    temporary = words.take("TEMP") or words.take("TEMPORARY")
    is_view = words.take("VIEW")
    if is_view or words.take("TABLE"):
        unless = words.take("IF", "NOT", "EXISTS")
        name = _created_name(words.parts(), temporary)
        columns = words.parenthesised()
        if name and columns and not is_view and words.next is None:
            _check_columns(columns)
            return CreateEmpty(name, columns, replace, unless)
        if name and words.take("AS") and words.next is not None:
            if is_view:
                return CreateView(name, columns or "", words.statement, replace, unless)
            return CreateTable(name, _rows_to_keep(words, columns), replace, unless)
    elif words.next is None or not words.next.says("RECURSIVE", "MATERIALIZED"):
        raise refusal(statement)
    raise QueryError(
        "a session creates views, CREATE [OR REPLACE] VIEW name AS …, tables, "
        "CREATE [OR REPLACE] TABLE name AS … or (column type, …), and schemas, CREATE SCHEMA name; "
        "data comes in through register()"
    )


def _created_name(name: tuple[str, ...], temporary: bool) -> tuple[str, ...]:
    """The name of a new table or view. Raises QueryError where the text and DuckDB's database of temporary tables
    contradict each other."""
    if len(name) > 1 and (name[0].lower() == TEMPORARY) != temporary:
        wrong = "is temporary, and has no schema" if temporary else f"is of {TEMPORARY}"
        raise QueryError(f"{'.'.join(name)} {wrong}: write CREATE TEMP TABLE {name[-1]}, or leave {TEMPORARY} out")
    return (MAIN, *name) if temporary and len(name) == 1 else name  # whatever schema USE names, each finds it


def _rows_to_keep(words: Words, names: str | None) -> str:
    """The query of a CREATE TABLE … AS. names: of its columns, in parentheses."""
    left = words.left
    last = [word.text.upper() for word in left[-3:]]
    empty = last == ["WITH", "NO", "DATA"]
    ends = empty or last[1:] == ["WITH", "DATA"]
    if not ends and names is None:
        return words.statement
    query = words.rest[: left[-3 if empty else -2].start - left[0].start] if ends else words.rest
    return f"FROM ({query}\n) AS _{names or ''}{' LIMIT 0' if empty else ''}"


def _check_columns(columns: str) -> None:
    if any(word.says("COLLATE") for word in Words(columns).left):
        raise QueryError("a table cannot keep COLLATE: write it in the queries")


_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE")


def changed(statement: LexedText) -> ChangeTable:
    """The change in an INSERT, UPDATE, DELETE, MERGE or TRUNCATE statement. Raises QueryError for other forms."""
    text, words = _in_parts(statement)
    if any(word.says("RETURNING") for word in words.left):
        raise QueryError("a change answers with the number of rows: it takes no RETURNING")
    before = words.rest
    if words.take("WITH"):
        words.skip_to(*_CHANGES)
    queries = before[: len(before) - len(words.rest)]
    _check_conflicts(words)
    inserts = words.take("INSERT", "INTO")
    truncates = not inserts and words.take("TRUNCATE")
    if inserts or truncates or words.take("UPDATE") or words.take("DELETE", "FROM") or words.take("MERGE", "INTO"):
        _ = truncates and words.take("TABLE")
        name = words.parts()
        if name:
            return (_inserted(name, text, words, queries) if inserts else None) or ChangeTable(
                name, text, adds=inserts and not _names(words, name[-1])
            )
    raise QueryError(
        "a session changes tables that it has created: INSERT INTO name …, UPDATE name SET …, DELETE FROM name …, "
        "MERGE INTO name …, TRUNCATE name"
    )


def _in_parts(statement: LexedText) -> tuple[str, Words]:
    """The text of a statement and its words, with temporary tables by their names alone."""
    text = known_text(statement)
    plain = without_temporary(text)
    return plain, Words(statement if plain == text else plain)


def without_temporary(text: str) -> str:
    """The text without the database of temporary tables before their names, unless it names something else, too.

    >>> without_temporary("INSERT INTO temp.t FROM temp.main.u"), without_temporary("FROM temp.t JOIN u AS temp")
    ('INSERT INTO t FROM u', 'FROM temp.t JOIN u AS temp')
    """
    if TEMPORARY not in text.lower():
        return text
    words, done, pieces = lexed(text).words, 0, []
    for place, word in enumerate(words):
        if word.name is None or word.name.lower() != TEMPORARY:
            continue
        after = [one.text.lower() for one in words[place + 1 : place + 4]]
        last = place + (4 if after == [".", MAIN, "."] else 2)
        if after[:1] != ["."] or last >= len(words):
            return text
        pieces.append(text[done : word.start])
        done = words[last].start
    return "".join([*pieces, text[done:]])


def _names(words: Words, table: str) -> bool:
    """True if one of the words that are left is the name of a table."""
    return any(word.name is not None and word.name.lower() == table.lower() for word in words.left)


def _check_conflicts(words: Words) -> None:
    """Raise QueryError for an INSERT with a clause about duplicate keys."""
    left = [word.text.upper() for word in words.left]
    threes = list(zip(left, left[1:], left[2:], strict=False))
    clauses = [" ".join(three) for three in threes[:1] if three[:2] == ("INSERT", "OR")]
    clauses += [
        "ON CONFLICT" for on, conflict, then in threes if (on, conflict) == ("ON", "CONFLICT") and then in ("(", "DO")
    ]
    if clauses:
        raise QueryError(
            f"{clauses[0]} needs a key, and a table here has columns with types alone: "
            "MERGE INTO name USING … ON … updates the rows that are there and inserts the others"
        )


def _inserted(name: tuple[str, ...], text: str, words: Words, queries: str) -> ChangeTable | None:
    """An INSERT of the rows of a query; None for one that DuckDB does alone. queries: WITH …, before INSERT."""
    begins = words.next
    inside = words.parenthesised()
    _ = words.take("BY", "NAME") or words.take("BY", "POSITION")
    query = words.statement
    if words.next is not None:
        begins = words.next
    elif inside is not None:
        query = inside[1:-1]
    first = lexed(query).words
    if begins is None or not first or not first[0].says("SELECT", "FROM", "WITH", "PIVOT", "PIVOT_WIDER", "UNPIVOT"):
        return None
    if queries:
        query = f"{queries} FROM ({query}\n)" if first[0].says("WITH") else f"{queries}{query}"
    return ChangeTable(name, text, text[len(queries) : begins.start], query, adds=True)


def altered(statement: LexedText) -> ChangeTable | Rename:
    """The change in an ALTER TABLE statement. Raises QueryError for other forms."""
    text, words = _in_parts(statement)
    if not words.take("ALTER", "TABLE"):
        raise refusal(statement)
    if any(word.says("COLLATE") for word in words.left):
        raise QueryError("a table cannot keep COLLATE: write it in the queries")
    exists = words.take("IF", "EXISTS")
    name = words.parts()
    if words.take("RENAME", "TO"):
        new = words.take_name()
        if new is not None and words.next is None:
            return Rename(name, new, exists)
    elif name and words.next is not None:
        return ChangeTable(name, text, reshapes=True, exists=exists)
    raise QueryError(
        "write ALTER TABLE name ADD COLUMN …, DROP COLUMN …, ALTER … TYPE …, RENAME … TO …, or RENAME TO …"
    )


def dropped(statement: LexedText) -> Drop:
    """The DROP statement of a text. Raises QueryError for objects that a session does not have."""
    words = Words(statement)
    is_table = words.take("DROP", "TABLE")
    if is_table or words.take("DROP", "VIEW"):
        exists = words.take("IF", "EXISTS")
        name = words.parts()
        _ = words.take("CASCADE") or words.take("RESTRICT")
        if name and words.next is None:
            return Drop("TABLE" if is_table else "VIEW", name, exists)
    elif not words.take("DROP", "MACRO") and not words.take("DROP", "SCHEMA"):
        raise refusal(statement)
    raise QueryError("a session drops tables, views and schemas: DROP TABLE|VIEW|SCHEMA [IF EXISTS] name")


def copied(statement: LexedText) -> CopyTo | ChangeTable:
    """The COPY statement of a text, to or from a file. Raises QueryError for other forms."""
    text, words = _in_parts(statement)
    if words.take("COPY") and not words.take("FROM", "DATABASE"):
        query = words.parenthesised()
        name = () if query else words.parts()
        columns = words.parenthesised() if name else None
        if name and words.take("FROM"):
            return ChangeTable(name, text, files=True, adds=True)
        if (query or name) and words.take("TO"):
            path = words.string()
            if path:
                _check_answer(words)
                return CopyTo(query[1:-1].strip() if query else _rows_of(name, columns), path, words.rest)
            raise QueryError(f"COPY … TO names a file as a text, COPY t TO 'file.parquet': not {words.rest}")
    raise refusal(statement)


def _check_answer(options: Words) -> None:
    """Raise QueryError for options with which DuckDB returns more than the number of rows."""
    option = next((word.text for word in options.left if word.says("RETURN_FILES", "RETURN_STATS")), None)
    if option is not None:
        raise QueryError(f"{option} is not for a session: COPY answers with the number of rows")


def _rows_of(name: tuple[str, ...], columns: str | None) -> str:
    table = ".".join(map(quoted, name))
    return f"FROM {table}" if columns is None else f"SELECT {columns[1:-1]} FROM {table}"


_ENDS = ("SET", "FROM", "USING", "WHERE")
_CHOOSING = ("LIMIT", "OVER", "QUALIFY", "FIRST", "LAST", "ANY_VALUE", "ARBITRARY", "LIST", "ARRAY_AGG", "STRING_AGG",
             "GROUP_CONCAT", "LISTAGG", "MODE", "ARG_MIN", "ARG_MAX", "MIN_BY", "MAX_BY", "HISTOGRAM")  # fmt: skip
"""Words of queries whose result may depend on the order of rows."""
_OF_ROWS = ("ROWID", "COLUMNS", *_CHOOSING)


def pieces_query(text: str, piece: str) -> str | None:
    """The query for the pieces of a table that an UPDATE, DELETE or MERGE may change. piece: the column of their names.

    DuckDB runs it over the files of the pieces. It skips row groups by their minima and maxima, also by the keys that
    a join finds, and decodes the columns of the condition alone.

    None where all may be, or this is not known: the statement has no condition, one that depends on the moment, or
    reads the table for anything but the rows that it changes.

    >>> print(pieces_query("DELETE FROM t USING o WHERE t.a = o.k", "piece"))
    SELECT DISTINCT "t"."piece" FROM t, o WHERE t.a = o.k
    >>> print(pieces_query("MERGE INTO s.t x USING o ON a = k WHEN MATCHED THEN DELETE", "piece"))
    SELECT DISTINCT "x"."piece" FROM s.t x JOIN o ON a = k
    >>> pieces_query("UPDATE t SET a = (SELECT max(a) FROM t) WHERE a = 1", "piece")
    """
    change = _RowChange.of(text)
    if change is None:
        return None
    rows = _matched(change.words) if change.joins else _filtered(change.words)
    if rows is None or change.reads_rows(text):
        return None
    query = f"{change.queries}SELECT DISTINCT {quoted(change.name)}.{quoted(piece)} FROM {change.target}{rows}"
    return query if is_steady(query) else None


def changes_rows_apart(text: str) -> bool:
    """True for a statement whose effect on a row depends on no other row of the table, and that adds no rows: parts of
    the table may be changed one after the other, at different moments.

    >>> changes_rows_apart("UPDATE t SET a = a + 1"), changes_rows_apart("TRUNCATE t")
    (True, True)
    >>> changes_rows_apart("UPDATE t SET a = (SELECT max(a) FROM t)")
    False
    >>> changes_rows_apart("MERGE INTO t USING o ON a = k WHEN NOT MATCHED THEN INSERT VALUES (k)")
    False
    """
    if Words(text).take("TRUNCATE"):
        return True
    change = _RowChange.of(text)
    if change is None or change.reads_rows(text):
        return False
    return is_steady(text) and not (change.joins and any(word.says("INSERT") for word in change.words.left))


@value
class _RowChange:
    """An UPDATE, DELETE or MERGE up to its table. queries: its WITH. target: the table with its alias. name: the former
    or the latter. aliased: it has an alias. joins: it is a MERGE. words: behind the target."""

    queries: str
    target: str
    parts: tuple[str, ...]
    alias: str | None
    joins: bool
    words: Words

    @classmethod
    def of(cls, text: str) -> _RowChange | None:
        """The change of a text; None for other statements."""
        words = Words(text)
        before = words.rest
        if words.take("WITH"):
            words.skip_to("UPDATE", "DELETE", "MERGE")
        queries = before[: len(before) - len(words.rest)]
        joins = words.take("MERGE", "INTO")
        if not (joins or words.take("UPDATE") or words.take("DELETE", "FROM")):
            return None
        begin = words.rest
        parts = words.parts()
        alias = _alias(words)
        target = begin[: len(begin) - len(words.rest)].strip()
        return cls(queries, target, parts, alias, joins, words) if parts else None

    @property
    def name(self) -> str:
        """The name of the rows that change."""
        return self.alias or self.parts[-1]

    def reads_rows(self, text: str) -> bool:
        """True if it may read rows of its table besides the one that changes."""
        return _names_rows(Words(text).left, {self.name.lower(), self.parts[-1].lower()}, 1 + bool(self.alias))


def _alias(words: Words) -> str | None:
    """Go past the alias of a table; None if it has none."""
    if words.take("AS") or (words.next is not None and not words.next.says(*_ENDS)):
        return words.take_name()
    return None


def _filtered(words: Words) -> str | None:
    """The other tables of an UPDATE or DELETE, and its condition. None: it has no condition."""
    if words.take("SET"):
        words.skip_to("FROM", "WHERE")
        _ = words.take("FROM")
    else:
        _ = words.take("USING")
    others = words.rest
    words.skip_to("WHERE")
    condition = words.rest
    if not condition:
        return None
    others = others[: len(others) - len(condition)].strip()
    return f", {others} {condition}" if others else f" {condition}"


def _matched(words: Words) -> str | None:
    """The source of a MERGE and its condition as those of a join. None: rows without a match may change."""
    left = words.left
    if any(by.says("BY") and source.says("SOURCE") for by, source in pairwise(left)):
        return None
    if not words.take("USING"):
        return None
    source = words.rest
    while words.next is not None:
        words.skip_to("WHEN")
        clauses = words.rest
        if words.take("WHEN", "MATCHED") or words.take("WHEN", "NOT", "MATCHED"):
            return f" JOIN {source[: len(source) - len(clauses)].strip()}"
        _ = words.take("WHEN")  # of a CASE
    return None


def _names_rows(words: Sequence[Lexeme], names: set[str], known: int) -> bool:
    """True if a statement may read the rows of its table other than one by one by their columns.

    names: of the table, in lower case. known: the number of places where it is named as the table that changes."""
    named = 0
    for place, word in enumerate(words):
        before, after = words[max(0, place - 1)].text, words[place + 1].text if place + 1 < len(words) else ""
        if word.says(*_OF_ROWS):
            return True
        if word.text == "*" and before in (".", "(") and words[max(0, place - 2)].text.lower() != "count":
            return True
        named += (word.name or "").lower() in names and after != "."
    return named > known
