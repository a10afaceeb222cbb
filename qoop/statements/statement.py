"""What a text asks of a session: a query, a SET, an EXPLAIN, SHOW TABLES, CREATE, DROP or COPY. All else is refused.

DuckDB's own parser splits the text and says of what kind each statement is, so its idea of SQL is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import duckdb

from qoop.catalog.asking import parsed
from qoop.catalog.errors import ParseError, QueryError
from qoop.planner.sql.bind import without_end
from qoop.statements.reading import Copy, CreateTable, CreateView, Drop, copied, created, dropped

_SET = re.compile(
    r"\s*SET\s+(?:GLOBAL\s+|SESSION\s+|LOCAL\s+)?([\w.]+|\"[^\"]+\")\s*(?:=|\bTO\b)\s*(.+?)\s*;?\s*", re.I | re.S
)
_RESET = re.compile(r"\s*RESET\s+(?:GLOBAL\s+|SESSION\s+|LOCAL\s+)?([\w.]+|\"[^\"]+\")\s*;?\s*", re.I)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(.+)", re.I | re.S)
_OURS = re.compile(r"EXPLAIN\s+(ALTERNATIVES|HISTORY)\b(.+)", re.I | re.S)
_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:ALL\s+)?TABLES\s*;?\s*", re.I)
_DESCRIBE = re.compile(r"\s*(?:DESCRIBE|DESC|SUMMARIZE)\b", re.I)
_PRAGMA = re.compile(r"\s*PRAGMA\b", re.I)
_COMMENTS = re.compile(r"\s*(?:--[^\n]*(?:\n|$)\s*|/\*.*?\*/\s*)*", re.S)


What = Literal["plan", "analyze", "alternatives", "history"]


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, VALUES, FROM or WITH."""

    text: str


@dataclass(frozen=True, slots=True)
class SetOption:
    """SET or, with None as the value, RESET."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query: of its plan, or of all plans worth keeping; or run it, and tell what its plan turned out to
    be (analyze) or what happened (history)."""

    text: str
    what: What = "plan"


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""


Statement = Query | SetOption | Explain | ShowTables | CreateView | CreateTable | Drop | Copy


@lru_cache(maxsize=128)
def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order.

    >>> statements("SET TimeZone = 'UTC'; FROM t")
    (SetOption(name='TimeZone', value='UTC'), Query(text='FROM t'))

    EXPLAIN ALTERNATIVES and EXPLAIN HISTORY, which are ours alone, stand by themselves.

    Raises ParseError where DuckDB cannot parse it, QueryError for what a session does not do.
    """
    _check_encoding(text)
    if match := _OURS.fullmatch(text[_COMMENTS.match(text).end() :]):  # type: ignore[union-attr]
        what: What = "history" if match[1].upper() == "HISTORY" else "alternatives"
        return (Explain(query_text(match[2]), what),)  # DuckDB does not know it
    try:
        found = parsed(text)
    except duckdb.Error as error:
        raise ParseError(str(error)) from error
    if any(not item.query for item in found):  # DuckDB turns it into two statements without a text of their own
        raise QueryError("PIVOT needs its values here, as its columns are found from the text alone: ON … IN (…)")
    if not found:
        raise QueryError("there is no statement in the text")
    return tuple(_statement(item) for item in found)


def _check_encoding(text: str) -> None:
    """Bytes that are not UTF-8 come as surrogates from a command line, and DuckDB takes none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParseError(f"the text is not UTF-8: see character {error.start + 1}") from error


def query_text(text: str) -> str:
    """The text of the one query that `text` must be. Raises QueryError if it is something else."""
    found = statements(text)
    if len(found) != 1 or not isinstance(found[0], Query):
        raise QueryError("a single query is needed here: SELECT, VALUES, FROM or WITH")
    return found[0].text


def _statement(item: duckdb.Statement) -> Statement:
    text = item.query[_COMMENTS.match(item.query).end() :]  # type: ignore[union-attr]  # it matches the empty string
    if item.named_parameters:
        raise QueryError("the text has parameters ($1, $name or ?) and no values for them")
    if item.type == duckdb.StatementType.SELECT and not _PRAGMA.match(text):  # DuckDB takes some PRAGMAs for a SELECT
        return ShowTables() if _SHOW_TABLES.fullmatch(text) else Query(_as_query(text))
    if item.type == duckdb.StatementType.EXPLAIN and (match := _EXPLAIN.fullmatch(text)):
        return Explain(query_text(match[2]), "analyze" if match[1] else "plan")
    if item.type == duckdb.StatementType.SET:
        return _option(text)
    read = _OTHERS.get(item.type)
    if read is None:
        raise QueryError(f"{item.type.name} statements are not for a session: it runs SELECT, VALUES, FROM, WITH, "
                         "CREATE VIEW, CREATE TABLE … AS, DROP, COPY … TO, SET, RESET, EXPLAIN, DESCRIBE, SUMMARIZE "
                         "and SHOW TABLES; data comes in through register() or FROM 'file'")  # fmt: skip
    return read(text)


_OTHERS: dict[duckdb.StatementType, Callable[[str], CreateView | CreateTable | Drop | Copy]] = {
    duckdb.StatementType.CREATE: created,
    duckdb.StatementType.DROP: dropped,
    duckdb.StatementType.COPY: copied,
}


def _as_query(text: str) -> str:
    """DESCRIBE and SUMMARIZE give rows, but only as the source of a query are they a query to every parser."""
    if not _DESCRIBE.match(text):
        return text
    text = without_end(text)
    return f"FROM ({text}\n)" if "--" in text else f"FROM ({text})"  # a comment may end it


def _option(text: str) -> SetOption:
    if match := _RESET.fullmatch(text):
        return SetOption(match[1].strip('"'), None)
    if (match := _SET.fullmatch(text)) is None:
        raise QueryError(f"cannot read {text.strip()!r}: write SET option = value")
    value = match[2]
    if value.upper() == "DEFAULT":
        return SetOption(match[1].strip('"'), None)
    return SetOption(match[1].strip('"'), _literal(value))


def _literal(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace(value[0] * 2, value[0])
    return value
