"""Types and values of expressions, as DuckDB has them: the type, and the value where it is constant.

DuckDB itself evaluates them, over typed NULLs and never over data. So types, casts and overloads are right by
construction, and no function has to be known here.  Results are cached for the lifetime of the process: a workload uses
few combinations of operators and types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import duckdb

from qoop.catalog.by_text import by_text
from qoop.catalog.duckdb_introspection import ask, has_name
from qoop.catalog.errors import BindError, ParseError
from qoop.planner.algebra.expr import Call, Expr, Literal, is_volatile

_GROWING = re.compile(
    r"\b(repeat|[lr]pad|range|generate_series|(list|array)_resize|printf|format|bar)\s*\(", re.IGNORECASE
)
"""Functions whose value may be far longer than their text. No limit of DuckDB's memory covers a constant: the query
alone evaluates ``repeat('x', 2e9)``, and the planner does not."""
_LONGEST = 10_000
"""Characters of a text that is kept as the value of a constant."""

# Types whose values the optimiser can compare with statistics; others are not worth folding.

_FOLDED = frozenset(
    (
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        *("DECIMAL", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP", "VARCHAR", "BOOLEAN"),
    )
)

_ONLY_COUNTS = duckdb.__version__.startswith("1.")

NULL_TYPE = '"NULL"'
"""The type of a NULL without one: it adapts to its context."""
_OF_VALUES = (duckdb.DataError, duckdb.InvalidInputException)
"""Errors about a value, not about a name, which only the session may know."""
_HIDES_NULL = duckdb.__version__.startswith("1.")
"""DESCRIBE calls it INTEGER, as a result's column is."""
_NULLS = re.compile(r"\bnull|\[\s*\]|\bmap\b|\b(list|array)_(value|pack)\b", re.IGNORECASE)


def type_of(template: str, args: Sequence[Expr]) -> str:
    """Return the DuckDB type of a call over arguments of these types.

    Raises BindError where DuckDB refuses it.  An integer literal is passed as it is: DuckDB types
    ``smallint + 1`` by the size of the literal.  All others stand as columns: DuckDB's binder drops NULL
    constants, out of ``coalesce(NULL, x)`` for one.
    """
    columns = [arg.type for arg in args if not isinstance(arg, Literal)]
    names = iter(f"c{i}" for i in range(len(columns)))
    text = template.format(*(arg.sql if isinstance(arg, Literal) else next(names) for arg in args))
    type_ = _type_of(text, tuple(columns))
    if not has_name(type_):
        raise BindError(f"the type {type_} cannot be written in SQL")
    return type_


def common_type(types: Sequence[str]) -> str:
    """Return the type that a UNION of columns of these types has.

    >>> common_type(["DATE", "TIMESTAMP"])
    'TIMESTAMP'
    """
    distinct = list(dict.fromkeys(types))
    if len(distinct) == 1:
        return distinct[0]
    return _union_type(tuple(distinct))


def fold(expr: Expr) -> Expr:
    """Turn a call without columns into a literal that keeps its text and knows its value.

    Calls that raise, or depend on the session's time zone, are left to the query's own evaluation.
    """
    known, value = _value_of(str(expr)) if _is_constant(expr) else (False, None)
    return Literal(str(expr), expr.type, value) if known else expr


def always_raises(expr: Expr) -> bool:
    """True for a call without columns that has no value, such as ``CAST(1 / 0 AS INTEGER)``."""
    return _is_constant(expr) and isinstance(_value_of(str(expr))[1], _OF_VALUES)


def _is_constant(expr: Expr) -> bool:
    if not isinstance(expr, Call) or not _is_folded(expr.type) or is_volatile(expr):
        return False
    text = str(expr)
    return not _GROWING.search(text) and not _zoned().search(text)


@lru_cache(maxsize=1)
def _zoned() -> re.Pattern[str]:
    """The pattern of a text that makes a TIMESTAMPTZ of something else."""
    rows = ask(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE return_type = 'TIMESTAMP WITH TIME ZONE' "
        "AND NOT list_contains(parameter_types, 'TIMESTAMP WITH TIME ZONE') ORDER BY ALL"
    )
    names = [re.escape(str(name)) for (name,) in rows if str(name).isidentifier()]
    return re.compile(rf"\b(timestamptz|time\s+zone|(try_)?strptime|{'|'.join(names)})\b", re.IGNORECASE)


def _is_folded(type_: str) -> bool:
    return type_.partition("(")[0] in _FOLDED and not type_.endswith("]")


def value_of_nothing(call: Call) -> Literal | None:
    """The value of an aggregate over no rows at all, None where that is NULL.

    >>> str(value_of_nothing(Call("count_star", (), "count(*)", "BIGINT")))
    "CAST('0' AS BIGINT)"
    """
    columns = tuple(arg.type for arg in call.args)
    value = _value_of_nothing(call.template.format(*(f"c{i}" for i in range(len(columns)))), columns)
    return (
        None if value is None else Literal(f"CAST('{value.replace(chr(39), chr(39) * 2)}' AS {call.type})", call.type)
    )


def value_of_no_match(call: Call) -> Literal | None:
    """The value of an aggregate in a correlated subquery for a row without a match, None where that is NULL.

    That is its value over no rows; before DuckDB 2, only if it is a count.
    """
    if call.op in ("count", "count_star"):
        return Literal("0", "INTEGER", 0)
    return None if _ONLY_COUNTS else value_of_nothing(call)


@by_text(most=65536)
def _type_of(text: str, columns: tuple[str, ...]) -> str:
    typed = ", ".join(f"CAST(NULL AS {type_}) AS c{i}" for i, type_ in enumerate(columns))
    source = f" FROM (SELECT {typed})" if typed else ""
    type_ = _described(text, source)
    return NULL_TYPE if type_ == "INTEGER" and _is_null(text, source) else type_


def _is_null(text: str, source: str) -> bool:
    """True for a NULL without a type, which DuckDB 1 describes as INTEGER, but which fits a text."""
    return _HIDES_NULL and _NULLS.search(text) is not None and _described(f"coalesce({text}, '')", source) == "VARCHAR"


def _described(text: str, source: str) -> str:
    try:
        ((_, type_, *_),) = ask(f"DESCRIBE SELECT {text}{source}")
    except duckdb.Error as error:
        raise BindError(str(error)) from error
    return str(type_)


@lru_cache(maxsize=4096)
def _union_type(types: tuple[str, ...]) -> str:
    branches = " UNION ALL ".join(f"SELECT CAST(NULL AS {type_})" for type_ in types)
    try:
        ((_, type_, *_),) = ask(f"DESCRIBE {branches}")
    except duckdb.Error as error:
        raise BindError(str(error)) from error
    return str(type_)


@by_text(most=4096)
def _value_of_nothing(text: str, columns: tuple[str, ...]) -> str | None:
    typed = ", ".join(f"CAST(NULL AS {type_}) AS c{i}" for i, type_ in enumerate(columns))
    try:
        ((value,),) = ask(f"SELECT CAST({text} AS VARCHAR) FROM (SELECT {typed or 1} WHERE false)")
    except duckdb.Error:
        return None  # such as GROUPING() without groups, which never sees an empty input
    return None if value is None else str(value)


@by_text(most=16384)
def _value_of(text: str) -> tuple[bool, object]:
    """True and the value, or False and the error."""
    try:
        ((value,),) = ask(f"SELECT {text}")
    except duckdb.Error as error:
        return False, error.with_traceback(None)
    return (False, None) if isinstance(value, str) and len(value) > _LONGEST else (True, value)


def names_that(names: Sequence[str], condition: str) -> frozenset[str]:
    """The names that a lambda of DuckDB's is true for. Raises BindError where DuckDB cannot tell.

    >>> sorted(names_that(["key", "value"], "lambda c: regexp_matches(c, '^k')"))
    ['key']
    """
    try:
        ((kept,),) = ask(f"SELECT list_filter([{', '.join(map(_text, names))}]::VARCHAR[], {condition})")
    except duckdb.Error as error:
        raise BindError(str(error)) from error
    return frozenset(str(name) for name in kept)  # type: ignore[attr-defined]


def text_between(name: str, pattern: str, group: int) -> str:
    """The part of a name that a group of a regular expression found.

    >>> text_between("price_eur", "(.*)_(.*)", 2)
    'eur'
    """
    ((part,),) = ask(f"SELECT regexp_extract({_text(name)}, {_text(pattern)}, {group})")
    return str(part)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def parse_tree(text: str) -> str:
    """DuckDB's parse tree of a SELECT, as JSON. Raises ParseError where it has none."""
    options = "skip_null := true, skip_empty := true, skip_default := true"
    ((tree,),) = ask(f"SELECT json_serialize_sql('{text.replace(chr(39), chr(39) * 2)}', {options})")
    if str(tree).startswith('{"error":true'):
        raise ParseError(str(tree))
    return str(tree)


@lru_cache(maxsize=1)
def function_aliases() -> dict[str, str]:
    """The functions of DuckDB that are others under another name."""
    rows = ask("SELECT DISTINCT function_name, alias_of FROM duckdb_functions() WHERE alias_of IS NOT NULL")
    return {str(name).lower(): str(other).lower() for name, other in rows}


@lru_cache(maxsize=1)
def type_aliases() -> dict[str, str]:
    """The types of DuckDB by all of their names, lower-case."""
    rows = ask("SELECT DISTINCT type_name, logical_type FROM duckdb_types()")
    return {str(name).lower(): str(type_).lower() for name, type_ in rows}


@lru_cache(maxsize=1)
def aggregate_names() -> frozenset[str]:
    """Names of DuckDB's aggregate functions, lower-case."""
    rows = ask("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
    return frozenset(str(name).lower() for (name,) in rows)


@lru_cache(maxsize=1)
def aggregate_macros() -> frozenset[str]:
    """Names of DuckDB's macros that compute aggregates, such as geomean, lower-case."""
    return _macros_over(aggregate_names())


@lru_cache(maxsize=1)
def unnesting_names() -> frozenset[str]:
    """Names of functions that return several rows for one, lower-case."""
    return _macros_over(frozenset(("unnest",))) | {"unnest"}


def _macros_over(names: frozenset[str]) -> frozenset[str]:
    """The macros that call one of these, or a macro that does."""
    rows = ask("SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'")
    calls = {str(name).lower(): set(re.findall(r"(\w+)\"?\(", str(body).lower())) for name, body in rows}
    found: frozenset[str] = frozenset()
    while more := {name for name, called in calls.items() if called & (names | found)} - found:
        found |= more
    return found
