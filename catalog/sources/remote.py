"""Parquet files in a bucket: finding them, and reading only the necessary parts.

DuckDB's extension for S3 is not available everywhere (it is downloaded), but DuckDB accepts any file system of Python.
This one knows Parquet. At the first byte that DuckDB reads of a row group, all columns of the scan are fetched for this
row group, in parallel, and are cached on this machine (`catalog/stores/node_cache.py`). So row groups that DuckDB skips
by their statistics are never fetched, nor are unread columns. A scan waits once for each row group, not for each
column.

The path passed to DuckDB names a version of the object: every request requires the entity tag that the object had when
the table was registered. Two versions are never mixed.
"""

from __future__ import annotations

import datetime
import io
import os
import re
import threading
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ConfigError, SourceError, TableChanged
from qoop.catalog.sources.footer import describes_its_columns, paths, read_footer
from qoop.catalog.stores.node_cache import node_cache
from qoop.catalog.stores.objects import ObjectChanged, Objects, open_objects, without_options
from qoop.catalog.value import value

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_THREADS = 16
_END = 64 << 10  # bytes read from the end of a file at once: they cover most footers, and the reads of DuckDB
_OPEN = 256  # files whose footers are kept in memory
_ENVIRONMENT = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")


@value
class Version:
    """One version of an object. place: its URL. tag: its entity tag. size: in bytes."""

    place: str
    tag: str
    size: int

    def path(self, columns: Sequence[str]) -> str:
        """The path by which DuckDB reads these columns of it."""
        options = urlencode({"tag": self.tag, "size": self.size, "columns": "\n".join(columns)})
        return f"{self.place}{'&' if '?' in self.place else '?'}{options}"


def _from_path(path: str) -> tuple[Version, tuple[str, ...]]:
    place, _, query = path.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    tag, size, columns = (options.pop(name) for name in ("tag", "size", "columns"))
    return Version(place + (f"?{urlencode(options)}" if options else ""), tag, int(size)), tuple(columns.split("\n"))


def bucket_of(place: str) -> tuple[Objects, str]:
    """The bucket that an object lies in, and its name there. Raises ConfigError if it cannot be one."""
    parts = urlsplit(place)
    url = f"{parts.scheme}://{parts.netloc}" + (f"?{parts.query}" if parts.query else "")
    return _opened(url, tuple(os.environ.get(name) for name in _ENVIRONMENT)), parts.path.lstrip("/")


@lru_cache(maxsize=64)
def _opened(url: str, environment: tuple[str | None, ...]) -> Objects:
    return open_objects(url)


def find(place: str, suffixes: tuple[str, ...]) -> list[Version]:
    """The objects meant by a place: itself, those that match it, or those of these kinds below it.

    Objects with a part of their name that begins with a dot or an underscore are left out of folders.
    Raises SourceError if there is none, or the bucket cannot be read.
    """
    with explained(place):
        bucket, name = bucket_of(place)
        exact = _exact(bucket, name, place)
        if exact is not None:
            return _known([exact])
        pattern = _pattern(name)
        folder = name if pattern is None else re.split(r"[*\[]", name)[0].rpartition("/")[0]
        found = []
        for item in bucket.list(folder):
            below = item.name[len(folder) :]
            hidden = any(part.startswith((".", "_")) for part in below.split("/"))
            if pattern.fullmatch(item.name) if pattern else item.name.lower().endswith(suffixes) and not hidden:
                found.append(Version(_place(place, item.name), item.tag, item.size))
    if not found:
        what = "no object matches" if pattern else "there is neither such an object nor any of a known kind below"
        raise SourceError(f"cannot read {place}: {what} {without_options(place)}")
    return _known(found)


def _known(versions: list[Version]) -> list[Version]:
    """Raise SourceError for an object without an entity tag."""
    for version in versions:
        if not version.tag:
            raise SourceError(
                f"cannot read {without_options(version.place)}: its store gives it no entity tag, so changes "
                "would go unnoticed; copy it to a folder"
            )
    return versions


def _exact(bucket: Objects, name: str, place: str) -> Version | None:
    if not name or _pattern(name) is not None:
        return None
    with suppress(FileNotFoundError):
        about = bucket.about(name)
        return Version(_place(place, name), about.tag, about.size)
    return None


def _place(place: str, name: str) -> str:
    parts = urlsplit(place)
    options = urlencode(parse_qsl(parts.query))  # so that no slash is left in them
    return f"{parts.scheme}://{parts.netloc}/{name}" + (f"?{options}" if options else "")


def _pattern(name: str) -> re.Pattern[str] | None:
    """The pattern of a glob: ``*`` within a folder, ``**`` through folders, ``[ab]`` one of these.

    >>> bool(_pattern("d/**/*.parquet").fullmatch("d/x/y/a.parquet")), bool(_pattern("d/*.pq").fullmatch("d/x/a.pq"))
    (True, False)
    """
    if not re.search(r"[*\[]", name):
        return None
    parts = re.split(r"(\*\*/|\*\*|\*|\[[^\]]+\])", name)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(known.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts))


def check(versions: Iterable[Version]) -> None:
    """Raise TableChanged or SourceError unless all objects are what they were."""
    at_once(_check, versions)


def _check(version: Version) -> None:
    with explained(version.place):
        bucket, name = bucket_of(version.place)
        if bucket.about(name).tag != version.tag:
            raise ObjectChanged(name)


class explained:
    """Turn an error of an object into TableChanged, or a SourceError that names it and the reason."""

    def __init__(self, place: str) -> None:
        self._place = without_options(place)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> None:
        if isinstance(error, ObjectChanged):
            raise TableChanged(
                f"{self._place} changed after it was registered; register it again to read the new data"
            ) from error
        if isinstance(error, OSError | ConfigError):
            raise SourceError(f"cannot read {self._place}: {error}") from error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="qoop-remote")


os.register_at_fork(after_in_child=_threads.cache_clear)


def at_once(work: Callable[[_Item], _Found], items: Iterable[_Item]) -> list[_Found]:
    """Do the same with many at once, since most of it is waiting."""
    return list(_threads().map(work, items))


class RemoteParquet:
    """One version of a file, read through the cache of this machine. Thread-safe."""

    def __init__(self, version: Version) -> None:
        self.version = version

    @cached_property
    def end(self) -> bytes:
        """The end of the file, with the footer in it. Raises SourceError if there is none."""
        size, place = self.version.size, without_options(self.version.place)
        start = max(0, size - _END)
        end = self.piece(start, size - start)
        length = _tail_bytes(end)
        if end[-4:] == b"PARE":
            raise SourceError(f"{place} is an encrypted Parquet file, which is not supported")
        if size < 12 or end[-4:] != b"PAR1" or length > size - 4:
            raise SourceError(f"{place} is not a Parquet file, or was cut short")
        return end if length <= len(end) else self.piece(size - length, length)

    @property
    def tail(self) -> bytes:
        """The footer with the eight bytes that end the file."""
        return self.end[-_tail_bytes(self.end) :]

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The metadata in the footer."""
        place = without_options(self.version.place)
        try:
            found = read_footer(self.tail)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{place} is not a readable Parquet file: {error}") from error
        if not describes_its_columns(self.tail, found):
            raise SourceError(f"{place} is damaged: its footer has column chunks of other types than its columns")
        return found

    @cached_property
    def _chunks(self) -> tuple[list[int], list[tuple[int, int, int, str]]]:
        """The places where chunks begin, and of each its place, bytes, row group and column; both in order of place."""
        found = []
        for group in range(self.metadata.num_row_groups):
            row_group = self.metadata.row_group(group)
            for place, path in enumerate(paths(self.metadata)):
                column = row_group.column(place)
                start = column.data_page_offset
                if column.dictionary_page_offset:
                    start = min(start, column.dictionary_page_offset)
                name = path.partition(".")[0]
                found.append((start, column.total_compressed_size, group, name.lower()))
        found.sort()
        return [chunk[0] for chunk in found], found

    def chunks(self, group: int, columns: Sequence[str]) -> list[tuple[int, int]]:
        """Place and bytes of the columns' chunks in a row group."""
        names = {name.lower() for name in columns}
        return [(start, size) for start, size, other, name in self._chunks[1] if other == group and name in names]

    def chunk_at(self, start: int) -> tuple[int, int, int] | None:
        """Place, bytes and row group of the chunk in which a byte lies."""
        starts, chunks = self._chunks
        at = bisect_right(starts, start) - 1
        return chunks[at][:3] if at >= 0 and start < chunks[at][0] + chunks[at][1] else None

    def next_chunk(self, start: int) -> int:
        """The place where the next chunk begins, or the end of the file."""
        starts = self._chunks[0]
        at = bisect_right(starts, start)
        return starts[at] if at < len(starts) else self.version.size

    def uncached(self, start: int, length: int) -> bytes:
        """Bytes that lie in no chunk, such as an index."""
        with explained(self.version.place):
            return bytes(self._ranges([(start, length)])[0])

    def fetch(self, spans: Iterable[tuple[int, int]]) -> None:
        """Have pieces on this machine. Raises TableChanged, SourceError."""
        with explained(self.version.place):
            missing = sorted(piece for piece in spans if self._cached(*piece) is None)
            for (start, length), data in zip(missing, self._ranges(missing), strict=True):
                summed = bytes(data) + zlib.crc32(data).to_bytes(4, "little")
                node_cache().add_bytes(self._name(start, length), memoryview(summed))

    def piece(self, start: int, length: int) -> bytes:
        """Bytes that are fetched if they are not on this machine."""
        data = self._cached(start, length)
        if data is None:
            self.fetch([(start, length)])
            data = self._cached(start, length)
        if data is None:
            return self.uncached(start, length)  # the cache seems to have no space for them
        return data

    def _cached(self, start: int, length: int) -> bytes | None:
        cache, name = node_cache(), self._name(start, length)
        path = cache.find(name)
        if path is None:
            return None
        with suppress(FileNotFoundError):
            data = path.read_bytes()
            if len(data) == length + 4 and zlib.crc32(memoryview(data)[:-4]) == int.from_bytes(data[-4:], "little"):
                return data[:-4]
            cache.drop(name)  # it is damaged
        return None

    def _ranges(self, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
        bucket, name = bucket_of(self.version.place)
        return bucket.ranges(name, spans, expected_tag=self.version.tag)

    def _name(self, start: int, length: int) -> str:
        text = repr((self.version.place, self.version.tag, self.version.size, start, length))
        return f"{blake2b(text.encode(), digest_size=16).hexdigest()}.table"


def _tail_bytes(end: bytes) -> int:
    return int.from_bytes(end[-8:-4], "little") + 8


_files: OrderedDict[Version, RemoteParquet] = OrderedDict()
_files_lock = threading.Lock()


def _forked() -> None:
    """A thread of the parent's may have had the lock."""
    global _files_lock
    _files_lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def opened(version: Version) -> RemoteParquet:
    """The file of a version. The footers of the latest ones stay in memory."""
    with _files_lock:
        found = _files.setdefault(version, RemoteParquet(version))
        _files.move_to_end(version)
        if len(_files) > _OPEN:
            _files.popitem(last=False)
        return found


class _RemoteFile(io.RawIOBase):
    """A file as DuckDB reads it: it asks for whole chunks of columns, or pages of them, a row group at a time."""

    def __init__(self, path: str) -> None:
        version, self._columns = _from_path(path)
        self._file = opened(version)
        self._at = 0
        self._group = -1
        self._chunks: dict[int, bytes] = {}  # chunks of that row group
        self.size = version.size

    def read(self, length: int = -1) -> bytes:
        length = max(0, min(self.size - self._at if length < 0 else length, self.size - self._at))
        data = self._read(self._at, length)
        self._at += len(data)
        return data

    def _read(self, start: int, length: int) -> bytes:
        """Bytes, which DuckDB may want of neighbouring chunks at once."""
        end, parts = self._file.end, []
        first = self.size - len(end)
        while length and start < first:
            part = self._part(start, length)
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join([*parts, end[start - first : start - first + length]] if length else parts)

    def _part(self, start: int, length: int) -> bytes:
        """As many of these bytes as lie in one chunk, or between two."""
        chunk = self._file.chunk_at(start)
        if chunk is None:
            return self._file.uncached(start, min(length, self._file.next_chunk(start) - start))
        begin, size, group = chunk
        if group != self._group:
            self._file.fetch(self._file.chunks(group, self._columns))
            self._group, self._chunks = group, {}
        if begin not in self._chunks:
            self._chunks[begin] = self._file.piece(begin, size)
        return self._chunks[begin][start - begin : start - begin + length]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@cache
def _file_system() -> Any:
    try:
        from fsspec import AbstractFileSystem
    except ImportError as error:
        raise ConfigError('tables in s3:// need fsspec: install it with pip install "qoop[s3]"') from error

    class Objects(AbstractFileSystem):  # type: ignore[misc]
        """The part of a file system that DuckDB uses; it gets paths of versions only."""

        protocol = "s3"
        cachable = False

        def open(self, path: str, mode: str = "rb", **_: object) -> _RemoteFile:
            if mode != "rb":
                raise SourceError(f"{without_options(path)} can only be read")
            return _RemoteFile(path)

        def glob(self, path: str, **_: object) -> list[str]:
            return [re.sub(r"\[(.)\]", r"\1", path)]  # an escaped path, which means itself

        def info(self, path: str, **_: object) -> dict[str, object]:
            return {"name": path, "size": _from_path(path)[0].size, "type": "file"}

        def modified(self, path: str) -> datetime.datetime:
            return datetime.datetime(2000, 1, 1)  # another version has another path

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def unstrip_protocol(self, name: str) -> str:
            return name

    return Objects()


def mount(connection: duckdb.DuckDBPyConnection) -> None:
    """Have a DuckDB read the paths of versions. Raises ConfigError if fsspec is not installed."""
    if "s3" not in connection.list_filesystems():
        connection.register_filesystem(_file_system())
