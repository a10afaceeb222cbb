"""Tables of a lake, such as Delta's and Iceberg's: Parquet files that a log lists, and columns that are not in them.

The log lists the files of the table at each version, and for each file the values of the partitioning columns. Files of
earlier versions, and those of writers that have not committed, are in the same folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from types import ModuleType

import pyarrow as pa

from qoop.catalog.sources.files import no_rows, sql_name, sql_string
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.sources.pieces import PIECE
from qoop.catalog.table import Columns
from qoop.catalog.value import value

Reads = tuple[tuple[str, str], ...]
"""Columns of a file that are not read by their name, each with the SQL expression for it."""


def open_lake(kind: str, folder: str, version: int | None) -> tuple[pa.Schema, LakeSource]:
    """The columns and the files of a table. version: of its log; None: the latest. Raises SourceError, ConfigError."""
    opened: tuple[pa.Schema, LakeSource] = _module(kind).opened(folder, version)
    return opened


def latest(kind: str, folder: str) -> str:
    """The state of the log now, as `ParquetSource.at` has it. Raises SourceError."""
    return str(_module(kind).latest(folder))


def _module(kind: str) -> ModuleType:
    """The module that reads such a log, which few sessions need."""
    return import_module(f"qoop.catalog.sources.{kind}")


@value
class LakeSource(ParquetSource):
    """reads: of each file, in their order.

    casts, too, where a file names columns in another way: then footers give no statistics.
    """

    reads: tuple[Reads, ...] = ()

    def _in_order(self, digests: Iterable[str]) -> str:
        return repr((list(digests), self.reads))

    def identities(self) -> Mapping[str, str]:
        """By path, the digest of each file, and the expressions that read it."""
        return {file.file.path: repr((file.file.digest, self._reads[file.file.path])) for file in self.files}

    def only(self, paths: Collection[str]) -> LakeSource:
        """Its files at these paths."""
        files = tuple(file for file in self.files if file.file.path in paths)
        return replace(self, files=files, reads=tuple(self._reads[file.file.path] for file in files))

    @cached_property
    def _reads(self) -> Mapping[str, Reads]:
        return {file.file.path: reads for file, reads in zip(self.files, self.reads, strict=True)}

    def _select(self, columns: Columns, paths: Sequence[str], where: str = "", number: str = "") -> str:
        """One SELECT for all files that are read in the same way."""
        alike: dict[Reads, list[str]] = {}
        for path in paths:
            alike.setdefault(self._reads[path], []).append(path)
        parts = []
        for reads, group in alike.items():
            instead = dict(reads) | ({PIECE: number} if number else {})
            names = ", ".join(
                f"{instead[name]} AS {sql_name(name)}" if name == PIECE and number else _cast(name, type_, instead)
                for name, type_ in columns
            )
            parts.append(self._read(names, columns, group, where))
        return "\nUNION ALL ".join(parts) if parts else no_rows(columns)


def _cast(name: str, type_: str, instead: Mapping[str, str]) -> str:
    return f"CAST({instead.get(name, sql_name(name))} AS {type_}) AS {sql_name(name)}"


def constant(value: object) -> str:
    """A value that all rows of a file have, in SQL; it is cast to the type of its column."""
    return "NULL" if value is None else sql_string(str(value))
