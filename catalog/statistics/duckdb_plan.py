"""DuckDB's own plan of a query over tables in files, as its EXPLAIN shows it."""

from __future__ import annotations

from collections.abc import Mapping

from qoop.catalog.errors import SourceError
from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.sources.pieces import Pieces
from qoop.catalog.sources.probe import Probe
from qoop.catalog.table import Table


def explained(probe: Probe, text: str, tables: Mapping[str, Table]) -> str | None:
    """The answer of ``EXPLAIN (FORMAT JSON)`` for a query. tables: those that it names, by name.

    None unless all of them are local Parquet files, whose footers are quick to read, or if DuckDB does not explain it:
    it may call functions of Python, which are not known here.
    """
    scans = {name: _scan(table) for name, table in tables.items()}
    if None in scans.values():
        return None
    try:
        with probe.cursor("the tables of a query") as cursor:
            for name, scan in scans.items():
                cursor.execute(f"CREATE TEMP VIEW {sql_name(name)} AS {scan}")
            rows = interruptibly(cursor, lambda: cursor.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall())
    except SourceError:
        return None
    return str(rows[0][1])


def _scan(table: Table) -> str | None:
    source = table.source.base if isinstance(table.source, Pieces) else table.source
    if not isinstance(source, ParquetSource) or source.is_remote:
        return None
    scan = table.scan([name for name, _ in table.columns])
    return scan if isinstance(scan, str) else None
