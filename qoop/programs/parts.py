"""Partial groups by the digest of what they mean: in memory, or as files of a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import DiskFull
from qoop.catalog.stores.private import make_folder, make_private
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Columns

_TYPES = b"qoop_types"
_ENDING = ".arrow"
_VECTOR = 2048
"""Rows for which DuckDB reserves memory in each column at least."""


@value
class Part:
    """rows: of a query. columns: their names and types."""

    rows: pa.Table
    columns: Columns


class Parts:
    """folder: made when the first part comes; None: parts live in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._parts: dict[str, Part] = {}

    def get(self, digest: str) -> Part | None:
        """The part of a digest, if it is there and undamaged."""
        if self._folder is None:
            return self._parts.get(digest)
        try:
            with pa.memory_map(str(self._folder / f"{digest}{_ENDING}")) as file:
                rows = pa.ipc.open_file(file).read_all()
            columns = json.loads(rows.schema.metadata[_TYPES])
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            return None  # it is computed again
        return Part(rows, tuple((name, type_) for name, type_ in columns))

    def has(self, digest: str) -> bool:
        """True if there is a part of a digest; it may be damaged."""
        return digest in self._parts if self._folder is None else (self._folder / f"{digest}{_ENDING}").exists()

    def put(self, digest: str, part: Part) -> Part:
        """Keep a part; returns it. Raises DiskFull."""
        if self._folder is None:
            part = self._parts[digest] = Part(_fitting(part.rows), part.columns)
            return part
        rows = part.rows.replace_schema_metadata({_TYPES: json.dumps(part.columns).encode()})
        path = self._folder / f"{digest}{_ENDING}"
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            make_folder(self._folder)
            with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
            make_private(draft)
            os.replace(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise DiskFull(f"{self._folder} cannot be written: {error.strerror or error}") from error
        return part

    def drop(self, digest: str) -> None:
        """Forget a part."""
        self._parts.pop(digest, None)
        if self._folder is not None:
            (self._folder / f"{digest}{_ENDING}").unlink(missing_ok=True)

    def keep_only(self, digests: Collection[str]) -> None:
        """Forget all other parts."""
        if self._folder is None:
            self._parts = {digest: part for digest, part in self._parts.items() if digest in digests}
            return
        kept = {f"{digest}{_ENDING}" for digest in digests}
        for name in os.listdir(self._folder) if self._folder.is_dir() else ():
            if name not in kept:
                (self._folder / name).unlink(missing_ok=True)


def _fitting(rows: pa.Table) -> pa.Table:
    """The rows in no more memory than they need."""
    if not 0 < len(rows) < _VECTOR:
        return rows
    copies = [pa.concat_arrays(one.chunks) if one.num_chunks == 1 else one for one in rows.columns]
    return pa.table(copies, schema=rows.schema)
