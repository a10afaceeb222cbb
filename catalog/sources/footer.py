"""The footer of a Parquet file.

`pyarrow.parquet.read_metadata` reads one as well, but loads file systems, TLS and what writes files for it: 0.03 s, as
long as DuckDB takes for a short query. Both come down to this class of pyarrow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow._parquet import ParquetReader

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


def read_footer(source: str | bytes) -> FileMetaData:
    """The footer of the file at a path, or of the bytes that end it. Raises pa.ArrowException, OSError."""
    reader = ParquetReader()
    try:
        reader.open(pa.BufferReader(source) if isinstance(source, bytes) else source)
        return reader.metadata
    finally:
        reader.close()
