"""Values as the texts that DuckDB casts them to, written without a DuckDB.

Printing a few rows through DuckDB means to open it and to load `pyarrow.dataset`: 0.03 s, longer than most such queries
take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_INTEGER = re.compile(r"U?(TINY|SMALL|BIG)?INT|U?INTEGER")
_DATES = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31, in days from 1970-01-01


def texts(column: pa.ChunkedArray, type_: str) -> list[str | None] | None:
    """The values of a column of a type of DuckDB, as text; None if only DuckDB can write them.

    >>> texts(pa.chunked_array([[1.5, None, 1e20]]), "DOUBLE"), texts(pa.chunked_array([[1.5]]), "DOUBLE[]")
    (['1.5', None, '1e+20'], None)
    """
    writer = _writer(type_)
    if writer is None:
        return None
    values = _values(column, type_)
    if values is None:
        return None
    return [None if one is None else writer(one) for one in values]


def _values(column: pa.ChunkedArray, type_: str) -> Sequence[Any] | None:
    if type_ == "DATE":
        days = (day for chunk in column.chunks for day in chunk.view(pa.int32()).to_pylist())  # a cast loads more
        if any(day is not None and not _DATES[0] <= day <= _DATES[1] for day in days):
            return None  # infinite, or before Christ
    values: list[Any] = column.to_pylist()
    if type_ == "DOUBLE" and any(one != one for one in values if one is not None):
        return None  # DuckDB shows the sign of a NaN
    return values


def _writer(type_: str) -> Callable[[Any], str] | None:
    """The function that writes a value of a type as DuckDB does; None if only DuckDB can."""
    if _INTEGER.fullmatch(type_) or type_ == "VARCHAR":
        return str
    if type_ == "DATE":
        return str
    if type_ == "BOOLEAN":
        return lambda one: str(one).lower()
    if type_ == "DOUBLE":
        return repr
    if type_ == "HUGEINT":
        return _hugeint
    found = _DECIMAL.fullmatch(type_)
    if found and found[1] != found[2]:  # where all digits are decimals DuckDB writes no 0 before them
        return _decimal
    return None


def _hugeint(one: bytes | Decimal) -> str:
    """In Arrow's lossless form it is 16 bytes."""
    return str(int.from_bytes(one, "little", signed=True) if isinstance(one, bytes) else one)


def _decimal(one: Decimal) -> str:
    return format(one, "f")
