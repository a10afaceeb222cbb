"""Files behind tables: finding them, and naming them in SQL."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from qoop.catalog.errors import SourceError
from qoop.catalog.sources.file_stamp import Stamp, file_stamp, reading, stamp_of
from qoop.catalog.table import Columns
from qoop.catalog.value import value

# A stripe is one vector of DuckDB; this many represent runs of neighbouring values in proportion.
_STRIPE_ROWS = 2048
_STRIPES = 2000


_SQLITE = b"SQLite format 3\0"
_LOGS = {"delta": ("_delta_log", ""), "iceberg": ("metadata", ".metadata.json")}
"""The folder, in that of a table, by which its kind is known, and the ending of a file in it."""

CREATED = "created"
"""The kind of a table that statements have created (`created.py`)."""

_MANIFEST = re.compile(r"_(\d+)\.(json|dropped)")
"""The manifests of such a table."""


@value
class Found:
    """The files meant by a path. stamps: by path. hidden: the names in a folder at that path that begin with a dot or
    an underscore. flat: the path is a folder without folders and links. linked: one of them has other names."""

    stamps: dict[str, Stamp]
    hidden: list[str]
    flat: bool = False
    linked: bool = False

    @property
    def paths(self) -> list[str]:
        """In order."""
        return sorted(self.stamps)


def find_files(path: str, suffixes: tuple[str, ...]) -> Found:
    """The files meant by a path, by absolute path: itself, a glob's matches, or a folder's files of these kinds.

    Files and folders whose names begin with a dot or an underscore are left out of folders, as is usual. A folder is
    listed once, and each file is stamped once. Raises SourceError.
    """
    path = os.path.abspath(os.path.expanduser(path))
    found = Found({}, [])
    with reading(path):
        if os.path.isdir(path):
            flat, linked = _add_files_below(path, suffixes, found.stamps, found.hidden)
            return replace(found, flat=flat, linked=linked)
        if os.path.exists(path):
            return Found({path: file_stamp(path)}, [])
        if not glob.has_magic(path):
            raise SourceError(f"cannot read {path}: no such file or folder")
        for match in _matches(path):
            with suppress(FileNotFoundError):  # it has gone since
                found.stamps[match] = file_stamp(match)
    if not found.stamps:
        raise SourceError(f"no file matches {path}")
    return found


def _add_files_below(
    folder: str, suffixes: tuple[str, ...], found: dict[str, Stamp], hidden: list[str]
) -> tuple[bool, bool]:
    """Relative to an open folder a stamp costs less, since its path is not looked up again. Returns `Found.flat`, and
    `Found.linked` of the files of this folder."""
    before, flat, linked = os.path.join(folder, ""), True, False
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                name = entry.name
                flat = flat and entry.is_file(follow_symlinks=False)
                if name[0] in "._":
                    hidden.append(name)
                elif (name.endswith(suffixes) or name.lower().endswith(suffixes)) and entry.is_file():
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # it has gone since
                        continue
                    found[before + name] = stamp_of(status)
                    linked = linked or status.st_nlink > 1
                elif entry.is_dir(follow_symlinks=False):
                    _add_files_below(before + name, suffixes, found, [])
    finally:
        os.close(opened)
    return flat, linked


def _matches(pattern: str) -> Iterator[str]:
    """The files that a glob matches; quicker than glob's own where only their names are left open."""
    folder, name = os.path.split(pattern)
    if glob.has_magic(folder) or "**" in name or name.startswith("."):
        yield from filter(os.path.isfile, glob.glob(pattern, recursive=True))
        return
    if not os.path.isdir(folder):
        return
    matches = re.compile(fnmatch.translate(os.path.normcase(name))).match
    with os.scandir(folder) as entries:
        for entry in entries:
            if matches(os.path.normcase(entry.name)) and not entry.name.startswith(".") and entry.is_file():
                yield entry.path


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


def is_partitioned(folder: str) -> bool:
    """True for a folder of nothing but ``key=value`` folders, which is one table."""
    if not os.path.isdir(folder):
        return False
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith((".", "_"))]
    return bool(names) and all(is_folder and "=" in name for name, is_folder in names)


def lake_of(place: str, hidden: Iterable[str] | None = None) -> str | None:
    """The kind of a table with a log that a folder is, or that a file describes; None if it is none.

    hidden: see `Found`, if the folder was listed just now."""
    if place.endswith(_LOGS["iceberg"][1]):
        return "iceberg"
    if hidden is None and os.path.isdir(place):
        hidden = os.listdir(place)
    if hidden is not None and is_present(_manifests(hidden)):
        return CREATED
    return next((kind for kind, (log, ending) in _LOGS.items() if _holds(os.path.join(place, log), ending)), None)


def manifests(folder: str | os.PathLike[str]) -> list[tuple[int, str]]:
    """The versions of a created table in a folder, in order, with the names of their manifests. Raises OSError."""
    return _manifests(os.listdir(folder))


def _manifests(names: Iterable[str]) -> list[tuple[int, str]]:
    marked = [name for name in names if name.startswith("_") and not name.endswith(".parquet")]  # nor pieces
    return sorted((int(match[1]), name) for name in marked if (match := _MANIFEST.fullmatch(name)))


def is_present(versions: Sequence[tuple[int, str]]) -> bool:
    """True if there are versions, and the last did not drop the table."""
    return bool(versions) and versions[-1][1].endswith(".json")


def _holds(folder: str, ending: str) -> bool:
    if not os.path.isdir(folder):
        return False
    return not ending or any(name.endswith(ending) for name in os.listdir(folder))


def is_sqlite(path: str | os.PathLike[str]) -> bool:
    """True for an SQLite file."""
    with suppress(OSError, ValueError), open(path, "rb") as stream:  # the latter for a text that is no path
        return stream.read(len(_SQLITE)) == _SQLITE
    return False


def hive_columns(columns: Columns, paths: Sequence[str]) -> Columns:
    """Those of the columns that come from ``key=value`` folders."""
    keys = {key.lower() for path in paths if "=" in path for key, _ in hive_keys(path)}
    return tuple(column for column in columns if column[0].lower() in keys)


def hive_options(partitions: Columns, path: str = "") -> str:
    """Options of read_parquet, read_csv and read_json that fix which folders are columns and of what type.

    path: of one of the files. A column that its files have as well may be written in other case than the folders.
    """
    if not partitions:
        return "hive_partitioning = false"
    written = {key.lower(): key for key, _ in hive_keys(path)}
    types = ", ".join(f"{sql_string(written.get(name.lower(), name))}: {type_}" for name, type_ in partitions)
    return "hive_partitioning = true, hive_types = {" + types + "}"


def hive_digest(partitions: Columns, path: str) -> list[tuple[str, str]]:
    """The hive keys and values that the folders of a path add to its rows."""
    if not partitions:
        return []
    keys = {name.lower() for name, _ in partitions}
    return [(key, value) for key, value in hive_keys(path) if key.lower() in keys]


def no_rows(columns: Columns) -> str:
    """SQL for an empty relation of these columns that touches no file."""
    nulls = ", ".join(f"CAST(NULL AS {type_}) AS {sql_name(name)}" for name, type_ in columns)
    return f"SELECT {nulls} WHERE false"


def hashed_row(number: str, one_in: int, rows: int, salt: int = 0) -> str:
    """SQL that is true for about one row number in `one_in`, of a table of `rows` rows.

    Unlike every n-th row it fits no period in the data; the second argument of hash() keeps it apart from data
    that were themselves made by hashing a running number. A large table is first thinned to some thousand
    stripes of neighbouring rows, since DuckDB does not decode the vectors that a filter leaves no row of.
    """
    stripes = max(1, min(one_in, rows // (_STRIPE_ROWS * _STRIPES)))
    row = f"hash({number}, {salt + 1}) % {one_in // stripes} = 0"
    if stripes == 1:
        return row
    return f"CASE WHEN hash({number} // {_STRIPE_ROWS}, {salt + 1}) % {stripes} = 0 THEN {row} ELSE false END"
