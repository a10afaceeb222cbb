"""Where tables are kept that a session was told to create: in memory as Arrow, or in a folder as Parquet files."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import DiskFull, QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.result import Result


def in_memory(name: str, result: Result) -> pa.Table:
    """The rows as Arrow holds them without loss. Raises QueryError for a type that is another one when it is read."""
    _refuse(name, _of_types(result, "ENUM("), "memory")
    return result.lossless()


def in_folder(folder: Path, name: str, result: Result) -> Path:
    """The rows as ``folder/name.parquet``, in place of what was there. Raises DiskFull, and QueryError for a type
    that Parquet does not hold."""
    if name != Path(name).name or name.startswith((".", "_")):
        raise QueryError(f"a table that is kept in {folder} cannot be called {name!r}")
    path = folder / f"{name}.parquet"
    draft = folder / f".{name}.{secrets.token_hex(4)}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse(name, _of_types(result, "TIME WITH TIME ZONE"), "Parquet")  # which keeps it in UTC
        result.copy_to(draft, "(FORMAT parquet)")
        _refuse(name, _changed(result, draft), "Parquet")
        os.replace(draft, path)
    except OSError as error:
        raise DiskFull(f"table {name} cannot be kept in {folder}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return path


def forget(folder: Path, name: str) -> None:
    """Remove the file of a table, if there is one."""
    with suppress(OSError):
        (folder / f"{name}.parquet").unlink(missing_ok=True)


def _changed(result: Result, path: Path) -> list[tuple[str, str]]:
    """The columns that are of another type in the file."""
    from qoop.catalog.probe import Probe, describe

    probe = Probe()
    try:
        with probe.cursor(str(path)) as cursor:
            found = dict(describe(cursor, f"SELECT * FROM read_parquet('{str(path).replace(chr(39), chr(39) * 2)}')"))
    finally:
        probe.close()
    return [(column, type_) for column, type_ in _columns(result) if found.get(column) != type_]


def _of_types(result: Result, part: str) -> list[tuple[str, str]]:
    """The columns whose type is that, or holds it."""
    return [(column, type_) for column, type_ in _columns(result) if part in type_]


def _columns(result: Result) -> list[tuple[str, str]]:
    return list(zip(result.unique_columns, result.types, strict=True))


def _refuse(name: str, columns: list[tuple[str, str]], where: str) -> None:
    if columns:
        told = ", ".join(f"{column} of {type_}" for column, type_ in columns)
        raise QueryError(f"table {name} cannot be kept in {where}: it would change {told}; cast it")
