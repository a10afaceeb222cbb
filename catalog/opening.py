"""The functions that open a DuckDB, and confine one to the files of tables."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import duckdb

from qoop.catalog.forks import survive_fork

EXTENSIONS = "extensions"
"""The setting of a session that holds the names of DuckDB's extensions (:mod:`qoop.catalog.extensions`), with commas
between them, in the order in which they were loaded."""

_NEVER = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_file_cache": False,
    "python_enable_replacements": False,
}

OPENS_ON_IMPORT = duckdb.__version__.startswith("1.")
"""True if importing DuckDB's package opens a DuckDB. In 2.0 to ask for that one takes 28 ms, and to open another 14."""

_READS_NOTHING: dict[str, Any] = {} if OPENS_ON_IMPORT else {"async_threads": 0}
"""2.0 starts eight threads for each DuckDB, to read ahead."""

_closes = True
_opened_ahead: list[Future[duckdb.DuckDBPyConnection]] = []
_inherited: list[duckdb.DuckDBPyConnection] = []  # by each forked child
os.register_at_fork(after_in_child=_opened_ahead.clear)


def listed(extensions: str) -> list[str]:
    """The names in the setting of extensions.

    >>> listed("httpfs,tpch"), listed("")
    (['httpfs', 'tpch'], [])
    """
    return [name for name in extensions.split(",") if name]


def take_default(**config: Any) -> duckdb.DuckDBPyConnection:
    """The DuckDB that its package opens by itself, confined like one of `open_duckdb` that may open no files.

    For a process without other users of it; there it saves the time of one more.
    """
    connection = duckdb.default_connection()
    for name, value in {**_NEVER, **config, "enable_external_access": False}.items():
        connection.execute(f"SET {name} = {value}")
    silence(connection)
    survive_fork(connection)
    return connection


def open_duckdb(*, files: bool = True, **config: Any) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, with these options, that reads no variable of Python and installs nothing.

    By default the client resolves an unknown name in the frames of its callers, which are ours: a query could read
    variables of the engine, and the meaning of a name would differ between machines.

    It caches no bytes of files either: its cache compares times in whole seconds, and might return old content. Nor
    does it write a progress bar to the standard output, where the rows of a client may go.

    files: true if it may open any; most never do.

    >>> open_duckdb(threads=1).execute("SELECT current_setting('python_enable_replacements')").fetchone()
    (False,)
    """
    options = {**config, **({} if files else {"enable_external_access": False})}
    return (_taken(options) if config.get("threads") == 1 else None) or _opened(options)


def open_ahead(number: int) -> None:
    """Open this number of DuckDBs in a thread, for the next calls of `open_duckdb` with one thread.

    The caller loads modules meanwhile."""
    opener = ThreadPoolExecutor(1, "qoop-open")
    _opened_ahead.extend(opener.submit(_opened, {"threads": 1}) for _ in range(number))
    opener.shutdown(wait=False)


def open_for_children(number: int) -> None:
    """Open this number of DuckDBs, for the first calls of `open_duckdb` with one thread in each process that this one
    forks. They have no threads, so they live on there. To open one takes 11 to 18 ms."""
    _inherited.extend(_opened({"threads": 1, **_READS_NOTHING}) for _ in range(number))


def leave_open() -> None:
    """`close_duckdb` closes nothing from now on: this process is about to end without destroying its objects."""
    global _closes
    _closes = False


def close_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a DuckDB in memory, which takes 3 to 5 ms, unless the system soon frees its memory with the process."""
    if _closes:
        connection.close()


def _opened(config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    reads = config.get("enable_external_access", True)
    connection = duckdb.connect(":memory:", config={**_NEVER, **({} if reads else _READS_NOTHING), **config})
    silence(connection)
    survive_fork(connection)
    return connection


def _taken(config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection | None:
    """The first that was opened ahead, with these options; None: there is none."""
    if _opened_ahead:
        connection = _opened_ahead.pop(0).result()
    elif _inherited:
        connection = _inherited.pop().cursor()  # whose random numbers are not those of the other children
        silence(connection)
    else:
        return None
    for name, value in config.items():
        connection.execute(f"SET {name} = {as_value(value)}")
    return connection


def as_value(value: object) -> str:
    """A value of an option in SQL.

    >>> as_value(True), as_value(1), as_value("it's")
    ('true', '1', "'it''s'")
    """
    return str(value).lower() if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def silence(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch the bar off that DuckDB shows on a terminal or in a notebook."""
    # A notebook without ipywidgets has no progress bar, and DuckDB refuses even to switch it off.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def count_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Have `query_progress` of a connection count, which it does only where the bar is on, without a bar."""
    with contextlib.suppress(duckdb.InvalidInputException):  # as above
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET enable_progress_bar = true")


def confine(connection: duckdb.DuckDBPyConnection, paths: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
    """Let an instance open only these files, files in these folders and what it spills, for good."""
    connection.execute(f"SET allowed_paths = {_listed(paths)}")
    connection.execute(f"SET allowed_directories = {_listed(folders)}")
    connection.execute("SET enable_external_access = false")


def within(path: str | os.PathLike[str], folders: Iterable[str | os.PathLike[str]]) -> bool:
    """True if a path lies in one of the folders, wherever links and ``..`` lead.

    >>> within("/data/out/x.csv", ["/data/out"]), within("/data/out/../x.csv", ["/data/out"])
    (True, False)
    """
    real = os.path.realpath(path)
    return any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)


def _listed(texts: Iterable[str]) -> str:
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in sorted(texts)) + "]"
