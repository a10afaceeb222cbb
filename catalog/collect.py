"""Statistics of a table, collected by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from qoop.catalog.files import sql_name
from qoop.catalog.probe import Probe
from qoop.catalog.stats import ColumnStats, TableStats, to_scalar
from qoop.catalog.table import Table, width_of


def collect(probe: Probe, table: Table, columns: Sequence[str]) -> TableStats:
    """Statistics of some columns of a table."""
    types = dict(table.columns)
    stats: dict[str, ColumnStats] = {}
    if columns:
        with probe.cursor(table.name) as cursor:
            rows = table.scan(columns)
            if not isinstance(rows, str):
                cursor.register("source", rows)
                rows = "SELECT * FROM source"
            items = ", ".join(
                f"count(*) - count({c}), approx_count_distinct({c}), min({c}), max({c})" for c in map(sql_name, columns)
            )
            found = cursor.execute(f"SELECT {items} FROM ({rows})").fetchone()
        assert found is not None
        for i, name in enumerate(columns):
            nulls, distinct, low, high = found[4 * i : 4 * i + 4]
            stats[name] = ColumnStats(nulls, distinct, to_scalar(low), to_scalar(high), width=width_of(types[name]))
    return TableStats(table.rows, table.rows * sum(width_of(t) for t in types.values()), stats)
