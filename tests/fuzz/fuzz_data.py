"""Small tables with many NULLs and duplicates, in all the ways a session can hold a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import qoop
from qoop.planner.algebra.expr import quote

INTEGER, BIGINT, SMALLINT, DECIMAL = "INTEGER", "BIGINT", "SMALLINT", "DECIMAL(7,2)"
DOUBLE, VARCHAR, DATE, TIMESTAMP, BOOLEAN = "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN"

TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "t1": (("id", INTEGER), ("k", INTEGER), ("b", BIGINT), ("c", SMALLINT), ("d", DECIMAL), ("e", DOUBLE),
           ("s", VARCHAR), ("dt", DATE), ("ts", TIMESTAMP), ("f", BOOLEAN)),
    "t2": (("id", BIGINT), ("k", BIGINT), ("a2", INTEGER), ("d", "DECIMAL(10,1)"), ("s", VARCHAR), ("u", VARCHAR),
           ("dt", DATE), ("x", DOUBLE)),
    "t3": (("id", INTEGER), ("k", DECIMAL), ("g", SMALLINT), ("s", VARCHAR), ("when", TIMESTAMP), ("f", BOOLEAN)),
    "t4": (("k", SMALLINT), ("v", INTEGER), ("s", VARCHAR), ("dt", TIMESTAMP)),
    "nothing": (("id", INTEGER), ("k", INTEGER), ("v", DECIMAL), ("s", VARCHAR), ("dt", DATE)),
}  # fmt: skip
ROWS = {"t1": 400, "t2": 260, "t3": 60, "t4": 14, "nothing": 0}
_WORDS = ("", "a", "A", "ab", "abc", "b", "x%", "x_y", "zoë", "  pad", "10", "2", "NULL")
_DAY = date(2020, 2, 27)

_VALUES: dict[str, Callable[[Random], object]] = {
    INTEGER: lambda r: r.choice((-3, -1, 0, 1, 1, 2, 3, 4, 5, 7)),
    BIGINT: lambda r: r.choice((-1, 0, 1, 2, 2, 3, 5, 8)),
    SMALLINT: lambda r: r.randint(-2, 6),
    DECIMAL: lambda r: Decimal(r.choice(("0.00", "1.00", "1.50", "2.00", "-1.25", "3.00", "5.00", "12.34"))),
    "DECIMAL(10,1)": lambda r: Decimal(r.choice(("0.0", "1.0", "1.5", "2.0", "3.0", "-1.0"))),
    DOUBLE: lambda r: r.choice((0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 3.0, 100.25)),
    VARCHAR: lambda r: r.choice(_WORDS),
    DATE: lambda r: _DAY + timedelta(days=r.randint(0, 5)),
    TIMESTAMP: lambda r: datetime(2020, 2, 27) + timedelta(days=r.randint(0, 5), hours=r.choice((0, 0, 0, 12))),
    BOOLEAN: lambda r: r.random() < 0.5,
}
_ARROW = {
    INTEGER: pa.int32(), BIGINT: pa.int64(), SMALLINT: pa.int16(), DECIMAL: pa.decimal128(7, 2),
    "DECIMAL(10,1)": pa.decimal128(10, 1), DOUBLE: pa.float64(), VARCHAR: pa.string(), DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us"), BOOLEAN: pa.bool_(),
}  # fmt: skip


def rows_of(name: str, seed: int) -> pa.Table:
    """The rows of a table. `id` counts up where there is one; all else repeats and is NULL now and then."""
    rng = Random(f"{name} {seed}")
    arrays = []
    for column, type_ in TABLES[name]:
        nulls = 0.0 if column == "id" else rng.choice((0.0, 0.15, 0.15, 0.4))
        values = [
            number if column == "id" else None if rng.random() < nulls else _VALUES[type_](rng)
            for number in range(ROWS[name])
        ]
        arrays.append(pa.array(values, _ARROW[type_]))
    return pa.table(arrays, names=[column for column, _ in TABLES[name]])


def sources(folder: Path, seed: int) -> dict[str, str | pa.Table]:
    """Every table as it is registered: t1 several files, t2 and `nothing` one, all with tiny row groups; t3 and t4
    Arrow tables."""
    found: dict[str, str | pa.Table] = {}
    for name in TABLES:
        rows = rows_of(name, seed)
        if name in ("t3", "t4"):
            found[name] = rows
        else:
            found[name] = _written(rows, folder / f"{name}_{seed}", 3 if name == "t1" else 1)
    return found


def _written(rows: pa.Table, folder: Path, files: int) -> str:
    folder.mkdir()
    step = max(1, -(-rows.num_rows // files))
    for number in range(files):
        pq.write_table(rows.slice(number * step, step), folder / f"{number}.parquet", row_group_size=50)
    return str(folder)


def register(session: qoop.Session, oracle: duckdb.DuckDBPyConnection, found: dict[str, str | pa.Table]) -> None:
    """Make the same data known to a session and to DuckDB."""
    for name, source in found.items():
        session.register(name, source)
        if isinstance(source, str):
            oracle.execute(f"CREATE OR REPLACE VIEW {quote(name)} AS FROM read_parquet('{source}/*.parquet')")
        else:
            oracle.register("arrow_rows", source)
            oracle.execute(f"CREATE OR REPLACE TABLE {quote(name)} AS FROM arrow_rows")
