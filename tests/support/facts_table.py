"""A table of 600,000 facts in a file of six row groups, and texts over it, for runs that go on from earlier ones."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

TEXT = "SELECT k % 7 AS k, sum(v) AS total FROM facts GROUP BY 1 ORDER BY 1"
WAITS = (
    "SELECT k, later(total) AS total FROM (SELECT k % 7 AS k, sum(v)::BIGINT AS total FROM facts GROUP BY 1) ORDER BY 1"
)


def write_facts(folder: Path) -> Path:
    """Write the table into a folder, and return that."""
    table = pa.table({"k": [n % 1000 for n in range(600_000)], "v": range(600_000)})
    pq.write_table(table, folder / "facts.parquet", row_group_size=100_000)
    return folder


def expected(data: Path, text: str = TEXT) -> list[tuple[object, ...]]:
    """The answer of DuckDB, which is not empty."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW facts AS FROM '{data / 'facts.parquet'}'")
        rows = connection.execute(text).fetchall()
    assert rows
    return rows
