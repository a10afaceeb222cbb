"""A query that takes seconds in one slot, and the data and the options of a server for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

LONG = (
    "SELECT a.k % 7 AS g, count(*) AS n, sum(sqrt(a.v + b.v)) AS s FROM big a JOIN big b USING (k) "
    "GROUP BY ALL ORDER BY g"
)


def answer_of_long(folder: Path, text: str = LONG, keys: int = 3000) -> list[tuple[Any, ...]]:
    """Make the files; return DuckDB's answer. keys: the more of them, the fewer rows the join has."""
    data = folder / "data"
    data.mkdir()
    (folder / "my.toml").write_text("slots = 1\nstaged = true\n")
    with duckdb.connect() as connection:
        rows = f"SELECT i % {keys} AS k, i AS v FROM range(300000) t(i)"
        connection.execute(f"COPY ({rows}) TO '{data}/big.parquet' (ROW_GROUP_SIZE 20000)")
        connection.execute(f"CREATE VIEW big AS FROM '{data}/big.parquet'")
        return connection.execute(text).fetchall()
