"""What a user hands over -> :class:`Table`: find out what it is, read its schema, fix its version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import SourceError
from qoop.catalog.files import find_files, hive_keys, reading, sql_path
from qoop.catalog.memory import ArrowSource
from qoop.catalog.parquet import ParquetSource, open_parquet
from qoop.catalog.probe import Probe, describe
from qoop.catalog.table import Columns, Source, Table, table_version

PARQUET = (".parquet", ".pq", ".parq")


def open_source(probe: Probe, name: str, source: object) -> Table:
    """A table over anything that :meth:`Catalog.register` takes."""
    if isinstance(source, str | os.PathLike):
        return _open_path(probe, name, os.fspath(source))
    return _open_arrow(probe, name, source)


def open_folder(probe: Probe, directory: str | os.PathLike[str]) -> tuple[Table, ...]:
    """Tables of the Parquet files and folders of Parquet files in a directory."""
    root = os.path.abspath(os.path.expanduser(os.fspath(directory)))
    with reading(root):
        entries = sorted(Path(root).iterdir())
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.name.startswith((".", "_")) or "=" in entry.name:
            continue
        files = find_files(str(entry), PARQUET) if entry.is_dir() else [str(entry)]
        files = [file for file in files if file.lower().endswith(PARQUET)]
        name = entry.stem if entry.name.lower().endswith(PARQUET) else entry.name
        if files and name in found:
            raise SourceError(f"{root} holds table {name} twice: {found[name][0]} and {files[0]}")
        if files:
            found[name] = files
    if not found:
        raise SourceError(f"{root} holds no tables: expected <table>.parquet or <table>/*.parquet")
    return tuple(_parquet_table(probe, name, files) for name, files in found.items())


def open_database(probe: Probe, path: str | os.PathLike[str]) -> tuple[Table, ...]:
    raise SourceError(f"cannot read {path}")


def _open_path(probe: Probe, name: str, path: str) -> Table:
    return _parquet_table(probe, name, find_files(path, PARQUET))


def _parquet_table(probe: Probe, name: str, paths: Sequence[str]) -> Table:
    files = open_parquet(paths)
    with probe.cursor(paths[0]) as cursor:
        columns = describe(cursor, f"SELECT * FROM read_parquet([{', '.join(map(sql_path, paths))}])")
    keys = {key for path in paths for key, _ in hive_keys(path)}
    partitions = tuple(column for column in columns if column[0] in keys)
    source = ParquetSource(
        tuple(files),
        partitions=partitions,
        casts=len({file.schema for file in files}) > 1,
        cuttable=all(column.lower() != "file_row_number" for column, _ in columns),
    )
    return _table(name, columns, source)


def _open_arrow(probe: Probe, name: str, source: object) -> Table:
    data = _arrow_table(name, source)
    with probe.cursor(f"table {name}") as cursor:
        cursor.register("source", data)
        columns = describe(cursor, "SELECT * FROM source")
    return _table(name, columns, ArrowSource.of(data))


def _arrow_table(name: str, source: object) -> pa.Table:
    if isinstance(source, pa.Table):
        data = source
    elif hasattr(source, "__arrow_c_stream__"):
        data = pa.table(source)
    else:
        raise SourceError(f"table {name} cannot be made of a {type(source).__name__}")
    return data


def _table(name: str, columns: Columns, source: Source) -> Table:
    return Table(name, columns, table_version(source, columns), source, source.rows)
