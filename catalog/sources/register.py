"""What a user hands over -> :class:`Table`: find out what it is, read its schema, fix its version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.asking import has_name
from qoop.catalog.errors import SourceError
from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.database import open_tables
from qoop.catalog.sources.files import find_files, hive_columns, reading, sql_path
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.sources.parquet import ParquetFile, ParquetSource, open_parquet, reach
from qoop.catalog.sources.probe import Probe, describe
from qoop.catalog.sources.remote import Version, find
from qoop.catalog.sources.text import open_csv, open_json
from qoop.catalog.stores.objects import is_remote, without_options
from qoop.catalog.table import Columns, Source, Table, table_version

PARQUET = (".parquet", ".pq", ".parq")
_TEXT = (".csv", ".tsv"), (".json", ".jsonl", ".ndjson")
CSV, JSON = (tuple(kind + packed for packed in ("", ".gz", ".zst") for kind in kinds) for kinds in _TEXT)

_READERS = 4  # threads that look at the tables of a folder: DuckDB tells types while others read footers


def open_source(probe: Probe, name: str, source: object) -> Table:
    """A table over anything that :meth:`qoop.catalog.catalog.Catalog.register` takes."""
    if isinstance(source, str | os.PathLike):
        return _open_path(probe, name, os.fspath(source))
    return _open_arrow(probe, name, source)


def open_folder(probe: Probe, directory: str | os.PathLike[str]) -> tuple[Table, ...]:
    """Tables of the Parquet files and folders of Parquet files in a directory."""
    if is_remote(os.fspath(directory)):
        return _open_remote_folder(probe, os.fspath(directory))
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
    with ThreadPoolExecutor(_READERS) as readers:
        return tuple(readers.map(lambda one: _parquet_table(probe, *one), found.items()))


def _open_remote_folder(probe: Probe, place: str) -> tuple[Table, ...]:
    """The same, of a bucket: what lies below, by the first part of its name."""
    root = without_options(place).rstrip("/") + "/"
    found: dict[str, list[Version]] = {}
    for version in find(place, PARQUET):
        first, _, rest = without_options(version.place).removeprefix(root).partition("/")
        if "=" not in first:
            found.setdefault(first if rest else Path(first).stem, []).append(version)
    if not found:
        raise SourceError(f"{root} holds no tables: expected <table>.parquet or <table>/*.parquet")
    return tuple(_parquet_table(probe, name, versions) for name, versions in found.items())


def open_database(path: str | os.PathLike[str]) -> tuple[Table, ...]:
    """Tables of a DuckDB file; one outside the schema ``main`` is named ``schema.table``."""
    full = os.path.abspath(os.path.expanduser(os.fspath(path)))
    return tuple(
        _table(source.table if source.schema == "main" else f"{source.schema}.{source.table}", columns, source)
        for columns, source in open_tables(full)
    )


def _open_path(probe: Probe, name: str, path: str) -> Table:
    scheme, separator, rest = path.partition("://")
    if scheme == "s3" and separator:
        return _parquet_table(probe, name, _parquet_only(path, find(path, PARQUET)))
    if separator and scheme != "file":
        raise SourceError(f"cannot read {path}: only files and s3:// are supported, not {scheme}://")
    paths = find_files(rest if separator else path, PARQUET + CSV + JSON)
    if not paths:
        raise SourceError(f"{path} holds no Parquet, CSV or JSON files")
    kinds = {_kind(file): file for file in paths}
    if len(kinds) > 1:
        raise SourceError(f"{path} mixes kinds of files: {' and '.join(sorted(kinds.values()))}; name them by a glob")
    kind = next(iter(kinds))
    if kind == "parquet":
        return _parquet_table(probe, name, paths)
    with probe.cursor(path) as cursor:
        open_text = open_csv if kind == "csv" else open_json
        columns, source = interruptibly(cursor, lambda: open_text(cursor, paths))
    return _table(name, columns, source)


def _parquet_only(place: str, versions: Sequence[Version]) -> Sequence[Version]:
    other = [name for one in versions if (name := without_options(one.place)).lower().endswith(CSV + JSON)]
    if other:
        raise SourceError(f"cannot read {other[0]}: of a bucket only Parquet files can be read")
    return versions


def _kind(path: str) -> str:
    lower = path.lower()
    for kind, suffixes in (("parquet", PARQUET), ("csv", CSV), ("json", JSON)):
        if lower.endswith(suffixes):
            return kind
    with reading(path), open(path, "rb") as stream:
        start = stream.read(12)
    if start[:4] == b"PAR1":
        return "parquet"
    if start[8:] == b"DUCK":
        raise SourceError(f"{path} is a DuckDB file: register its tables with register_database")
    known = ", ".join(suffix for suffix in PARQUET + CSV + JSON if suffix.count(".") == 1)
    raise SourceError(f"cannot tell what {path} holds: its name ends with none of {known}")


def _parquet_table(probe: Probe, name: str, found: Sequence[str | Version]) -> Table:
    files = open_parquet(found)
    paths = [file.file.path for file in files]
    with probe.cursor(paths[0] if len(paths) == 1 else os.path.commonpath(paths)) as cursor:
        reach(ParquetSource(tuple(files)), cursor)
        columns = describe(cursor, f"SELECT * FROM read_parquet([{', '.join(map(_readable, files))}])")
    source = ParquetSource(
        tuple(files),
        partitions=hive_columns(columns, paths),
        casts=len({file.schema for file in files}) > 1,
        cuttable=all(column.lower() != "file_row_number" for column, _ in columns),
    )
    return _table(name, columns, source)


def _readable(file: ParquetFile) -> str:
    return sql_path(file.file.path if file.version is None else file.version.path(()))


def _open_arrow(probe: Probe, name: str, source: object) -> Table:
    data = _arrow_table(name, source)
    with probe.cursor(f"table {name}") as cursor:
        arrow_input.register(cursor, "source", data)
        columns = describe(cursor, "SELECT * FROM source")
    return _table(name, columns, ArrowSource.of(data))


def _arrow_table(name: str, source: object) -> pa.Table:
    """The data as a table in memory, whatever it was: Arrow data is not copied, a stream is read to its end."""
    try:
        data = _to_arrow(name, source)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise SourceError(f"cannot read table {name} from a {type(source).__name__}: {error}") from error
    names = [column.lower() for column in data.column_names]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice or not names:
        raise SourceError(
            f"table {name} has " + (f"more than one column {', '.join(twice)}" if twice else "no columns")
        )
    return data


def _to_arrow(name: str, source: object) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    library = type(source).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(source, "to_table"):  # a dataset, whose module takes 0.1 s to import
        return source.to_table()
    if library == "pandas":
        return pa.Table.from_pandas(source, preserve_index=False)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise SourceError(
        f"cannot make table {name} of a {type(source).__name__}: expected a path, an Arrow table or dataset, or "
        "anything with __arrow_c_stream__ (pandas, Polars)"
    )


def _table(name: str, columns: Columns, source: Source) -> Table:
    _check_types(name, columns)
    return Table(name, columns, table_version(source, columns), source, source.rows)


def _check_types(name: str, columns: Columns) -> None:
    """DuckDB has types that it can hold, and no text of SQL can name: STRUCTs without names for their fields, for one.
    Such a column cannot be declared, so no query that names the table could be bound."""
    for column, type_ in columns:
        if "(" in type_ and not type_.startswith("DECIMAL(") and not has_name(type_):
            raise SourceError(f"column {column} of table {name} has a type that SQL cannot name, {type_}: cast it")
