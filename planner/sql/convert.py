"""sqlglot expression -> :data:`~qoop.planner.algebra.expr.Expr`.

Operators that the optimiser knows become calls of known names; everything else becomes a call whose template
is printed by sqlglot and whose type comes from DuckDB.  Aggregates, window functions and subqueries are
collected in the :class:`Env` of the block, and stand in the expression as columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from sqlglot import exp

from qoop.catalog.errors import BindError
from qoop.catalog.functions.function import UserFunction
from qoop.planner.algebra.expr import (
    PYTHON,
    VOLATILE,
    VOLATILE_PYTHON,
    Call,
    Column,
    Expr,
    Literal,
    cast,
    columns_of,
    is_null,
    negate,
    quote,
)
from qoop.planner.algebra.query_timestamp import QueryTimestamp, is_of_the_moment
from qoop.planner.algebra.relation import Aggregation, Relation, WindowCall
from qoop.planner.algebra.types import (
    NULL_TYPE,
    aggregate_macros,
    always_raises,
    common_type,
    fold,
    type_of,
    unnesting_names,
)
from qoop.planner.sql.parts import EXPRESSIONS, is_aggregate
from qoop.planner.sql.scope import Cte, Names, Scope, Unsupported, parts_of

Attachment = Callable[[Relation], Relation]

_BINARY: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "and",
    exp.Or: "or", exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.DPipe: "||",
}  # fmt: skip
_OF_OPERATOR = frozenset(("this", "expression", "typed", "safe"))
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT")
_BOOLEAN = frozenset(("=", "<>", "<", "<=", ">", ">=", "and", "or"))
_NOW = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime, exp.Localtime, exp.Localtimestamp)
# Nodes that are syntax around expressions, not expressions: rebuilt in place, their children become arguments.
_SYNTAX = (
    exp.Order, exp.Ordered, exp.Distinct, exp.WindowSpec, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup,
    exp.If, exp.PropertyEQ, exp.HavingMax, exp.Where,
)  # fmt: skip
# Expressions that are no function of one row's values.
_FOREIGN = (exp.Any, exp.All, exp.Lambda, exp.Placeholder, exp.Parameter, exp.Unnest, exp.UDTF, exp.Explode)
# Nodes whose first child is the function they modify, not an argument.
_CALLS = (exp.Func, exp.Window, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)  # a FILTER may follow them
_AROUND_CALL = (exp.Window, exp.Filter, exp.Escape, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_CLOSED = (exp.Column, exp.Query, exp.Subquery, exp.AggFunc, exp.Window, exp.Star, exp.Lambda, exp.Placeholder)


class Subqueries(Protocol):
    """The part of the block builder that the converter calls when it meets a subquery."""

    def scalar(self, node: exp.Expression, env: Env) -> Expr: ...
    def exists(self, node: exp.Exists, env: Env) -> Expr: ...
    def member(self, node: exp.In, env: Env) -> Expr: ...


@dataclass
class Env:
    """The surroundings in which an expression is converted.

    aggregates: None where aggregates are not allowed, else those collected so far.
    windows: the same for window functions. timestamp: what ``now()`` is.
    attachments: joins that bring in subqueries, in order; applied before the expressions are computed.
    aliases: select-list aliases that may be used where no column of that name exists.
    ctes: the WITH items that subqueries may read. functions: of Python, by lower-case name.
    """

    scope: Scope
    names: Names
    subqueries: Subqueries
    timestamp: QueryTimestamp
    aggregates: dict[tuple[Call, Expr | None], Aggregation] | None = None
    windows: list[WindowCall] | None = None
    attachments: list[Attachment] = field(default_factory=list)
    aliases: dict[str, exp.Expression] = field(default_factory=dict)
    ctes: dict[str, Cte] = field(default_factory=dict)
    functions: Mapping[str, UserFunction] = field(default_factory=dict)

    def convert(self, node: exp.Expression) -> Expr:
        """Convert one expression; raises Unsupported for what only DuckDB understands."""
        if node.args.get("negate"):  # sqlglot's form of NOT LIKE
            positive = node.copy()
            positive.set("negate", None)
            return negate(self.convert(positive))
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            unknown = [key for key in parts_of(node) if key not in EXPRESSIONS.get(type(node), _OF_OPERATOR)]
            if not unknown:
                return handler(self, node)
            if type(node) not in _BINARY and not isinstance(node, exp.Func):
                raise Unsupported(f"{unknown[0]} in {node.sql(dialect='duckdb')[:60]}")
        if _is_time_function(node):
            return self.present(node)
        if isinstance(node, exp.Anonymous) and _is_python(node):
            return self.python(node, self.functions[node.name.lower()])
        if is_aggregate(node):
            return self.aggregate(node, None)
        return self.generic(node)

    def present(self, node: exp.Expression) -> Expr:
        """The timestamp of the query, which is one in all of its tasks."""
        name = node.name if isinstance(node, exp.Anonymous) else node.sql(dialect="duckdb")
        literal = self.timestamp.literal(name.removesuffix("()"))
        if literal is None:
            raise Unsupported(node.sql(dialect="duckdb"))
        return literal

    def python(self, node: exp.Anonymous, function: UserFunction) -> Expr:
        """A call of a function of Python, by the name that says which one it is."""
        args = tuple(self.convert(item) for item in node.expressions)
        if len(args) != len(function.parameters):
            raise Unsupported(f"{node.sql(dialect='duckdb')[:60]}")
        slots = ", ".join("{" + str(place) + "}" for place in range(len(args)))
        op = PYTHON if function.deterministic else VOLATILE_PYTHON
        return Call(op, args, f"{quote(function.key)}({slots})", function.return_type)

    def column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise Unsupported("a star inside an expression")
        if "found" in node.meta:
            return node.meta["found"]  # type: ignore[no-any-return]
        name, table = node.name.lower(), node.table.lower() or None
        if node.args.get("catalog") or node.db.lower() not in ("", "main"):
            return self.field(node, node.db.lower())
        found = self.scope.local(name, table)
        if found is None and table is not None and self.scope.local(table, None) is not None:
            return self.field(node, None)
        if found is None and table is None and self.scope.has_source(name):
            raise Unsupported(f"the row of {node.sql(dialect='duckdb')}")
        if found is None and table is None and name in self.aliases:
            alias = self.aliases[name]
            return replace(self, aliases={k: v for k, v in self.aliases.items() if k != name}).convert(alias)
        found = found if found is not None else self.scope.resolve(name, table)
        if found is None:
            raise Unsupported(f"the name {node.sql(dialect='duckdb')}")
        return found

    def field(self, node: exp.Column, table: str | None) -> Expr:
        """``column.field`` or ``table.column.field`` of a struct in this block's own FROM items."""
        found = self.scope.local(node.table.lower(), table)
        if node.args.get("catalog") or found is None or not found.type.startswith("STRUCT("):
            raise Unsupported(f"the field {node.sql(dialect='duckdb')}")
        template = "struct_extract({0}, " + _escape(exp.Literal.string(node.name).sql(dialect="duckdb")) + ")"
        return Call("struct_extract", (found,), template, type_of(template, (found,)))

    def operator(self, node: exp.Expression) -> Expr:
        op = _BINARY[type(node)]
        left, right = self.convert(node.this), self.convert(node.expression)
        if op in ("=", "<>", "<", "<=", ">", ">="):
            left, right = _aligned(left, right), _aligned(right, left)
        elif op in ("and", "or"):
            left, right = cast(left, "BOOLEAN"), cast(right, "BOOLEAN")  # or dropping `AND true` would leave a number
        template = "({0} " + op.upper() + " {1})"
        type_ = "BOOLEAN" if op in _BOOLEAN else type_of(template, (left, right))
        return _folded(_comparable(Call(op, (left, right), template, type_)))

    def literal(self, node: exp.Literal) -> Expr:
        sql = node.sql(dialect="duckdb")
        if node.is_string:
            return Literal(sql, "VARCHAR", node.this)
        number = float(node.this)
        return Literal(sql, type_of(sql, ()), int(node.this) if node.this.isdigit() else number)

    def boolean(self, node: exp.Boolean) -> Expr:
        return Literal(node.sql(dialect="duckdb").lower(), "BOOLEAN", bool(node.this))

    def null(self, node: exp.Null) -> Expr:
        return Literal("NULL", type_of("NULL", ()), None)

    def negation(self, node: exp.Not) -> Expr:
        return negate(self.convert(node.this))

    def minus(self, node: exp.Neg) -> Expr:
        arg = self.convert(node.this)
        return _folded(Call("negative", (arg,), "(-{0})", type_of("(-{0})", (arg,))))

    def is_(self, node: exp.Is) -> Expr:
        if isinstance(node.expression, exp.Null):
            return is_null(self.convert(node.this))
        return self.generic(node)

    def between(self, node: exp.Between) -> Expr:
        if node.args.get("symmetric"):
            return self.generic(node)
        value = self.convert(node.this)
        low, high = _all_aligned([self.convert(node.args[side]) for side in ("low", "high")], value)
        return _comparable(Call("between", (value, low, high), "({0} BETWEEN {1} AND {2})", "BOOLEAN"))

    def in_(self, node: exp.In) -> Expr:
        if node.args.get("query"):
            return self.subqueries.member(node, self)
        if node.args.get("unnest") or node.args.get("field"):
            raise Unsupported("IN over a list value")
        value = self.convert(node.this)
        items = _all_aligned([self.convert(item) for item in node.expressions], value)
        slots = ", ".join("{" + str(i + 1) + "}" for i in range(len(items)))
        return _comparable(Call("in", (value, *items), "({0} IN (" + slots + "))", "BOOLEAN"))

    def like(self, node: exp.Like | exp.ILike) -> Expr:
        if type(node.this) in (exp.Tuple,) or isinstance(node.expression, exp.Any | exp.All):
            return self.generic(node)
        args = (self.convert(node.this), self.convert(node.expression))
        return Call(node.key, args, "({0} " + node.key.upper() + " {1})", "BOOLEAN")

    def case(self, node: exp.Case) -> Expr:
        if node.this is not None:
            return self.generic(node)
        args: list[Expr] = []
        text = "CASE"
        for branch in node.args["ifs"]:
            args += (self.convert(branch.this), self.convert(branch.args["true"]))
            text += " WHEN {" + str(len(args) - 2) + "} THEN {" + str(len(args) - 1) + "}"
        default = node.args.get("default")
        if default is not None:
            args.append(self.convert(default))
            text += " ELSE {" + str(len(args) - 1) + "}"
        return Call("case", tuple(args), f"({text} END)", type_of(f"({text} END)", args))

    def cast(self, node: exp.Cast) -> Expr:
        target = node.to.sql(dialect="duckdb")
        arg = self.convert(node.this)
        template = "CAST({0} AS " + _escape(target) + ")"
        return _folded(Call("cast", (arg,), template, type_of(template, (arg,))))

    def paren(self, node: exp.Paren) -> Expr:
        return self.convert(node.this)

    def subquery(self, node: exp.Expression) -> Expr:
        return self.subqueries.scalar(node, self)

    def exists(self, node: exp.Exists) -> Expr:
        return self.subqueries.exists(node, self)

    def filtered(self, node: exp.Filter) -> Expr:
        return self.aggregate(node.this, self.convert(node.expression.this))

    def aggregate(self, node: exp.Expression, condition: Expr | None) -> Expr:
        """Collect an aggregate and stand its column in."""
        if self.aggregates is None:
            raise Unsupported(f"the aggregate {node.sql(dialect='duckdb')} here")
        if _needs_statistics(node):
            raise Unsupported("bitstring_agg without bounds, which DuckDB takes from statistics of the column")
        if isinstance(node, exp.Anonymous) and node.name.lower() in aggregate_macros():
            raise Unsupported(f"the macro {node.name}")
        inner = replace(self, aggregates=None, windows=None)
        before = len(self.attachments)
        call = inner.count_star() if _is_count_star(node) else inner.templated(node, _result_type(node))
        if len(self.attachments) != before:
            raise Unsupported("a subquery inside an aggregate")
        key = (call, condition)
        if key not in self.aggregates:
            distinct = node.find(exp.Distinct) is not None
            ordered = node.find(exp.Order) is not None
            column = self.names.fresh(_name_of(node), call.type)
            self.aggregates[key] = Aggregation(column, call, distinct, condition, ordered)
        return self.aggregates[key].column

    def count_star(self) -> Call:
        return Call("count_star", (), "count(*)", "BIGINT")

    def window(self, node: exp.Window) -> Expr:
        """Collect a window function and stand its column in."""
        if self.windows is None:
            raise Unsupported("a window function here")
        if node.args.get("alias") or node.args.get("first"):
            raise Unsupported("a named window")
        partition_by = tuple(self.convert(item) for item in node.args.get("partition_by") or ())
        call = self.templated(node)
        column = self.names.fresh(_name_of(node.this), call.type)
        self.windows.append(WindowCall(column, call, partition_by))
        return column

    def generic(self, node: exp.Expression) -> Expr:
        """A function or operator that the planner knows nothing about."""
        if isinstance(node, _CLOSED) or (isinstance(node, exp.Alias | exp.Tuple | exp.Interval) and _has_holes(node)):
            raise Unsupported(f"{type(node).__name__}: {node.sql(dialect='duckdb')[:60]}")
        if any(isinstance(child, _FOREIGN) or child.name.lower() in unnesting_names() for child in node.walk()):
            raise Unsupported(f"{node.sql(dialect='duckdb')[:60]}")
        if any(_depends_on_text(child) for child in node.walk()):
            raise Unsupported(f"{node.sql(dialect='duckdb')[:60]}, which depends on the text around it")
        if any(_reads_time(child) for child in node.walk()):
            raise Unsupported(f"the time inside of {node.sql(dialect='duckdb')[:60]}")
        return _folded(self.templated(node))

    def templated(self, node: exp.Expression, type_: str | None = None) -> Call:
        """Print the node with its arguments replaced by slots; the type comes from DuckDB unless it is passed."""
        if any("__slot" in leaf.name for leaf in node.find_all(exp.Literal, exp.Identifier)):
            raise Unsupported("a text like the placeholders of arguments")
        args: list[Expr] = []
        text = _escape(self._rebuilt(node, args).sql(dialect="duckdb"))
        template = re.sub(r"__slot(\d+)__", r"{\1}", text)
        if isinstance(node, exp.Expression) and not isinstance(node, _CALLS):
            template = f"({template})"
        # An operator begins with its operand, which may be a call of constants.
        name = None if isinstance(node, exp.Binary) else re.match(r"\(?(\w+)", template)
        try:
            type_ = type_ or type_of(template, args)
        except BindError as error:
            raise Unsupported(f"{template}: {error}") from error
        return Call(name.group(1).lower() if name else node.key, tuple(args), template, type_)

    def _rebuilt(self, node: exp.Expression, args: list[Expr]) -> exp.Expression:
        def child(value: object) -> object:
            if isinstance(value, list):
                return [child(item) for item in value]
            if not isinstance(value, exp.Expression):
                return value
            if isinstance(value, exp.Star) or not _has_holes(value):
                return value.copy()
            is_key = isinstance(node, exp.Grouping)  # GROUPING's argument, which is one whole however it is written
            if (isinstance(value, _SYNTAX) and not is_key) or (isinstance(node, _AROUND_CALL) and value is node.this):
                return self._rebuilt(value, args)
            args.append(self.convert(value))
            slot = exp.to_identifier(f"__slot{len(args) - 1}__")
            if isinstance(node, exp.Bracket):
                slot.type = value.type  # sqlglot counts places of lists and of unknown types from 0
            return slot

        return type(node)(**{key: child(value) for key, value in node.args.items()})


_HANDLERS: dict[type[exp.Expression], Callable[[Env, exp.Expression], Expr]] = {
    exp.Column: Env.column,  # type: ignore[dict-item]
    exp.Literal: Env.literal,  # type: ignore[dict-item]
    exp.Boolean: Env.boolean,  # type: ignore[dict-item]
    exp.Null: Env.null,  # type: ignore[dict-item]
    exp.Not: Env.negation,  # type: ignore[dict-item]
    exp.Neg: Env.minus,  # type: ignore[dict-item]
    exp.Is: Env.is_,  # type: ignore[dict-item]
    exp.Between: Env.between,  # type: ignore[dict-item]
    exp.In: Env.in_,  # type: ignore[dict-item]
    exp.Like: Env.like,  # type: ignore[dict-item]
    exp.ILike: Env.like,  # type: ignore[dict-item]
    exp.Case: Env.case,  # type: ignore[dict-item]
    exp.Cast: Env.cast,  # type: ignore[dict-item]
    exp.Paren: Env.paren,  # type: ignore[dict-item]
    exp.Subquery: Env.subquery,
    exp.Exists: Env.exists,  # type: ignore[dict-item]
    exp.Filter: Env.filtered,  # type: ignore[dict-item]
    exp.Window: Env.window,  # type: ignore[dict-item]
    **dict.fromkeys(_BINARY, Env.operator),
}


def _result_type(node: exp.Expression) -> str | None:
    """GROUPING() means nothing without groups, so DuckDB cannot type it on its own."""
    return "BIGINT" if isinstance(node, exp.Grouping) else None


def _reads_time(node: object) -> bool:
    """True for functions that reckon from the current time, which no literal can be bound to."""
    if not isinstance(node, exp.Anonymous):
        return False
    return node.name.lower() == "ago" or (node.name.lower() == "age" and len(node.expressions) == 1)


def _depends_on_text(node: object) -> bool:
    """True for functions that tell names or statistics of the query that runs, and so of a stage."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("alias", "stats")


def _needs_statistics(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "bitstring_agg" and len(node.expressions) == 1


def _is_count_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star))


def _has_holes(node: exp.Expression) -> bool:
    return any(
        isinstance(child, _CLOSED) or _is_time_function(child) or _is_own_call(child) or is_aggregate(child)
        for child in node.walk()
    )


def _is_own_call(node: object) -> bool:
    """True for a call without columns that is never part of a template, where nothing would see it: of Python, or one
    that gives another value each time."""
    if isinstance(node, exp.Anonymous):
        return _is_python(node) or node.name.lower() in VOLATILE
    return isinstance(node, exp.Rand | exp.Uuid)


def _is_python(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and bool(node.meta.get("python"))


def _is_time_function(node: object) -> bool:
    return isinstance(node, _NOW) or (isinstance(node, exp.Anonymous) and is_of_the_moment(node.name))


def _aligned(expr: Expr, other: Expr) -> Expr:
    """DuckDB reads a string literal as the type it is compared with; say so, that statistics can be used.

    An ENUM it reads as a text instead, which orders otherwise and may be none of its values.
    """
    if _is_text(expr) and not other.type.startswith("ENUM(") and other.type not in ("VARCHAR", NULL_TYPE):
        return _folded(cast(expr, other.type)) if columns_of(other) else expr
    return expr


def _is_text(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type == "VARCHAR"


def _all_aligned(items: Sequence[Expr], value: Expr) -> list[Expr]:
    """The same of IN and BETWEEN, where DuckDB finds one type for the value and all items."""
    others = {item.type for item in items if not _is_text(item)} - {NULL_TYPE, value.type}
    if not others:
        return [_aligned(item, value) for item in items]
    if "VARCHAR" in others or not any(map(_is_text, items)):
        return list(items)
    common = common_type([value.type, *sorted(others)])
    return [_read_as(common, item, _aligned(item, value)) for item in items]


def _read_as(type_: str, item: Expr, aligned: Expr) -> Expr:
    """The item as it was aligned, if that loses nothing of what it is in another type; else as it was."""
    if aligned is item:
        return item
    meant, found = _folded(cast(item, type_)), _folded(cast(aligned, type_))
    is_same = isinstance(meant, Literal) and isinstance(found, Literal) and meant.value == found.value
    return aligned if is_same else item


def _comparable(call: Call) -> Call:
    """The call, if DuckDB takes it over columns of these types.

    A column that is NULL throughout is an INTEGER to a reader of Arrow, but to DuckDB's binder,
    which accepted the text, it compares with a date. Raises BindError for such.
    """
    families = {"number" if arg.type.startswith(_NUMBERS) else arg.type for arg in call.args}
    if len(families) > 1:
        type_of(call.template, call.args)
    return call


def _folded(call: Expr) -> Expr:
    """The call, or its value. Raises Unsupported where it has none: whether the value is needed depends on the plan."""
    if columns_of(call):
        return call
    if always_raises(call):
        raise Unsupported(f"{call} cannot be computed")
    return fold(call)


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@lru_cache(maxsize=256)
def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def _name_of(node: exp.Expression) -> str:
    first = next(node.find_all(exp.Column), None)
    function = _plain(type(node).__name__ if not isinstance(node, exp.Anonymous) else node.name)
    return f"{function}_{first.name}" if first is not None else function


__all__ = ["Column", "Env"]
