"""Scalar expressions: immutable trees of columns, literals and calls.

sqlglot's nodes are mutable and refer to their parent, so they do not belong in a frozen relation. An
expression here has three node classes. DuckDB runs the calls and defines their meaning; the planner only interprets the
operators in :data:`LOGIC` and :data:`COMPARISONS`.

A call prints by its template, in which ``{0}``, ``{1}`` … stand for its arguments:

>>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
>>> str(equals(a, b))
'(a = b)'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Union

from qoop.catalog.value import value

Expr = Union["Column", "Literal", "Call"]

LOGIC = ("and", "or", "not")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

# A call of these gives another value each time, or does something: never duplicated, moved or shared.
VOLATILE = frozenset(
    """random rand uuid gen_random_uuid uuidv4 uuidv7 nextval currval setseed sleep_ms pg_sleep write_log current_query
    current_query_id current_connection_id current_transaction_id txid_current setval vector_type
    volatile_python""".split()  # noqa: SIM905
)
# A call of a function of Python, of which nothing is known; one that is not deterministic is volatile.
PYTHON, VOLATILE_PYTHON = "python", "volatile_python"
# A call of these can raise on some rows: never moved ahead of a filter that guards it.
RAISING = frozenset({"cast", "error", "/", "//", "%", PYTHON, VOLATILE_PYTHON})


def quote(name: str) -> str:
    """Return the identifier as DuckDB reads it, quoted only where it must be."""
    if name.isidentifier() and name.isascii() and name.islower() and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


@value
class Column:
    """A column of a relation. `name` is unique in the whole query; `type` is DuckDB's type text."""

    name: str
    type: str

    def __hash__(self) -> int:
        return hash(self.name)  # planning hashes columns a hundred thousand times; names are unique anyway

    def __str__(self) -> str:
        return quote(self.name)


@value
class Literal:
    """A constant: `sql` as DuckDB reads it, `value` as Python holds it (None for NULL or exotic)."""

    sql: str
    type: str
    value: object = None

    def __str__(self) -> str:
        return self.sql


@value
class Call:
    """An operator or function applied to arguments.

    op: lower-case name: one of LOGIC, COMPARISONS, ``+ - * / % ||``, ``in`` (args[0] in args[1:]),
        ``between`` (args[0] between args[1] and args[2]), ``like``, ``is_null``, ``case`` (when,
        then, when, then …, else), ``cast``, or the name of the function.
    """

    op: str
    args: tuple[Expr, ...]
    template: str
    type: str

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.args, self.template))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _text(self) -> str:
        return self.template.format(*self.args)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def columns(self) -> frozenset[Column]:
        """All columns the call refers to, at any depth."""
        return frozenset().union(*(columns_of(arg) for arg in self.args)) if self.args else frozenset()

    @cached_property
    def steps(self) -> int:
        """The number of functions that each row goes through; and, or and not do not count."""
        return (self.op not in LOGIC) + sum(steps(arg) for arg in self.args)


def steps(expr: Expr) -> int:
    """The number of functions to compute for the expression's value.

    >>> a = Column("a", "INTEGER")
    >>> steps(a), steps(conjunction((equals(a, a), negate(equals(a, a)))))
    (0, 2)
    """
    return expr.steps if isinstance(expr, Call) else 0


MOST_STEPS = 200
"""Functions of an expression into which computed columns are written. Where a column reads the one below it several
times, level by level, they multiply with each level."""


def outgrows(written: Expr, expr: Expr) -> bool:
    """True for an expression with computed columns written into it that has become too large to be of use."""
    return steps(written) > max(MOST_STEPS, steps(expr))


def columns_of(expr: Expr) -> frozenset[Column]:
    """Return the columns that an expression refers to."""
    if isinstance(expr, Column):
        return frozenset((expr,))
    return expr.columns if isinstance(expr, Call) else frozenset()


def columns_of_all(exprs: Iterable[Expr]) -> frozenset[Column]:
    """Return the columns that any of the expressions refers to."""
    return frozenset(column for expr in exprs for column in columns_of(expr))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all below it, parents first."""
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def is_volatile(expr: Expr) -> bool:
    """True if evaluating the expression twice may give two values."""
    return any(isinstance(node, Call) and node.op in VOLATILE for node in walk(expr))


def calls_python(expr: Expr) -> bool:
    """True if the expression calls a function of Python, whose cost is unknown but high."""
    return any(isinstance(node, Call) and node.op in (PYTHON, VOLATILE_PYTHON) for node in walk(expr))


def python_calls(expr: Expr) -> tuple[str, ...]:
    """The functions of Python that computing the expression calls once each, by their keys.

    >>> python_calls(Call("not", (Call(PYTHON, (), '"f@1"()', "BOOLEAN"),), "(NOT {0})", "BOOLEAN"))
    ('f@1',)
    """
    calls = (node for node in walk(expr) if isinstance(node, Call) and node.op in (PYTHON, VOLATILE_PYTHON))
    return tuple(call.template.partition("(")[0].strip('"') for call in calls)


def is_movable_call(expr: Expr) -> bool:
    """True if the expression calls Python, and gives the same wherever it is computed."""
    return calls_python(expr) and not is_volatile(expr)


def may_raise(expr: Expr) -> bool:
    """True if the expression can fail on some rows (so a filter ahead of it may guard it)."""
    return any(isinstance(node, Call) and node.op in RAISING for node in walk(expr))


def transform(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild the expression top-down; `replace` returns a node's substitute, or None to descend."""
    substitute = replace(expr)
    if substitute is not None:
        return substitute
    if not isinstance(expr, Call):
        return expr
    args = tuple(transform(arg, replace) for arg in expr.args)
    return expr if args == expr.args else Call(expr.op, args, expr.template, expr.type)


def substitute(expr: Expr, mapping: Mapping[Column, Expr]) -> Expr:
    """Replace columns by expressions.

    >>> one = Column("one", "INTEGER")
    >>> str(substitute(binary("+", Column("a", "TINYINT"), one, "INTEGER"), {one: Literal("1", "INTEGER", 1)}))
    '(a + CAST(1 AS INTEGER))'
    """
    if not mapping or not (columns_of(expr) & mapping.keys()):
        return expr
    if isinstance(expr, Column):
        return mapping[expr]
    return transform(expr, lambda node: _typed(mapping[node]) if isinstance(node, Column) and node in mapping else None)


def _typed(expr: Expr) -> Expr:
    """The expression in place of a column: DuckDB would adapt the type of a plain number to its context."""
    if isinstance(expr, Literal) and _FITTED.match(expr.sql):
        return replace(expr, sql=f"CAST({expr.sql} AS {expr.type})")
    return expr


_FITTED = re.compile(r"\(?-?\d+\)?$")
TRUE = Literal("true", "BOOLEAN", True)
FALSE = Literal("false", "BOOLEAN", False)


def binary(op: str, left: Expr, right: Expr, type_: str = "BOOLEAN") -> Call:
    """An infix operator; comparisons and logic are BOOLEAN, arithmetic needs a type."""
    return Call(op, (left, right), "({0} " + op.upper() + " {1})", type_)


def equals(left: Expr, right: Expr) -> Call:
    """``left = right``."""
    return binary("=", left, right)


def negate(expr: Expr) -> Call:
    """``NOT expr``."""
    return Call("not", (expr,), "(NOT {0})", "BOOLEAN")


def is_null(expr: Expr) -> Call:
    """``expr IS NULL``."""
    return Call("is_null", (expr,), "({0} IS NULL)", "BOOLEAN")


def is_not_null(expr: Expr) -> Call:
    """``expr IS NOT NULL``."""
    return Call("not", (is_null(expr),), "(NOT {0})", "BOOLEAN")


def cast(expr: Expr, type_: str) -> Expr:
    """``CAST(expr AS type)``, or the expression itself where it has that type."""
    if expr.type == type_:
        return expr
    return Call("cast", (expr,), "CAST({0} AS " + type_.replace("{", "{{").replace("}", "}}") + ")", type_)


def null_of(type_: str) -> Expr:
    """NULL of a type."""
    return cast(Literal("NULL", "NULL", None), type_)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Split at AND.

    >>> c = Column("c", "BOOLEAN")
    >>> len(conjuncts(binary("and", c, binary("and", c, c))))
    3
    """
    if isinstance(expr, Call) and expr.op == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)


def disjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Split at OR."""
    if isinstance(expr, Call) and expr.op == "or":
        return tuple(part for arg in expr.args for part in disjuncts(arg))
    return (expr,)


def conjunction(exprs: Iterable[Expr]) -> Expr:
    """AND of all; TRUE if there is none."""
    return _chain("and", tuple(exprs), TRUE)


def disjunction(exprs: Iterable[Expr]) -> Expr:
    """OR of all; FALSE if there is none."""
    return _chain("or", tuple(exprs), FALSE)


def _chain(op: str, exprs: tuple[Expr, ...], empty: Expr) -> Expr:
    if len(exprs) <= 1:
        return exprs[0] if exprs else empty
    slots = f" {op.upper()} ".join("{" + str(i) + "}" for i in range(len(exprs)))
    return Call(op, exprs, f"({slots})", "BOOLEAN")


_WORDS = """
all analyse analyze and any array as asc asymmetric at authorization between binary both by case
cast check collate column constraint cross create current_date current_time current_timestamp
default deferrable desc describe distinct do else end except false fetch filter for foreign from full
glob group grouping having ilike in initially inner intersect interval into is isnull join lambda
lateral leading left like limit natural not notnull null offset on only or order outer over
overlaps pivot placing positional primary qualify references returning right row rows select semi
anti asof show similar some summarize symmetric table tablesample then time timestamp to trailing
true union unique unpivot using values variadic verbose when where window with within year month day
hour minute second date
"""
_RESERVED = frozenset(_WORDS.split())
