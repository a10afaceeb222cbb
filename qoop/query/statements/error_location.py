"""The place in a query that caused the error of a task, found by the error's message.

Tasks run texts of the planner, which the author of the query does not see.
"""

from __future__ import annotations

import re

from qoop.catalog.lexer import Lexeme, lexed
from qoop.planner.sql.bind import underline

_CONVERSION = "Conversion Error"
_COLUMN = re.compile(r"when casting from source column (\w+)")
_NEAR = 6
"""Words from a CAST to the name of what it casts: ``CAST(t.name``, ``CAST((a.b.name``."""


def underlined(message: str, text: str) -> str:
    """The line of the query with the place underlined; empty where it is not certain.

    >>> failed = "Conversion Error: Could not convert string 'x' to INT32 when casting from source column name"
    >>> print(underlined(failed, "SELECT name, CAST(a.name AS INT) FROM a"))
    line 1: SELECT name, CAST(a.name AS INT) FROM a
                         ^^^^
    >>> underlined("Out of Range Error: Overflow in addition", "SELECT a + 1 FROM t")
    ''
    """
    if _CONVERSION not in message:
        return ""
    words, named = lexed(text).words, _COLUMN.search(message)
    column = None if named is None else named[1].lower()
    for places in (_casts(words, column), [] if column is None else _names(words, column)):
        if len(places) == 1:
            return underline(text, places[0].start)
    return ""


def _casts(words: tuple[Lexeme, ...], column: str | None) -> list[Lexeme]:
    """The casts of a column, or, if it is not known, of anything: the word CAST, and the name before ``::``."""
    found = []
    for place, word in enumerate(words):
        after, before = words[place + 1 : place + _NEAR], words[max(0, place - 1) : place]
        is_cast = word.says("CAST") and after[:1] and after[0].text == "("
        if is_cast and (column is None or any(_is(one, column) for one in after)):
            found.append(word)
        if word.text == "::" and before and (column is None or _is(before[0], column)):
            found.append(before[0])
    return found


def _names(words: tuple[Lexeme, ...], column: str) -> list[Lexeme]:
    return [word for word in words if _is(word, column)]


def _is(word: Lexeme, column: str) -> bool:
    return word.name is not None and word.name.lower() == column
