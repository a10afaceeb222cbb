"""Values as the texts that DuckDB casts them to, and rows as the JSON that it makes of them, written without a DuckDB.

Printing a few rows through DuckDB means to open it and to load `pyarrow.dataset`: 0.03 s, longer than most such queries
take. Once that is done, an answer in JSON still takes 0.70 ms of a CPU there, and 0.04 here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_INTEGER = re.compile(r"U?(TINY|SMALL|BIG)?INT|U?INTEGER")
_PLAIN_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+")
_CONTROLS = re.compile("[\x0b\x0e\x0f\x1a-\x1f]")
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


def json_objects(
    names: Sequence[str], columns: Sequence[pa.ChunkedArray], types: Sequence[str]
) -> Iterator[str] | None:
    r"""The rows as objects, as DuckDB's ``to_json`` writes them; None if only DuckDB can.

    >>> columns = pa.chunked_array([[1, None]]), pa.chunked_array([['a"b', "c"]])
    >>> list(json_objects(("n", "name"), columns, ("BIGINT", "VARCHAR")) or ())
    ['{"n":1,"name":"a\\"b"}', '{"n":null,"name":"c"}']
    """
    keys = _json_strings(names)
    values = [_json_values(column, type_) for column, type_ in zip(columns, types, strict=True)]
    if keys is None or None in values:
        return None
    rows = zip(*(one for one in values if one is not None), strict=True)
    return ("{" + ",".join(map("{}:{}".format, keys, row)) + "}" for row in rows)


def _json_values(column: pa.ChunkedArray, type_: str) -> list[str] | None:
    """The values of a column as JSON; None if only DuckDB can write them."""
    if type_.startswith("DECIMAL"):
        return None  # without the 0 at their ends, unless they have more digits than a DOUBLE
    found = texts(column, type_)
    if found is None:
        return None
    if type_ == "DOUBLE" and any(one is not None and not _PLAIN_NUMBER.fullmatch(one) for one in found):
        return None  # DuckDB writes other exponents, and infinity has no number
    if type_ in ("VARCHAR", "DATE"):
        return _json_strings(found)
    return ["null" if one is None else one for one in found]


def _json_strings(found: Sequence[str | None]) -> list[str] | None:
    if any(one is not None and _CONTROLS.search(one) for one in found):
        return None  # DuckDB writes their codes with capital digits
    return [json.dumps(one, ensure_ascii=False) for one in found]


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
