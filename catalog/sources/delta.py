"""Delta tables: the log is read by deltalake, the files by DuckDB."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from qoop.catalog.errors import ConfigError, SourceError
from qoop.catalog.sources.footer import read_footer
from qoop.catalog.sources.lake import LakeSource, Reads, constant
from qoop.catalog.sources.parquet import ParquetFile, open_parquet
from qoop.catalog.table import MOST_COMPACTIONS, Compaction

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")


def latest(folder: str) -> str:
    """The latest version that the log has. Raises SourceError."""
    try:
        found = [match[1] for match in map(_COMMIT.fullmatch, os.listdir(os.path.join(folder, _LOG))) if match]
    except OSError as error:
        raise SourceError(f"cannot read {folder}: {error.strerror or error}") from error
    return str(int(max(found, default="0")))


def opened(folder: str, version: int | None) -> tuple[pa.Schema, LakeSource]:
    """The columns and the files of a Delta table. version: of its log; None: the latest.

    Raises SourceError for what cannot be read, such as deletion vectors; ConfigError if deltalake is missing.
    """
    table = _table(folder, version)
    _check(folder, table)
    actions = pa.table(table.get_add_actions(flatten=False)).select(
        ["path", *(["partition"] if table.metadata().partition_columns else [])]
    )
    reads = {_path(folder, row["path"]): _reads(row.get("partition") or {}) for row in actions.to_pylist()}
    files = open_parquet(sorted(reads))
    schema = pa.schema(table.schema().to_arrow())
    names = [field.name for field in schema if field.name not in table.metadata().partition_columns]
    missing = {one.schema: _missing(one, names) for one in {file.schema: file for file in files}.values()}
    found = tuple((*reads[file.file.path], *missing[file.schema]) for file in files)
    casts = any(missing.values()) or len(missing) > 1
    at, log = table.version(), os.path.join(folder, _LOG)
    compactions = tuple(_compactions(folder, [os.path.join(log, f"{one:020}.json") for one in _last(at)]))
    return schema, LakeSource(tuple(files), casts=casts, log="delta", at=str(at), compactions=compactions, reads=found)


def _last(version: int) -> range:
    """The last versions of a table, in order."""
    return range(max(0, version - MOST_COMPACTIONS + 1), version + 1)


def _compactions(folder: str, commits: Sequence[str]) -> Iterator[Compaction]:
    """The commits that only wrote rows again: their actions say that no data has changed."""
    for commit in commits:
        gone, came, same = _files_of(commit)
        if same and gone and came:
            yield Compaction(gone, came).mapped(partial(_path, folder))


@lru_cache(maxsize=10_000)
def _files_of(commit: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The files that a commit removes, those that it adds, and whether the rows are the same. A commit never changes;
    none are known of one that is gone, or that is not readable. A file with a deletion vector had other rows before."""
    try:
        with open(commit, encoding="utf-8") as stream:
            actions = [json.loads(line) for line in stream]
        removed, added = ([one[kind] for one in actions if kind in one] for kind in ("remove", "add"))
        same = not any(one.get("dataChange", True) or one.get("deletionVector") for one in (*removed, *added))
        return tuple(one["path"] for one in removed), tuple(one["path"] for one in added), same
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return (), (), False


def _table(folder: str, version: int | None) -> DeltaTable:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise ConfigError('Delta tables need deltalake: install it with pip install "qoop[delta]"') from error
    try:
        return DeltaTable(folder, version=version)
    except (DeltaError, OSError, ValueError) as error:
        at = "" if version is None else f" at version {version}"
        raise SourceError(f"cannot read the Delta table {folder}{at}: {error}") from error


def _check(folder: str, table: DeltaTable) -> None:
    """Raise SourceError for what would be read wrongly by the names and all rows of its files."""
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        raise SourceError(f"cannot read the Delta table {folder}: it maps its columns (by {mapping}) to other names")
    if _has_deleted_rows(table):
        raise SourceError(
            f"cannot read the Delta table {folder}: it has deletion vectors; write its files again without the "
            "deleted rows (REORG TABLE … APPLY (PURGE))"
        )


def _has_deleted_rows(table: DeltaTable) -> bool:
    from deltalake.exceptions import DeltaError

    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return False
    try:
        return bool(pa.table(table.deletion_vectors()).num_rows)
    except DeltaError:  # there is one, and it is damaged
        return True


def _path(folder: str, written: str) -> str:
    parts = urlsplit(written)
    if parts.scheme not in ("", "file"):
        raise SourceError(f"cannot read the Delta table {folder}: its files are in another place, such as {written}")
    return os.path.join(folder, unquote(parts.path if parts.scheme else written))


def _reads(partition: dict[str, Any]) -> Reads:
    return tuple((name, constant(value)) for name, value in partition.items())


def _missing(file: ParquetFile, names: Sequence[str]) -> Reads:
    """Columns that were added to the table after the file was written."""
    there = set(read_footer(file.file.path).schema.to_arrow_schema().names)
    return tuple((name, "NULL") for name in names if name not in there)
