"""A query that grows, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.programs.approximate.core import Around
    from qoop.programs.approximate.universe import Universe

Op = Literal[
    "count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop",
    "distinct", "quantile_cont", "quantile_disc",
]  # fmt: skip
MergedBy = Literal["sum", "min", "max", "values"]
Kind = Literal["total", "ratio", "variance", "deviation", "distinct", "quantile", "extreme", "rows", "derived"]

UNBOUNDED: tuple[Kind, ...] = ("extreme", "derived")
"""Figures without an interval: the target does not include them."""


@value
class Measure:
    """An aggregate that is computed for each piece and group, and merges: as a sum, a minimum or a maximum.

    values: it does not merge, so its input values are kept by piece.
    """

    sql: str
    merged_by: MergedBy = "sum"

    def merged(self, column: str) -> str:
        """SQL of the aggregate that merges its values in a column; of lists of values, the distinct ones."""
        by = self.merged_by
        return f"list_distinct(flatten(list({column})))" if by == "values" else f"{by}({column})"


@value
class Term:
    """An aggregate of the query. y, x: places among the measures. An average has both, others y alone.

    A variance or deviation has y, the squares, x, the number of rows, and z, their values. level: of a quantile.
    """

    op: Op
    y: int
    x: int | None = None
    z: int | None = None
    level: float = 0.5

    @property
    def is_of_values(self) -> bool:
        """True if it does not merge."""
        return self.op in ("distinct", "quantile_cont", "quantile_disc")


@value
class Figure:
    """An estimated column of the answer. place: among the columns. scale: its factor.

    total: `scale` times measure y. ratio: `scale` times y / x. extreme: the minimum or maximum so far.
    variance, deviation: of rows, from squares y, number x and values z; of_sample: over one less than their number.
    distinct, quantile: of the values y; level: of the quantile; continuous: it may lie between the values of two rows.
    rows: `scale` times the number of rows of the table, which is known from footers.
    derived: another expression over estimates.
    """

    place: int
    kind: Kind
    y: int
    x: int | None = None
    scale: float = 1.0
    z: int | None = None
    of_sample: bool = False
    level: float = 0.5
    continuous: bool = False


@value
class Growth:
    """A query that grows.

    fact: the table that is read by pieces. keys: SQL of the groups. terms: the aggregates of the query.
    items, tail: the columns of the answer, and the clauses after FROM, as SQL over columns ``k0`` … for keys, ``e0`` …
    for estimates of terms and ``u0`` … for their values over the rows read. limited: only some rows are shown.
    columns: names and types of the answer. round_sql: the query of a round, over the pieces of the table. rest_sql:
    the query of the last round, which does not separate pieces.
    around: the query around the sums, over a table of them; None: the sums are the query. own_columns: of the sums.
    ranked: the place of the first figure of the ORDER BY, and whether the greatest is first.
    universes: the ways to read a join of large tables by buckets of its key.
    chosen: estimates decide which groups are shown.
    """

    fact: Table
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    terms: tuple[Term, ...]
    figures: tuple[Figure, ...]
    items: tuple[str, ...]
    tail: str
    limited: bool
    columns: tuple[tuple[str, str], ...]
    round_sql: str
    rest_sql: str
    own_columns: tuple[tuple[str, str], ...] = ()
    around: Around | None = None
    ranked: tuple[int, bool] | None = None
    universes: tuple[Universe, ...] = ()
    chosen: bool = False

    @cached_property
    def shown(self) -> Mapping[int, tuple[int, str]]:
        """By the place of each estimated column of the answer: the figure that it shows, and the alias of its table in
        the query around the sums."""
        places = {one.place for one in self.figures}
        if self.around is None:
            return {place: (place, "") for place in sorted(places)}
        named = {name.lower(): place for place, (name, _) in enumerate(self.own_columns)}
        columns = dict(self.around.shown)
        if -1 in columns:
            return {place: (place, columns[-1]) for place in sorted(places)}
        found = {place: one.rsplit(".", 1) for place, one in columns.items()}
        return {place: (named[name], alias) for place, (alias, name) in found.items()}

    @property
    def is_of_values(self) -> bool:
        """True if some aggregate does not merge, so that the last round is the query itself."""
        return any(one.merged_by == "values" for one in self.measures)

    @property
    def ends_as_query(self) -> bool:
        """True if the last round is the query itself: some aggregate does not merge, or its sums would cancel, as those
        of the squares of values far from 0 do."""
        return self.is_of_values or any(term.z is not None for term in self.terms)

    @property
    def bounded(self) -> tuple[Figure, ...]:
        """The figures whose intervals are shown."""
        shown = {place for place, _ in self.shown.values()}
        return tuple(one for one in self.figures if one.place in shown)


def triples(figures: Iterable[Figure]) -> tuple[tuple[int, int, int], ...]:
    """The measures y, z and x of each figure that has three."""
    return tuple(sorted({(one.y, one.z, one.x) for one in figures if one.z is not None and one.x is not None}))


def pairs(figures: Iterable[Figure]) -> set[tuple[int, int]]:
    """The pairs of measures whose products the figures need."""
    found = set()
    for one in figures:
        if one.x is not None:
            found.add((one.y, one.x))
        if one.x is not None and one.z is not None:
            found |= {(one.y, one.z), (one.z, one.x)}
    return found


def totals(figures: Iterable[Figure], ratios: bool = False) -> set[int]:
    """The measures whose products with the rows of pieces the figures need. ratios: both totals of a ratio are added to
    exact ones, so they need these, too."""
    found = set()
    for one in figures:
        if one.kind == "total" or (one.kind == "ratio" and ratios):
            found |= {one.y} if one.x is None else {one.y, one.x}
    return found


@value
class NotGrowing:
    """A query that runs as usual, for a reason."""

    reason: str
