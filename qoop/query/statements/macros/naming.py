"""Texts whose columns have other names: those of the text that the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoop.catalog.errors import BindError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items, quoted

_ENDS = (
    "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT",
    "USING", "SAMPLE", ";",
)  # fmt: skip


def named_as(text: str, expanded: str, describe: Callable[[str], Sequence[tuple[str, str]]]) -> str:
    """The expanded text with the column names of the text that the user wrote. describe: gives names and types of
    columns. Raises BindError if the types differ."""
    expected, found = describe(text), describe(expanded)
    if [type_ for _, type_ in expected] != [type_ for _, type_ in found]:
        raise BindError(f"a call cannot be written out here: call it in another way, or write its body: {text}")
    return with_names(expanded, [name for name, _ in found], [name for name, _ in expected])


def with_names(text: str, current: Sequence[str], names: Sequence[str]) -> str:
    """The query with columns of these names. current: those it has.

    >>> with_names("SELECT (a * 2), b FROM t ORDER BY 1", ["(a * 2)", "b"], ["twice(a)", "b"])
    'SELECT (a * 2) AS "twice(a)", b FROM t ORDER BY 1'
    """
    if list(current) == list(names):
        return text
    words = lexed(text).words
    items = _columns(words)
    if len(items) != len(names):  # a star stands for several; DuckDB keeps the order of the inner query
        return f"FROM ({text}\n) AS renamed({', '.join(map(quoted, names))})"
    done, pieces = 0, []
    for (_, after), name, new in zip(items, current, names, strict=True):
        if name != new:
            pieces += [text[done : words[after - 1].end], f" AS {quoted(new)}"]
            done = words[after - 1].end
    return "".join([*pieces, text[done:]])


def _columns(words: Sequence[Lexeme]) -> list[tuple[int, int]]:
    """The places of the columns of the outer SELECT; none if there is no such list."""
    depth = 0
    for place, word in enumerate(words):
        if depth == 0 and word.says("SELECT"):
            return list(list_items(words, _past_distinct(words, place + 1), _ENDS))
        depth += (word.text in "([{") - (word.text in ")]}")
    return []


def _past_distinct(words: Sequence[Lexeme], place: int) -> int:
    if words[place].says("ALL"):
        return place + 1
    if not words[place].says("DISTINCT"):
        return place
    return behind_closing(words, place + 2) if words[place + 1].says("ON") else place + 1
