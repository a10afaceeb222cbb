"""Statistics of a table from what footers say of it, without reading any rows: cheap, and good enough to begin with.

Rows, NULLs and extremes are as exact as the footers. How many distinct values a column has follows from what the
dictionaries of some row groups hold, how far the row groups' ranges (or, where that leaves a doubt, their values)
overlap, and how many values of the type lie in the range. Common values and histograms are not known: values
are taken to be spread evenly from the smallest to the largest.

Keys are guessed: a column that should have as many values as the table has rows. No plan's answer depends on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from qoop.catalog.statistics.stats import BLOCKS, Chunk, ColumnStats, Scalar, TableStats
from qoop.catalog.table import Table, width_of

_MOST_COMMON = 64

_SAME = 0.5
"""Row groups whose ranges cover that much of the table's range are taken as drawn from all of it."""


class FooterStats:
    """Statistics from the footers of the tables of a catalog, each column read once. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, TableStats] = {}

    def get(self, table: Table, columns: Sequence[str]) -> TableStats | None:
        """Statistics with those of the columns of which footers say anything; None if they say nothing at all.

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
    """Statistics of those of the columns of which footers say anything, all of them `guessed`."""
    types = dict(table.columns)
    wanted = [name for name in types if name in columns]
    said = _said(table, wanted)
    found = {name: _column(types[name], table.rows, chunks) for name, chunks in said.items() if chunks}
    keys = (name for name, stats in found.items() if _is_key(stats, said[name], types[name], table.rows))
    return _sized(table, found, frozenset(frozenset((name,)) for name in keys), frozenset(found))


def _said(table: Table, columns: Sequence[str]) -> Mapping[str, Sequence[Chunk]]:
    footers = table.source.footers()
    if not footers:
        return {}
    from qoop.catalog.statistics.parquet_chunks import chunks_of, folder_chunks  # loads Arrow and NumPy

    types = dict(table.columns)
    pieces = table.source.pieces()
    folders = {name: said for name in columns if (said := folder_chunks(pieces, name, types[name]))}
    return {**chunks_of(footers, [name for name in columns if name not in folders]), **folders}


def with_collected(table: Table, guessed: TableStats | None, collected: TableStats | None) -> TableStats:
    """Both: what was collected of a column wins, and so do the keys that were counted."""
    if guessed is None or collected is None:
        return guessed or collected or TableStats(table.rows, 0.0)
    still = guessed.columns.keys() - collected.columns.keys()
    keys = collected.keys | {key for key in guessed.keys if key <= still}
    return _sized(table, {**guessed.columns, **collected.columns}, keys, guessed.guessed & still)


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
    looked = sum(chunk.rows for chunk in chunks)
    nulls = sum(chunk.nulls or 0 for chunk in chunks) * rows / looked
    low, high = _extremes(chunks)
    values = max(0.0, rows - nulls)
    most = min(values, _in_range(type_, low, high))
    distinct = min(most, _distinct(chunks, values, most)) if values else 0.0
    width, locality = _width(type_, chunks), _locality(chunks, low, high)
    return ColumnStats(nulls, distinct, low, high, _common(chunks, looked), width=width, locality=locality)


def _common(chunks: Sequence[Chunk], looked: int) -> tuple[tuple[Scalar, float], ...]:
    """The most common values, where each chunk has one value only, as with folders such as ``year=2001``."""
    rows: Counter[Scalar] = Counter()
    for chunk in chunks:
        if chunk.minimum is not None and chunk.minimum == chunk.maximum:
            rows[chunk.minimum] += chunk.rows - (chunk.nulls or 0)
        elif chunk.nulls != chunk.rows:
            return ()
    return tuple((value, count / looked) for value, count in rows.most_common(_MOST_COMMON))


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
    asked = [(chunk, chunk.rows - (chunk.nulls or 0)) for chunk in chunks if chunk.distinct is not None]
    asked = [(chunk, count) for chunk, count in asked if count]
    if not asked:
        return most
    if len(chunks) == 1 and asked[0][1] >= values:
        return asked[0][0].distinct or 0.0
    shared = _shared(chunks, values)
    if shared is not None:
        return shared
    each = [domain_of(chunk.distinct or 1.0, count) for chunk, count in asked]
    domain = sum(each) / len(each)
    cover = _cover([chunk for chunk, _ in asked], *_extremes(chunks))
    if cover < _SAME:
        domain /= max(cover, 1.0 / len(chunks))
    return min(most, drawn(domain, values))


def domain_of(distinct: float, rows: float) -> float:
    """Of how many values some rows are drawn if they hold this number of distinct ones; the inverse of :func:`drawn`.

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
    """Distinct values of a column two chunks of which were looked into.

    How many values both hold tells of how many they are samples (Lincoln and Petersen), and that of how many draws:
    the lines of one order have one customer.
    """
    looked = [chunk for chunk in chunks if chunk.numbers and chunk.distinct]
    if len(looked) != 2:
        return None
    first, second = (chunk.numbers or frozenset() for chunk in looked)
    distinct = [chunk.distinct or 1.0 for chunk in looked]
    compared = (len(first) + len(second)) / sum(distinct)
    domain = distinct[0] * distinct[1] * compared / (len(first & second) + 1.0)
    part = sum(distinct) / 2 / domain
    draws = -domain * math.log(1.0 - part) if part < 1.0 else math.inf
    rows = sum(chunk.rows - (chunk.nulls or 0) for chunk in looked) / 2
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


def _width(type_: str, chunks: Sequence[Chunk]) -> float:
    widths = [chunk.width for chunk in chunks if chunk.width is not None]
    return sum(widths) / len(widths) if widths else width_of(type_)


def _is_key(stats: ColumnStats, chunks: Sequence[Chunk], type_: str, rows: float) -> bool:
    """True if all values should be different: integers that fill their range, or no chunk looked into has a duplicate.

    Numbers that are no integers are measures, which may well look so.
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
