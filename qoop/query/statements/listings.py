"""The answer to SHOW FUNCTIONS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from qoop.catalog.functions.function import UserFunction

_COLUMNS = (
    ("name", "VARCHAR"), ("call", "VARCHAR"), ("vectorised", "BOOLEAN"), ("deterministic", "BOOLEAN"),
    ("seconds_a_row", "DOUBLE"),
)  # fmt: skip
_TYPES = (pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.float64())


def shown_functions(
    functions: Iterable[UserFunction], row_seconds: Mapping[str, float]
) -> tuple[pa.Table, tuple[tuple[str, str], ...]]:
    """A row for each function, and the names and types of the columns.

    row_seconds: seconds a row, measured, by key of function; NULL for functions without a call.
    """
    rows = [(one.name, one.signature, one.vectorised, one.deterministic, row_seconds.get(one.key)) for one in functions]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    arrays = (pa.array(column, type_) for column, type_ in zip(columns, _TYPES, strict=True))
    return pa.table({f"c{place}": array for place, array in enumerate(arrays)}), _COLUMNS
