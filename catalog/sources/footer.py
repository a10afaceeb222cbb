"""The footer of a Parquet file.

`pyarrow.parquet.read_metadata` reads one as well, but loads modules for file systems, TLS and writing: 0.03 s, as long
as a short query in DuckDB. Both use this class of pyarrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow._parquet import ParquetReader

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnSchema, FileMetaData

    from qoop.catalog.table import Columns

_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS = range(8)
_DEEPEST = 100  # parts of the path of a column
_LONGEST = 0x7F  # bytes of such a path whose length is one byte
_CHUNK = re.compile(rb"\x1c\x15([\x00-\x0e])\x19(?=[\x05-\xf5])", re.DOTALL)
"""The first bytes of a column chunk in Thrift's compact protocol: its type, as a number times two, and a list of
encodings."""

_USUAL_CHUNK = re.compile(
    rb"\x1c\x15([\x00-\x0e])\x19(?:\x15.|\x25..|\x35...|\x45....)\x19\x18([\x01-\x7f][^\x00-\x1f]+)\x15[\x00-\x0e]",
    re.DOTALL,
)
"""A column chunk of up to four encodings, with a path of one part and a known codec."""

_PLAIN = {
    "BOOLEAN": "BOOLEAN", "INT32": "INTEGER", "INT64": "BIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE",
    "BYTE_ARRAY String": "VARCHAR", "INT32 Date": "DATE",
}  # fmt: skip
"""DuckDB's types of columns, by their types in a footer."""
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_DIGITS = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38, "BYTE_ARRAY": 38}
"""The digits of a DECIMAL, at most."""


def read_footer(source: str | bytes) -> FileMetaData:
    """The footer of the file at a path, or of the bytes that end it. Raises pa.ArrowException, OSError."""
    reader = ParquetReader()
    try:
        reader.open(pa.BufferReader(source) if isinstance(source, bytes) else source)
        return reader.metadata
    finally:
        reader.close()


def plain_columns(metadata: FileMetaData) -> Columns | None:
    """Names and types of the columns as DuckDB reads them; None: DuckDB has to be asked.

    To open a DuckDB for that takes 10 ms. These types have one meaning in all versions of it.
    """
    found = []
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        type_ = _plain_type(column)
        if type_ is None or not column.name or column.name != column.path:
            return None
        found.append((column.name, type_))
    names = {name.lower() for name, _ in found}
    return tuple(found) if found and len(names) == len(found) else None


def _plain_type(column: ColumnSchema) -> str | None:
    """DuckDB's type of a column; None if that does not follow from the footer alone, as of nested columns."""
    if column.max_repetition_level or column.max_definition_level > 1:
        return None
    physical, logical = column.physical_type, column.logical_type
    if logical.type == "NONE":
        return _PLAIN.get(physical)
    about = json.loads(logical.to_json())
    kind = about.pop("Type")
    if kind == "Decimal":
        digits = about["precision"]
        return f"DECIMAL({digits},{about['scale']})" if digits <= _DIGITS.get(physical, 0) else None
    if kind == "Int":
        bits = about["bitWidth"]
        fits = physical == ("INT64" if bits == 64 else "INT32")
        return ("" if about["isSigned"] else "U") + _INTEGERS[bits] if fits else None
    if kind == "Timestamp":
        fits = about["timeUnit"] in ("milliseconds", "microseconds") and not about["is_from_converted_type"]
        return "TIMESTAMP" + (" WITH TIME ZONE" if about["isAdjustedToUTC"] else "") if fits else None
    return _PLAIN.get(f"{physical} {kind}")


def describes_its_columns(tail: bytes, metadata: FileMetaData) -> bool:
    """True if each column chunk of a footer has the type of its column, and a known codec.

    Arrow's C++ ends the process at an unknown codec (an exception that pyarrow does not catch), so this check precedes
    every access to a column chunk. A footer in an unusual encoding counts as damaged.
    """
    try:
        columns = paths(metadata)
    except UnicodeDecodeError:
        return False
    types = [metadata.schema.column(place).physical_type for place in range(len(columns))]
    if _has_usual_chunks(tail, columns, types, metadata.num_row_groups):
        return True
    written = _chunks(tail, frozenset(columns))
    for _ in range(metadata.num_row_groups):
        for type_ in types:
            if next(written, None) != type_:
                return False
    return next(written, None) is None


def _has_usual_chunks(tail: bytes, columns: Sequence[str], types: Sequence[str], groups: int) -> bool:
    """True if nothing in a footer looks like a column chunk but those of the columns, all in the usual encoding.

    Two expressions find that in a tenth of the time of `_chunks`.
    """
    usual = [
        (bytes([2 * _TYPES.index(type_)]), bytes([len(path)]) + path)
        for type_, path in zip(types, map(str.encode, columns), strict=True)
        if len(path) <= _LONGEST
    ]
    if len(usual) < len(columns) or len(_CHUNK.findall(tail)) != groups * len(columns):
        return False
    return _USUAL_CHUNK.findall(tail) == groups * usual


def paths(metadata: FileMetaData) -> list[str]:
    """The paths of the columns, which the schema has: column chunks repeat them. Raises UnicodeDecodeError."""
    return [metadata.schema.column(place).path for place in range(metadata.num_columns)]


def _chunks(tail: bytes, columns: Collection[str]) -> Iterator[str | None]:
    """The type of each chunk of one of the columns, None for one with an unknown codec."""
    for found in _CHUNK.finditer(tail):
        try:
            path, codec = _path_and_codec(tail, found.end())
        except IndexError:
            continue
        if path in columns:  # else it is no chunk, but a value that looks so
            yield _TYPES[found[1][0] // 2] if codec in _CODECS and found[1][0] % 2 == 0 else None


def _path_and_codec(tail: bytes, at: int) -> tuple[str, int | None]:
    """The path and the codec of a column chunk, which follow its encodings. Raises IndexError."""
    encodings, at = _list(tail, at)
    at += encodings  # a byte each
    parts = []
    if tail[at] == 0x19 and tail[at + 1] & 15 == 8:
        depth, at = _list(tail, at + 1)
        for _ in range(min(depth, _DEEPEST)):
            size, begin = _number(tail, at)
            at = begin + size
            parts.append(tail[begin:at].decode(errors="replace"))
    codec = tail[at + 1] // 2 if tail[at] == 0x15 and tail[at + 1] % 2 == 0 else None
    return ".".join(parts), codec


def _list(tail: bytes, at: int) -> tuple[int, int]:
    """The length of a list, and the place of its first item. Raises IndexError."""
    length = tail[at] >> 4
    return (length, at + 1) if length < 15 else _number(tail, at + 1)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it. Raises IndexError.

    >>> _number(bytes([5, 0x80 + 72, 1]), 0), _number(bytes([5, 0x80 + 72, 1]), 1)
    ((5, 1), (200, 3))
    """
    number = shift = 0
    while data[at] >= 0x80 and shift < 28:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1
