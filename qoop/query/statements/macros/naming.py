"""Texts whose columns have other names: those of the text that the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
    >>> with_names("SELECT *, (a * 2) FROM t, t AS u", ["a", "a", "(a * 2)"], ["a", "a", "twice(a)"])
    'SELECT *, (a * 2) AS "twice(a)" FROM t, t AS u'
    """
    if list(current) == list(names):
        return text
    words = lexed(text).words
    places = dict(_places(words, len(names)))
    differ = [place for place, (name, new) in enumerate(zip(current, names, strict=True)) if name != new]
    if not places.keys() >= set(differ):  # a star stands for several; DuckDB keeps the order of the inner query
        return f"FROM ({text}\n) AS renamed({', '.join(map(quoted, names))})"
    done, pieces = 0, []
    for place in differ:
        end = words[places[place] - 1].end
        pieces += [text[done:end], f" AS {quoted(names[place])}"]
        done = end
    return "".join([*pieces, text[done:]])


def _places(words: Sequence[Lexeme], count: int) -> Iterator[tuple[int, int]]:
    """The places of columns among all `count`, each with that of the word behind its item, as far as items before the
    first star and behind the last one tell."""
    items = _columns(words)
    wide = [place for place, (first, after) in enumerate(items) if _is_wide(words[first:after])]
    if not wide and len(items) != count:
        return
    before, behind = (wide[0], wide[-1]) if wide else (len(items), len(items))
    for place, (_, after) in enumerate(items):
        if place < before:
            yield place, after
        elif place > behind:
            yield place + count - len(items), after


def _is_wide(item: Sequence[Lexeme]) -> bool:
    """True of an item that may stand for several columns."""
    return any(
        word.says("COLUMNS", "UNNEST", "UNPACK") or (word.text == "*" and (place == 0 or item[place - 1].text == "."))
        for place, word in enumerate(item)
    )


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
