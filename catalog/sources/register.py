"""From a path or an object to a :class:`Table`: detect its kind, read its schema, fix its version."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.duckdb_introspection import has_name
from qoop.catalog.errors import SourceError
from qoop.catalog.interrupts import interruptibly
from qoop.catalog.sources.file_stamp import File, Stamp, different, file_stamp, reading, unchanged
from qoop.catalog.sources.files import CREATED, Found, find_files, hive_columns, is_sqlite, lake_of, sql_path
from qoop.catalog.sources.memory import ArrowSource, by_duckdb, category, is_arrays, of_pandas
from qoop.catalog.sources.parquet import ParquetFile, ParquetSource, columns_by_footer, open_parquet, reach
from qoop.catalog.sources.probe import Probe, describe
from qoop.catalog.stores.objects import below, is_remote, without_options
from qoop.catalog.table import Columns, Origin, Source, Table, digest_of, table_version

if TYPE_CHECKING:
    from qoop.catalog.sources.database import DatabaseSource, FileView
    from qoop.catalog.sources.remote import Version
    from qoop.catalog.sources.text import TextSource

PARQUET = (".parquet", ".pq", ".parq")
_TEXT = (".csv", ".tsv"), (".json", ".jsonl", ".ndjson")
CSV, JSON = (tuple(kind + packed for packed in ("", ".gz", ".zst") for kind in kinds) for kinds in _TEXT)

_READERS = 4  # threads that register the tables of a folder: DuckDB detects types while others read footers


def open_source(probe: Probe, name: str, source: object, version: int | None = None) -> Table:
    """A table over anything that :meth:`qoop.catalog.catalog.Catalog.register` takes. version: of a lake's table."""
    if isinstance(source, str | os.PathLike):
        place = os.fspath(source)
        absolute = place if is_remote(place) else os.path.abspath(os.path.expanduser(place))
        if version is not None and lake_of(absolute) in (None, CREATED):
            raise SourceError(f"{place} has no versions: it is no Delta or Iceberg table")
        return _open_path(probe, name, Origin(absolute, PARQUET + CSV + JSON, version))
    return _open_arrow(probe, name, source)


def reread(probe: Probe, table: Table, found: Found | None = None) -> Table | None:
    """The table of that name and place as it is now; None: it is still all that the place holds. found: the files of
    its folder, if they are known. Raises SourceError if the place is gone, or holds nothing now."""
    found = _listed(table) if found is None else found
    return None if _is_current_table(table, found) else _reopened(probe, table, found)


def _listed(table: Table) -> Found | None:
    """The files in the folder of a table; None where its files are found in another way."""
    source, origin = table.source, table.origin
    if origin is None:
        return None
    if isinstance(source, ParquetSource):
        if source.log or source.is_remote:
            return None
    else:
        from qoop.catalog.sources.text import TextSource

        if not isinstance(source, TextSource):
            return None
    is_one_file = len(source.files) == 1 and source.files[0].file.path == origin.place
    return None if is_one_file else _found(origin)


def _is_current_table(table: Table, found: Found | None) -> bool:
    """False may be a false alarm: files that were touched. Reads no file. found: see `_listed`."""
    source = table.source
    if table.origin is None:
        return True
    if isinstance(source, ParquetSource):
        return _is_current(source, table.origin, found)
    from qoop.catalog.sources.database import DatabaseSource
    from qoop.catalog.sources.text import TextSource

    if isinstance(source, DatabaseSource):
        return unchanged([source.file], source.read_stamp)
    return not isinstance(source, TextSource) or _has_files(source, found)


def _is_current(source: ParquetSource, origin: Origin, found: Found | None) -> bool:
    if source.log == CREATED:  # its files never change
        return _is_latest(source, origin)
    if source.log:
        is_latest = origin.version is not None or _is_latest(source, origin)
        return is_latest and unchanged([file.file for file in source.files])
    if source.is_remote:
        from qoop.catalog.sources.remote import find

        return [file.version for file in source.files] == find(origin.place, PARQUET)
    return _has_files(source, found)


def _has_files(source: ParquetSource | TextSource, found: Found | None) -> bool:
    """True if the files of a source are those that were found; not looked for: if its one file is the same."""
    if found is None:
        return _is_unchanged(source.files[0].file)
    return len(source.files) == len(found.stamps) and source.stamps == found.stamps


def _is_unchanged(file: File) -> bool:
    """False, too, for a file that cannot be read."""
    try:
        return file_stamp(file.path) == file.stamp
    except OSError:
        return False


def content(table: Table) -> str | None:
    """Digest of all that the files of a table hold, which copies share. Reads the files that are identified by stamps.

    None for rows in memory or in a bucket."""
    from qoop.catalog.sources.database import DatabaseSource
    from qoop.catalog.sources.text import TextSource

    match table.source:
        case ParquetSource() as source:
            rows = source.content()
        case TextSource() | DatabaseSource() as source:
            rows = source.digest()
        case _:
            rows = None
    return None if rows is None else digest_of(rows, table.columns)


def _reopened(probe: Probe, table: Table, found: Found | None) -> Table:
    """The table of that name and place as it is now. found: see `_listed`. Raises SourceError."""
    if table.origin is None:
        return table
    place = _place_in_file(table)
    if place is None:
        return _open_path(probe, table.name, table.origin, table, found)
    for one in open_database(table.origin.place)[0]:
        if _place_in_file(one) == place:
            return replace(one, name=table.name)
    raise SourceError(f"{table.origin.place} holds no table {table.name} any more")


def _place_in_file(table: Table) -> tuple[str, str] | None:
    """The schema and the name of a table in a file that is a database; None for other tables."""
    from qoop.catalog.sources.database import DatabaseSource

    return (table.source.schema, table.source.table) if isinstance(table.source, DatabaseSource) else None


def open_folder(
    probe: Probe, directory: str | os.PathLike[str], is_selected: Callable[[str], bool] | None = None
) -> tuple[Table, ...]:
    """Tables of the Parquet files and folders of Parquet files in a directory. is_selected: true for the names of those
    that are to be opened; None: all."""
    place = os.fspath(directory)
    scheme, _, path = place.rpartition("://")
    if is_remote(place) and scheme != "file":
        return _open_remote_folder(probe, place)
    root = os.path.abspath(os.path.expanduser(path))
    found: dict[str, Origin] = {}
    for entry in _entries(root):
        name = entry.stem if entry.name.lower().endswith(PARQUET) else entry.name
        if name in found and _is_piece(entry, found[name]):
            continue
        if name in found:
            raise SourceError(f"{root} holds table {name} twice: {found[name].place} and {entry}")
        found[name] = Origin(f"file://{entry}" if scheme else str(entry), PARQUET)
    if not found:
        raise SourceError(f"{root} holds no tables: expected <table>.parquet or <table>/*.parquet{_other_files(root)}")
    if is_selected is not None:
        return tuple(_open_path(probe, name, origin) for name, origin in found.items() if is_selected(name))
    with ThreadPoolExecutor(_READERS) as readers:
        return tuple(readers.map(lambda one: _open_path(probe, *one), found.items()))


def _is_piece(entry: Path, origin: Origin) -> bool:
    """True for a file that has become a piece of the created table of its name, where its writer was killed then."""
    if lake_of(origin.place) != CREATED:
        return False
    from qoop.catalog.sources.created import has_piece

    return has_piece(Path(origin.place), entry)


def _other_files(root: str) -> str:
    """Advice where a folder has files that are tables when they are named themselves."""
    others = sorted(one.name for one in Path(root).iterdir() if one.name.lower().endswith((*CSV, *JSON)))
    return f"; a file of another kind is a table by itself: {Path(root, others[0])}" if others else ""


def _entries(root: str) -> Iterable[Path]:
    """The entries of a folder that are tables."""
    with reading(root):
        entries = sorted(Path(root).iterdir())
    for entry in entries:
        if entry.name.startswith((".", "_")) or "=" in entry.name:
            continue
        if not entry.is_dir():
            holds = entry.name.lower().endswith(PARQUET)
        else:
            holds = lake_of(str(entry)) is not None or bool(find_files(str(entry), PARQUET).stamps)
        if holds:
            yield entry


def _open_remote_folder(probe: Probe, place: str) -> tuple[Table, ...]:
    """The tables of a bucket: the objects below the place, by the first part of their names."""
    from qoop.catalog.sources.remote import find

    root = without_options(place).rstrip("/") + "/"
    found: dict[str, list[Version]] = {}
    origins: dict[str, Origin] = {}
    for version in find(place, PARQUET):
        first, _, rest = without_options(version.place).removeprefix(root).partition("/")
        if "=" not in first:
            name = first if rest else Path(first).stem
            found.setdefault(name, []).append(version)
            origins[name] = Origin(below(place, first) if rest else version.place, PARQUET)
    if not found:
        raise SourceError(f"{root} holds no tables: expected <table>.parquet or <table>/*.parquet")
    return tuple(_parquet_table(probe, name, versions, origins[name]) for name, versions in found.items())


def open_database(path: str | os.PathLike[str], database: str = "") -> tuple[tuple[Table, ...], Sequence[FileView]]:
    """Tables and views of a DuckDB file; a table outside the schema ``main`` is named ``schema.table``. database: the
    name that it was attached by, which comes before that."""
    full = os.path.abspath(os.path.expanduser(os.fspath(path)))
    found, views = _content_of(full)
    tables = tuple(
        _table(
            ".".join(part for part in (database, source.schema, source.table) if part and part != "main"),
            columns,
            source,
            Origin(full, ()),
        )
        for columns, source in found
    )
    return tables, views


def _open_path(
    probe: Probe, name: str, origin: Origin, before: Table | None = None, found: Found | None = None
) -> Table:
    """before: the table of that name and place as it was, if it is known. found: its files, if they are listed."""
    if origin.place.startswith("s3://"):
        from qoop.catalog.sources.remote import find

        return _parquet_table(probe, name, _parquet_only(origin.place, find(origin.place, PARQUET)), origin)
    kind = lake_of(origin.place, None if found is None else found.hidden)
    if kind == CREATED:
        from qoop.catalog.sources.created import opened as open_created  # sessions without tables have none

        return _table(name, *open_created(origin.place), origin)
    if kind is not None:
        return _lake_table(probe, name, kind, origin)
    found = _found(origin) if found is None else found
    if before is not None and (followed := _followed(before, origin, found)) is not None:
        return followed
    paths = found.paths
    if not paths:
        raise SourceError(f"{origin.place} holds no Parquet, CSV or JSON files")
    named = next((file for file in paths if file.endswith(PARQUET[0])), None)
    kinds = {"parquet": named} if named is not None else {}
    kinds |= {_kind(file): file for file in paths if not file.endswith(PARQUET[0])}
    if len(kinds) > 1:
        mixed = " and ".join(sorted(kinds.values()))
        raise SourceError(f"{origin.place} mixes kinds of files: {mixed}; name them by a glob")
    kind = next(iter(kinds))
    if kind == "parquet":
        return _parquet_table(probe, name, paths, origin, before, found.stamps)
    from qoop.catalog.sources.text import open_csv, open_json  # after the Parquet files, which most tables are of

    with probe.cursor(origin.place) as cursor:
        open_text = open_csv if kind == "csv" else open_json
        columns, source = interruptibly(cursor, lambda: open_text(cursor, paths))
    return _table(name, columns, source, origin)


def _followed(before: Table, origin: Origin, found: Found) -> Table | None:
    """The table over the files of a flat folder of which few have changed; None: each has to be looked at."""
    source = before.source
    if not isinstance(source, ParquetSource) or not found.flat or source.by_content or source.casts or source.log:
        return None
    gone, there = different(source.stamps, found.stamps), source.stamps
    came = sorted([*filterfalse(there.__contains__, found.stamps), *filter(found.stamps.__contains__, gone)])
    first = source.files[0]  # it decides the columns
    if source.partitions or first.file.path in gone or any(path <= first.file.path or "=" in path for path in came):
        return None
    if not all(path.endswith(PARQUET[0]) for path in came):
        return None
    opened = open_parquet(came, stamps={path: found.stamps[path] for path in came})
    if any(file.schema != first.schema for file in opened):
        return None
    return _table(before.name, before.columns, source.with_changes(gone, opened), origin, ParquetSource(tuple(opened)))


def _found(origin: Origin) -> Found:
    """The files of a place on this machine."""
    scheme, separator, path = origin.place.rpartition("://")
    if separator and scheme != "file":
        raise SourceError(f"cannot read {origin.place}: only files and s3:// are supported, not {scheme}://")
    return find_files(path, origin.endings)


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
    if is_sqlite(path):
        raise SourceError(f"{path} is an SQLite file: register its tables with register_database, or ATTACH it")
    if start[8:] == b"DUCK":
        raise SourceError(f"{path} is a DuckDB file: register its tables with register_database")
    known = ", ".join(suffix for suffix in PARQUET + CSV + JSON if suffix.count(".") == 1)
    raise SourceError(f"the format of {path} is unknown: its name ends with none of {known}")


def _parquet_table(
    probe: Probe,
    name: str,
    found: Sequence[str | Version],
    origin: Origin,
    before: Table | None = None,
    stamps: Mapping[str, Stamp] | None = None,
) -> Table:
    by_content = origin.place.startswith("file://")
    known = before.source.files if before is not None and isinstance(before.source, ParquetSource) else ()
    files = open_parquet(found, by_content, known, stamps)
    paths = [file.file.path for file in files]
    by_folder = any("=" in path for path in paths)
    described = files if by_folder else files[:1]  # else the first decides for all
    if before is not None and not by_folder and _begins_with(before.source, files[0]):
        columns, described = before.columns, []
    else:
        columns = (None if by_folder else columns_by_footer(files[0])) or _described_by_duckdb(
            probe, described, paths[0] if len(paths) == 1 else origin.place
        )
    source = ParquetSource(
        tuple(files),
        partitions=hive_columns(columns, paths),
        casts=len({file.schema for file in files}) > 1,
        cuttable=all(column.lower() != "file_row_number" for column, _ in columns),
        by_content=by_content,
    )
    return _table(name, columns, source, origin, ParquetSource(tuple(described), by_content=by_content))


def _described_by_duckdb(probe: Probe, files: Sequence[ParquetFile], place: str) -> Columns:
    with probe.cursor(place) as cursor:
        reach(ParquetSource(tuple(files)), cursor)
        return describe(cursor, f"SELECT * FROM read_parquet([{', '.join(map(_readable, files))}])")


def _begins_with(source: Source, file: ParquetFile) -> bool:
    """True if a file alone decides the columns of a source."""
    return isinstance(source, ParquetSource) and not source.partitions and source.files[0] == file


def _is_latest(source: ParquetSource, origin: Origin) -> bool:
    from qoop.catalog.sources.lake import latest

    return source.at == latest(source.log, origin.place)


def _content_of(path: str) -> tuple[Sequence[tuple[Columns, DatabaseSource]], Sequence[FileView]]:
    if not is_sqlite(path):
        from qoop.catalog.sources.database import open_tables

        return open_tables(path)
    from qoop.catalog.sources.sqlite import open_sqlite  # few files are

    return open_sqlite(path), ()


def _lake_table(probe: Probe, name: str, kind: str, origin: Origin) -> Table:
    from qoop.catalog.sources.lake import open_lake  # few tables are of a lake

    schema, source = open_lake(kind, origin.place, origin.version)
    with probe.cursor(origin.place) as cursor:
        arrow_input.register(cursor, "source", schema.empty_table())
        columns = describe(cursor, "SELECT * FROM source")
    return _table(name, columns, source, origin)


def _readable(file: ParquetFile) -> str:
    return sql_path(file.file.path if file.version is None else file.version.path(()))


def _open_arrow(probe: Probe, name: str, source: object) -> Table:
    data = _arrow_table(name, source)
    columns = _described.get(data.schema) if _is_plain(data.schema) else None
    if columns is None:
        with probe.cursor(f"table {name}") as cursor:
            arrow_input.register(cursor, "source", data)
            columns = describe(cursor, "SELECT * FROM source")
        _describe(data.schema, columns)
    if [name for name, _ in columns] != data.column_names:  # DuckDB tells names apart that differ in case alone
        data = data.rename_columns([name for name, _ in columns])
    if type(source).__module__.partition(".")[0] == "pandas" or is_arrays(source):
        columns = tuple((column, category(data, column) or type_) for column, type_ in columns)
    return _table(name, columns, ArrowSource.of(data))


_SCHEMAS = 256
_described: dict[pa.Schema, Columns] = {}
"""The columns of Arrow data by its schema, at most `_SCHEMAS`: a repeated query reads its own last result."""


def _describe(schema: pa.Schema, columns: Columns) -> None:
    if _is_plain(schema):
        if len(_described) >= _SCHEMAS:
            _described.clear()
        _described[schema] = columns


def _is_plain(schema: pa.Schema) -> bool:
    """True if the schema alone decides what DuckDB makes of the columns. The values of an ENUM are in its data, and
    schemas that differ in their metadata only are equal."""
    return schema.metadata is None and all(field.metadata is None and _is_scalar(field.type) for field in schema)


def _is_scalar(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_string(type_))


def _arrow_table(name: str, source: object) -> pa.Table:
    """The data as a table in memory: Arrow data is not copied, a stream is read to its end."""
    try:
        data = _to_arrow(name, source)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise SourceError(f"cannot read table {name} from a {type(source).__name__}: {error}") from error
    if any(not column or "\0" in column for column in data.column_names):
        raise SourceError(f"table {name} has a column without a name that SQL can write: {data.column_names}")
    names = data.column_names
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
        return of_pandas(source)
    if is_arrays(source):
        return by_duckdb(source)
    if library == "polars" and type(source).__name__ == "LazyFrame":
        source = source.collect()  # type: ignore[attr-defined]
    if library == "polars":
        _check_no_objects(source)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise SourceError(
        f"cannot make table {name} of a {type(source).__name__}: expected a path, an Arrow table or dataset, or "
        "anything with __arrow_c_stream__ (pandas, Polars), or arrays of NumPy"
    )


def _check_no_objects(frame: Any) -> None:
    """Raise ValueError for a column of Polars that holds objects of Python: in Arrow it has their addresses."""
    objects = [name for name, type_ in frame.schema.items() if str(type_) == "Object"]
    if objects:
        raise ValueError(f"its column {objects[0]} holds objects of Python")


def _table(
    name: str, columns: Columns, source: Source, origin: Origin | None = None, read: Source | None = None
) -> Table:
    """The table, unless its files changed while they were opened; every request to a bucket has its own condition.

    read: its files that were read after their stamps; None: all."""
    _check_types(name, columns)
    if not isinstance(source, ParquetSource) or not source.is_remote:
        (read or source).check(None)
    return Table(name, columns, table_version(source, columns), source, source.rows, origin)


def _check_types(name: str, columns: Columns) -> None:
    """DuckDB has types that it can hold, and no text of SQL can name: STRUCTs without names for their fields, for one.
    Such a column cannot be declared, so no query that names the table could be bound."""
    for column, type_ in columns:
        if "(" in type_ and not type_.startswith("DECIMAL(") and not has_name(type_):
            raise SourceError(f"column {column} of table {name} has a type that SQL cannot name, {type_}: cast it")
