"""The names that a query may use: keywords, functions, and the tables of a session with their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache

from qoop.catalog.value import value

_COMMON = """
    select from where group by order having limit offset join left right full inner outer cross on using as and or
    not in is null like ilike between case when then else end distinct union all except intersect exists with
    recursive values asc desc nulls first last over partition rows range preceding following unbounded current row
    filter qualify window interval cast explain analyze alternatives history create replace view table drop copy
    to describe summarize show tables set reset true false date timestamp extract lateral semi anti asof
    positional unnest pivot unpivot rollup cube grouping sets sample exclude
"""

COMMON = tuple(_COMMON.split())
"""Common keywords, which completion offers first and which are coloured."""


@value
class Names:
    """tables: columns with their types, by name of the table or view. describe: the columns of a query; none if the
    query is wrong. variables: names that statements may write as :name."""

    keywords: tuple[str, ...] = COMMON
    functions: tuple[str, ...] = ()
    tables: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    describe: Callable[[str], tuple[tuple[str, str], ...]] = lambda _: ()
    variables: tuple[str, ...] = ()

    def columns(self, table: str) -> tuple[tuple[str, str], ...]:
        """The columns of a table, by its name in any case; none if there is no such table."""
        for name, columns in self.tables.items():
            if name.lower() == table.lower():
                return columns
        return ()


@cache
def of_duckdb() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keywords and functions of the DuckDB in use; the common keywords first."""
    from qoop.catalog.duckdb_introspection import ask

    reserved = ask("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved' ORDER BY ALL")
    functions = ask(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE regexp_matches(function_name, '^[a-z]\\w+$') "
        "AND NOT starts_with(function_name, 'pragma_') AND function_type <> 'pragma' ORDER BY ALL"
    )
    keywords = dict.fromkeys((*COMMON, *(str(name) for (name,) in reserved)))
    return tuple(keywords), tuple(str(name) for (name,) in functions)
