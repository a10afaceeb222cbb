"""The rights of a text in a locked session: it may read registered tables, and compute.

DuckDB's parser lists the parts of a text. Table functions pass only if they read nothing. Other functions are refused
if they run a text, write, wait, or disclose the machine. A function unknown here that reads a file meets the next line
of defence: the DuckDB that runs such a text opens no files but those of the tables (:mod:`qoop.catalog.opening`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from qoop.catalog.by_text import by_text
from qoop.catalog.errors import Forbidden
from qoop.planner.options import CHANGES_RESULTS
from qoop.planner.parse_tree import Names, Node, arguments_of, is_common_table, nodes, text_of, tree_of

TABLE_FUNCTIONS = frozenset((
    "generate_series", "icu_calendar_names", "json_each", "json_tree", "pg_timezone_names", "range", "repeat",
    "repeat_row", "summary", "test_all_types", "test_vector_types", "unnest",
))  # fmt: skip
"""Those that read nothing but their arguments."""

REFUSED = frozenset((
    "current_connection_id", "current_query", "current_query_id", "current_transaction_id", "currval",
    "get_block_size", "getenv", "getvariable", "json_serialize_plan", "nextval", "query", "query_table", "shell",
    "sleep_ms", "txid_current", "version", "write_log",
))  # fmt: skip
"""Functions of an expression that run a text, write, wait, or tell of the machine or of other work on it."""

_REFUSED_BEGINNINGS = ("__internal", "duckdb_", "inet_", "pg_", "pragma_", "read_")
_HARMLESS = frozenset(("pg_size_pretty", "pg_timezone_names", "pg_typeof"))
_SETTINGS = frozenset(name.lower() for name in CHANGES_RESULTS)
_RULE = "the session is locked: its SQL reads registered tables and computes with their rows, and does nothing else"


def check(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise Forbidden unless all names are among those of tables and views that are known; all in lower case."""
    there = sorted(set(known))
    for name in sorted(set(names).difference(there)):
        refuse(f"{name!r} is not a registered table. Tables here: {', '.join(there) or 'none'}")


def refuse(what: str) -> NoReturn:
    """Raise Forbidden."""
    raise Forbidden(f"{what} ({_RULE})")


@by_text(most=1024)
def names_read(text: str) -> frozenset[str]:
    """The names, in lower case, of tables and views that a query reads, wherever it does.

    >>> sorted(names_read("WITH a AS (FROM b) SELECT (SELECT max(x) FROM C) FROM a, main.d"))
    ['b', 'c', 'd']

    Raises Forbidden for what reads something else, ParseError for what is not a query.
    """
    return frozenset(name for node, named in nodes(tree_of(text)) for name in _names(node, named))


def is_harmless(function: str) -> bool:
    """True if a function computes with its arguments, and does nothing else. function: its name in lower case."""
    return function not in REFUSED and (function in _HARMLESS or not function.startswith(_REFUSED_BEGINNINGS))


def _names(node: Node, named: Names) -> Iterator[str]:
    """The name of a table, if the node is one; raises Forbidden for what else it may be. named: by WITH."""
    kind = node.get("type")
    if kind == "BASE_TABLE":
        if not is_common_table(node, named):
            yield _table(node)
    elif kind == "SHOW_REF" and not node.get("query"):
        refuse("SHOW shows more than tables; SHOW TABLES alone lists these")
    elif kind == "TABLE_FUNCTION":
        _table_function(node["function"])
    elif "function_name" in node:
        _function(node)


def _table(node: Node) -> str:
    name, schema, catalog = node["table_name"].lower(), node.get("schema_name", ""), node.get("catalog_name", "")
    if catalog or schema.lower() not in ("", "main"):
        refuse(f"{'.'.join(part for part in (catalog, schema, name) if part)} is not the name of a registered table")
    return str(name)


def _table_function(node: Node) -> None:
    name = node["function_name"].lower()
    if name not in TABLE_FUNCTIONS:
        refuse(f"{name}() is refused; of table functions there are {', '.join(sorted(TABLE_FUNCTIONS))}")


def _function(node: Node) -> None:
    name = node["function_name"].lower()
    if name == "current_setting":
        _setting(arguments_of(node))
    elif not is_harmless(name):
        refuse(f"{name}() is refused")


def _setting(arguments: list[Any]) -> None:
    name = text_of(arguments[0]) if len(arguments) == 1 else None
    if name is None or name.lower() not in _SETTINGS:
        refuse(f"current_setting() needs the literal name of one of these options: {', '.join(CHANGES_RESULTS)}")
