"""The storage of tables that statements create: in memory as Arrow, or in a folder as Parquet files."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import DiskFull, QueryError, SourceError
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.stores.private import make_private
from qoop.engine.storage.scratch import Scratch

DRAFTS = ".table"
"""The kind of the scratch folders that tables are written in."""

_PART_OF_PATH = re.compile(r"""[/\\:*?"<>|\[\]=\x00-\x1f\x7f]""")
_OF_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.I)
_MOST_BYTES = 200  # file systems take 255, endings and drafts included

_NOTE = "qoop_view"

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.query.result import Result


def in_memory(name: str, result: Result) -> pa.Table:
    """The rows as Arrow without loss. Raises QueryError for a type that Arrow would change."""
    _refuse(name, _of_types(result, "ENUM("), "memory")
    return result.lossless()


def in_folder(folder: Path, name: str, result: Result, note: str = "") -> Path:
    """The rows as ``folder/name.parquet``, in place of an earlier file. note: is written into the file, see `noted`.

    Raises DiskFull, and QueryError for a type that Parquet would change."""
    path = _file(folder, name)
    scratch = Scratch(folder, DRAFTS)
    draft = scratch.path / path.name
    try:
        _refuse(name, _of_types(result, "TIME WITH TIME ZONE"), "Parquet")  # which keeps it in UTC
        text = note.replace("'", "''")
        noted = f", KV_METADATA {{{_NOTE}: '{text}'}}" if note else ""
        result.copy_to(draft, f"(FORMAT parquet{noted})")
        _refuse(name, _changed(result, draft), "Parquet")
        make_private(draft)
        os.replace(draft, path)
        _forget_namesakes(path)
    except OSError as error:
        raise DiskFull(f"table {name} cannot be kept in {folder}: {error.strerror or error}") from error
    finally:
        scratch.close()
    return path


def noted(path: Path) -> bytes | None:
    """The note in the file of a table; None: there is none, or no such file."""
    from qoop.catalog.sources.footer import read_footer
    from qoop.catalog.sources.parquet import footer_bytes

    try:
        tail = footer_bytes(str(path))
        found = read_footer(tail).metadata if _NOTE.encode() in tail else None
    except (OSError, pa.ArrowException, SourceError):
        return None  # the query that reads it says what is wrong
    return None if found is None else found.get(_NOTE.encode())


def has_views(folder: Path) -> bool:
    """True if the file of some table has a note."""
    return any(noted(path) is not None for path in folder.glob("[!._]*.parquet"))


def check_name(folder: Path, name: str) -> None:
    """Raise QueryError for a name that no table in the folder can have."""
    _file(folder, name)


def forget(folder: Path, table: Table) -> None:
    """Remove the file of a table, if the folder has it. A table of the same name from elsewhere keeps its file."""
    if is_kept(folder, table):
        with suppress(OSError):
            (folder / f"{table.name}.parquet").unlink(missing_ok=True)


def is_kept(folder: Path, table: Table) -> bool:
    """True if the file of a table is in the folder; False for a table of the same name from elsewhere."""
    files = table.source.files if isinstance(table.source, ParquetSource) else ()
    path = folder / f"{table.name}.parquet"
    return _fault(table.name) is None and [file.file.path for file in files] == [os.path.abspath(path)]


def _file(folder: Path, name: str) -> Path:
    """The file of a table. Raises QueryError for a name that is no valid file name on all systems."""
    fault = _fault(name)
    if fault is not None:
        shown = name if len(name) <= 60 else f"{name[:60]}…"
        raise QueryError(f"a table that is kept in {folder} cannot be called {shown!r}: it {fault}")
    return folder / f"{name}.parquet"


def _fault(name: str) -> str | None:
    """The reason why a name is no valid file name on some system; None if it is valid on all."""
    if _PART_OF_PATH.search(name):
        return "holds characters that have a meaning in paths, globs or URLs"
    if name.startswith((".", "_", " ", "~")) or name.endswith((".", " ")):
        return "begins or ends with a character that hides a file or gets lost"
    if _OF_WINDOWS.fullmatch(name.partition(".")[0]):
        return "is the name of a device on Windows"
    if len(os.fsencode(name)) > _MOST_BYTES:
        return f"has more than {_MOST_BYTES} bytes"
    return None


def _forget_namesakes(path: Path) -> None:
    """Remove files whose names differ from this one only in case: they are older versions of the table."""
    for other in path.parent.glob("[!._]*.parquet"):
        if other.name != path.name and other.name.lower() == path.name.lower() and not other.samefile(path):
            other.unlink(missing_ok=True)


def _changed(result: Result, path: Path) -> list[tuple[str, str]]:
    """The columns whose types differ in the file."""
    from qoop.catalog.sources.probe import Probe, describe

    probe = Probe()
    try:
        with probe.cursor(str(path)) as cursor:
            found = dict(describe(cursor, f"SELECT * FROM read_parquet('{str(path).replace(chr(39), chr(39) * 2)}')"))
    finally:
        probe.close()
    return [(column, type_) for column, type_ in _columns(result) if found.get(column) != type_]


def _of_types(result: Result, part: str) -> list[tuple[str, str]]:
    """The columns whose type contains `part`."""
    return [(column, type_) for column, type_ in _columns(result) if part in type_]


def _columns(result: Result) -> list[tuple[str, str]]:
    return list(zip(result.unique_columns, result.types, strict=True))


def _refuse(name: str, columns: list[tuple[str, str]], where: str) -> None:
    if columns:
        changes = ", ".join(f"{column} of {type_}" for column, type_ in columns)
        raise QueryError(f"table {name} cannot be kept in {where}: it would change {changes}; cast it")
