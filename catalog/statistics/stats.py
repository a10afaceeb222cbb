"""Statistics of a table: the planner's knowledge of unread data.

Values of every type are represented by *scalars* in the order of their type: numbers, dates (days since
1970-01-01) and timestamps (seconds since then) as ``float``, strings as ``str``.  That keeps the
selectivity arithmetic of the planner free of type cases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from qoop.catalog.value import value

Scalar = float | str

BLOCKS = 16
"""The blocks of neighbouring rows by which the sortedness of a table is measured."""

PILOT_ROWS = 131_072
"""The most rows that a pilot reads of a row group: it reads smaller tables whole."""

_EPOCH = date(1970, 1, 1)


def to_scalar(value: object) -> Scalar | None:
    """Return the ordering scalar of a Python value, or None where it has none (NULL, lists, blobs).

    >>> to_scalar(date(1970, 1, 3)), to_scalar(Decimal("1.5")), to_scalar("x")
    (2.0, 1.5, 'x')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        naive = value.replace(tzinfo=None)
        return (naive - datetime(1970, 1, 1)).total_seconds()
    if isinstance(value, date):
        return float((value - _EPOCH).days)
    if isinstance(value, time):
        return value.hour * 3600.0 + value.minute * 60.0 + value.second + value.microsecond / 1e6
    if isinstance(value, timedelta):
        return value.total_seconds()
    return None


@value
class ColumnStats:
    """Statistics of one column.

    nulls: rows that are NULL.
    distinct: number of distinct non-NULL values (may be an estimate).
    minimum, maximum: smallest and largest non-NULL value, None if unknown.
    common: the most common values with the fraction of all rows that hold each, most common first.
    bounds: edges of an equi-depth histogram over the non-NULL values that are not in `common`;
        between two neighbouring edges lie equally many rows. Empty if unknown.
    width: mean bytes of a value.
    locality: of all rows how many, as a fraction, have a value in the range that a :data:`BLOCKS`-th of the rows covers
        which lie together: 1 where values lie anywhere, 1 / BLOCKS where the table is sorted by them.
    run: mean number of neighbouring rows with one value: the lines of an order have one customer. Runs, not rows, count
        as independent draws of values. 1 where it is unknown.
    """

    nulls: float
    distinct: float
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    common: tuple[tuple[Scalar, float], ...] = ()
    bounds: tuple[Scalar, ...] = ()
    width: float = 8.0
    locality: float = 1.0
    run: float = 1.0


@value
class TableStats:
    """Statistics of one table.

    rows: number of rows. bytes: size of all columns, uncompressed, in bytes.
    columns: by column name. keys: sets of columns whose values are unique together.
    guessed: columns of which only footers were looked at (:mod:`~qoop.catalog.statistics.footers`).
    """

    rows: float
    bytes: float
    columns: Mapping[str, ColumnStats] = field(default_factory=dict)
    keys: frozenset[frozenset[str]] = frozenset()
    guessed: frozenset[str] = frozenset()

    def of(self, names: Collection[str]) -> TableStats:
        """Those of some columns alone."""
        columns = {name: found for name, found in self.columns.items() if name in names}
        keys = frozenset(key for key in self.keys if key <= columns.keys())
        return TableStats(self.rows, self.bytes, columns, keys, self.guessed & columns.keys())


@value
class Chunk:
    """A column in one piece (a row group of a Parquet file).

    rows: of the piece. nulls: of them NULL; None: not said.
    minimum, maximum: smallest and largest value, None if not said; of a long text perhaps its beginning.
    distinct: distinct values, by a dictionary; None: unknown. width: mean bytes of a value; None: unknown.
    numbers: some of the distinct values, chosen by what they are, where two chunks were looked into.
    encoded: bytes of the references to the dictionary, as a part of what they take without runs of equal values.
    """

    rows: int
    nulls: int | None = None
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    distinct: float | None = None
    width: float | None = None
    numbers: frozenset[int] | None = None
    encoded: float | None = None
