"""PRAGMA: it sets an option, or it is a query by another name.

DuckDB 1 replaces some PRAGMAs by a SELECT while it parses them, DuckDB 2 does not: so the text is read here.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from qoop.catalog.duckdb_introspection import ask
from qoop.query.statements.kinds.refused import not_for_a_session

if TYPE_CHECKING:
    from qoop.query.statements.words import Words

_QUESTIONS = {
    "SHOW_TABLES": """SELECT name FROM (
        SELECT table_name AS name FROM duckdb_tables() WHERE schema_name = 'main'
        UNION ALL SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal) ORDER BY name""",
    "SHOW_TABLES_EXPANDED": "SHOW ALL TABLES",
    "SHOW_DATABASES": "SHOW DATABASES",
    "DATABASE_LIST": "FROM pragma_database_list",
    "FUNCTIONS": """SELECT function_name AS name, upper(function_type) AS type, parameter_types AS parameters, varargs,
        return_type, has_side_effects AS side_effects
        FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') ORDER BY ALL""",
}


def sets(words: Words) -> bool:
    """True for a PRAGMA that sets an option: ``PRAGMA threads = 2``."""
    return words.take("PRAGMA") and words.dotted_name() is not None and words.take("=")


def question(words: Words) -> str:
    """The query, or the SHOW, in a PRAGMA. Raises QueryError for a PRAGMA that changes something."""
    whole = copy(words)
    name = words.take_name() if words.take("PRAGMA") else None
    arguments = words.parenthesised() or "()"
    if name is not None and words.next is None:
        known = _QUESTIONS.get(name.upper()) if arguments == "()" else None
        if known is not None:
            return known
        if f"pragma_{name.lower()}" in _functions():
            return f"SELECT * FROM pragma_{name.lower()}{arguments}"
    raise not_for_a_session(whole)


@cache
def _functions() -> frozenset[str]:
    """The names of the table functions that answer a PRAGMA."""
    return frozenset(str(name) for (name,) in ask("SELECT function_name FROM duckdb_functions() "
                                                  "WHERE starts_with(function_name, 'pragma_')"))  # fmt: skip
