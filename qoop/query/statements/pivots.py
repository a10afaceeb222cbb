"""PIVOT without values: a separate query finds the values in the data first. DuckDB does this by an ENUM type.

``PIVOT t ON s`` is run as ``PIVOT t ON s IN ('a', 'b')``, with the values of `s` in the data. They become part of
the text, so plans, kept outputs and EXPLAIN are about the query as it is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import duckdb

from qoop.catalog.duckdb_introspection import is_several, parsed
from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import Lexeme, lexed, list_items
from qoop.query.statements.parameters import literal

_MAY_PIVOT = re.compile(r"\bpivot", re.I)
_ENDS = ("USING", "GROUP", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", ";")
_QUERIES = ("SELECT", "FROM", "WITH", "VALUES")

Values = Callable[[str], Sequence[str]]
"""Runs a query and returns the values of its only column."""


@dataclass(frozen=True)
class _Open:
    """An item of ON without values, from `start` to `end`: they are the rows of `query`, and come after `expr`."""

    query: str
    expr: str
    start: int
    end: int


@dataclass
class _Level:
    """The text between two parentheses, up to the current place. defined: the WITH items that are complete.

    begun: where the next one begins, None after the last.
    """

    begun: int | None = None
    defined: list[str] = field(default_factory=list)


def is_open(text: str) -> bool:
    """True for a text with a PIVOT whose values have to be queried: DuckDB makes several statements of it. False for a
    text that DuckDB cannot parse; binding reports that."""
    if _MAY_PIVOT.search(text) is None:
        return False
    try:
        return any(map(is_several, parsed(text)))
    except duckdb.ParserException:
        return False


def with_values(text: str, values: Values) -> str:
    """The text with the values of every PIVOT. Raises QueryError if their place in the text is ambiguous."""
    while is_open(text):
        item = next(_open(text), None)
        if item is None:
            raise QueryError("PIVOT needs its values here: ON … IN (…), or put the joins after it in parentheses")
        found = values(item.query)
        if not found:
            raise QueryError("PIVOT finds no values, and so has no columns to make: ON … IN (…) names some")
        listed = ", ".join(literal(value) for value in found)
        text = f"{text[: item.start]}{item.expr} IN ({listed}){text[item.end :]}"
    return text


def _open(text: str) -> Iterator[_Open]:
    words = lexed(text).words
    for place, word in enumerate(words):
        if not word.says("PIVOT", "PIVOT_WIDER"):
            continue
        items = list(list_items(words, place + 1, ("ON", "JOIN", *_ENDS)))
        end = items[-1][1]
        if end == len(words) or not words[end].says("ON"):
            continue
        source = text[words[place + 1].start : words[end - 1].end]
        for first, after in list_items(words, end + 1, _ENDS):
            found = _values_of(text, words[first:after], source, _around(text, words[:place]))
            if found is not None:
                yield found


def _values_of(text: str, item: Sequence[Lexeme], source: str, around: list[list[str]]) -> _Open | None:
    """None for an item that has values."""
    begin, end, depth = item[0].start, item[-1].end, 0
    for place, word in enumerate(item):
        if depth == 0 and word.says("IN"):
            if len(item) < place + 3 or not item[place + 2].says(*_QUERIES):
                return None
            query = _within(around, text[item[place + 2].start : item[-1].start])
            return _Open(query, text[begin : word.start], begin, end)
        depth += (word.text in "([{") - (word.text in ")]}")
    expr = text[begin:end]
    query = f"SELECT DISTINCT CAST(({expr}\n) AS VARCHAR) FROM {source}\nWHERE ({expr}\n) IS NOT NULL"
    apart = expr if len(item) == 1 else f"({expr}\n)"  # to DuckDB 2 IN binds more tightly than operators before it
    return _Open(f"FROM ({_within(around, query)}) AS q(v) ORDER BY v", apart, begin, end)


def _within(around: list[list[str]], query: str) -> str:
    """The query with the WITH items that hold where it stands."""
    for defined in reversed(around):
        query = f"WITH {', '.join(defined)} FROM ({query}\n)" if defined else query
    return query


def _around(text: str, words: Sequence[Lexeme]) -> list[list[str]]:
    """The complete WITH items of all levels, from the outermost on, that the end of the words lies in."""
    levels = [_level(words, 0)]
    opened: list[int] = []
    for place, word in enumerate(words):
        if word.text == "(":
            opened.append(place)
            levels.append(_level(words, place + 1))
        elif word.text == ")":
            levels.pop()
            before, level = words[opened.pop() - 1], levels[-1]
            if level.begun is not None and before.says("AS", "MATERIALIZED"):
                level.defined.append(text[level.begun : word.end])
                more = place + 2 < len(words) and words[place + 1].text == ","
                level.begun = words[place + 2].start if more else None
    return [level.defined for level in levels]


def _level(words: Sequence[Lexeme], first: int) -> _Level:
    if first + 1 < len(words) and words[first].says("WITH") and not words[first + 1].says("RECURSIVE"):
        return _Level(words[first + 1].start)
    return _Level()
