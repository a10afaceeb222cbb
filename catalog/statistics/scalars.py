"""Values of every type as the scalars of `stats.py`, computed by DuckDB: numbers or strings that order alike."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
# Characters of a text that statistics keep.
TEXT = 200
_TEMPORAL = ("DATE", "TIME", "INTERVAL")


def scalar_sql(value: str, type_: str) -> str:
    """SQL for the scalar of a value: a number, a string, or, for types without order, a hash of it.

    What of a long text is over 200 characters is hashed, so that different ones stay different.

    >>> scalar_sql("d", "DATE")
    'epoch(d) / 86400'
    """
    if type_ in INTEGERS:
        return value
    if type_ == "BOOLEAN":
        return f"CAST({value} AS TINYINT)"
    if type_ == "DATE":
        return f"epoch({value}) / 86400"
    if is_text(type_):
        text = f"CAST({value} AS VARCHAR)"
        return f"CASE WHEN length({text}) > {TEXT} THEN left({text}, {TEXT}) || hash({text}) ELSE {text} END"
    if not is_ordered(type_):
        return f"CASE WHEN {value} IS NOT NULL THEN hash({value}) END"
    if type_ in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # DuckDB 2 converts to nanoseconds, which overflow
        return f"epoch(CAST({value} AS TIMESTAMP))"
    return f"epoch({value})" if type_.startswith(_TEMPORAL) else f"CAST({value} AS DOUBLE)"


def is_ordered(type_: str) -> bool:
    """True if values of the type have scalars that order as they do."""
    number = type_ in (*INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "HUGEINT", "UHUGEINT")
    return not type_.endswith("]") and (number or is_text(type_) or type_.startswith(("DECIMAL", *_TEMPORAL)))


def is_text(type_: str) -> bool:
    """True if the scalars of the type are strings."""
    return type_ in ("VARCHAR", "UUID", "JSON") or (type_.startswith("ENUM(") and not type_.endswith("]"))


def select(
    cursor: duckdb.DuckDBPyConnection, items: str, rows: str | pa.Table, rest: str = ""
) -> duckdb.DuckDBPyRelation:
    """A SELECT of these items over rows that a table's `scan` or `sample` gave; it runs when it is fetched.

    Fetch all of it: in DuckDB 2.0 a connection refuses other work while it holds the rest of a result.
    """
    if isinstance(rows, str):
        return cursor.sql(f"SELECT {items} FROM ({rows}) AS source {rest}")
    arrow_input.register(cursor, "source", rows)
    return cursor.sql(f"SELECT {items} FROM source {rest}")
