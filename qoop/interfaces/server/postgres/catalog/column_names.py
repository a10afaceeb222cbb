"""The names that PostgreSQL gives the columns of a query."""

from __future__ import annotations

from collections.abc import Sequence

from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items, quoted, without_end
from qoop.interfaces.server.postgres.catalog.data import base_types
from qoop.interfaces.server.postgres.catalog.operands import follow, last_as, type_end

KEYWORD_CALLS = {
    "current_schema": "current_schema", "current_catalog": "current_database", "current_user": "pg_current_user",
    "session_user": "pg_current_user", "current_role": "pg_current_user", "user": "pg_current_user",
    "system_user": "pg_current_user",
}  # fmt: skip
"""Functions that are called without parentheses, and the macros that answer."""
SYSTEM_COLUMNS = {
    "xmin": "CAST(1 AS UINTEGER)", "xmax": "CAST(0 AS UINTEGER)", "cmin": "CAST(0 AS UINTEGER)",
    "cmax": "CAST(0 AS UINTEGER)", "ctid": "'(0,1)'", "tableoid": "CAST(NULL AS UINTEGER)",
}  # fmt: skip


def column_names(text: str) -> list[str | None] | None:
    """The names that PostgreSQL has for the columns of a query, None for each that DuckDB has the same for.

    None: the columns are not those of a list, but of a star or of another statement.

    >>> column_names("SELECT count(*), a, 1 + 1, b::text FROM t"), column_names("SELECT * FROM t")
    (['count', None, '?column?', 'b'], None)
    """
    words = lexed(without_end(text)).words
    items = _outermost(words)
    if items is None or any(_has_star(words[start:after]) for start, after in items):
        return None
    return [_column_name(words[start:after]) for start, after in items]


def _has_star(item: Sequence[Lexeme]) -> bool:
    """True for an item of many columns."""
    return any(
        (word.text == "*" and (place == 0 or item[place - 1].text == ".")) or word.says("COLUMNS", "UNPACK")
        for place, word in enumerate(item)
    )


def _outermost(words: Sequence[Lexeme]) -> list[tuple[int, int]] | None:
    """The items of the outermost SELECT; None where there is none."""
    first = next((place for place, word in enumerate(words) if word.says("SELECT") and _depth(words, place) == 0), None)
    if first is None:
        return None
    first += 1
    if first < len(words) and words[first].says("DISTINCT", "ALL"):
        first += 1
        if follow(words, first, "on", "("):
            first = behind_closing(words, first + 1)
    items = list(list_items(words, first, _BEHIND_LIST))
    if items[-1][1] < len(words) and words[items[-1][1] - 1].says("WITHIN"):
        items = list(list_items(words, first, tuple(word for word in _BEHIND_LIST if word != "GROUP")))
    return items


def named_columns(words: Sequence[Lexeme]) -> Sequence[Lexeme]:
    """The words with names for the columns of the outermost SELECT that have none, as PostgreSQL names them."""
    items = _outermost(words)
    if items is None:
        return words
    found = [*words[: items[0][0]]]
    for start, after in items:
        found += words[start:after]
        name = _column_name(words[start:after])
        if name is not None:
            found += [Lexeme("word", "AS", 0), Lexeme("quoted", quoted(name), 0)]
        if follow(words, after, ","):
            found.append(words[after])
    return [*found, *words[items[-1][1] :]]


def _depth(words: Sequence[Lexeme], place: int) -> int:
    return sum((word.text == "(") - (word.text == ")") for word in words[:place])


def _column_name(item: Sequence[Lexeme]) -> str | None:
    """The name that PostgreSQL has for a column; None where DuckDB has the same, or the text says it."""
    if not item or item[-1].text == "*" or any(word.says("AS") and not _depth(item, n) for n, word in enumerate(item)):
        return None
    end = len(item)
    while end > 1 and (cast := _last_cast(item, end)) is not None:
        end = cast
    inner = item[:end]
    last = inner[-1]
    if last.says("END") and inner[0].says("CASE"):
        return "case"
    if last.name is not None and all((word.text == ".") == bool(n % 2) for n, word in enumerate(inner)):
        if end < len(item) or last.text.lower() in (*KEYWORD_CALLS, *SYSTEM_COLUMNS):
            return last.name if last.kind == "quoted" else last.text.lower()
        return None
    if last.name is not None and end == len(item) and end > 1 and not inner[-2].says(*_BEFORE_OPERAND, "OVER"):
        before = inner[-2]
        if before.text in (")", "]") or before.name is not None or before.kind in ("string", "number"):
            return None  # an alias without AS
    name = (
        _call_name(inner[: _aggregate_end(inner)]) if last.text == ")" or follow(inner, end - 2, "over") else "?column?"
    )
    if name == "?column?" and (last_cast := _last_cast(item, len(item))) is not None:
        type_ = " ".join(word.text for word in item[last_cast + 1 :] if word.text not in ("pg_catalog", "."))
        return _TYPE_NAMES.get(type_.lower(), type_.strip('"').lower())
    return name


_BEHIND_LIST = (
    "FROM", "WHERE", "UNION", "ORDER", "LIMIT", "GROUP", "INTO", "EXCEPT", "INTERSECT", "OFFSET", "HAVING", "QUALIFY",
    "WINDOW", "USING", "FETCH",
)  # fmt: skip
_BEHIND_AGGREGATE = (("filter",), ("over",), ("within", "group"))
_TYPE_NAMES = {one.sql_name: one.name for one in base_types()} | {
    "int": "int4", "decimal": "numeric", "float": "float8", "string": "text",
}  # fmt: skip
"""The names that columns have by the type that a value is cast to."""
_BEFORE_OPERAND = ("AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "THEN", "ELSE", "BETWEEN", "FROM", "WHEN")


def _last_cast(item: Sequence[Lexeme], end: int) -> int | None:
    """The place of the cast that ends there."""
    for place in range(end - 2, -1, -1):
        if item[place].text == "::":
            return place if type_end(item, place + 1) == end else None
    return None


def _aggregate_end(inner: Sequence[Lexeme]) -> int:
    """The place behind a call at the begin, if only FILTER, OVER and WITHIN GROUP follow; else behind all words."""
    at = next((n for n, word in enumerate(inner) if word.text == "("), len(inner))
    if at == 0 or at == len(inner):
        return len(inner)
    end = at = behind_closing(inner, at)
    while at < len(inner):
        at += next((len(more) for more in _BEHIND_AGGREGATE if follow(inner, at, *more)), len(inner))
        at = behind_closing(inner, at) if follow(inner, at, "(") else at + 1
    return end if at == len(inner) else len(inner)


def _call_name(inner: Sequence[Lexeme]) -> str:
    """The name of a column that is a call as a whole, or a subquery."""
    if inner[0].text == "(" and behind_closing(inner, 0) == len(inner):
        if inner[1].says("SELECT"):
            items = list(list_items(inner, 2, ("FROM", "WHERE", "UNION", "ORDER", "LIMIT")))
            first = inner[items[0][0] : items[0][1]]
            aliased = len(first) > 1 and first[-1].name is not None and first[-2].says("AS")
            return (first[-1].name or "") if aliased else _column_name(first) or (first[-1].name or "?column?")
        return _column_name(inner[1:-1]) or (inner[-2].name or "?column?")
    at = 0
    while follow(inner, at + 1, ".") and inner[at].name is not None:
        at += 2
    if inner[at].name is not None and follow(inner, at + 1, "(") and behind_closing(inner, at + 1) == len(inner):
        if inner[at].says("CAST"):
            place = last_as(inner, at + 2, len(inner) - 1)
            return _column_name(inner[at + 2 : place]) or inner[(place or 1) - 1].name or "?column?"
        return (inner[at].name or "").lower()
    return "?column?"
