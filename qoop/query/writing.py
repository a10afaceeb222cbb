"""Results in files: the rows written by DuckDB's COPY, its options, and rows as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.errors import DiskFull, Forbidden, QueryError
from qoop.catalog.interrupts import interruptibly
from qoop.catalog.lexer import quoted
from qoop.catalog.opening import confine, open_duckdb, within
from qoop.catalog.paths import fault_of, text_fault
from qoop.catalog.value import value
from qoop.engine.storage.scratch import drafted

if TYPE_CHECKING:
    from qoop.query.statements.settings import Settings

_OF_PANDAS = {"na_rep": "nullstr", "quotechar": "quote", "escapechar": "escape"}
"""Options of COPY by the names that pandas, and DuckDB's `write_csv`, have for them."""

_NAMES_OF_FILES = ("filename_pattern", "file_extension")
"""Options that give names to files, which may lead through links."""

_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:Infinity|NaN))')


@value
class Destination:
    """A file to write rows to, or a folder (PER_THREAD_OUTPUT, FILE_SIZE_BYTES, PARTITION_BY).

    options: of COPY, such as "(FORMAT csv, HEADER false)". folder: nothing is written, or read, outside of it; None:
    the options may name any file. threads: the number that writes.
    """

    path: str
    options: str
    folder: Path | None
    threads: int


def write(rows: pa.Table, casts: Sequence[str], destination: Destination, settings: Settings) -> None:
    """Write the rows, as SQL expressions over their columns, next to the destination; then rename them into place.

    Raises QueryError for options that DuckDB does not take, DiskFull if the file cannot be written.
    """
    path, options = destination.path, destination.options
    fault = fault_of(path) or text_fault(options)
    if fault is not None:
        raise QueryError(f"cannot write {path!r} with {options!r}: {fault}")
    with drafted(path) as draft:
        cursor = _writer(settings, destination.folder, destination.threads)
        arrow_input.register(cursor, "answer", rows)
        file = draft.replace("'", "''")
        text = f"COPY (SELECT {', '.join(casts)} FROM answer) TO '{file}' {options}"
        try:
            if len(cursor.extract_statements(text)) != 1:
                raise QueryError(f"cannot write {path}: the options hold a statement of their own: {options}")
            interruptibly(cursor, lambda: cursor.execute(text))
        except duckdb.IOException as error:
            raise DiskFull(f"cannot write {path}: {str(error).replace(draft, path)}") from error
        except duckdb.Error as error:
            message = str(error).replace(draft, path)
            raise QueryError(_missing(path, error) or f"cannot write {path}: {message}") from error
        finally:
            cursor.close()


def allowed_folder(path: str, options: str, folders: Sequence[Path]) -> Path:
    """The one of the folders that a file lies in, wherever links and ``..`` lead. Raises Forbidden if there is none."""
    there = f"it may copy to files in {', '.join(map(str, folders))}" if folders else "it may copy to no folder"
    if any(name in options.lower() for name in _NAMES_OF_FILES):
        raise Forbidden(f"COPY names files by {' and '.join(_NAMES_OF_FILES)} in no locked session; {there}")
    found = next((folder for folder in folders if within(path, [folder])), None)
    if found is None or os.path.isdir(path):
        raise Forbidden(f"COPY TO {path!r} is refused: the session is locked, and {there}")
    return found


def copy_options(format: str, options: Mapping[str, object]) -> str:
    """Options of COPY, as SQL has them.

    >>> print(copy_options("csv", {"sep": ";", "header": False, "partition_by": ["a b", "c"]}))
    (FORMAT csv, sep ';', header false, partition_by ("a b", "c"))
    """
    names = {name: _OF_PANDAS.get(name, name) for name in options}
    strange = next((name for name in names if not name.isidentifier()), None)
    if strange is not None:
        raise QueryError(f"COPY has no option {strange!r}")
    return f"({', '.join([f'FORMAT {format}', *(f'{names[name]} {_sql(value)}' for name, value in options.items())])})"


def _sql(value: object) -> str:
    """The value of an option of COPY: several are names of columns."""
    if isinstance(value, list | tuple):
        return f"({', '.join(quoted(str(name)) for name in value)})"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'"


def _writer(settings: Settings, folder: Path | None, threads: int) -> duckdb.DuckDBPyConnection:
    """A DuckDB that writes files: only in that folder, if there is one. It loads any installed extension."""
    from qoop.query.statements.settings import set_statements

    connection = open_duckdb(threads=threads, autoload_known_extensions=folder is None)
    for statement in set_statements(settings):
        connection.execute(statement)
    if folder is not None:
        confine(connection, folders=[str(folder)])
    return connection


def _missing(path: str | os.PathLike[str], error: duckdb.Error) -> str | None:
    """The advice where an extension of DuckDB is needed that is not installed; None: there is another reason."""
    found = re.search(r"\bINSTALL (\w+)", str(error))
    if found is None:
        return None
    name = found[1]
    return (f"cannot write {path}: that needs DuckDB's extension {name}, which is not installed, and qoop installs "
            f"none by itself. Install it once: python -c \"import duckdb; duckdb.sql('INSTALL {name}')\"")  # fmt: skip


def as_json(text: str) -> str:
    """An object of DuckDB's as JSON has it.

    >>> as_json('{"a":-Infinity,"b":[NaN,1.5],"c":"NaN"}')
    '{"a":"-Infinity","b":["NaN",1.5],"c":"NaN"}'
    """
    if "Infinity" not in text and "NaN" not in text:
        return text
    return _NO_NUMBER.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text)
