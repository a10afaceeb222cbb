"""The rows of SHOW TABLES and SHOW FUNCTIONS, with the names and types of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from qoop.catalog.functions.function import UserFunction
    from qoop.catalog.table import Columns

ALL_TABLES = """
SELECT database_name AS database, schema_name AS "schema", table_name AS name,
       list(column_name ORDER BY column_index) AS column_names, list(data_type ORDER BY column_index) AS column_types,
       false AS temporary
FROM duckdb_columns() WHERE NOT internal GROUP BY ALL ORDER BY ALL
"""
"""The query of SHOW ALL TABLES. A locked session, which does not show its catalog, lists names alone."""

_COLUMNS = (
    ("name", "VARCHAR"), ("call", "VARCHAR"), ("vectorised", "BOOLEAN"), ("deterministic", "BOOLEAN"),
    ("seconds_a_row", "DOUBLE"),
)  # fmt: skip
_TYPES = (pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.float64())


def table_names(names: Sequence[str]) -> tuple[pa.Table, Columns]:
    """A row for each table or view."""
    return pa.table({"c0": pa.array(names, pa.string())}), (("name", "VARCHAR"),)


def shown_functions(functions: Iterable[UserFunction], row_seconds: Mapping[str, float]) -> tuple[pa.Table, Columns]:
    """A row for each function.

    row_seconds: seconds a row, measured, by key of function; NULL for functions without a call.
    """
    rows = [(one.name, one.signature, one.vectorised, one.deterministic, row_seconds.get(one.key)) for one in functions]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    arrays = (pa.array(column, type_) for column, type_ in zip(columns, _TYPES, strict=True))
    return pa.table({f"c{place}": array for place, array in enumerate(arrays)}), _COLUMNS
