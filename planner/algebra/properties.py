"""Provable properties of expressions and relations; rules ask here before they move anything.

All answers are one-sided: True (or a column in a set) is proven, False means not known.
"""

from __future__ import annotations

from qoop.planner.algebra.expr import (
    COMPARISONS,
    PYTHON,
    VOLATILE,
    Call,
    Column,
    Expr,
    Literal,
    calls_python,
    columns_of,
    is_volatile,
    transform,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    Window,
)

# Calls that yield a value (or NULL) for every argument of the types they accept. Overflow of + - * is let
# pass, as division by zero is in DuckDB (NULL or infinity). The text functions cannot fail either.
_TOTAL = frozenset(
    """and or not = <> < <= > >= + - * / % || in between like ilike not_like is_null case coalesce nullif
    greatest least is_distinct_from is_not_distinct_from substr substring left right upper lower trim ltrim rtrim
    length strlen concat round abs year month day quarter week dayofweek dayofyear hour minute second date_part
    starts_with prefix suffix contains ends_with mark""".split()  # noqa: SIM905
)
# NULL whenever any argument is NULL.
_STRICT = frozenset(
    """= <> < <= > >= + - * / % || like ilike not_like cast try_cast substr substring upper lower trim ltrim rtrim
    length strlen abs year month day quarter week dayofweek dayofyear hour minute second date_part round floor
    ceil sqrt ln exp not starts_with prefix suffix contains ends_with""".split()  # noqa: SIM905
)
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_APPROXIMATE = ("FLOAT", "DOUBLE", "INTERVAL", "TIME WITH", "STRUCT", "MAP", "UNION")


def is_total(expr: Expr) -> bool:
    """True if the expression is deterministic and cannot fail on any row: it may be evaluated anywhere.

    >>> from qoop.planner.algebra.expr import cast
    >>> text, number = Column("t", "VARCHAR"), Column("n", "INTEGER")
    >>> is_total(cast(text, "DATE")), is_total(cast(number, "BIGINT"))
    (False, True)
    """
    if not isinstance(expr, Call):
        return True
    if not all(map(is_total, expr.args)):
        return False
    if expr.op == "cast":
        return _safe_cast(expr.args[0], expr.type)
    if expr.op in COMPARISONS or expr.op in ("in", "between"):
        return _same_kind(expr.args)
    return expr.op in _TOTAL


def may_enter_joins(expr: Expr) -> bool:
    """True for a predicate that may go below an inner join: it cannot fail, or it calls Python, and DuckDB moves it
    there, too."""
    return is_total(transform(expr, _as_total) if calls_python(expr) and not is_volatile(expr) else expr)


def _as_total(expr: Expr) -> Expr | None:
    """A call of Python, as one that cannot fail."""
    if not isinstance(expr, Call) or expr.op != PYTHON:
        return None
    return Call("coalesce", tuple(transform(arg, _as_total) for arg in expr.args), expr.template, expr.type)


def _safe_cast(arg: Expr, target: str) -> bool:
    source = arg.type
    if source == target or target == "VARCHAR" or not columns_of(arg):
        return not _volatile(arg)  # a cast of constants fails in any place or in none
    if source in _INTEGERS:
        return target in ("DOUBLE", "FLOAT") or target in _INTEGERS[_INTEGERS.index(source) :]
    if source == "DATE":
        return target.startswith("TIMESTAMP")
    return source.startswith("DECIMAL") and target == "DOUBLE"


def _volatile(expr: Expr) -> bool:
    return isinstance(expr, Call) and (expr.op in VOLATILE or any(map(_volatile, expr.args)))


def _same_kind(args: tuple[Expr, ...]) -> bool:
    """False where comparing makes DuckDB cast a text column to another type, which may fail."""
    texts = [arg for arg in args if arg.type == "VARCHAR" and columns_of(arg)]
    return not texts or all(arg.type in ("VARCHAR", '"NULL"', "NULL") for arg in args)


def strict_columns(expr: Expr) -> frozenset[Column]:
    """Columns that make the expression NULL wherever one of them is NULL."""
    if isinstance(expr, Column):
        return frozenset((expr,))
    if not isinstance(expr, Call):
        return frozenset()
    if expr.op in _STRICT:
        return frozenset().union(*map(strict_columns, expr.args))
    return strict_columns(expr.args[0]) if expr.op == "in" else frozenset()


def rejected_columns(predicate: Expr) -> frozenset[Column]:
    """Columns for which a NULL keeps the predicate from being true.

    >>> from qoop.planner.algebra.expr import binary, is_null, negate
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> sorted(c.name for c in rejected_columns(binary("or", binary("<", a, b), negate(is_null(a)))))
    ['a']
    """
    if not isinstance(predicate, Call):
        return columns_of(predicate)
    args = predicate.args
    if predicate.op == "and":
        return frozenset().union(*map(rejected_columns, args))
    if predicate.op == "or":
        first, *rest = map(rejected_columns, args)
        return first.intersection(*rest)
    if predicate.op == "not":
        return _rejected_by_not(args[0])
    if predicate.op == "between":
        return frozenset().union(*map(strict_columns, args))
    return strict_columns(predicate)


def _rejected_by_not(inner: Expr) -> frozenset[Column]:
    """Columns for which a NULL keeps `inner` from being false."""
    if isinstance(inner, Call):
        if inner.op == "or":
            return frozenset().union(*map(_rejected_by_not, inner.args))
        if inner.op == "and":
            first, *rest = map(_rejected_by_not, inner.args)
            return first.intersection(*rest)
        if inner.op == "not":
            return rejected_columns(inner.args[0])
        if inner.op in ("is_null", "between"):
            return strict_columns(inner.args[0])
    return strict_columns(inner)


def interchangeable(type_: str) -> bool:
    """True if equal values of the type are identical (0.0 and -0.0 are not)."""
    return not type_.startswith(_APPROXIMATE) and not type_.endswith("]") and "COLLATE" not in type_


def equated(predicate: Expr) -> tuple[Column, Column] | None:
    """The two columns of ``a = b``, where one may stand for the other; None for any other predicate."""
    if not isinstance(predicate, Call) or predicate.op != "=":
        return None
    left, right = predicate.args
    if isinstance(left, Column) and isinstance(right, Column) and left.type == right.type:
        return (left, right) if interchangeable(left.type) and "COLLATE" not in predicate.template else None
    return None


def unique_keys(relation: Relation) -> tuple[frozenset[Column], ...]:
    """Sets of columns that no two rows of the relation share; an empty set says at most one row.

    >>> from qoop.planner.algebra.relation import Scan
    >>> a = Column("a", "INTEGER")
    >>> unique_keys(Aggregate(Scan("t", "v", (("a", a),)), (a,), ())) == (frozenset({a}),)
    True
    """
    match relation:
        case Aggregate(grouping_sets=None):
            return (frozenset(relation.keys),)
        case Filter() | Sort() | Window() | Exchange() | Shared():
            return unique_keys(relation.input)
        case Limit():
            return (frozenset(),) if relation.limit is not None and relation.limit <= 1 else unique_keys(relation.input)
        case Project():
            new = {expr: column for column, expr in reversed(relation.exprs) if isinstance(expr, Column)}
            keys = unique_keys(relation.input)
            return tuple(frozenset(new[column] for column in key) for key in keys if key <= new.keys())
        case Join(kind="semi" | "anti" | "mark"):
            return unique_keys(relation.left)
        case Join(kind="inner" | "left"):
            return _unique_after_join(relation)
        case SetOp(kind="union", all=False):
            return (frozenset(relation.columns),)
    return ()


def _unique_after_join(join: Join) -> tuple[frozenset[Column], ...]:
    """A side keeps its keys if the other side is joined by one of that side's keys; pairs of keys always hold."""
    left, right = frozenset(join.left.columns), frozenset(join.right.columns)
    pairs = [pair for pair in map(equated, join.on) if pair is not None]
    spanning = frozenset(c for pair in pairs if len(left.intersection(pair)) == 1 for c in pair)
    left_keys, right_keys = unique_keys(join.left), unique_keys(join.right)
    kept: tuple[frozenset[Column], ...] = ()
    if any(key <= spanning & right for key in right_keys):
        kept += left_keys
    if join.kind == "inner" and any(key <= spanning & left for key in left_keys):
        kept += right_keys
    return kept or tuple(a | b for a in left_keys for b in right_keys)


def is_constant(expr: Expr, value: object) -> bool:
    """True if the expression is the literal of that value (None: a NULL)."""
    if not isinstance(expr, Literal):
        return False
    if value is None:
        return expr.value is None and (expr.sql.upper() == "NULL" or expr.sql.startswith("CAST(NULL AS "))
    return expr.value is value


_EXACT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL")


class EqualExprs:
    """Union-find over expressions; equality is carried on only between types that compare alike."""

    def __init__(self) -> None:
        self._of: dict[Expr, list[Expr]] = {}
        self._apart: list[list[Expr]] = []

    def add(self, left: Expr, right: Expr) -> None:
        """Take note that two expressions are equal."""
        if _comparison_type(left) != _comparison_type(right):
            self._apart.append([left, right])
            return
        a, b = self._of.setdefault(left, [left]), self._of.setdefault(right, [right])
        if a is not b:
            a.extend(b)
            for expr in b:
                self._of[expr] = a

    def groups(self) -> list[list[Expr]]:
        """The expressions that equalities chain together, in the order in which they came."""
        unique = {id(members): members for members in self._of.values()}
        return [*unique.values(), *self._apart]


def _comparison_type(expr: Expr) -> str:
    """Types with the same answer here compare by value without rounding, so that equality is transitive."""
    return "exact" if expr.type.startswith(_EXACT) else expr.type
