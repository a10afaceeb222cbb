"""Parquet files as a source: footers give schema and row groups; DuckDB reads the rows.

A file is known by its stamp and its footer, as reading all of it would take long; one of a place that machines share
(``file://…``) by all it holds; one in a bucket by its entity tag.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import accumulate, chain
from sys import intern
from typing import TYPE_CHECKING, TypeVar, cast

import duckdb
import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.errors import SourceError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.file_stamp import (
    File,
    Stamp,
    check_content,
    check_unchanged,
    content_digest,
    content_file,
    file_stamp,
    reading,
    settled,
)
from qoop.catalog.sources.files import (
    hashed_row,
    hive_digest,
    hive_options,
    no_rows,
    sql_name,
    sql_path,
)
from qoop.catalog.sources.footer import describes_its_columns, paths, plain_columns, read_footer
from qoop.catalog.sources.pieces import PIECE, Pieces, Runs
from qoop.catalog.stores.objects import without_options
from qoop.catalog.table import Columns, Compaction, Footer, Range, Source, Split, joined, spread
from qoop.catalog.value import value

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from qoop.catalog.sources import remote

_GROUPS = "FROM parquet_metadata(?) GROUP BY row_group_id, row_group_num_rows ORDER BY row_group_id"
_ROW_NUMBER = "file_row_number"
# One SELECT each: only over a single file does DuckDB push the filter of a sample into the reader.
_SAMPLE_GROUPS = 32
_SCANS = 64  # sets of columns whose SELECT is remembered
_READERS = 4  # threads that read whole files
_WORTH_LEAVING = 65_536  # rows: to decode a column of them takes as long as another SELECT
_V = TypeVar("_V")
MOST_FOOTERS = 64
"""Footers of a table that are read for statistics: each takes about a millisecond."""


@value
class ParquetFile:
    """One file: rows of its row groups in order, the Arrow-free text of its schema, and, in a bucket, its version."""

    file: File
    row_groups: tuple[int, ...]
    schema: str
    version: remote.Version | None = None

    @cached_property
    def rows(self) -> int:
        return sum(self.row_groups)

    @cached_property
    def identity(self) -> str:
        """A text that identifies the rows of the file, if no folder adds values."""
        return repr((self.file.digest, []))


@value
class ParquetSource:
    """Parquet files that together are one table.

    partitions: hive columns with their types, fixed at registration, since DuckDB would guess them again from
        the files of a split.
    casts: the files differ in types, so that a split must cast to the types of the table.
    by_content: the files are identified by their content, not by their stamps.
    log: the kind of the log that lists them, if one does; at: what it said then; compactions: that it names.
    manifest: the file of a version, which is locked while the version is in use; empty: there is none.
    """

    files: tuple[ParquetFile, ...]
    partitions: Columns = ()
    casts: bool = False
    cuttable: bool = True
    by_content: bool = False
    log: str = ""
    at: str = ""
    compactions: tuple[Compaction, ...] = field(default=(), compare=False, repr=False)
    manifest: str = field(default="", compare=False, repr=False)

    shared = True
    in_row_groups = True

    @cached_property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def digest(self) -> str:
        """Digest of the files and their hive values, in the order of the files; local paths do not count."""
        if not self.partitions:
            return f"[{', '.join([file.identity for file in self.files])}]"
        return f"[{', '.join([self._identity(file) for file in self.files])}]"

    def content(self) -> str | None:
        """The same of the bytes of local files, which it reads; None for files in a bucket."""
        if self.is_remote:
            return None
        with ThreadPoolExecutor(_READERS) as readers:
            digests = readers.map(_content, self.files)
            return repr([(one, self._hive(file)) for one, file in zip(digests, self.files, strict=True)])

    def _identity(self, file: ParquetFile) -> str:
        return repr((file.file.digest, self._hive(file))) if self.partitions else file.identity

    def _hive(self, file: ParquetFile) -> list[tuple[str, str]]:
        return hive_digest(self.partitions, file.file.path)

    def identities(self) -> Mapping[str, str]:
        """By path what each file holds, and its hive values."""
        return self._identities

    @cached_property
    def _identities(self) -> Mapping[str, str]:
        if not self.partitions:
            return {file.file.path: file.identity for file in self.files}
        return {file.file.path: self._identity(file) for file in self.files}

    def only(self, paths: Collection[str]) -> ParquetSource:
        """Its files at these paths."""
        places = sorted(self._places[path] for path in paths if path in self._places)
        return replace(self, files=tuple([self.files[place] for place in places]))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {file.file.path: place for place, file in enumerate(self.files)}

    def with_changes(self, gone: Collection[str], came: Sequence[ParquetFile]) -> ParquetSource:
        """The source of a folder's files, in the order of their paths, after few have changed. gone: the paths of those
        that are no longer there, or are others now. came: the new ones, and these others."""
        by_path = _with_changes(self._by_path, gone, {file.file.path: file for file in came})
        made = replace(self, files=tuple([by_path[path] for path in sorted(by_path)]))
        vars(made).update(
            rows=self.rows - sum(self._by_path[path].rows for path in gone) + sum(file.rows for file in came),
            _by_path=by_path,
            stamps=_with_changes(self.stamps, gone, {file.file.path: file.file.stamp for file in came}),
            _identities=_with_changes(self._identities, gone, {file.file.path: file.identity for file in came}),
            _versions=self._versions,
            _file_rows=_with_changes(self._file_rows, gone, {file.file.path: file.rows for file in came}),
        )
        return made

    @cached_property
    def _by_path(self) -> Mapping[str, ParquetFile]:
        return {file.file.path: file for file in self.files}

    @property
    def compactable(self) -> bool:
        """See `FilesSource`."""
        return bool(self.log)

    @cached_property
    def stamps(self) -> Mapping[str, Stamp]:
        """Those of its files, by path."""
        return {file.file.path: file.file.stamp for file in self.files}

    def file_rows(self) -> Mapping[str, int]:
        """The rows of each file, by path."""
        return self._file_rows

    @cached_property
    def _file_rows(self) -> Mapping[str, int]:
        return {file.file.path: file.rows for file in self.files}

    @cached_property
    def _pieces(self) -> tuple[Range, ...]:
        return tuple(piece for file in self.files for piece in self._pieces_of(file))

    def pieces(self) -> tuple[Range, ...]:
        """One range per row group that has rows."""
        return self._pieces

    def _pieces_of(self, file: ParquetFile) -> list[Range]:
        groups = [rows for rows in file.row_groups if rows]
        if len(groups) <= 1 or not self.cuttable:
            return [Range(file.file.path, 0, file.rows, whole=True)] if file.rows else []
        starts = [sum(groups[:index]) for index in range(len(groups))]
        return [Range(file.file.path, start, rows) for start, rows in zip(starts, groups, strict=True)]

    def check(self, split: Split | None) -> None:
        """Compare the files (of the split) with those registered. Those of a bucket are compared as a whole only: when
        they are read, each request is made on condition that they have not changed."""
        if split is None and self.is_remote:
            from qoop.catalog.sources import remote

            remote.check(self._versions.values())
        if not self.by_content:
            check_unchanged(self.local_files(split))
            return
        for file in self.local_files(split):
            check_content(file, "content", content_digest)

    def local_files(self, split: Split | None) -> list[File]:
        """The files (of the split) that lie in no bucket."""
        paths = self._local.keys() if split is None else dict.fromkeys(item.file for item in split.ranges)
        return [self._local[path] for path in paths if path in self._local]

    @cached_property
    def _local(self) -> dict[str, File]:
        return {file.file.path: file.file for file in self.files if file.version is None}

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """SELECT over read_parquet; row ranges become predicates on the row number, which prune row groups."""
        if split is None:
            return self._all(columns)
        ranges = self._joined(split.ranges)
        whole = [item.file for item in ranges if item.whole]
        parts = [self._select(columns, whole)] if whole else []
        parts += [self._select(columns, [item.file], _row_numbers(item)) for item in ranges if not item.whole]
        return "\nUNION ALL ".join(parts) if parts else no_rows(columns)

    def _all(self, columns: Columns) -> str:
        """All rows. For files of this machine it is made once."""
        if self.is_remote:
            return self._select(columns, [file.file.path for file in self.files])
        found = self._scans.get(columns)
        if found is None:
            if len(self._scans) >= _SCANS:
                self._scans.clear()
            found = self._scans[columns] = self._select(columns, [file.file.path for file in self.files])
        return found

    @cached_property
    def _scans(self) -> dict[Columns, str]:
        return {}

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str | pa.Table:
        """One SELECT for each stretch of a file whose row groups all have some of the rows; of pieces that are row
        groups one for each, if they must be distinguished."""
        numbered = any(name == PIECE for name, _ in columns)
        apart = (one for run in runs for one in self._stretches(run, numbered))
        return "\nUNION ALL ".join(self._select_run(columns, run, numbered) for run in apart)

    def _stretches(self, run: Runs, numbered: bool) -> Iterator[Runs]:
        if run.borders and numbered:
            return run.singly()
        return run.apart(self._borders[run.file], 1 if run.borders else _WORTH_LEAVING)

    @cached_property
    def _borders(self) -> dict[str, tuple[int, ...]]:
        """Of each file the rows at which its row groups begin, and the one behind the last."""
        return {file.file.path: (0, *accumulate(file.row_groups)) for file in self.files}

    def _select_run(self, columns: Columns, run: Runs, numbered: bool) -> str:
        number = run.number(_ROW_NUMBER) if numbered else ""
        return self._select(columns, [run.file], run.holds(_ROW_NUMBER), number)

    def _joined(self, ranges: Sequence[Range]) -> list[Range]:
        """Neighbours in one; what turns out to be a whole file needs no predicate."""
        rows = self._file_rows
        return [replace(item, whole=item.rows == rows[item.file]) for item in joined(ranges)]

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows whose hashed position in their file says so; other positions in other files."""
        paths = [file.file.path for file in self.files]
        if not self.cuttable:
            return f"{self._select(columns, paths)} USING SAMPLE {100 / one_in:.6f}% (bernoulli, 0)"
        groups = (paths[start::_SAMPLE_GROUPS] for start in range(min(_SAMPLE_GROUPS, len(paths))))
        parts = (
            self._select(columns, group, hashed_row(_ROW_NUMBER, one_in, self.rows, salt))
            for salt, group in enumerate(groups)
        )
        return "\nUNION ALL ".join(parts)

    def _select(self, columns: Columns, paths: Sequence[str], where: str = "", number: str = "") -> str:
        """number: SQL for the column `PIECE`, if there is one."""
        names = ", ".join(f"{number} AS {PIECE}" if number and name == PIECE else self._column(name, type_)
                          for name, type_ in columns)  # fmt: skip
        return self._read(names, columns, paths, where)

    def _read(self, names: str, columns: Columns, paths: Sequence[str], where: str) -> str:
        files = ", ".join(sql_path(self._readable(path, columns)) for path in paths)
        options = hive_options(self.partitions, paths[0]) + (f", {_ROW_NUMBER} = true" if where else "")
        sql = f"SELECT {names} FROM read_parquet([{files}], {options})"
        return f"{sql} WHERE {where}" if where else sql

    def _readable(self, path: str, columns: Columns) -> str:
        version = self._versions.get(path)
        return path if version is None else version.path([name for name, _ in columns])

    @cached_property
    def _versions(self) -> dict[str, remote.Version]:
        return {file.file.path: file.version for file in self.files if file.version is not None}

    @property
    def is_remote(self) -> bool:
        """True if the files lie in a bucket."""
        return bool(self._versions)

    def _column(self, name: str, type_: str) -> str:
        if not self.casts or any(name == key for key, _ in self.partitions):
            return sql_name(name)
        return f"CAST({sql_name(name)} AS {type_}) AS {sql_name(name)}"

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """From the footers, where every row group says; a footer's text may be cut short, so no texts."""
        found = self._extremes(names) if len(self.files) <= MOST_FOOTERS else self._all_extremes
        return {name: found[name] for name in names if name in found}

    @cached_property
    def _all_extremes(self) -> Mapping[str, tuple[object, object]]:
        """Those of all columns: of many files, reading the footers takes most of the time."""
        return self._extremes(None)

    def _extremes(self, names: Sequence[str] | None) -> Mapping[str, tuple[object, object]]:
        """names: of columns; None: all."""
        footers = [] if self.casts else [_footer(file) for file in self.files]
        groups = [group for footer in footers if footer is not None for group in _groups(footer.metadata)]
        if None in footers:
            return {}
        names = list(dict.fromkeys(chain.from_iterable(groups))) if names is None else names
        found = {name: _extremes([group[name] for group in groups if name in group], len(groups)) for name in names}
        return {name: pair for name, pair in found.items() if pair is not None}

    def footers(self) -> Sequence[Footer]:
        """Those of files that are spread over the table; none if the files differ in types, or one is damaged."""
        having = [file for file in self.files if file.rows]
        found = [] if self.casts else [_footer(file) for file in spread(having, MOST_FOOTERS)]
        return [footer for footer in found if footer is not None] if None not in found else ()

    def places(self) -> Places:
        """The places that must be opened to read it."""
        return Places(
            [file.file.path for file in self.files if file.version is None],
            [file.file.path for file in self.files if file.version is not None],
        )

    def attach(self) -> None:
        """Nothing to attach."""
        return


def _with_changes(known: Mapping[str, _V], gone: Iterable[str], came: dict[str, _V]) -> dict[str, _V]:
    left = dict(known)
    for path in gone:
        del left[path]
    return left | came


def reach(source: Source, connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection, and all others to its DuckDB, read the paths that the SQL of a source's scans names."""
    source = source.base if isinstance(source, Pieces) else source
    if isinstance(source, ParquetSource) and source.is_remote:
        from qoop.catalog.sources import remote

        remote.mount(connection)


def _row_numbers(part: Range) -> str:
    return f"{_ROW_NUMBER} >= {part.first} AND {_ROW_NUMBER} < {part.first + part.rows}"


def open_parquet(
    files: Sequence[str | remote.Version],
    by_content: bool = False,
    known: Collection[ParquetFile] = (),
    stamps: Mapping[str, Stamp] | None = None,
) -> list[ParquetFile]:
    """Read the footers, except those of files that are known. by_content: local files are to be known by all they hold.
    stamps: of local files, if these were read just now.

    Raises SourceError for a file that is missing, truncated or not Parquet, TableChanged for one that is written to.
    """
    versions = [file for file in files if not isinstance(file, str)]
    paths = [file for file in files if isinstance(file, str)] if versions else cast("Sequence[str]", files)
    if not versions:
        return _open_local(paths, by_content, known, stamps)
    found = _open_all_remote(versions)
    local = dict(zip(paths, _open_local(paths, by_content, known, stamps), strict=True))
    return [local[file] if isinstance(file, str) else found[file] for file in files]


def _open_local(
    paths: Sequence[str], by_content: bool, known: Collection[ParquetFile], stamps: Mapping[str, Stamp] | None
) -> list[ParquetFile]:
    now = stamps or {}
    found = {one.file.path: one for one in known if now.get(one.file.path) == one.file.stamp}
    other = [path for path in paths if path not in found]
    for path, stamp in zip(other, settled(other, now_read=now and {path: now[path] for path in other}), strict=True):
        found[path] = _open(path, stamp, by_content)
    return [found[path] for path in paths]


def open_written(paths: Sequence[str]) -> list[ParquetFile]:
    """Read the footers of files that are whole, and never change. Raises SourceError."""
    found = []
    for path in paths:
        with reading(path):
            stamp = file_stamp(path)
        found.append(_open_stamped(path, stamp))
    return found


def _open_all_remote(versions: Sequence[remote.Version]) -> dict[remote.Version, ParquetFile]:
    from qoop.catalog.sources import remote

    return dict(zip(versions, remote.at_once(_open_remote, versions), strict=True))


def _open_remote(version: remote.Version) -> ParquetFile:
    from qoop.catalog.sources import remote

    opened = remote.opened(version)
    digest = _digest((version.size, without_options(version.place), version.tag), opened.tail)
    return _described(File(version.place, digest, ()), opened.metadata, version)


def _open(path: str, stamp: Stamp, by_content: bool) -> ParquetFile:
    if not by_content:
        return _open_stamped(path, stamp)
    file = content_file(path, "content", content_digest)
    return _local_file(file, footer_bytes(path))


@lru_cache(maxsize=20_000)
def _open_stamped(path: str, stamp: Stamp) -> ParquetFile:
    tail = footer_bytes(path)
    file = File(path, _digest(stamp, tail), stamp)
    check_unchanged([file])  # the footer was read at this stamp: the cache may hold both
    return _local_file(file, tail)


def _local_file(file: File, tail: bytes) -> ParquetFile:
    """A file with this footer. Raises SourceError."""
    try:
        return _described(file, read_footer(tail))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return _described_by_duckdb(file, error)


def columns_by_footer(file: ParquetFile) -> Columns | None:
    """Names and types of the columns of a file as DuckDB reads them, without it; None where it has to be asked."""
    if file.version is not None:
        return None
    try:
        return plain_columns(read_footer(footer_bytes(file.file.path)))
    except (pa.ArrowException, OSError, UnicodeDecodeError, SourceError):
        return None


def _described_by_duckdb(file: File, refused: Exception) -> ParquetFile:
    """A file whose footer pyarrow does not take, such as one with a map whose keys may be NULL. Raises SourceError."""
    try:
        with open_duckdb(threads=1) as connection:
            groups = connection.execute(f"SELECT row_group_num_rows {_GROUPS}", [file.path]).fetchall()
            schema = connection.execute("FROM parquet_schema(?)", [file.path]).fetchall()
    except duckdb.Error:
        raise SourceError(f"{file.path} is not a readable Parquet file: {refused}") from refused
    text = "\n".join(repr(row[1:]) for row in schema)
    return ParquetFile(file, _checked(file.path, [int(rows) for (rows,) in groups]), text)


def _digest(stamp: tuple[object, ...], tail: bytes) -> str:
    return blake2b(f"{stamp!r}:".encode() + tail, digest_size=16).hexdigest()


def _content(file: ParquetFile) -> str:
    return content_file(file.file.path, "content", content_digest).digest


def _described(file: File, metadata: pq.FileMetaData, version: remote.Version | None = None) -> ParquetFile:
    groups = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    schema = intern(str(metadata.schema).partition("\n")[2])  # most files of a table have the same
    return ParquetFile(file, _checked(file.path, groups), schema, version)


def _checked(path: str, groups: Sequence[int]) -> tuple[int, ...]:
    """The rows of row groups. Raises SourceError if one has fewer than none."""
    if any(rows < 0 for rows in groups):
        raise SourceError(f"{path} is damaged: its footer has a row group of {min(groups)} rows")
    return tuple(groups)


def footer_bytes(path: str) -> bytes:
    """The footer with the eight bytes that end the file. Raises SourceError."""
    with reading(path), open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        if end[4:] == b"PARE":
            raise SourceError(f"{path} is an encrypted Parquet file, which is not supported")
        length = int.from_bytes(end[:4], "little") + 8
        if size < 12 or end[4:] != b"PAR1" or length > size - 4:
            raise SourceError(f"{path} is not a Parquet file, or was cut short: its last bytes are not a footer")
        stream.seek(size - length)
        return stream.read(length)


def _footer(file: ParquetFile) -> Footer | None:
    """The footer of a file; None if pyarrow does not take it."""
    if file.version is not None:
        from qoop.catalog.sources import remote

        return Footer(remote.opened(file.version).metadata, None)
    tail = footer_bytes(file.file.path)
    try:
        metadata = read_footer(tail)
        sound = describes_its_columns(tail, metadata)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None  # DuckDB reads it, or reports the fault
    return Footer(metadata, file.file.path) if sound else None


def _groups(footer: pq.FileMetaData) -> list[dict[str, pq.Statistics | None]]:
    """For every row group its columns' statistics, by name of the column."""
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    places = dict(enumerate(paths(footer)))
    return [
        {path: group.column(place).statistics for place, path in places.items()} for group in groups if group.num_rows
    ]


def _extremes(stats: Sequence[pq.Statistics | None], groups: int) -> tuple[object, object] | None:
    """The extremes over all row groups; None if one does not say. A group of NULLs alone has none to say."""
    if len(stats) < groups:
        return None
    pairs = []
    for item in stats:
        if item is None or (item.num_values and not item.has_min_max):
            return None
        if item.has_min_max:
            try:
                low, high = item.min, item.max
            except (ValueError, OverflowError):  # a date that Python has not, or a text that is none
                return None
            if isinstance(low, bytes | str):
                return None
            pairs.append((low, high))
    return (min(low for low, _ in pairs), max(high for _, high in pairs)) if pairs else None
