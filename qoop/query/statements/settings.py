"""SET options of a session: those that change results, so every kernel needs them.

Options that only change how DuckDB works (threads, memory_limit …) are refused: the session decides them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import duckdb

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.errors import ConfigError
from qoop.catalog.opening import EXTENSIONS, confine, listed, open_duckdb
from qoop.planner.options import CHANGES_RESULTS
from qoop.query.options import SETTABLE

Settings = tuple[tuple[str, str], ...]

_ALIASES = {"null_order": "default_null_order"}


@cache
def options() -> tuple[str, ...]:
    """The options of a session: those of the DuckDB in use that change results."""
    listed = {name for (name,) in ask("SELECT name FROM duckdb_settings()")}
    return tuple(name for name in CHANGES_RESULTS if name in listed or _is_hidden(name))


def _is_hidden(option: str) -> bool:
    """True if DuckDB has the option and lists it nowhere, as 2.0 does with those that keep earlier answers."""
    try:
        ask(f"SELECT current_setting('{option}')")
    except duckdb.Error:
        return False
    return True


@lru_cache(maxsize=256)
def option(name: str, value: str | None) -> tuple[str, str]:
    """The option's own spelling, and the value in DuckDB's; None stands for the default.

    >>> option("timezone", "UTC"), option("null_order", "nulls first"), option("default_order", None)
    (('TimeZone', 'UTC'), ('default_null_order', 'NULLS_FIRST'), ('default_order', 'ASC'))

    Raises ConfigError for an unknown option, listing what exists, and for a value that DuckDB refuses.
    """
    known = _name(name)
    if value is not None and ("\0" in value or not value.isprintable()):
        raise ConfigError(f"{known} cannot be {value!r}: it holds what cannot be printed")
    with open_duckdb(files=False, threads=1) as connection:
        try:
            if value is not None:
                connection.execute(f"SET {known} = '{_quoted(value)}'")
            [(found,)] = connection.execute(f"SELECT current_setting('{known}')").fetchall()
        except duckdb.Error as error:
            raise ConfigError(f"{known} cannot be {value!r}: {error}") from error
    return known, {"ASCENDING": "ASC", "DESCENDING": "DESC"}.get(str(found), str(found))


def set_statements(settings: Settings) -> list[str]:
    """The statements that set these options in a DuckDB, for all its cursors, and load its extensions.

    >>> set_statements((("TimeZone", "UTC"),))
    ["SET GLOBAL TimeZone = 'UTC'"]
    """
    return [statement for name, value in settings for statement in _statements(name, value)]


def _statements(name: str, value: str) -> list[str]:
    if name != EXTENSIONS:
        return [f"SET GLOBAL {name} = '{_quoted(value)}'"]
    from qoop.catalog.extensions import load_statements  # few sessions load any

    return load_statements(listed(value))


def opened(
    settings: Settings, files: bool = False, folders: Iterable[str] = (), **config: Any
) -> duckdb.DuckDBPyConnection:
    """A DuckDB with these settings. files: whether it may open any; else it may those in some folders."""
    connection = open_duckdb(**config)
    for statement in set_statements(settings):
        connection.execute(statement)
    if not files:
        confine(connection, folders=folders)
    return connection


def _name(name: str) -> str:
    names = {known.lower(): known for known in options()} | _ALIASES
    found = names.get(name.lower())
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), names, n=1)
        hint = f"; did you mean {names[near[0]]}?" if near else "."
        raise ConfigError(f"a session has no option {name!r}{hint} Its options: {', '.join((*SETTABLE, *options()))}")
    return found


def _quoted(value: str) -> str:
    return value.replace("'", "''")
