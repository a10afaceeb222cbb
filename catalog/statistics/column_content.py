"""The content of single columns of small Parquet files, to see which columns a new version of a table has left alone.

A table's version follows the stamps of its files, so a file that was written again is another version, whatever it
holds. Two versions with equal digests of a column hold the same values in the same order there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b

import pyarrow as pa

from qoop.catalog.errors import CatalogError
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.table import Table

_MOST_BYTES = 8 << 20
"""Of a table that is compared: to decode all of them takes a thread about 0.15 s."""

_MOST_ROWS, _MOST_DECODED = 1 << 22, 64 << 20
"""Rows of such a table, and bytes of its files or of one of its columns without compression."""

_TEXTS = frozenset(("string", "large_string", "string_view", "binary", "large_binary", "binary_view"))

ROWS = ""
"""Stands for a column: the number of rows."""


def is_comparable(table: Table) -> bool:
    """True for a table of few Parquet files of this machine."""
    source = table.source
    if not isinstance(source, ParquetSource) or source.is_remote or source.log:
        return False
    return source.rows <= _MOST_ROWS and sum(file.file.stamp[0] for file in source.files) <= _MOST_BYTES


def column_digests(table: Table, columns: Collection[str]) -> dict[str, str]:
    """A digest of the values of each of the columns, and of their number. Equal ones mean equal values, and different
    ones mostly different values. Raises CatalogError if the files have changed or cannot be read."""
    source = table.source
    assert isinstance(source, ParquetSource)
    shape = repr((table.columns, source.partitions, source.casts, [one.file.path for one in source.files]))
    found = {name: blake2b(shape.encode(), digest_size=16) for name in sorted(columns)}
    stored = found.keys() - dict(source.partitions).keys()  # the others are in the paths
    for file in source.files if found else ():
        try:
            rows = _read(file.file.path, stored)
            for name in stored:
                for part in _parts(rows[name]):
                    found[name].update(part)
        except (OSError, pa.ArrowException) as error:
            raise CatalogError(f"cannot read {file.file.path}: {error}") from error
    table.check()
    return {ROWS: f"{shape} {source.rows}"} | {name: digest.hexdigest() for name, digest in found.items()}


def _read(path: str, columns: Collection[str]) -> pa.Table:
    """Columns of a file, texts as dictionaries: eight megabytes may hold any number of references to a long one."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
    fields = [schema.field(place) for name in columns if (place := schema.get_field_index(name)) >= 0]
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    whole = len(fields) == len(columns)  # not where files differ in their columns, or in the case of a name
    if not whole or size > _MOST_DECODED or any(pa.types.is_nested(one.type) for one in fields):
        raise CatalogError(f"{path} is not compared column by column")
    texts = [one.name for one in fields if str(one.type) in _TEXTS]
    with parquet.ParquetFile(path, metadata=metadata, read_dictionary=texts) as opened:
        return opened.read(columns=[one.name for one in fields], use_threads=False)


def _parts(column: pa.ChunkedArray) -> Iterator[pa.Buffer]:
    """The type and values of a column, and which rows have one: below a NULL each writer leaves other bytes. Texts are
    of one type, whichever the writer has noted."""
    if pa.types.is_dictionary(column.type):
        import pyarrow.compute as pc  # 60 ms, and the thread of a query loads this module

        size = sum(pc.sum(pc.binary_length(one.dictionary).take(one.indices)).as_py() or 0 for one in column.chunks)
        if size > _MOST_DECODED:
            raise CatalogError("a column is too large to be compared")
        column = column.cast(pa.binary() if "binary" in str(column.type.value_type) else pa.string())
    for part in (column.drop_null(), column.is_valid()):
        one = pa.table({"c": part.combine_chunks()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, one.schema) as stream:
            stream.write_table(one)
        yield sink.getvalue()
