"""Files behind tables: finding them, and telling whether they still hold what they held.

A file is known by its *fingerprint*, a digest of content. What is cheap to see from outside (size, times,
inode) only caches the fingerprint: while it stands still the digest is not computed again.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from qoop.catalog.errors import SourceError, TableChanged
from qoop.catalog.table import Columns

Digest = Callable[[str], str]
_Seen = tuple[int, int, int, int]

# A file touched less than this before it was read may be written again with equal times (clocks tick coarsely).
_SETTLED_NS = 50_000_000
_CHUNK = 1 << 20
# A stripe is one vector of DuckDB; so many of them show values that lie together in proportion.
_STRIPE_ROWS = 2048
_STRIPES = 2000

_cache: dict[tuple[str, str], tuple[_Seen, str]] = {}


@dataclass(frozen=True, slots=True)
class File:
    """A file and the digest it had at registration."""

    path: str
    digest: str


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn every failure to read a file into a SourceError that names it and the reason."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error


def fingerprint(path: str, kind: str, digest: Digest) -> str:
    """The digest of a file, computed only if the file was touched since the last time."""
    with reading(path):
        before = _look(path)
        cached = _cache.get((path, kind))
        if cached is not None and cached[0] == before:
            return cached[1]
        value = digest(path)
        settled = time.time_ns() - max(before[1], before[2]) > _SETTLED_NS
        if settled and _look(path) == before:
            _cache[path, kind] = (before, value)
        return value


def check_file(file: File, kind: str, digest: Digest) -> None:
    """Raise TableChanged if the file's content differs from what was registered, SourceError if it is gone."""
    if fingerprint(file.path, kind, digest) != file.digest:
        raise TableChanged(f"{file.path} changed after it was registered; register it again to read the new data")


def _look(path: str) -> _Seen:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def content_digest(path: str) -> str:
    """Digest of all bytes of a file."""
    state = blake2b(digest_size=16)
    with reading(path), open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def find_files(path: str, suffixes: tuple[str, ...]) -> list[str]:
    """Absolute paths of the files meant by a path: itself, a glob's matches, or a folder's files of these kinds.

    Files and folders whose names begin with a dot or an underscore are left out of folders, as is usual.
    """
    path = os.path.abspath(os.path.expanduser(path))
    with reading(path):
        if os.path.isdir(path):
            return sorted(str(file) for file in Path(path).rglob("*") if _belongs(file, Path(path), suffixes))
        if os.path.exists(path):
            return [path]
    if not glob.has_magic(path):
        raise SourceError(f"cannot read {path}: no such file or folder")
    found = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
    if not found:
        raise SourceError(f"no file matches {path}")
    return found


def _belongs(file: Path, root: Path, suffixes: tuple[str, ...]) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(root).parts)
    return not hidden and file.name.lower().endswith(suffixes) and file.is_file()


def sql_path(path: str) -> str:
    """A path as an SQL string that DuckDB takes literally, although it reads paths as globs."""
    return sql_string(glob.escape(path))


def sql_string(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """An SQL identifier, always quoted."""
    return '"' + name.replace('"', '""') + '"'


def hive_keys(path: str) -> tuple[tuple[str, str], ...]:
    """The ``key=value`` folders of a path.

    >>> hive_keys("/d/year=2001/month=2/f.parquet")
    (('year', '2001'), ('month', '2'))
    """
    folders = path.split("/")[:-1]
    pairs = (folder.partition("=") for folder in folders)
    return tuple((key, value) for key, equals, value in pairs if equals and key)


def hive_columns(columns: Columns, paths: Sequence[str]) -> Columns:
    """Those of the columns that come from ``key=value`` folders."""
    keys = {key.lower() for path in paths for key, _ in hive_keys(path)}
    return tuple(column for column in columns if column[0].lower() in keys)


def hive_options(partitions: Columns) -> str:
    """Options of read_parquet, read_csv and read_json that fix which folders are columns and of what type."""
    if not partitions:
        return "hive_partitioning = false"
    types = ", ".join(f"{sql_string(name)}: {type_}" for name, type_ in partitions)
    return "hive_partitioning = true, hive_types = {" + types + "}"


def hive_digest(partitions: Columns, path: str) -> list[tuple[str, str]]:
    """What the folders of a path contribute to the content of its rows."""
    keys = {name.lower() for name, _ in partitions}
    return [(key, value) for key, value in hive_keys(path) if key.lower() in keys]


def no_rows(columns: Columns) -> str:
    """SQL for an empty relation of these columns that touches no file."""
    nulls = ", ".join(f"CAST(NULL AS {type_}) AS {sql_name(name)}" for name, type_ in columns)
    return f"SELECT {nulls} WHERE false"


def hashed_row(number: str, one_in: int, rows: int, salt: int = 0) -> str:
    """SQL that is true for about one row number in `one_in`, of a table of so many rows.

    Unlike every n-th row it fits no period in the data; the second argument of hash() keeps it apart from data
    that were themselves made by hashing a running number. A large table is first thinned to some thousand
    stripes of neighbouring rows, since DuckDB does not decode the vectors that a filter leaves no row of.
    """
    stripes = max(1, min(one_in, rows // (_STRIPE_ROWS * _STRIPES)))
    row = f"hash({number}, {salt + 1}) % {one_in // stripes} = 0"
    if stripes == 1:
        return row
    return f"CASE WHEN hash({number} // {_STRIPE_ROWS}, {salt + 1}) % {stripes} = 0 THEN {row} ELSE false END"
