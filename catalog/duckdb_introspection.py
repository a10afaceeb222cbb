"""Introspection of DuckDB: its keywords, its types, its options, and its parser.

All queries run in one instance without data, since opening one takes longer (9 ms) than most of them. The command line
uses the instance that DuckDB's package opens on import; 2.0 opens none.
"""

from __future__ import annotations

import os
import threading
from functools import cache, lru_cache

import duckdb

from qoop.catalog.by_text import LONG
from qoop.catalog.opening import OPENS_ON_IMPORT, open_duckdb, take_default

_COMMON = frozenset(("BOOLEAN", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP"))
_MOST_QUERIES = 64
_queries: dict[str, duckdb.Statement] = {}  # by their texts
_lock = threading.Lock()
_default = False


def use_default() -> None:
    """Use the instance that DuckDB's package opens on import, if it does, in a process where no other code uses it."""
    global _default
    _default = OPENS_ON_IMPORT


def ask(sql: str) -> list[tuple[object, ...]]:
    """The rows of a query without tables. Raises duckdb.Error."""
    with _lock:
        return _duckdb().execute(sql).fetchall()


def parsed(text: str) -> list[duckdb.Statement]:
    """The statements of a text. Raises duckdb.Error where it cannot be parsed."""
    with _lock:
        return _duckdb().extract_statements(text)


def remember(text: str, statement: duckdb.Statement) -> None:
    """A query has been parsed, which DuckDB need not do again. text: its own, perhaps without the end."""
    if len(text) > LONG or not statement.query.startswith(text):  # else errors would show other places
        return
    if len(_queries) >= _MOST_QUERIES:
        _queries.clear()
    _queries[text] = statement


def known_query(text: str) -> duckdb.Statement | None:
    """The query of a text as it was parsed before, which any connection takes in place of the text. None: it was not
    parsed lately."""
    return _queries.get(text)


def is_several(statement: duckdb.Statement) -> bool:
    """True for a PIVOT without values, or a part of DuckDB 1's expansion of one: several statements without a text."""
    return not statement.query or type_of(statement) == duckdb.StatementType.MULTI


def type_of(statement: duckdb.Statement) -> duckdb.StatementType:
    """The kind of a statement. INVALID: DuckDB parses it, but Python's client has no name for its kind."""
    try:
        return statement.type
    except ValueError:
        return duckdb.StatementType.INVALID


@lru_cache(maxsize=4096)
def has_name(type_: str) -> bool:
    """True if SQL can name the type: a struct without field names prints in a form that no CAST accepts."""
    if type_ in _COMMON:
        return True
    try:
        ask(f"SELECT CAST(NULL AS {type_})")
    except duckdb.Error:
        return False
    return True


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return (
        take_default(threads=1) if _default else open_duckdb(files=False, threads=1)
    )  # DuckDB opens a file while it parses IMPORT


def _forked() -> None:
    """A thread of the parent may hold the lock."""
    global _lock, _default
    _lock, _default = threading.Lock(), False
    _duckdb.cache_clear()


os.register_at_fork(after_in_child=_forked)
