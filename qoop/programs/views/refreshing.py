"""Computes the rows of a view: by the parts of its delta that are missing, or from all rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from qoop.catalog.sources.created import in_use
from qoop.programs.views.edition import Base, Edition
from qoop.programs.views.incremental import Incremental, Turn, incremental
from qoop.programs.views.planning import ViewPlanning, ViewSession
from qoop.query.result import Result

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.parts import Parts
    from qoop.programs.views.tree import Tree
    from qoop.query.statements.materialized import ViewOptions


_FADING = 0.9
"""The weight of a change of a table, to that of the next change of any."""


class Refreshing:
    """Computes the editions of one view. Not thread-safe.

    text: its query. options: those of the view."""

    def __init__(self, text: str, options: ViewOptions, session: ViewSession, parts: Parts) -> None:
        self._text, self._full, self._max_error = text, options.refresh_mode == "full", options.max_error
        self._session = session
        self._parts = parts
        self._planning: ViewPlanning | None = None
        self._way: Incremental | str | None = None
        self._shape: object = None
        self._bound: Bound | None = None

    def close(self) -> None:
        """Release plans and tables; they are made again when they are needed."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None
        if isinstance(self._way, Incremental):
            self._way.close()
        self._way = None

    def way(self) -> Incremental | str:
        """The computation by parts; or the reason why the rows are computed from all rows. Raises QueryError,
        CatalogError."""
        return self._way_over(*self._bind())

    def refreshed(
        self, before: Edition | None, whole: bool = False, again: bool = False, one_in: int = 1
    ) -> tuple[Result, Edition] | None:
        """The rows of the view and their record; None: `before` is of the present tables. whole: from all rows. again:
        also if the tables have not changed. one_in: that part of the row groups of new files is enough, if the errors
        are those that the view permits.

        Raises QueryError, CatalogError, and the errors of jobs.
        """
        at, begun = time.time(), time.monotonic()
        bound, tables = self._bind()
        bases = {name: Base.of(table) for name, table in tables.items()}
        made_exact = before is not None and before.one_in > 1 and one_in == 1
        if before is not None and not (whole or again or made_exact) and before.bases == bases:
            return None
        is_new = self._way is None
        way = self._way_over(bound, tables)
        if whole:
            self._parts.keep_only(())
        assert self._planning is not None
        trees: Mapping[str, Tree] = {}
        changes: Mapping[str, float] = {}
        error = 0.0
        with in_use(tables.values()):
            if isinstance(way, str):
                read, why_full, rows = sum(table.rows for table in tables.values()), way, self._planning.run(bound.text)
            else:
                changes = _changes(way, before, bases)
                for one in way.all():
                    one.below = one.preferred(changes)
                known = before.trees if before is not None and not whole else {}
                turn = Turn(self._planning, self._parts, tables, known)
                found = way.estimated(turn, one_in, self._max_error) if one_in > 1 else None
                computed, error = (way.rows(turn), 0.0) if found is None else found
                one_in = 1 if found is None else one_in
                rows = Result(computed, bound.columns, bound.settings)
                self._parts.keep_only(turn.kept)
                if is_new or whole:
                    self._planning.rest()
                read, trees, why_full = turn.rows_read, turn.trees, ""
                if before is not None:
                    why_full = _remade(way, before, bases)
                    read += sum(
                        tables[name].rows for name in _changed(before, bases, (w.joined_again for w in way.all()))
                    )
        one_in = one_in if trees else 1
        seconds = time.monotonic() - begun
        return rows, Edition(at, bases, trees, why_full, len(rows), read, seconds, one_in, error, changes)

    def _bind(self) -> tuple[Bound, Mapping[str, Table]]:
        self._bound, tables = self._session.bind(self._text, self._bound)
        return self._bound, tables

    def _way_over(self, bound: Bound, tables: Mapping[str, Table]) -> Incremental | str:
        """The way, worked out again where tables or settings have changed their form."""
        shape = bound.settings, sorted((name, table.columns) for name, table in tables.items())
        if self._way is None or self._shape != shape:
            self.close()
            self._planning = ViewPlanning(bound.settings, self._session)
            self._planning.take(tables)
            cut = not self._max_error  # a sample is of joined rows
            self._way = "refresh_mode is full" if self._full else incremental(bound, tables, self._planning, cut)
            self._shape = shape
        assert self._planning is not None
        self._planning.take(tables)
        return self._way


def _remade(way: Incremental, before: Edition, bases: Mapping[str, Base]) -> str:
    """The reason why all partial groups of an edition were computed again; empty: they were not."""
    names = (
        one.read_by_leaves if one.preferred(before.changes) is one.below else one.delta.others for one in way.all()
    )
    changed = _changed(before, bases, names)
    return f"{', '.join(changed)} changed, so all partial groups were computed again" if changed else ""


def _changes(way: Incremental, before: Edition | None, bases: Mapping[str, Base]) -> Mapping[str, float]:
    """Weights of the tables that leaves read besides their files: each change counts, later ones more."""
    changed = [] if before is None else _changed(before, bases, (one.delta.others for one in way.all()))
    if before is None or not changed:
        return {} if before is None else before.changes
    faded = {name: _FADING * weight for name, weight in before.changes.items()}
    return {**faded, **{name: faded.get(name, 0.0) + 1 for name in changed}}


def _changed(before: Edition, bases: Mapping[str, Base], names: Iterable[Iterable[str]]) -> list[str]:
    """Those of the tables that have changed since an edition."""
    return sorted(name for name in set(chain.from_iterable(names)) if before.bases.get(name) != bases[name])
