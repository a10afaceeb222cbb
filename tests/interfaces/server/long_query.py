"""A query that takes seconds in one slot, and the data and the options of a server for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import duckdb

LONG = (
    "SELECT a.k % 7 AS g, count(*) AS n, sum(sqrt(a.v + b.v)) AS s FROM big a JOIN big b USING (k) "
    "GROUP BY ALL ORDER BY g"
)


def files_of_long(folder: Path, keys: int = 3000) -> None:
    """Make the files. keys: the more of them, the fewer rows the join has."""
    (folder / "data").mkdir()
    (folder / "my.toml").write_text("slots = 1\nstaged = true\n")
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({_rows(keys)}) TO '{folder / 'data'}/big.parquet' (ROW_GROUP_SIZE 20000)")


@cache
def answer_of_long(text: str = LONG, keys: int = 3000) -> list[tuple[Any, ...]]:
    """DuckDB's answer."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE big AS {_rows(keys)}")
        return connection.execute(text).fetchall()


def _rows(keys: int) -> str:
    return f"SELECT i % {keys} AS k, i AS v FROM range(300000) t(i)"
