"""Iceberg tables: the metadata are read by pyiceberg, the files by DuckDB.

A table is known by its folder, whose latest file of metadata counts, or by one such file. Its versions are snapshots.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from qoop.catalog.errors import ConfigError, SourceError
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.footer import read_footer
from qoop.catalog.sources.lake import LakeSource, Reads, constant
from qoop.catalog.sources.parquet import ParquetFile, open_parquet
from qoop.catalog.table import MOST_COMPACTIONS, Compaction

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask, Table
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.table.snapshots import Snapshot

ENDING = ".metadata.json"
_HINT = "version-hint.text"
_NUMBERED = re.compile(r"v?(\d+)(-.*|\.gz)?" + re.escape(ENDING))
_NUMBER = b"PARQUET:field_id"


def latest(place: str) -> str:
    """The file of metadata that counts now: the one that a hint names, or that of the highest number.

    Raises SourceError; also where two have that number, as only a catalog knows which of them was committed.
    """
    if place.endswith(ENDING):
        return os.path.basename(place)
    folder = os.path.join(place, "metadata")
    try:
        names = os.listdir(folder)
        hint = _hint(folder) if _HINT in names else ""
    except OSError as error:
        raise SourceError(f"cannot read {place}: {error.strerror or error}") from error
    if hint:
        return hint
    numbered = sorted((int(match[1]), name) for name in names if (match := _NUMBERED.fullmatch(name)))
    last = [name for number, name in numbered if number == numbered[-1][0]]
    if len(last) != 1:
        found = " and ".join(last) or "none has a number"
        raise SourceError(f"the current metadata of the Iceberg table {place} are ambiguous: {found}; name the file")
    return last[0]


def _hint(folder: str) -> str:
    with open(os.path.join(folder, _HINT), encoding="utf-8") as stream:
        written = stream.read().strip()
    return written if written.endswith(ENDING) else f"{'v' * written.isdigit()}{written}{ENDING}"


def opened(place: str, version: int | None) -> tuple[pa.Schema, LakeSource]:
    """The columns and the files of an Iceberg table. version: a snapshot of it; None: the current one.

    Raises SourceError for what cannot be read, such as deleted rows that are still in their files; ConfigError if
    pyiceberg is missing.
    """
    at = latest(place)
    table = _table(place, at)
    _check_version(place, table, version)
    scan = table.scan(snapshot_id=version)
    tasks = {_local(task.file.file_path): _checked(place, task) for task in _tasks(place, scan)}
    schema = _schema(scan.projection())
    files = open_parquet(sorted(tasks))
    named = table.name_mapping()
    shapes = [_known(place, file, named) for file in files]
    reads = tuple(
        _reads(table, schema, shape, tasks[file.file.path]) for file, shape in zip(files, shapes, strict=True)
    )
    casts = any(reads) or any(_types(shape) != _types(schema) for shape in shapes)
    compactions = tuple(_compactions(table, scan.snapshot()))
    return schema, LakeSource(tuple(files), casts=casts, log="iceberg", at=at, compactions=compactions, reads=reads)


def _table(place: str, at: str) -> Table:
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise ConfigError('Iceberg tables need pyiceberg: install it with pip install "qoop[iceberg]"') from error

    path = place if place.endswith(ENDING) else os.path.join(place, "metadata", at)
    io = _local_files()
    try:
        metadata = FromInputFile.table_metadata(io.new_input(path))
    except (ValidationError, OSError, ValueError) as error:
        raise SourceError(f"cannot read the Iceberg table {place}: {error}") from error
    return StaticTable((place,), metadata, path, io, NoopCatalog(place))


@cache
def _local_files() -> FileIO:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    class LocalFiles(PyArrowFileIO):  # ignores the class that the metadata name for reading
        """Files of this machine, and no others."""

        def new_input(self, location: str) -> Any:
            return super().new_input(_local(location))

    return LocalFiles()


def _compactions(table: Table, snapshot: Snapshot | None) -> Iterator[Compaction]:
    """The snapshots up to this one that only wrote rows again, which the format calls ``replace``; the last ones."""
    last: list[Snapshot] = []
    while snapshot is not None and len(last) < MOST_COMPACTIONS:
        last.append(snapshot)
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    for before, now in pairwise(reversed(last)):
        if now.summary is not None and now.summary.operation.value == "replace":
            found = _compaction(now.snapshot_id, now.manifest_list, before.manifest_list)
            if found is not None:
                yield found


@lru_cache(maxsize=10_000)
def _compaction(snapshot: int, manifests: str, before: str) -> Compaction | None:
    """The files that a snapshot replaces, and those that came. manifests: its list, and that of the snapshot before.

    None: the lists have expired, or rows may have been deleted by separate files, so that the files held others.
    """
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, read_manifest_list

    io = _local_files()
    try:
        lists = [list(read_manifest_list(io.new_input(one))) for one in (manifests, before)]
        if any(one.content is not ManifestContent.DATA for each in lists for one in each):
            return None
        written = [one for one in lists[0] if one.added_snapshot_id == snapshot]
        entries = [entry for one in written for entry in one.fetch_manifest_entry(io, discard_deleted=False)]
        entries = [entry for entry in entries if entry.snapshot_id == snapshot]
        gone, came = (
            tuple(_local(entry.data_file.file_path) for entry in entries if entry.status is status)
            for status in (ManifestEntryStatus.DELETED, ManifestEntryStatus.ADDED)
        )
    except (OSError, ValueError, SourceError):  # the last one: for a file in another place, which is none of the table
        return None
    return Compaction(gone, came) if gone and came else None


def _check_version(place: str, table: Table, version: int | None) -> None:
    if version is not None and table.snapshot_by_id(version) is None:
        there = ", ".join(str(one.snapshot_id) for one in table.snapshots()) or "none"
        raise SourceError(f"the Iceberg table {place} has no snapshot {version}; it has {there}")


def _tasks(place: str, scan: DataScan) -> list[FileScanTask]:
    try:
        return list(scan.plan_files())
    except (OSError, ValueError, NotImplementedError) as error:  # the second for rows that are deleted by their values
        raise SourceError(f"cannot read the Iceberg table {place}: {error}") from error


def _checked(place: str, task: FileScanTask) -> DataFile:
    """A file of which all rows are to be read. Raises SourceError."""
    if task.delete_files:
        raise SourceError(
            f"cannot read the Iceberg table {place}: rows of {task.file.file_path} are deleted and still in it; write "
            "its files again without them (rewrite_data_files)"
        )
    if task.file.file_format.value != "PARQUET":
        raise SourceError(f"cannot read the Iceberg table {place}: {task.file.file_path} is no Parquet file")
    return task.file


def _local(location: str) -> str:
    """A path on this machine. Raises SourceError for another place."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise SourceError(f"cannot read files of an Iceberg table in another place, such as {location}")
    return unquote(parts.path) if parts.scheme else location


def _schema(projection: Schema) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    made: pa.Schema = schema_to_pyarrow(projection)
    return made


def _known(place: str, file: ParquetFile, named: NameMapping | None) -> pa.Schema:
    """The columns of a file, each with its number in the table; of a file that was not written for it, by their names.

    Raises SourceError if the numbers are unknown.
    """
    written = read_footer(file.file.path).schema.to_arrow_schema()
    if any(_number(field) is not None for field in written):
        return written
    if named is None:
        raise SourceError(f"cannot read the Iceberg table {place}: {file.file.path} does not number its columns")
    numbers = {name: one.field_id for one in named for name in one.names}
    return pa.schema(
        field.with_metadata({_NUMBER: str(numbers[field.name]).encode()})
        for field in written
        if numbers.get(field.name) is not None
    )


def _reads(table: Table, schema: pa.Schema, shape: pa.Schema, file: DataFile) -> Reads:
    """The columns that a file has by another name, or not at all."""
    there = {_number(field): field for field in shape}
    found = []
    for field in schema:
        written = there.get(_number(field))
        if written is None:
            found.append((field.name, _instead(table, field, file)))
            continue
        if _members(written.type) != _members(field.type):
            raise SourceError(
                f"cannot read column {field.name} of the Iceberg table {table.name()[0]}: its fields have changed "
                f"since {file.file_path} was written"
            )
        if written.name != field.name:
            found.append((field.name, sql_name(written.name)))
    return tuple(found)


def _instead(table: Table, field: pa.Field, file: DataFile) -> str:
    """The value of all rows of a file in a column that is not in it: of its partition, or the default of old rows."""
    number = _number(field)
    column = next(
        one for schema in reversed(table.schemas().values()) for one in schema.fields if one.field_id == number
    )
    for at, part in enumerate(table.specs()[file.spec_id].fields):
        if part.source_id == number and str(part.transform) == "identity":
            value = file.partition[at]
            return constant(None if value is None else part.transform.to_human_string(column.field_type, value))
    return constant(column.initial_default)


def _number(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_NUMBER)
    return None if text is None else int(text)


def _members(type_: pa.DataType) -> list[object]:
    """The fields inside a type by name and number, in order; those of lists and maps have names of the writer's."""
    inner = [type_.field(at) for at in range(type_.num_fields)]
    own = [(field.name, _number(field)) for field in inner] if pa.types.is_struct(type_) else []
    return [*own, *(_members(field.type) for field in inner)]


def _types(schema: pa.Schema) -> dict[int | None, str]:
    return {_number(field): str(field.type).replace("large_", "") for field in schema}
