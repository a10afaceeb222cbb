"""Statistics of a table from its footers, without reading any rows: cheap, and good enough to begin with.

Rows, NULLs and extremes are as exact as the footers. The number of distinct values follows from three facts: the
dictionaries of some row groups, the overlap of the row groups' ranges (or of their values, where the ranges leave a
doubt), and the number of values of the type within the range. Common values and histograms are unknown: values are
assumed to be spread evenly from the smallest to the largest.

Keys are guessed: a column that should have as many values as the table has rows. No plan's answer depends on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from qoop.catalog.statistics.stats import BLOCKS, Chunk, ColumnStats, Scalar, TableStats
from qoop.catalog.table import Table, width_of

_MOST_COMMON = 64

_SAME = 0.5
"""Row groups whose ranges cover this part of the table's range count as random samples of it."""

_ALL = 0.95
"""A chunk with this part of a column's distinct values counts as one that has them all."""

_IN_RUNS = 0.8
"""The references of a chunk to its dictionary are in runs if they take this part of the bytes of single ones."""


class FooterStats:
    """Statistics from the footers of the tables of a catalog, each column read once. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, TableStats] = {}

    def get(self, table: Table, columns: Sequence[str]) -> TableStats | None:
        """Statistics with those columns that footers describe; None if they describe none.

        Raises SourceError, or TableChanged if the files are not what was registered.
        """
        known = self._known.get(table.version)
        missing = [name for name in columns if known is None or name not in known.guessed]
        if missing:
            table.check()
            known = together(table, known, from_footers(table, missing))
            self._known[table.version] = known
        return known if known is not None and known.columns else None


def from_footers(table: Table, columns: Collection[str]) -> TableStats:
    """Statistics of those columns that footers describe, all of them `guessed`."""
    types = dict(table.columns)
    chunks_of_column = _chunks_by_column(table, [name for name in types if name in columns])
    found = {name: _column(types[name], table.rows, chunks) for name, chunks in chunks_of_column.items() if chunks}
    keys = (name for name, stats in found.items() if _is_key(stats, chunks_of_column[name], types[name], table.rows))
    return _sized(table, found, frozenset(frozenset((name,)) for name in keys), frozenset(found))


def _chunks_by_column(table: Table, columns: Sequence[str]) -> Mapping[str, Sequence[Chunk]]:
    footers = table.source.footers()
    if not footers:
        return {}
    from qoop.catalog.statistics.parquet_chunks import chunks_of, folder_chunks  # loads Arrow and NumPy

    types = dict(table.columns)
    pieces = table.source.pieces()
    folders = {name: found for name in columns if (found := folder_chunks(pieces, name, types[name]))}
    return {**chunks_of(footers, [name for name in columns if name not in folders]), **folders}


def with_collected(table: Table, guessed: TableStats | None, collected: TableStats | None) -> TableStats:
    """Both combined: collected columns and counted keys replace guessed ones, but for runs, which a sample of single
    rows does not show."""
    if guessed is None or collected is None:
        return guessed or collected or TableStats(table.rows, 0.0)
    columns = dict(guessed.columns)
    for name, column in collected.columns.items():
        columns[name] = replace(column, run=columns[name].run) if name in columns else column
    still = guessed.columns.keys() - collected.columns.keys()
    keys = collected.keys | {key for key in guessed.keys if key <= still}
    return _sized(table, columns, keys, guessed.guessed & still)


def together(table: Table, known: TableStats | None, new: TableStats) -> TableStats:
    """The statistics of other columns of a table added to those known."""
    columns, keys, guessed = (known.columns, known.keys, known.guessed) if known is not None else ({}, (), ())
    return _sized(table, {**columns, **new.columns}, new.keys.union(keys), new.guessed.union(guessed))


def _sized(
    table: Table, columns: Mapping[str, ColumnStats], keys: frozenset[frozenset[str]], guessed: frozenset[str]
) -> TableStats:
    widths = (columns[name].width if name in columns else width_of(type_) for name, type_ in table.columns)
    return TableStats(table.rows, table.rows * sum(widths), columns, keys, guessed)


def _column(type_: str, rows: int, chunks: Sequence[Chunk]) -> ColumnStats:
    sampled = sum(chunk.rows for chunk in chunks)
    nulls = sum(chunk.nulls or 0 for chunk in chunks) * rows / sampled
    low, high = _extremes(chunks)
    values = max(0.0, rows - nulls)
    most = min(values, _in_range(type_, low, high))
    distinct = min(most, _distinct(chunks, values, most)) if values else 0.0
    width, locality, run = _width(type_, chunks), _locality(chunks, low, high), _run(chunks, distinct)
    return ColumnStats(nulls, distinct, low, high, _common(chunks, sampled), width=width, locality=locality, run=run)


def _common(chunks: Sequence[Chunk], sampled: int) -> tuple[tuple[Scalar, float], ...]:
    """The most common values, where each chunk has one value only, as with folders such as ``year=2001``."""
    rows: Counter[Scalar] = Counter()
    for chunk in chunks:
        if chunk.minimum is not None and chunk.minimum == chunk.maximum:
            rows[chunk.minimum] += chunk.rows - (chunk.nulls or 0)
        elif chunk.nulls != chunk.rows:
            return ()
    return tuple((value, count / sampled) for value, count in rows.most_common(_MOST_COMMON))


def _extremes(chunks: Sequence[Chunk]) -> tuple[Scalar | None, Scalar | None]:
    """Smallest and largest value, where all chunks with values say."""
    having = [chunk for chunk in chunks if chunk.nulls is None or chunk.nulls < chunk.rows]
    lows = [chunk.minimum for chunk in having if chunk.minimum is not None]
    highs = [chunk.maximum for chunk in having if chunk.maximum is not None]
    whole = having and len(lows) == len(highs) == len(having)
    if not whole or len({type(value) for value in (*lows, *highs)}) != 1:
        return None, None
    return min(lows), max(highs)


def _in_range(type_: str, low: Scalar | None, high: Scalar | None) -> float:
    """The number of values of the type from the smallest to the largest."""
    if type_ == "BOOLEAN":
        return 2.0
    if not isinstance(low, float) or not isinstance(high, float):
        return 1.0 if low is not None and low == high else math.inf
    if type_ in _STEPS or type_ == "DATE":
        return high - low + 1.0
    if type_.startswith("DECIMAL("):
        scale = int(type_[8:-1].split(",")[1])
        return (high - low) * 10.0**scale + 1.0
    return math.inf


_STEPS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def _distinct(chunks: Sequence[Chunk], values: float, most: float) -> float:
    """Distinct values of a column that has `values` values that are not NULL, at most `most`."""
    if _common(chunks, 1):
        return float(len({chunk.minimum for chunk in chunks if chunk.minimum is not None}))
    counted = [(chunk, chunk.rows - (chunk.nulls or 0)) for chunk in chunks if chunk.distinct is not None]
    counted = [(chunk, count) for chunk, count in counted if count]
    if not counted:
        return most
    if len(chunks) == 1 and counted[0][1] >= values:
        return counted[0][0].distinct or 0.0
    shared = _shared(chunks, values)
    if shared is not None:
        return shared
    each = [domain_of(chunk.distinct or 1.0, count) for chunk, count in counted]
    domain = sum(each) / len(each)
    cover = _cover([chunk for chunk, _ in counted], *_extremes(chunks))
    if cover < _SAME:
        domain /= max(cover, 1.0 / len(chunks))
    return min(most, drawn(domain, values))


def domain_of(distinct: float, rows: float) -> float:
    """The number of values that rows with this many distinct ones are drawn from; the inverse of :func:`drawn`.

    >>> round(domain_of(drawn(1000.0, 500.0), 500.0))
    1000
    """
    if distinct >= rows:
        return math.inf
    low, high = distinct, rows * rows
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if drawn(middle, rows) < distinct else (low, middle)
    return low


def drawn(domain: float, rows: float) -> float:
    """Distinct values among rows drawn at random from that number of values (Cardenas)."""
    return rows if domain == math.inf else -domain * math.expm1(-rows / domain) if domain > 0 else 0.0


def _shared(chunks: Sequence[Chunk], values: float) -> float | None:
    """Distinct values of a column, two chunks of which have known values.

    The number of common values gives the size of the population (Lincoln and Petersen). The population gives the number
    of independent draws: the lines of one order have one customer.
    """
    compared = [chunk for chunk in chunks if chunk.numbers and chunk.distinct]
    if len(compared) != 2:
        return None
    first, second = (chunk.numbers or frozenset() for chunk in compared)
    distinct = [chunk.distinct or 1.0 for chunk in compared]
    fraction = (len(first) + len(second)) / sum(distinct)
    domain = distinct[0] * distinct[1] * fraction / (len(first & second) + 1.0)
    part = sum(distinct) / 2 / domain
    draws = -domain * math.log(1.0 - part) if part < 1.0 else math.inf
    rows = sum(chunk.rows - (chunk.nulls or 0) for chunk in compared) / 2
    return drawn(max(domain, *distinct), values * min(1.0, draws / rows))


def _cover(chunks: Sequence[Chunk], low: Scalar | None, high: Scalar | None) -> float:
    """The mean part of the whole range that the ranges of chunks take."""
    if not isinstance(low, float) or not isinstance(high, float) or high <= low:
        return 1.0
    ranges = [(chunk.minimum, chunk.maximum) for chunk in chunks]
    parts = [(b - a) / (high - low) for a, b in ranges if isinstance(a, float) and isinstance(b, float)]
    return sum(parts) / len(parts) if parts else 1.0


def _locality(chunks: Sequence[Chunk], low: Scalar | None, high: Scalar | None) -> float:
    """As in :class:`~qoop.catalog.statistics.stats.ColumnStats`, for values that are spread evenly over their range."""
    return max(1.0 / BLOCKS, min(1.0, _cover(chunks, low, high) + 1.0 / len(chunks))) if len(chunks) > 1 else 1.0


def _run(chunks: Sequence[Chunk], distinct: float) -> float:
    """The mean number of neighbouring rows with one value, of a column with that many distinct values.

    Where a chunk is encoded in runs, its distinct values say how many draws they come from. A chunk that has all values
    says only how many draws there are at least. One that has few values in any order has no runs: it may be of a time
    at which there were no others.
    """
    counted = [(chunk, chunk.rows - (chunk.nulls or 0)) for chunk in chunks if chunk.distinct]
    if len(chunks) < 2 or not counted:
        return 1.0
    draws = 0.0
    for chunk, rows in counted:
        part = (chunk.distinct or 0.0) / max(1.0, distinct)
        if chunk.encoded is None or chunk.encoded >= _IN_RUNS:
            draws += rows
        elif part < _ALL:
            draws += min(rows, -distinct * math.log1p(-part))
        else:
            draws += min(rows, distinct * math.log(max(2.0, distinct)))  # coupons until all are collected
    return max(1.0, sum(rows for _, rows in counted) / max(1.0, draws))


def _width(type_: str, chunks: Sequence[Chunk]) -> float:
    widths = [chunk.width for chunk in chunks if chunk.width is not None]
    return sum(widths) / len(widths) if widths else width_of(type_)


def _is_key(stats: ColumnStats, chunks: Sequence[Chunk], type_: str, rows: float) -> bool:
    """True if all values should be different: integers that fill their range, or no known chunk has a duplicate.

    Numbers that are no integers are measures, which may be distinct by chance.
    """
    if rows <= 0 or stats.nulls or stats.distinct < rows:
        return False
    unique = [chunk.distinct == chunk.rows for chunk in chunks if chunk.distinct is not None]
    return (
        all(unique)
        and (bool(unique) or _in_range(type_, stats.minimum, stats.maximum) == rows)
        and not _measures(type_)
    )


def _measures(type_: str) -> bool:
    return type_.startswith(("DECIMAL", "FLOAT", "DOUBLE", "TIMESTAMP", "BLOB")) or "[" in type_ or "(" in type_
