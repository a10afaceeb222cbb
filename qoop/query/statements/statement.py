"""A statement of a session: a query, a SET, an EXPLAIN, a SHOW, CREATE, DROP, COPY or a change. All else is refused.

DuckDB's own parser splits the text and says of what kind each statement is, so its idea of SQL is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

import duckdb

from qoop.catalog.by_text import by_text
from qoop.catalog.duckdb_introspection import is_several, parsed, remember, type_of
from qoop.catalog.errors import ParseError, QueryError
from qoop.catalog.lexer import LexedText, known_text, lexed, rare, without_end
from qoop.catalog.value import value
from qoop.query.statements.databases.schemas import OWN, OfSchemas, ShowSchemas, schema_created, schema_dropped
from qoop.query.statements.materialized import OfMaterialized, is_of_materialized, materialized
from qoop.query.statements.reading import (
    ChangeTable,
    CopyTo,
    CreateEmpty,
    CreateTable,
    CreateView,
    Drop,
    Rename,
    altered,
    changed,
    copied,
    created,
    dropped,
    refusal,
)
from qoop.query.statements.words import Words, split

if TYPE_CHECKING:
    from qoop.query.statements.databases.attaching import OfDatabases, ShowDatabases, Use
    from qoop.query.statements.databases.extending import OfExtensions
    from qoop.query.statements.databases.moves import OfMoves
    from qoop.query.statements.macros.reading import OfMacros
    from qoop.query.statements.prepared import OfSessionState

_OURS = ("alternatives", "history", "approximate", "materialized")
_may_be_ours = rare(rf"\b(?:{'|'.join(_OURS)})\b", *_OURS)
_may_be_pragma = rare(r"\b(?:pragma|import)\b", "pragma", "import")
_MAY_BE_MACRO = re.compile(r"\b(?:macro|function)\b", re.I)
_IS_QUERY = re.compile(r"\s*(?:select|from|with|values)\b", re.I)

What = Literal["plan", "analyze", "alternatives", "history", "approximate"]


@value
class Query:
    """A SELECT, VALUES, FROM or WITH."""

    text: str


@value
class SetOption:
    """SET or, with None as the value, RESET."""

    name: str
    value: str | None


@value
class Explain:
    """EXPLAIN of a query: of its plan, or of all plans worth keeping, or of how its answer would grow; or run it, and
    report the measurements of its plan (analyze) or the events (history)."""

    text: str
    what: What = "plan"


@value
class Approximate:
    """A query to be answered within an error: the half-width of intervals relative to their estimates. None: the
    session's goal. if_busy: only while other queries would have to wait for it."""

    text: str
    error: float | None = None
    confidence: float | None = None
    if_busy: bool = False


@value
class ShowTables:
    """SHOW TABLES [FROM schema]; with_columns: SHOW ALL TABLES, which lists the columns, too."""

    schema: str | None = None
    with_columns: bool = False


@value
class ShowFunctions:
    """SHOW FUNCTIONS: those of Python."""


@value
class _Parsed:
    """A statement as DuckDB's parser sees it. parameters: their names. whole: DuckDB's object of it, if known."""

    type: duckdb.StatementType
    query: str
    parameters: frozenset[str]
    whole: duckdb.Statement | None = None


Made = CreateView | CreateTable | CreateEmpty | ChangeTable | Rename | Drop | CopyTo | OfMaterialized
Statement: TypeAlias = (
    "Query | Approximate | SetOption | Explain | ShowTables | ShowFunctions | Made | OfSessionState | OfDatabases "
    "| OfSchemas | OfMacros | OfExtensions | OfMoves"
)


@by_text(most=128)
def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order.

    >>> statements("SET TimeZone = 'UTC'; FROM t")
    (SetOption(name='TimeZone', value='UTC'), Query(text='FROM t'))

    EXPLAIN ALTERNATIVES, EXPLAIN HISTORY and [EXPLAIN] APPROXIMATE are ours alone:

    >>> [type(one).__name__ for one in statements("SET exact_within = 0; APPROXIMATE SELECT ';'; FROM t")]
    ['SetOption', 'Approximate', 'Query']

    Raises ParseError for a text that DuckDB cannot parse, QueryError for statements that a session does not run.
    """
    _check_characters(text)
    if _may_be_ours(text):
        parts = split(text)
        if any(_ours(Words(part)) or is_of_materialized(Words(part)) for part in parts):
            return tuple(one for part in parts for one in _of_part(part))
    return tuple(map(_statement, _parsed(text)))


def _of_part(text: str) -> tuple[Statement, ...]:
    words = Words(text)
    if is_of_materialized(words):
        return (materialized(words, query_text),)
    ours = _ours(words)
    return tuple(map(_statement, _parsed(text))) if ours is None else (ours(query_text(words.statement)),)


def parameters_of(text: str) -> list[tuple[str, frozenset[str]]]:
    """The statements of a text, each with the names of its parameters, folded; ``?`` are numbered from 1 on.

    >>> [sorted(names) for _, names in parameters_of("SELECT ?, $2, '$a'; FROM t")]
    [['1', '2'], []]

    Raises as `statements` does.
    """
    _check_characters(text)
    words = Words(text)
    if is_of_materialized(words):
        return [(text, frozenset())]
    found = _parsed(text if _ours(words) is None else words.rest)
    return [(item.query, frozenset(map(folded, item.parameters))) for item in found]


def folded(name: str) -> str:
    """A name in the case in which DuckDB compares names: it folds the alphabet of ASCII.

    >>> folded("ÄB")
    'Äb'
    """
    return name.lower() if name.isascii() else "".join(sign.lower() if sign.isascii() else sign for sign in name)


def query_text(text: str) -> str:
    """The text of the single query in `text`. Raises QueryError for other statements, or several."""
    found = statements(text)
    if len(found) != 1 or not isinstance(found[0], Query):
        raise QueryError("a single query is needed here: SELECT, VALUES, FROM or WITH")
    return found[0].text


def _parsed(text: str) -> list[_Parsed]:
    """The statements of a text."""
    if _may_be_pragma(text):  # DuckDB rewrites a PRAGMA, and reads the files of an IMPORT
        parts = split(text)
        if any(map(_is_pragma, parts)):
            return [one for part in parts for one in ([_pragma(part)] if _is_pragma(part) else _parsed(part))]
    try:
        found = parsed(text)
        if any(map(is_several, found)):
            names = ((one, {name for item in parsed(one) for name in item.named_parameters}) for one in split(text))
            return [_Parsed(_kind(one), one, frozenset(parameters)) for one, parameters in names]
    except duckdb.Error as error:
        raise ParseError(str(error)) from error
    if not found:
        raise QueryError("there is no statement in the text")
    return [_Parsed(type_of(item), item.query, frozenset(item.named_parameters), item) for item in found]


def _pragma(text: str) -> _Parsed:
    """A PRAGMA or an IMPORT, as it is written."""
    from qoop.query.statements.kinds import pragmas

    kind = duckdb.StatementType.SET if pragmas.sets(Words(text)) else duckdb.StatementType.PRAGMA
    return _Parsed(kind, text, frozenset())


def _is_pragma(text: str) -> bool:
    return lexed(text).words[0].says("PRAGMA", "IMPORT")


def _kind(text: str) -> duckdb.StatementType:
    """The kind of a statement with a PIVOT in it, of which DuckDB says only that it is several."""
    words = Words(text)
    if words.take("WITH"):
        words.skip_to("INSERT", "UPDATE", "DELETE", "MERGE")
    return _PIVOTING.get(words.next.text.upper() if words.next else "", duckdb.StatementType.SELECT)


_PIVOTING = {
    "CREATE": duckdb.StatementType.CREATE,
    "COPY": duckdb.StatementType.COPY,
    "EXPLAIN": duckdb.StatementType.EXPLAIN,
    "INSERT": duckdb.StatementType.INSERT,
    "UPDATE": duckdb.StatementType.UPDATE,
    "DELETE": duckdb.StatementType.DELETE,
    "MERGE": duckdb.StatementType.MERGE_INTO,
}


def _check_characters(text: str) -> None:
    """Bytes that are not UTF-8 come as surrogates from a command line, and DuckDB takes none; a NUL is the end to it,
    and what follows would be read by us alone."""
    if not isinstance(text, str):
        raise TypeError(f"SQL is a text, not a {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParseError(f"the text is not UTF-8: see character {error.start + 1}") from error
    if "\0" in text:
        raise ParseError(f"the text holds a NUL: see character {text.index(chr(0)) + 1}")


def _ours(words: Words) -> Callable[[str], Explain | Approximate] | None:
    """Goes past words before a query that DuckDB does not know; returns what makes a statement of the query."""
    if words.take("EXPLAIN", "ALTERNATIVES"):
        return partial(Explain, what="alternatives")
    if words.take("EXPLAIN", "HISTORY"):
        return partial(Explain, what="history")
    explain = words.take("EXPLAIN", "APPROXIMATE")
    if not explain and not words.take("APPROXIMATE"):
        return None
    error = _hundredths(words, "WITHIN", 1)
    confidence = _hundredths(words, "CONFIDENCE", 95)
    if_busy = words.take("IF", "BUSY")
    if explain:
        return partial(Explain, what="approximate")
    return partial(Approximate, error=error, confidence=confidence, if_busy=if_busy)


def _hundredths(words: Words, word: str, example: int) -> float | None:
    """The number of percent that stands behind a word. Raises QueryError if it is none that makes sense."""
    if not words.take(word):
        return None
    number = words.number()
    if word == "WITHIN" and not (words.take("PERCENT") or words.take("%")):
        raise QueryError("write APPROXIMATE WITHIN 1 PERCENT SELECT …")
    _ = words.take("PERCENT") or words.take("%")
    if number is None or not 0 < number < 100:
        raise QueryError(f"behind {word} stands a number of percent above 0 and below 100, such as {example}")
    return number / 100


def _statement(item: _Parsed) -> Statement:
    if item.parameters:
        raise QueryError("the text has parameters ($1, $name or ?) and no values for them")
    if item.type == duckdb.StatementType.SELECT and _IS_QUERY.match(item.query):
        text = without_end(item.query)
        if item.whole is not None:
            remember(text, item.whole)
        return Query(text)  # at once, for the text may be long
    statement = lexed(item.query).without_end
    words = Words(statement)
    if item.type == duckdb.StatementType.SELECT:
        return _shown(words) or Query(_as_query(statement))
    if item.type == duckdb.StatementType.EXPLAIN and words.take("EXPLAIN"):
        return _explain(words)
    if item.type == duckdb.StatementType.SET:
        return _variable(statement) or _used(statement) or _option(words)
    if item.type == duckdb.StatementType.PRAGMA:
        imports = words.next is not None and words.next.says("IMPORT")
        return _by("databases.moves", "imported")(statement) if imports else _answer_to_pragma(words)
    if item.type == duckdb.StatementType.CALL and words.take("CALL"):
        return Query(f"FROM {words.rest}")
    read = _OTHERS.get(item.type)
    if read is None:
        raise refusal(statement)
    return read(statement)


def _explain(words: Words) -> Explain:
    """EXPLAIN of a query, after that word. Raises QueryError for options in parentheses, and for other statements."""
    what: What = "analyze" if words.take("ANALYZE") else "plan"
    text = words.statement
    if (options := words.parenthesised()) is not None and not _IS_QUERY.match(options[1:]) and words.next is not None:
        raise QueryError(f"EXPLAIN takes no options such as {options}: Session.explain(text, format='json') has them, "
                         "and EXPLAIN ANALYZE runs the query")  # fmt: skip
    found = statements(text)
    if len(found) != 1 or not isinstance(found[0], Query):
        from qoop.query.statements.kinds.refused import statement_name

        raise QueryError(f"EXPLAIN is of queries, SELECT, VALUES, FROM or WITH, not of {statement_name(Words(text))}")
    return Explain(found[0].text, what)


def _answer_to_pragma(words: Words) -> Statement:
    """The query, or the SHOW, in a PRAGMA. Raises QueryError for a PRAGMA that changes something."""
    from qoop.query.statements.kinds import pragmas

    (found,) = statements(pragmas.question(words))
    return found


def _variable(statement: LexedText) -> Statement | None:
    return None if "variable" not in statement.text.lower() else _by("prepared", "set_variable")(statement)


def _used(statement: LexedText) -> Use | None:
    words = Words(statement)
    if words.take("RESET", "SCHEMA") or words.take("RESET", "SEARCH_PATH"):
        words = Words(OWN)
    elif words.take("SET", "SCHEMA") or words.take("SET", "SEARCH_PATH"):
        _ = words.take("=") or words.take("TO")
        named = OWN if words.take("DEFAULT") else words.string()  # DuckDB reads it as names with dots between them
        if named is not None and "," in named:
            raise QueryError(
                f"a search_path has one schema here, not {named!r}: names without one are searched in main, too"
            )
        words = words if named is None else Words(named or OWN)
    elif not words.take("USE"):
        return None
    from qoop.query.statements.databases.attaching import used

    return used(words)


def _by(module: str, reader: str) -> Callable[[LexedText], Statement]:
    """A reader of a module that few sessions need."""

    def read(statement: LexedText) -> Statement:
        made: Statement = getattr(import_module(f"{__package__}.{module}"), reader)(Words(statement))
        return made

    return read


def _of_macros(reader: str, statement: LexedText) -> Statement | None:
    """None for a statement of another kind."""
    return None if _MAY_BE_MACRO.search(statement.text) is None else _by("macros.reading", reader)(statement)


def _created(statement: LexedText) -> Statement:
    return _of_macros("macro_created", statement) or schema_created(Words(statement)) or created(statement)


def _dropped(statement: LexedText) -> Statement:
    if Words(statement).take("DEALLOCATE"):
        return _by("prepared", "deallocated")(statement)
    return _of_macros("macro_dropped", statement) or schema_dropped(Words(statement)) or dropped(statement)


_OTHERS: dict[duckdb.StatementType, Callable[[LexedText], Statement]] = {
    duckdb.StatementType.ATTACH: _by("databases.attaching", "attached"),
    duckdb.StatementType.DETACH: _by("databases.attaching", "detached"),
    duckdb.StatementType.CREATE: _created,
    duckdb.StatementType.DROP: _dropped,
    duckdb.StatementType.PREPARE: _by("prepared", "prepared"),
    duckdb.StatementType.EXECUTE: _by("prepared", "executed"),
    duckdb.StatementType.TRANSACTION: _by("prepared", "transaction"),
    duckdb.StatementType.COPY: copied,
    duckdb.StatementType.EXPORT: _by("databases.moves", "exported"),
    duckdb.StatementType.LOAD: _by("databases.extending", "extended"),
    duckdb.StatementType.ALTER: altered,
    duckdb.StatementType.INSERT: changed,
    duckdb.StatementType.UPDATE: changed,
    duckdb.StatementType.DELETE: changed,
    duckdb.StatementType.MERGE_INTO: changed,
}


def _shown(words: Words) -> ShowTables | ShowFunctions | ShowDatabases | ShowSchemas | None:
    found: ShowTables | ShowFunctions | ShowDatabases | ShowSchemas | None = None
    if words.take("SHOW", "TABLES", "FROM"):
        found = ShowTables(words.dotted_name())
    elif words.take("SHOW", "SCHEMAS"):
        found = ShowSchemas()
    elif words.take("SHOW", "TABLES"):
        found = ShowTables()
    elif words.take("SHOW", "ALL"):
        _ = words.take("TABLES")
        found = ShowTables(with_columns=True)
    elif words.take("SHOW", "FUNCTIONS"):
        found = ShowFunctions()
    elif words.take("SHOW", "DATABASES"):
        from qoop.query.statements.databases.attaching import ShowDatabases

        found = ShowDatabases()
    elif words.next is not None and words.next.says("SHOW", "DESCRIBE", "DESC") and len(words.left) == 1:
        return ShowTables(with_columns=True)
    return found if words.next is None else None


def _as_query(statement: LexedText) -> str:
    """DESCRIBE, SUMMARIZE and SHOW give rows, but only as the source of a query are they a query to every parser."""
    words = Words(statement)
    if not any(word.says("DESCRIBE", "DESC", "SUMMARIZE", "SHOW") for word in words.left[:1]):
        return known_text(statement)
    other = words.take("SHOW") or words.take("DESC")  # which sqlglot takes for names
    text = f"DESCRIBE {words.rest}" if other else statement.text
    return f"FROM ({text}\n)" if "--" in text else f"FROM ({text})"  # a comment may end it


def _option(words: Words) -> SetOption:
    """SET [scope] name = value, PRAGMA name = value, RESET [scope] name. Raises QueryError for what is none of them."""
    whole = words.rest
    reset = words.take("RESET")
    if words.take("SET", "TIME", "ZONE") and words.next is not None:
        local = words.next.says("LOCAL", "DEFAULT")
        return SetOption("TimeZone", None if local else _value(words))
    if reset or words.take("SET") or words.take("PRAGMA"):
        _ = words.take("GLOBAL") or words.take("SESSION") or words.take("LOCAL")
        name = words.dotted_name()
        if name is not None and reset and words.next is None:
            return SetOption(name, None)
        if name is not None and not reset and (words.take("=") or words.take("TO")):
            return SetOption(name, None if words.take("DEFAULT") else _value(words))
    raise QueryError(f"cannot read {whole!r}: write SET option = value")


def _value(words: Words) -> str:
    """A string or a name as what it stands for, all else as it is written."""
    text, first = words.rest, words.next
    if first is None or len(words.left) > 1:
        return text
    string = words.string()
    return string if string is not None else first.name or text
