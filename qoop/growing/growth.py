"""A query that grows, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Table

Op = Literal["count", "sum", "avg", "min", "max"]
MergedBy = Literal["sum", "min", "max"]
Kind = Literal["total", "ratio", "extreme"]


@value
class Measure:
    """An aggregate that is computed for each piece and group, and merges: by adding up, or as the least or greatest."""

    sql: str
    merged_by: MergedBy = "sum"


@value
class Term:
    """An aggregate of the query. y, x: places among the measures. An average has both, the others y alone."""

    op: Op
    y: int
    x: int | None = None


@value
class Figure:
    """A column of the answer that is estimated. place: among the columns. scale: what it is multiplied by.

    total: `scale` times measure y. ratio: `scale` times y / x. extreme: the least or greatest, so far.
    """

    place: int
    kind: Kind
    y: int
    x: int | None = None
    scale: float = 1.0


@value
class Growth:
    """A query that grows.

    fact: the table that is read by pieces. keys: SQL of the groups. terms: the aggregates of the query.
    items, tail: the columns of the answer, and what stands behind FROM, as SQL over columns ``k0`` … for keys, ``e0`` …
    for estimates of terms and ``u0`` … for what they are of the rows read. limited: only some rows are shown.
    columns: names and types of the answer. round_sql: the query of a round, over the pieces of the table. rest_sql:
    the query of the last one, which need not tell pieces apart.
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


@value
class NotGrowing:
    """A query that runs as usual, and why."""

    reason: str
