"""The facts about columns in Parquet footers, in the headers of some dictionaries and, where that leaves a doubt, in
their values.

footer ──row groups spread over the table──> rows, NULLs, extremes, bytes
dictionary page ──header──> how many distinct values ──content of two──> do row groups share them?
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import unquote

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from qoop.catalog.sources.files import hive_keys
from qoop.catalog.statistics.scalars import INTEGERS, is_text
from qoop.catalog.statistics.stats import Chunk, Scalar, to_scalar
from qoop.catalog.table import Footer, Range, spread
from qoop.catalog.value import value

MOST_GROUPS = 256
"""Row groups of a table that are read: each costs some 5 µs a column."""

MOST_DICTIONARIES = 4
"""Dictionaries of a column whose headers are read, and not over a network."""

MOST_NUMBERS = 1 << 18
"""Values of a dictionary that is read whole."""

SAMPLED_BITS = 12
"""Of its values about 2 to the power of that are compared, the same ones in every dictionary."""

_HEADER = 64  # a header of a page takes some 20 bytes
_LENGTH = 4  # bytes before each text of a page
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ODD, _HASH_BITS = numpy.uint64(0x9E3779B97F4A7C15), 20  # Fibonacci hashing

_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


@value
class _Dictionary:
    """A dictionary page: the start of its content, its bytes as written and uncompressed, and the number of its
    values."""

    start: int
    written: int
    bytes: int
    values: int


def chunks_of(footers: Sequence[Footer], names: Sequence[str]) -> Mapping[str, Sequence[Chunk]]:
    """By column, the facts in row groups spread over the files. Nested columns, and those that some file lacks, are
    left out."""
    groups = [
        (footer, index)
        for footer in footers
        for index in range(footer.metadata.num_row_groups)
        if footer.metadata.row_group(index).num_rows
    ]
    sampled = spread(groups, MOST_GROUPS)
    places = {id(footer): _places(footer.metadata) for footer in footers}
    able = [name for name in names if all(name in found for found in places.values())]
    return {name: _chunks([(footer, index, places[id(footer)][name]) for footer, index in sampled]) for name in able}


def folder_chunks(pieces: Sequence[Range], name: str, type_: str) -> Sequence[Chunk]:
    """A column whose value in a file is in the name of a folder, such as ``year=2001``; none if no folder has it."""
    found = []
    for piece in pieces:
        values = [text for key, text in hive_keys(piece.file) if key.lower() == name.lower()]
        if not values:
            return ()
        value = _folder_value(values[-1], type_)
        nulls = piece.rows if values[-1] == _NO_VALUE else 0
        found.append(Chunk(piece.rows, nulls, value, value, distinct=1.0))
    return found


def _folder_value(text: str, type_: str) -> Scalar | None:
    if text == _NO_VALUE:
        return None
    if is_text(type_):
        return unquote(text)
    if type_ in INTEGERS or type_ == "DOUBLE":
        return float(text)
    return to_scalar(date.fromisoformat(text)) if type_ == "DATE" else None


def _places(metadata: pq.FileMetaData) -> dict[str, int]:
    """The places of the columns that are not nested."""
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    return {column.path: place for place, column in enumerate(columns) if column.max_repetition_level == 0}


def _chunks(sampled: Sequence[tuple[Footer, int, int]]) -> Sequence[Chunk]:
    """The facts about one column in some row groups, given by file, row group and place of the column."""
    with_dictionary = set(spread(range(len(sampled)), MOST_DICTIONARIES))
    found, local = [], []
    for number, (footer, index, place) in enumerate(sampled):
        group = footer.metadata.row_group(index)
        column = group.column(place)
        chunk = _of_footer(column, group.num_rows)
        if number in with_dictionary and column.dictionary_page_offset is not None and footer.path is not None:
            local.append((number, footer.path, column))
            chunk = _with_header(chunk, column, footer.path)
        found.append(chunk)
    ends = (local[0], local[-1]) if len(local) > 1 and _is_integer(local[0][2]) else ()
    if ends and _in_doubt(*(found[number] for number, _, _ in ends)):
        bits = int(max(found[number].distinct or 1 for number, _, _ in ends)).bit_length()
        for number, path, column in ends:
            found[number] = replace(found[number], numbers=_numbers(path, column, bits))
    return found


def _of_footer(column: pq.ColumnChunkMetaData, rows: int) -> Chunk:
    statistics = column.statistics
    nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
    if nulls is not None and not 0 <= nulls <= rows:  # of a damaged footer
        nulls = None
    low, high = _extremes(statistics) if statistics is not None and statistics.has_min_max else (None, None)
    return Chunk(rows, nulls, low, high, width=_width(column, rows - (nulls or 0)))


def _extremes(statistics: pq.Statistics) -> tuple[Scalar | None, Scalar | None]:
    try:
        return to_scalar(statistics.min), to_scalar(statistics.max)
    except (ValueError, OverflowError):  # a date that Python has not, or a text that is none
        return None, None


def _width(column: pq.ColumnChunkMetaData, values: int) -> float | None:
    """Mean bytes of a text that is written without a dictionary."""
    if column.physical_type != "BYTE_ARRAY" or column.dictionary_page_offset is not None or not values:
        return None
    return max(0.0, float(column.total_uncompressed_size) / values - _LENGTH)


def _with_header(chunk: Chunk, column: pq.ColumnChunkMetaData, path: str) -> Chunk:
    page = _dictionary(path, column.dictionary_page_offset)
    if page is None or page.values <= 0:
        return chunk
    width = max(0.0, page.bytes / page.values - _LENGTH) if column.physical_type == "BYTE_ARRAY" else None
    values = chunk.rows - (chunk.nulls or 0)
    rest = column.total_uncompressed_size - page.bytes
    size = _WIDTHS.get(column.physical_type, (width or 0.0) + _LENGTH)
    distinct = page.values if rest <= _index_bytes(page, values) else _overflowed(page, values, rest, size)
    encoded = rest / (values * _index_bits(page) / 8) if values and distinct == page.values else None
    return replace(chunk, distinct=min(float(values), distinct), width=width, encoded=encoded)


def _index_bytes(page: _Dictionary, values: int) -> float:
    """The most bytes that references into a dictionary take, with the headers of their pages."""
    return 1.2 * values * _index_bits(page) / 8 + values / 64 + 1_000


def _index_bits(page: _Dictionary) -> int:
    return max(1, (page.values - 1).bit_length())


def _overflowed(page: _Dictionary, values: int, rest: int, size: float) -> float:
    """Distinct values where the dictionary became too large, and later values were written out: each run of rows is
    assumed to have as many."""
    written_out = min(values - 1.0, rest / max(1.0, size))
    return page.values * values / max(1.0, values - written_out)


def _in_doubt(first: Chunk, last: Chunk) -> bool:
    """True if row groups over the same range hold few of its values, which may be equal or different ones."""
    one, other = _range(first), _range(last)
    if one is None or other is None:
        return False
    both = min(one[1], other[1]) - max(one[0], other[0])
    whole = max(one[1], other[1]) - min(one[0], other[0])
    few = max(first.distinct or whole, last.distinct or whole)
    return 2.0 * both > whole > 1.2 * few and few < 0.9 * min(first.rows, last.rows)


def _range(chunk: Chunk) -> tuple[float, float] | None:
    low, high = chunk.minimum, chunk.maximum
    return (low, high) if isinstance(low, float) and isinstance(high, float) else None


def _is_integer(column: pq.ColumnChunkMetaData) -> bool:
    """True for integers, the usual type of keys. Measures are excluded: those of one row group do not predict
    another's."""
    statistics = column.statistics
    return statistics is not None and statistics.has_min_max and statistics.logical_type.type in ("NONE", "INT")


def _dictionary(path: str, offset: int) -> _Dictionary | None:
    """Read the header of a dictionary page; None if it is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            header = os.pread(file.fileno(), _HEADER, offset)
        fields, size = _struct(header, 0)
        values = fields[7][1]
        return _Dictionary(offset + size, fields[3], fields[2], values)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):  # no such place, or no header there
        return None


def _numbers(path: str, column: pq.ColumnChunkMetaData, bits: int) -> frozenset[int] | None:
    """Some values of a dictionary of numbers, chosen by their hash; None if it is long, of another type or
    compressed in an unknown way. bits: of how many values the longest dictionary has."""
    page = _dictionary(path, column.dictionary_page_offset)
    width = _WIDTHS.get(column.physical_type, 0)
    if page is None or not 0 < page.values <= MOST_NUMBERS or page.bytes != page.values * width:
        return None
    if not 0 <= page.written <= column.total_compressed_size:
        return None
    with open(path, "rb", buffering=0) as file:
        content: bytes | pa.Buffer = os.pread(file.fileno(), page.written, page.start)
    if column.compression != "UNCOMPRESSED":
        codec = column.compression.lower()
        if not pa.Codec.is_available(codec):
            return None
        try:
            content = pa.decompress(content, page.bytes, codec)
        except (pa.ArrowException, OSError):  # damaged
            return None
    if len(content) != page.bytes:
        return None
    values = numpy.frombuffer(content, numpy.int32 if width == 4 else numpy.int64)
    hashed = (values.astype(numpy.uint64) * _ODD) >> numpy.uint64(64 - _HASH_BITS)
    return frozenset(values[hashed < 1 << min(_HASH_BITS, _HASH_BITS + SAMPLED_BITS - bits)].tolist())


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """A structure in Thrift's compact protocol: numbers and structures by field, and where it ends."""
    fields: dict[int, Any] = {}
    field = 0
    while True:
        kind, delta = data[at] & 15, data[at] >> 4
        at += 1
        if kind == 0:
            return fields, at
        if delta:
            field += delta
        else:
            number, at = _varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        if kind in (4, 5, 6):
            number, at = _varint(data, at)
            fields[field] = (number >> 1) ^ -(number & 1)
        elif kind == 12:
            fields[field], at = _struct(data, at)
        elif kind not in (1, 2):  # true and false are in the kind itself; others no header of a dictionary has
            raise KeyError(kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at
