"""Common values and histograms of columns from a pilot: one to two per cent of a table's row groups.

Rows, NULLs, extremes and distinct values stay what the footers say; a pilot adds how the values are spread. A column
whose row groups hold different ranges is left out, for a few of them would not speak for the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.parquet import reach
from qoop.catalog.sources.probe import Probe
from qoop.catalog.statistics.collect import read_sample, sampled_column, stretched
from qoop.catalog.statistics.stats import PILOT_ROWS, ColumnStats, TableStats
from qoop.catalog.table import Columns, Split, Table, spread

PART = 0.015
"""Part of the row groups that a pilot reads; of a table of few row groups it reads two."""

FEW_ROWS = 4_096
"""Rows of a row group that are enough to see which values are frequent."""

LOCAL = 0.5
"""A column is left out whose row groups each cover less than that of its range."""

_TABLE_SECONDS = 0.004
_VALUE_SECONDS = 4e-7


def pilot_rows(table: Table, most: int = PILOT_ROWS) -> int:
    """Rows that a pilot of the table reads. most: of a row group."""
    return sum(min(most, piece.rows) for piece in _pieces(table).ranges)


def pilot_seconds(table: Table, columns: int, most: int = PILOT_ROWS) -> float:
    """About how long a pilot of a number of columns takes. most: rows of a row group."""
    return _TABLE_SECONDS + columns * pilot_rows(table, most) * _VALUE_SECONDS


def able(known: TableStats, columns: Collection[str]) -> list[str]:
    """The columns with facts from footers only, for which a few row groups can represent all."""
    guessed = {name: known.columns[name] for name in sorted(columns) if name in known.guessed}
    return [
        name for name, stats in guessed.items() if stats.locality >= LOCAL and not stats.common and stats.distinct > 1
    ]


def pilot(
    probe: Probe, table: Table, guessed: TableStats, most: int, columns: Sequence[str], known: TableStats | None
) -> TableStats:
    """Statistics of columns from a pilot, added to those known. guessed: from footers. most: rows of a row group.

    Raises SourceError if the table cannot be read, TableChanged if it is not what was registered.
    """
    types = dict(table.columns)
    typed_columns = tuple((name, types[name]) for name in columns)
    with probe.cursor(f"table {table.name}") as cursor:
        reach(table.source, cursor)
        sample = interruptibly(cursor, lambda: _read(cursor, table, typed_columns, most))
    table.check()
    found = {}
    for index, (name, type_) in enumerate(typed_columns):
        sampled = sampled_column(sample, index, name, type_, table.rows).stats()
        whole = sample.num_rows >= table.rows
        if whole or _covers(sampled, guessed.columns[name]):
            found[name] = _joined(guessed.columns[name], sampled, whole)
    before = known or TableStats(table.rows, guessed.bytes)
    keys = before.keys | {key for key in guessed.keys if key <= found.keys()}
    return replace(before, columns={**before.columns, **found}, keys=keys)


def _read(cursor: duckdb.DuckDBPyConnection, table: Table, columns: Columns, most: int) -> pa.Table:
    parts = [table.source.scan(columns, Split((piece,))) for piece in _pieces(table).ranges]
    return pa.concat_tables([read_sample(cursor, columns, part, f"LIMIT {most}") for part in parts])


def _pieces(table: Table) -> Split:
    pieces = table.source.pieces()
    return Split(tuple(spread(pieces, max(2, math.ceil(PART * len(pieces))))))


def _covers(sampled: ColumnStats, guessed: ColumnStats) -> bool:
    """True unless the rows that were read hold a small part of the range of a sorted column."""
    ends = (sampled.minimum, sampled.maximum, guessed.minimum, guessed.maximum)
    low, high, least, most = (end if isinstance(end, float) else 0.0 for end in ends)
    return high - low >= LOCAL * (most - least)


def _joined(guessed: ColumnStats, sampled: ColumnStats, whole: bool) -> ColumnStats:
    """The footers' figures with the spread of values that was seen."""
    if whole:
        return sampled
    known = replace(guessed, common=sampled.common, bounds=sampled.bounds, width=sampled.width)
    if guessed.minimum is None or guessed.maximum is None:
        return known
    return stretched(known, guessed.minimum, guessed.maximum)
