"""Computes the rows of a view: by the parts of its delta that are missing, or from all rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.errors import QueryError
from qoop.catalog.sources.created import in_use
from qoop.catalog.table import FilesSource
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES
from qoop.programs.views.delta import Delta, delta_of
from qoop.programs.views.edition import Base, Edition
from qoop.programs.views.merging import Merging
from qoop.programs.views.parts import Part, Parts
from qoop.programs.views.planning import ViewPlanning, ViewSession
from qoop.programs.views.small_leaves import SmallLeaves
from qoop.programs.views.tree import Leaf, Tree, digest_of
from qoop.query.result import Result

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound


@value
class Way:
    """A way to compute the rows of a view. delta: None: from all rows, because of `why_full`. merging: of its parts."""

    delta: Delta | None
    merging: Merging | None
    why_full: str


class Refreshing:
    """Computes the editions of one view. Not thread-safe.

    text: its query. full: it is always computed from all rows."""

    def __init__(self, text: str, full: bool, session: ViewSession, parts: Parts) -> None:
        self._text, self._full = text, full
        self._session = session
        self._parts = parts
        self._planning: ViewPlanning | None = None
        self._way: Way | None = None
        self._shape: object = None
        self._bound: Bound | None = None
        self._small: SmallLeaves | None = None
        self._rows_read = 0

    def close(self) -> None:
        """Release plans and tables; they are made again when they are needed."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None
        if self._small is not None:
            self._small.close()
            self._small = None
        if self._way is not None and self._way.merging is not None:
            self._way.merging.close()
        self._way = None

    def way(self) -> Way:
        """The way to compute the rows. Raises QueryError, CatalogError."""
        return self._way_over(*self._bind())

    def refreshed(self, before: Edition | None, whole: bool = False) -> tuple[Result, Edition] | None:
        """The rows of the view and their record; None: `before` is of the present tables. whole: from all rows.

        Raises QueryError, CatalogError, and the errors of jobs.
        """
        at, begun = time.time(), time.monotonic()
        bound, tables = self._bind()
        bases = {name: Base.of(table) for name, table in tables.items()}
        if before is not None and not whole and before.bases == bases:
            return None
        with in_use(tables.values()):
            way, self._rows_read = self._way_over(bound, tables), 0
            if whole:
                self._parts.keep_only(())
            if way.delta is None:
                tree, rows = Tree(), self._whole(bound, tables)
            else:
                tree = before.tree if before is not None and not whole else Tree()
                tree, rows = self._by_parts(way, bound, tables, tree)
        seconds = time.monotonic() - begun
        why_full = way.why_full or ("" if before is None or way.delta is None else _remade(way.delta, before, bases))
        return rows, Edition(at, bases, tree, why_full, len(rows), self._rows_read, seconds)

    def _bind(self) -> tuple[Bound, Mapping[str, Table]]:
        self._bound, tables = self._session.bind(self._text, self._bound)
        return self._bound, tables

    def _way_over(self, bound: Bound, tables: Mapping[str, Table]) -> Way:
        """The way, worked out again where tables or settings have changed their form."""
        shape = bound.settings, sorted((name, table.columns) for name, table in tables.items())
        if self._way is None or self._shape != shape:
            self.close()
            self._planning = ViewPlanning(bound.settings, self._session.planning.apart)
            self._planning.take(tables)
            self._way, self._shape = self._found_way(bound, tables), shape
        assert self._planning is not None
        self._planning.take(tables)
        return self._way

    def _found_way(self, bound: Bound, tables: Mapping[str, Table]) -> Way:
        if self._full:
            return Way(None, None, "refresh_mode is full")
        assert self._planning is not None
        planning = self._planning
        delta = delta_of(bound, tables, planning.columns)
        if isinstance(delta, str):
            return Way(None, None, delta)
        try:
            planning.take_leaf(tables[delta.fact], ())
            merging = Merging(delta.growth, planning.columns(delta.leaf_sql), bound.settings)
            exact = dict(delta.growth.around.exact) if delta.growth.around is not None else {}
            found = merging.columns({name: planning.columns(text) for name, text in exact.items()})
        except (QueryError, duckdb.Error) as error:
            return Way(None, None, f"its sums cannot be taken apart: {str(error).splitlines()[0]}")
        if found != bound.columns:
            return Way(None, None, "the query around its sums has other columns over merged sums")
        return Way(delta, merging, "")

    def _whole(self, bound: Bound, tables: Mapping[str, Table]) -> Result:
        self._rows_read = sum(table.rows for table in tables.values())
        return self._run(bound.text)

    def _by_parts(self, way: Way, bound: Bound, tables: Mapping[str, Table], before: Tree) -> tuple[Tree, Result]:
        assert way.delta is not None and way.merging is not None
        delta, fact = way.delta, tables[way.delta.fact]
        assert isinstance(fact.source, FilesSource)
        tree = before.following(Base.of(fact).files, fact.source.file_rows().__getitem__)
        others = [f"{name} {tables[name].version}" for name in delta.others]

        def digest(leaf: Leaf) -> str:
            return digest_of(delta.leaf_sql, repr(bound.settings), *others, *(identity for _, identity in leaf))

        heads, children = tree.nodes(digest)
        leaves = {digest(leaf): leaf for leaf in tree.leaves if leaf}
        parts = [self._part(head, children, leaves, way, tables) for head in heads]
        exact = self._exact(delta, bound, tables)
        found = way.merging.final(
            [part.rows for part in parts], {name: (one.rows, one.columns) for name, one in exact.items()}
        )
        self._parts.keep_only({*children, *leaves, *self._exact_digests(delta, bound, tables).values()})
        return tree, Result(found, bound.columns, bound.settings)

    def _part(
        self,
        digest: str,
        children: Mapping[str, tuple[str, ...]],
        leaves: Mapping[str, Leaf],
        way: Way,
        tables: Mapping[str, Table],
    ) -> Part:
        """The part of a leaf or a node, made of the parts below it if it is not there."""
        known = self._parts.get(digest)
        if known is not None:
            return known
        assert way.delta is not None and way.merging is not None and self._planning is not None
        if digest in children:
            below = [self._part(one, children, leaves, way, tables) for one in children[digest]]
            rows = way.merging.merged([part.rows for part in below])
            return self._parts.put(digest, Part(rows, below[0].columns))
        return self._parts.put(digest, self._leaf(way, leaves[digest], tables))

    def _leaf(self, way: Way, leaf: Leaf, tables: Mapping[str, Table]) -> Part:
        """The partial groups of these files."""
        assert way.delta is not None and way.merging is not None and self._planning is not None
        pieces = self._planning.take_leaf(tables[way.delta.fact], leaf)
        self._rows_read += pieces.rows
        if self._small is None:
            self._small = SmallLeaves(self._planning.settings)
        others = {name: tables[name] for name in way.delta.others}
        rows = self._small.rows(way.delta.leaf_sql, {PIECES: pieces, **others})
        return Part(rows, way.merging.types) if rows is not None else _part_of(self._run(way.delta.leaf_sql))

    def _exact_digests(self, delta: Delta, bound: Bound, tables: Mapping[str, Table]) -> Mapping[str, str]:
        versions = [f"{name} {tables[name].version}" for name in delta.exact]
        around = delta.growth.around
        exact = around.exact if around is not None else ()
        return {name: digest_of(text, repr(bound.settings), *versions) for name, text in exact}

    def _exact(self, delta: Delta, bound: Bound, tables: Mapping[str, Table]) -> Mapping[str, Part]:
        """The tables that the query around the sums reads."""
        found = {}
        texts = dict(delta.growth.around.exact) if delta.growth.around is not None else {}
        for name, digest in self._exact_digests(delta, bound, tables).items():
            found[name] = self._parts.get(digest) or self._parts.put(digest, _part_of(self._run(texts[name])))
        return found

    def _run(self, text: str) -> Result:
        assert self._planning is not None
        return self._session.start(self._planning.plan(text)).result()


def _remade(delta: Delta, before: Edition, bases: Mapping[str, Base]) -> str:
    """The reason why all partial groups of an edition were computed again; empty: they were not."""
    changed = [name for name in delta.others if before.bases.get(name) != bases[name]]
    return f"{', '.join(changed)} changed, so all partial groups were computed again" if changed else ""


def _part_of(result: Result) -> Part:
    return Part(result.lossless(), tuple(zip(result.unique_columns, result.types, strict=True)))
