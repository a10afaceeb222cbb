"""Combinations of values of several columns of a small table, counted exactly: columns of one table mostly depend on
each other, which their own numbers of values do not show."""

from __future__ import annotations

from collections.abc import Sequence

from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.parquet import reach
from qoop.catalog.sources.probe import Probe, attached
from qoop.catalog.sources.sqlite import extensions_for
from qoop.catalog.statistics.keys import distinct_rows
from qoop.catalog.table import Table
from qoop.catalog.value import value


@value
class Range:
    """The rows with a number in a column from `low` to `high`, both included."""

    column: str
    low: float
    high: float


def count_combinations(probe: Probe, table: Table, names: Sequence[str], within: Range | None) -> int:
    """The number of different combinations without NULL of some columns, in all rows or in a range.

    Raises SourceError if the table cannot be read, TableChanged if it is not what was registered.
    """
    types = dict(table.columns)
    where = "true" if within is None else f"{sql_name(within.column)} BETWEEN {within.low} AND {within.high}"
    read = sorted({*names, *(() if within is None else (within.column,))})
    attach = table.attach()
    with attached(*attach, extensions_for(table)) if attach else probe.cursor(f"table {table.name}") as cursor:
        reach(table.source, cursor)
        rows = table.source.scan(tuple((name, types[name]) for name in read), None)
        found = interruptibly(cursor, lambda: distinct_rows(cursor, rows, names, where))
    table.check()
    return found
