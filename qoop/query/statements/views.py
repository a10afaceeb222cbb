"""Views: named queries. A query that reads one is planned as if it began with ``WITH name AS (…)``; the view is
computed at each place that reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import lexed, quoted
from qoop.catalog.value import value
from qoop.planner.sql.sources import base_tables, tables_read
from qoop.query.statements.plain_names import hidden, renamed
from qoop.query.statements.words import Words

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.query.statements.reading import CreateView


@value
class View:
    """columns: names in parentheses, as written, or empty. text: of the query, with the schemas of names that are
    written without one. body: the same with one name for each table. within: the attached database, and the schema in
    it, if the view stands for a table of one; known: the columns of that table.
    """

    name: str
    columns: str
    text: str
    body: str
    within: str = ""
    known: Columns = ()

    @property
    def as_common_table(self) -> str:
        """The queries after WITH."""
        return f"{quoted(self.name)}{self.columns} AS NOT MATERIALIZED ({self.body}\n)"


class Views:
    """The views of a session. Not thread-safe: callers that share it use a lock."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._views

    def within(self, name: str) -> str:
        """The attached database, and the schema, of the view of a name; empty: there is none."""
        view = self._views.get(name.lower())
        return "" if view is None else view.within

    def names(self) -> list[str]:
        """The names, in the case of their definitions."""
        return [view.name for view in self.all()]

    def all(self) -> list[View]:
        """All of them."""
        return list(self._views.values())

    def add(self, view: View) -> None:
        """Add a view, in place of one of that name."""
        self._views[view.name.lower()] = view

    def drop(self, name: str) -> None:
        """Forget a view, if there is one of that name."""
        self._views.pop(name.lower(), None)

    def expand(self, text: str) -> str:
        """The text with a WITH before it, of the views that it reads and of those that these read.

        >>> views = Views()
        >>> views.add(View("cheap", "", *["FROM items WHERE price < 3"] * 2))
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
        text, needed = _with_distinct_names(text, needed)
        words = Words(text)
        common = ", ".join(view.as_common_table for view in needed)
        if not words.take("WITH"):
            return f"WITH {common}\n{text}"
        recursive = "RECURSIVE " if words.take("RECURSIVE") else ""
        return f"WITH {recursive}{common},\n{words.rest}"

    def _needed(self, text: str) -> list[View]:
        """The views that a text reads, each after those that it reads itself."""
        found: dict[str, View] = {}

        def need(text: str, hidden: frozenset[str]) -> None:
            lower = text.lower()
            if not any(name.replace('"', '""') in lower for name in self._views):
                return
            for name in map(str.lower, tables_read(text)):
                if name in self._views and name not in found and name not in hidden:
                    view = self._views[name]
                    need(view.body, hidden | {name})
                    found[name] = view

        need(text, frozenset())
        return list(found.values())


def of_file(text: str, attached: bool) -> CreateView:
    """The view that a statement of a DuckDB file makes. attached: the file's tables are in an attached database.
    Raises QueryError where the view would read tables of the session's schemas in their place."""
    from qoop.query.statements.reading import created  # which few modules need that read views

    view = cast("CreateView", created(lexed(text).without_end))
    if attached and any(node.get("schema_name") or node.get("catalog_name") for node in base_tables(view.text)):
        raise QueryError("a view of an attached file names its tables without a schema")
    return view


def _with_distinct_names(text: str, views: list[View]) -> tuple[str, list[View]]:
    """The text and its views. A view gets another name if a WITH defines its name, or if the text writes it with a
    schema, which names of a WITH do not have."""
    hiding = hidden(text).union(*(hidden(view.body) for view in views))
    names = {view.name.lower(): f"{view.name} as a view" for view in views if view.name.lower() in hiding}
    if not names:
        return text, views
    return renamed(text, names), [
        replace(view, name=names.get(view.name.lower(), view.name), body=renamed(view.body, names)) for view in views
    ]
