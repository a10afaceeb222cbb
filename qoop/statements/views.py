"""Views: queries with a name. A query that names one is read as if it began with ``WITH name AS (…)``, which is
computed anew wherever it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qoop.statements.tokens import Token, name_of, words


@dataclass(frozen=True, slots=True)
class View:
    """columns: names in parentheses, as they were given, or empty. text: of the query."""

    name: str
    columns: str
    text: str

    @property
    def as_common_table(self) -> str:
        """What follows WITH."""
        name = '"' + self.name.replace('"', '""') + '"'
        return f"{name}{self.columns} AS NOT MATERIALIZED ({self.text}\n)"


class Views:
    """The views of a session. Not thread-safe: whoever shares it guards it."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._views

    def names(self) -> list[str]:
        """As they were given."""
        return [view.name for view in self._views.values()]

    def add(self, view: View) -> None:
        """Put a view in place of whatever view had its name."""
        self._views[view.name.lower()] = view

    def drop(self, name: str) -> None:
        """Forget a view, if there is one of that name."""
        self._views.pop(name.lower(), None)

    def expand(self, text: str) -> str:
        """The text with the views that it names, and those that these name, written out before it.

        >>> views = Views()
        >>> views.add(View("cheap", "", "FROM items WHERE price < 3"))
        >>> print(views.expand("SELECT count(*) FROM cheap"))
        WITH "cheap" AS NOT MATERIALIZED (FROM items WHERE price < 3
        )
        SELECT count(*) FROM cheap
        >>> views.expand("SELECT 1")
        'SELECT 1'
        """
        needed = self._needed(text)
        if not needed:
            return text
        first = next(words(text))
        common = ", ".join(view.as_common_table for view in needed)
        if first.text.lower() != "with":
            return f"WITH {common}\n{text}"
        second = next(token for token in words(text) if token.start > first.start)
        recursive = second.text.lower() == "recursive"
        rest = text[second.end if recursive else first.end :]
        return f"WITH {'RECURSIVE ' if recursive else ''}{common},\n{rest}"

    def _needed(self, text: str) -> list[View]:
        """In an order in which every view comes after those that it names."""
        found: dict[str, View] = {}

        def need(text: str, hidden: frozenset[str]) -> None:
            for token in words(text):
                name = (name_of(token) or "").lower()
                if name in self._views and name not in found and name not in hidden:
                    view = self._views[name]
                    need(view.text, hidden | own_common_tables(view.text) | {name})
                    found[name] = view

        need(text, own_common_tables(text))
        return list(found.values())


def own_common_tables(text: str) -> frozenset[str]:
    """The names that the WITH at the beginning of a text gives, in lower case.

    >>> sorted(own_common_tables("WITH a AS (SELECT 1 AS b), c(x) AS MATERIALIZED (FROM a) FROM c AS d"))
    ['a', 'c']
    """
    pieces = list(words(text))
    if not pieces or pieces[0].text.lower() != "with":
        return frozenset()
    return frozenset(_defined(pieces[1:]))


def _defined(pieces: list[Token]) -> Iterator[str]:
    depth, waiting = 0, True  # for a name: after WITH and after each comma that is in no parentheses
    for token in pieces:
        depth += (token.text == "(") - (token.text == ")")
        if depth or token.text == ")":
            continue
        if token.text == ",":
            waiting = True
        elif waiting and token.text.lower() != "recursive":
            name = name_of(token)
            if name is not None:
                yield name.lower()
            waiting = False
        elif token.text.lower() in ("select", "from", "values", "table"):
            return
