"""The check that sqlglot reads a text as DuckDB does.

The planner works on sqlglot's tree, and sqlglot's grammar is not DuckDB's: it binds ``~`` and ``==`` more tightly,
and drops arguments of functions that it models differently (``decode(b, 'ignore')``).  A query read differently would
get a wrong answer without an error.  So the tree is printed, and DuckDB parses both texts; its two trees must be equal
but for equivalent forms (:func:`_plain`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from qoop.catalog.errors import QueryError
from qoop.planner.algebra.types import function_aliases, parse_tree, type_aliases

# What does not change a meaning: places in the text, `main.` in front of a function, operators as functions, and names
# that stand elsewhere in the tree too.
_IGNORED = frozenset(
    ("query_location", "query_location_length", "schema", "is_operator", "alias", "qualified_name")
)  # fmt: skip
_OPERATORS = {"**": "pow", "^": "pow", "power": "pow", "^@": "starts_with", "position": "strpos"}
_BINDING = (
    *(
        exp.And,
        exp.Or,
        exp.Not,
        exp.EQ,
        exp.NEQ,
        exp.LT,
        exp.LTE,
        exp.GT,
        exp.GTE,
        exp.Is,
        exp.In,
        exp.Between,
        exp.Like,
    ),
    *(exp.ILike, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot, exp.BitwiseXor, exp.BitwiseLeftShift),
    *(exp.BitwiseRightShift, exp.Cast),
)
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.I)
_FRACTION = re.compile(r"(?<![\w.])(0?)(\.\d\w*)")
_NEGATED = {
    "operator_is_not_null": "operator_is_null",
    "compare_not_in": "compare_in",
    "compare_distinct_from": "compare_not_distinct_from",
    "!~~": "~~",
    "!~~*": "~~*",
}


def parse(text: str) -> exp.Expression | None:
    """The tree of a query, None where sqlglot has none."""
    try:
        ast = sqlglot.parse_one(text, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None  # DuckDB accepted it: it runs as one opaque stage, and EXPLAIN says so
    if not isinstance(ast, exp.Query) or not isinstance(ast, exp.Expression):
        return None
    _as_written(ast, text)
    return ast if _has_numbers(ast) else None


@cache
def is_known(function: str) -> bool:
    """True if sqlglot believes to know a function of that name, and may take its arguments for something else."""
    known = sqlglot.Dialect.get_or_raise("duckdb").parser_class
    return any(function.upper() in names for names in (known.FUNCTIONS, known.FUNCTION_PARSERS))


def mark_python(ast: exp.Expression, functions: Iterable[str]) -> None:
    """Say of each call of a function of Python that it is one. functions: their names in lower case."""
    names = frozenset(functions)
    for call in ast.find_all(exp.Anonymous) if names else ():
        call.meta["python"] = call.name.lower() in names


def _as_written(ast: exp.Expression, text: str) -> None:
    """Take away the 0 that sqlglot writes before ``.34``: DuckDB gives such a number one digit less."""
    zeros: dict[str, set[bool]] = {}
    for zero, fraction in _FRACTION.findall(text):
        zeros.setdefault(fraction.lower(), set()).add(zero != "")
    for literal in ast.find_all(exp.Literal) if any(False in found for found in zeros.values()) else ():
        if literal.this.startswith("0.") and zeros.get(literal.this[1:].lower()) == {False} and not literal.is_string:
            literal.set("this", literal.this[1:])


def _has_numbers(ast: exp.Expression) -> bool:
    """False if a number is none: sqlglot reads ``1e2+3`` as one."""
    numbers = (literal.this for literal in ast.find_all(exp.Literal) if not literal.is_string)
    return all(_NUMBER.fullmatch(number) for number in numbers)


def tables_named(ast: exp.Expression) -> frozenset[str]:
    """Names in lower case that may be tables, from anywhere in the tree.

    DuckDB's table macros take the name of a table as an argument: ``FROM histogram(t, x)``.
    """
    tables = list(ast.find_all(exp.Table))
    calls = [table.this for table in tables if isinstance(table.this, exp.Func)]
    named = [*tables, *(argument for call in calls for argument in call.expressions)]
    return frozenset(item.name.lower() for item in named)


def has_same_reading(text: str, ast: exp.Expression) -> bool:
    """True if DuckDB sees the same query in the text and in what sqlglot prints of its tree.

    >>> import sqlglot
    >>> def alike(text):
    ...     return has_same_reading(text, sqlglot.parse_one(text, read="duckdb"))
    >>> alike("SELECT max(a) FILTER (a IS NOT NULL) FROM t ORDER BY 1"), alike("SELECT ~a // b FROM t")
    (True, False)
    """
    try:
        printed = _parenthesised(ast).sql("duckdb", copy=False, unsupported_level=sqlglot.ErrorLevel.RAISE)
        theirs, ours = parse_tree(text), parse_tree(printed)
        return theirs == ours or _plain(json.loads(theirs)) == _plain(json.loads(ours))
    except (QueryError, sqlglot.UnsupportedError, RecursionError):
        return False


def _parenthesised(ast: exp.Expression) -> exp.Expression:
    """The tree with its shape in its text: DuckDB's tree has no parentheses, so they only change the binding of
    operators."""
    tree = ast.copy()
    around = (exp.Paren, exp.Escape, exp.Pivot)  # whose grammar has no place for parentheses
    for node in [node for node in tree.walk() if isinstance(node, _BINDING) and not isinstance(node.parent, around)]:
        wrapped = exp.Paren()
        node.replace(wrapped)
        wrapped.set("this", node)
    return tree


def _plain(node: Any) -> Any:
    """The tree in a form that is equal where the meaning is."""
    if isinstance(node, str):
        return node.lower()
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items() if key not in _IGNORED and not _is_default(key, value)}
    if plain.get("class") == "constant":
        value = plain.get("literal") or plain["value"]  # DuckDB 2 keeps the text, 1 the value
        type_ = value.get("type")
        return {
            "constant": str(value.get("text", value.get("value"))),
            "digits": type_.get("type_info") if isinstance(type_, dict) else None,
            "null": "value" in plain and value.get("is_null"),
        }
    if plain.get("class") == "type":
        plain["type_name"] = type_aliases().get(plain["type_name"], plain["type_name"])
    if "function_name" in plain:
        plain["function_name"] = _function(plain["function_name"])
        arguments = [item["expression"] for item in plain.pop("arguments", ())] or plain.get("children", [])
        plain["children"] = _arguments(plain["function_name"], arguments)
        plain["argument_names"] = _argument_names(node)
    for key in ("type", "function_name"):
        positive = _NEGATED.get(str(plain.get(key)))
        if positive is not None:
            return {"class": "operator", "type": "operator_not", "children": [{**plain, key: positive}]}
    return plain


def _is_default(key: str, value: object) -> bool:
    """An empty list of modifiers is printed or not; NULLS LAST is the order of NULLs (SET would run opaque)."""
    return value == {"type": "ORDER_MODIFIER"} or (key == "null_order" and value in ("ORDER_DEFAULT", "NULLS LAST"))


def _arguments(function: str, arguments: list[Any]) -> list[Any]:
    """The arguments without what sqlglot adds to them."""
    if function in ("bool_and", "bool_or"):
        return [_uncast(argument) for argument in arguments]
    if function == "range" and len(arguments) == 2 and arguments[0].get("constant") == "0":
        return arguments[1:]
    return arguments


def _argument_names(call: Any) -> list[str]:
    """The names of the arguments that have any: ``struct_pack(a)`` is no ``struct_pack(_0 := a)``."""
    arguments = [item["expression"] for item in call.get("arguments", ())] or call.get("children", [])
    return [name.lower() for item in arguments if (name := item.get("alias"))]


def _uncast(node: Any) -> Any:
    while isinstance(node, dict) and node.get("class") == "cast" and _is_boolean(node):
        node = node["child"]
    return node


def _is_boolean(cast: Any) -> bool:
    return bool(cast.get("cast_type") == {"id": "boolean"} or cast.get("type_expr", {}).get("type_name") == "boolean")


@lru_cache(maxsize=1024)
def _function(name: str) -> str:
    """One name of those that a function has."""
    name = _OPERATORS.get(name, name)
    return function_aliases().get(name, name)
