"""Statistics of a table, collected by DuckDB in two or three queries over the requested columns.

1. A sample of about 100,000 rows, spread over the whole table by a hash of the row's place, so that it is the
   same every time; a small table is taken whole. From it come NULLs, common values, histogram, widths, and how far
   rows lie in the order of a column.
2. Minimum and maximum over all rows; for Parquet and DuckDB files they cost nothing.
3. Distinct values of those columns whose sample does not settle it: a HyperLogLog over all rows, or over evenly
   spread blocks of a table of many millions.

Then keys, which `keys.py` finds by exact counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import duckdb
import numpy
import pyarrow as pa
import pyarrow.compute as pc

from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.parquet import reach
from qoop.catalog.sources.probe import Probe, attached
from qoop.catalog.sources.sqlite import extensions_for
from qoop.catalog.statistics.keys import find_keys
from qoop.catalog.statistics.scalars import INTEGERS, TEXT, is_ordered, is_text, scalar_sql, select
from qoop.catalog.statistics.stats import BLOCKS, ColumnStats, Scalar, TableStats, to_scalar
from qoop.catalog.table import Columns, Split, Table, width_of
from qoop.catalog.value import value

# Tables up to twice this are taken whole.
SAMPLE_ROWS = 100_000
# HyperLogLog costs some 10 ns a value: above this, it sees every n-th piece of the table only.
DISTINCT_ROWS = 4_000_000

_Counts = numpy.ndarray[tuple[int], numpy.dtype[numpy.int64]]

_COMMON = 20
_BINS = 64
_BLOCKS = 16
_AGREE = 0.3


def collect(probe: Probe, table: Table, columns: Sequence[str], known: TableStats | None = None) -> TableStats:
    """Statistics of some columns of a table, added to those known.

    Raises SourceError if it cannot be read, TableChanged if it is not what was registered.
    """
    types = dict(table.columns)
    typed_columns = tuple((name, types[name]) for name in columns)
    found = dict(known.columns) if known else {}
    keys = known.keys if known else frozenset()
    if typed_columns:
        attach = table.attach()
        with attached(*attach, extensions_for(table)) if attach else probe.cursor(f"table {table.name}") as cursor:
            reach(table.source, cursor)
            new, unique = interruptibly(cursor, lambda: _collect(cursor, table, typed_columns))
            found |= new
            keys |= interruptibly(cursor, lambda: find_keys(cursor, table, found, new.keys(), unique, keys))
        table.check()
    found = {name: found[name] for name in types if name in found}
    widths = (found[name].width if name in found else width_of(type_) for name, type_ in types.items())
    return TableStats(table.rows, table.rows * sum(widths), found, keys)


def _collect(
    cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns
) -> tuple[dict[str, ColumnStats], list[str]]:
    """Statistics of the columns, and which of them had no duplicate in the sample."""
    sample = _sample(cursor, table, columns)
    sampled = [sampled_column(sample, index, name, type_, table.rows) for index, (name, type_) in enumerate(columns)]
    stats = {item.name: item.stats() for item in sampled}
    if sample.num_rows < table.rows:
        _add_extremes(cursor, table, tuple(column for column in columns if is_ordered(column[1])), stats)
        _add_distinct(cursor, table, [item.name for item in sampled if not item.settled], stats)
    return stats, [item.name for item in sampled if item.once == sample.num_rows]


def _sample(cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns) -> pa.Table:
    """For column i: its values as scalars in ``v<i>`` and, of texts, their lengths in bytes in ``w<i>``."""
    one_in = table.rows // SAMPLE_ROWS
    rows = table.source.sample(columns, one_in) if one_in > 1 else table.source.scan(columns, None)
    return read_sample(cursor, columns, rows)


def read_sample(cursor: duckdb.DuckDBPyConnection, columns: Columns, rows: str | pa.Table, rest: str = "") -> pa.Table:
    """The same of rows that a table's `scan` or `sample` gave. rest: ends the query."""
    items = []
    for index, (name, type_) in enumerate(columns):
        items.append(f"{scalar_sql(sql_name(name), type_)} AS v{index}")
        if is_text(type_):
            items.append(f"strlen(CAST({sql_name(name)} AS VARCHAR)) AS w{index}")
    return select(cursor, ", ".join(items), rows, rest).to_arrow_table()


@value
class SampledColumn:
    """A column of a sample.

    values: the distinct values in it, ascending. counts: how many rows of the sample have each.
    sampled, rows: rows of the sample and of the table. width: mean bytes of a value.
    """

    name: str
    values: pa.Array
    counts: _Counts
    sampled: int
    rows: int
    width: float
    ordered: bool
    locality: float

    @property
    def whole(self) -> bool:
        """The sample is all of the table."""
        return self.sampled >= self.rows

    @cached_property
    def total(self) -> int:
        """Rows of the sample that are not NULL."""
        return int(self.counts.sum())

    @cached_property
    def once(self) -> int:
        """Values seen in one row only."""
        return int((self.counts == 1).sum())

    @property
    def settled(self) -> bool:
        """The sample has met nearly all values there are."""
        return self.whole or self.once <= 0.1 * self.total

    def stats(self) -> ColumnStats:
        """Statistics of the column in the whole table; min and max are those of the sample."""
        nulls = (self.sampled - self.total) * (self.rows / self.sampled) if self.sampled else 0.0
        stats = ColumnStats(nulls, min(self._distinct(), self.rows - nulls), width=self.width, locality=self.locality)
        if not self.ordered or not self._finite.any():
            return stats
        frequent = self._frequent()
        return replace(
            stats,
            minimum=self._value(int(numpy.flatnonzero(self._finite)[0])),
            maximum=self._value(int(numpy.flatnonzero(self._finite)[-1])),
            common=tuple(
                (self._value(i), float(self.counts[i]) / self.sampled) for i in frequent if self._is_entire(i)
            ),
            bounds=self._bounds(frequent),
        )

    def _distinct(self) -> float:
        """Distinct values in the table; exact if the sample is whole.

        The estimator of Chao and Lin (2012) for sampling without replacement. It is near the truth for values
        about equally common and well below it for skewed ones.
        """
        if self.whole or not self.once:
            return float(len(self.values))
        twice = int((self.counts == 2).sum())
        fraction = self.sampled / self.rows
        return len(self.values) + self.once**2 / (2 * twice + fraction / (1 - fraction) * self.once)

    @cached_property
    def _finite(self) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.bool_]]:
        """Values that order: all but NaN and the infinities."""
        if pa.types.is_floating(self.values.type):
            return numpy.asarray(numpy.isfinite(numpy.from_dlpack(self.values)))
        return numpy.ones(len(self.values), dtype=bool)

    def _value(self, index: int) -> Scalar:
        value = self.values[index].as_py()
        return value[:TEXT] if isinstance(value, str) else float(value)

    def _is_entire(self, index: int) -> bool:
        value = self.values[index].as_py()
        return not isinstance(value, str) or len(value) <= TEXT

    def _frequent(self) -> list[int]:
        """Places of the common values, most common first: all of few values, else those clearly above average."""
        counts = numpy.where(self._finite, self.counts, 0)
        order = numpy.argsort(-counts, kind="stable")
        if len(self.values) <= _BINS and self.settled:
            return [int(i) for i in order if counts[i]]
        mean = self.total / len(self.values)
        noise = 0.0 if self.whole else 8 + 4 * math.sqrt(mean)  # of the largest of many Poisson distributed counts
        least = max(2.0, 1.25 * mean, mean + noise)
        return [int(i) for i in order[:_COMMON] if counts[i] > least]

    def _bounds(self, frequent: Sequence[int]) -> tuple[Scalar, ...]:
        """Values at equal steps through the rows that the common values leave."""
        counts = numpy.where(self._finite, self.counts, 0)
        counts[list(frequent)] = 0
        running = numpy.cumsum(counts)
        left = int(running[-1])
        bins = min(_BINS, int((counts > 0).sum()) - 1)
        if bins < 1:
            return ()
        places = numpy.searchsorted(running, numpy.linspace(1, left, bins + 1))
        return tuple(self._value(int(place)) for place in places)


def sampled_column(sample: pa.Table, index: int, name: str, type_: str, rows: int) -> SampledColumn:
    """One column of a sample. index: its place. rows: of the table."""
    column = sample.column(f"v{index}").drop_null().combine_chunks()
    found = column.value_counts()
    order = pc.sort_indices(found.field("values"))
    values = found.field("values").take(order)
    counts: _Counts = numpy.from_dlpack(found.field("counts").take(order)).astype(numpy.int64, copy=False)
    ordered = is_ordered(type_)
    width = width_of(type_)
    if is_text(type_):
        width = pc.mean(sample.column(f"w{index}")).as_py() or 0.0
    return SampledColumn(
        name=name,
        values=values,
        counts=counts,
        sampled=sample.num_rows,
        rows=rows,
        width=width,
        ordered=ordered,
        locality=_locality(column, values, counts) if ordered else 1.0,
    )


def _locality(column: pa.Array, values: pa.Array, counts: _Counts) -> float:
    """The locality of a column (see :class:`~qoop.catalog.statistics.stats.ColumnStats`): the mean range of blocks.

    column: in the order of the table. values, counts: its distinct values, ascending, and the rows of each.
    """
    if len(column) < BLOCKS or len(values) < 2:
        return 1.0
    ends = numpy.cumsum(counts) / len(column)
    places = numpy.from_dlpack(pc.index_in(column, value_set=values))  # to_numpy() would load pandas
    blocks = numpy.array_split(places, BLOCKS)
    before = numpy.concatenate(([0.0], ends))
    return float(numpy.mean([ends[block.max()] - before[block.min()] for block in blocks]))


def _add_extremes(
    cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns, stats: dict[str, ColumnStats]
) -> None:
    """Replace smallest and largest value by those of all rows; stretch the histogram to them."""
    exact = [name for name, type_ in columns if type_ in INTEGERS or type_ == "DATE" or type_.startswith("DECIMAL")]
    known = {name: tuple(map(to_scalar, pair)) for name, pair in table.source.extremes(exact).items()}
    for name, (low, high) in known.items():
        if low is not None and high is not None:
            stats[name] = stretched(stats[name], low, high)
    columns = tuple(column for column in columns if column[0] not in known)
    if not columns:
        return
    items = []
    for name, type_ in columns:
        value = f"CAST({sql_name(name)} AS VARCHAR)" if is_text(type_) else sql_name(name)
        items += [scalar_sql(f"{which}({value})", "VARCHAR" if is_text(type_) else type_) for which in ("min", "max")]
    [found] = select(cursor, ", ".join(items), table.source.scan(columns, None)).fetchall()
    for index, (name, _) in enumerate(columns):
        low, high = (_scalar(value) for value in found[2 * index : 2 * index + 2])
        if low is not None and high is not None:
            stats[name] = stretched(stats[name], low, high)


def _scalar(value: object) -> Scalar | None:
    if value is None or isinstance(value, str):
        return value and value[:TEXT]
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def stretched(stats: ColumnStats, low: Scalar, high: Scalar) -> ColumnStats:
    """The statistics with these extremes, which the histogram then reaches."""
    bounds = stats.bounds
    common = {value for value, _ in stats.common}
    if bounds and low not in common:
        bounds = (low, *bounds[1:])
    if bounds and high not in common:
        bounds = (*bounds[:-1], high)
    return replace(stats, minimum=low, maximum=high, bounds=bounds)


def _add_distinct(
    cursor: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str], stats: dict[str, ColumnStats]
) -> None:
    """Correct the numbers of distinct values by HyperLogLog, within known bounds.

    It is never far off, but errs by some 13 %; where the sample's estimate agrees with it, that one is better.
    """
    if not names:
        return
    types = dict(table.columns)
    columns = tuple((name, types[name]) for name in names)
    for name, distinct in zip(names, _approximate_distinct(cursor, table, columns), strict=True):
        known = stats[name]
        most = table.rows - known.nulls
        if types[name] in INTEGERS and isinstance(known.minimum, float) and isinstance(known.maximum, float):
            most = min(most, known.maximum - known.minimum + 1)
        best = known.distinct if abs(known.distinct - distinct) <= _AGREE * distinct else distinct
        stats[name] = replace(known, distinct=max(1.0, min(best, most)))


def _approximate_distinct(cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns) -> list[float]:
    if table.rows <= DISTINCT_ROWS or table.max_parts() < 4 * _BLOCKS:
        return _hyperloglog(cursor, table, columns, None)
    # The total of a quarter of the blocks shows how the number of distinct values grows with rows: not at
    # all (every block holds all values), in step (no two blocks share one), or with a power between.
    part = _spread(table, DISTINCT_ROWS)
    quarter = Split(part.ranges[: len(part.ranges) // 4])
    few, many = (_hyperloglog(cursor, table, columns, split) for split in (quarter, part))
    return [
        _extrapolate(*pair, part.rows / quarter.rows, table.rows / part.rows) for pair in zip(few, many, strict=True)
    ]


def _extrapolate(few: float, many: float, growth: float, factor: float) -> float:
    exponent = math.log(many / few) / math.log(growth) if few > 0 and many > 0 else 0.0
    return many * math.pow(factor, min(1.0, max(0.0, exponent)))


def _spread(table: Table, rows: int) -> Split:
    """Some blocks of neighbouring pieces, evenly spread over the table, that hold about `rows` rows."""
    pieces = table.source.pieces()
    size = max(1, len(pieces) * rows // (table.rows * _BLOCKS))
    starts = [block * len(pieces) // _BLOCKS for block in range(_BLOCKS)]
    order = starts[0::4] + starts[1::4] + starts[2::4] + starts[3::4]  # so that each quarter is spread, too
    return Split(tuple(piece for start in order for piece in pieces[start : start + size]))


def _hyperloglog(cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns, split: Split | None) -> list[float]:
    items = ", ".join(f"approx_count_distinct({sql_name(name)})" for name, _ in columns)
    [found] = select(cursor, items, table.source.scan(columns, split)).fetchall()
    return [float(value) for value in found]
