"""Extensions of DuckDB: finding them on this machine, and loading them in an instance.

An extension comes as a package of PyPI (``duckdb-extension-httpfs``), or is in the folder of DuckDB's own INSTALL. The
names of loaded extensions are a setting of the session. So every instance of DuckDB for the session loads them, and
they are a part of the identity of outputs.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import duckdb

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.errors import ConfigError
from qoop.catalog.opening import open_duckdb

ENDING = ".duckdb_extension"

_OTHER_NAMES = {
    "sqlite": "sqlite_scanner",
    "sqlite3": "sqlite_scanner",
    "postgres": "postgres_scanner",
    "mysql": "mysql_scanner",
    "http": "httpfs",
    "https": "httpfs",
    "s3": "httpfs",
}


def own_name(name: str) -> str:
    """The name of an extension as in the name of its file; a path stays the same."""
    return name if name.endswith(ENDING) else _OTHER_NAMES.get(name.lower(), name.lower())


def load_statements(names: Iterable[str]) -> list[str]:
    """The statements by which an instance loads extensions. Raises ConfigError for one that is not on this machine."""
    return [f"LOAD {_literal(str(file_of(name)))}" for name in names if not is_built_in(name)]


def load(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Load extensions in an instance. Raises as `load_statements` does."""
    for statement in load_statements(names):
        connection.execute(statement)


def file_of(name: str) -> Path:
    """The file of an extension. Raises ConfigError, which names ways to install it."""
    name = own_name(name)
    if name.endswith(ENDING):
        found = [Path(os.path.abspath(os.path.expanduser(name)))]
    else:
        found = [folder / f"{name}{ENDING}" for folder in _folders(name)]
    for path in found:
        if path.is_file():
            return path
    raise ConfigError(
        f"the extension {name} is not on this machine for DuckDB {duckdb.__version__}: "
        f"pip install {_package(name)}=={duckdb.__version__}, or INSTALL {name}, which downloads it"
    )


def is_here(name: str) -> bool:
    """True if an extension can be loaded without a download."""
    try:
        return is_built_in(name) or file_of(name).is_file()
    except ConfigError:
        return False


@cache
def _built_in() -> frozenset[str]:
    with open_duckdb(threads=1) as connection:  # one that may open no files may not look for them either
        found = connection.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()
    return frozenset(str(name) for (name,) in found)


def is_built_in(name: str) -> bool:
    """True if every DuckDB has the extension."""
    return own_name(name) in _built_in()


def check(name: str) -> None:
    """Load an extension in an instance that is thrown away. Raises ConfigError with DuckDB's reason."""
    with open_duckdb(threads=1) as connection:
        try:
            load(connection, [name])
        except duckdb.Error as error:
            raise ConfigError(f"DuckDB does not load {name}: {str(error).partition(chr(10))[0]}") from error


def install(name: str, source: str) -> None:
    """Have DuckDB download an extension, unless it is here. source: ``FROM …`` as written, or empty. Raises
    ConfigError."""
    if not source and is_here(name):
        return
    with open_duckdb(threads=1) as connection:
        try:
            connection.execute(f"INSTALL {_literal(own_name(name))} {source}")
        except duckdb.Error as error:
            raise ConfigError(
                f"cannot install {name}: {str(error).partition(chr(10))[0]}; "
                f"pip install {_package(own_name(name))}=={duckdb.__version__} may bring it"
            ) from error


def _folders(name: str) -> list[Path]:
    """The folders that may hold it: that of its package, and DuckDB's own."""
    version = f"v{duckdb.__version__.removeprefix('v')}"
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    packaged = [Path(package.origin).parent / "extensions" / version] if package is not None and package.origin else []
    own = Path.home() / ".duckdb" / "extensions" / version / _platform()
    return [*packaged, own]


@cache
def _platform() -> str:
    [(platform,)] = ask("SELECT platform FROM pragma_platform()")
    return str(platform)


def _package(name: str) -> str:
    return f"duckdb-extension-{name.replace('_', '-')}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
