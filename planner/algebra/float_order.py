"""Sums whose last digits decide something (law 12).

A sum of floating point numbers depends on the order of summation, so two runs may differ in the last digits. Mostly
that is harmless: answers agree but for those digits, whichever run a part of them came from. It is not where digits
decide which rows there are, and there are two degrees of that:

- A value is compared with itself on another way: ``revenue = (SELECT max(revenue) ...)``, a join of two readers by it.
  Two runs of one sum would hardly ever agree, so outputs from different runs must not meet: the sum is
  non-deterministic.
- A value is compared with something else, rounded, grouped by, ranked, or sorted by and cut off. Either outcome is
  right wherever digits decide, but two runs may put out different rows. So the relation that decides, and all above,
  is non-deterministic, and the sum is not. (Thus a subplan with several readers may be made again between two of them,
  and a group that lies within an ulp of a border may be seen on both sides of it. To rule that out would cost every
  ``HAVING sum(x) > y`` its reuse.)

Sums and averages of integers and decimals are exact; order statistics (min, max, median, quantiles) return
values of their input.
"""

from __future__ import annotations

from collections.abc import Iterable

from qoop.catalog.value import value
from qoop.planner.algebra.expr import COMPARISONS, Call, Column, Expr, columns_of, columns_of_all
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Exchange,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    SetOp,
    Sort,
    Window,
    WindowCall,
)

_SUMS = frozenset(("sum", "avg", "mean", "fsum", "favg", "kahan_sum", "sumkahan"))  # exact but over floats
_ALWAYS = frozenset(
    """product geomean stddev stddev_samp stddev_pop variance var_samp var_pop sem corr covar_pop covar_samp regr_slope
    regr_intercept regr_r2 regr_avgx regr_avgy regr_sxx regr_sxy regr_syy kurtosis kurtosis_pop skewness entropy
    """.split()  # noqa: SIM905
)
_CHOOSING = frozenset(
    """min max median quantile quantile_cont quantile_disc first first_value last last_value nth_value lag lead
    any_value""".split()  # noqa: SIM905
)
_COUNTING = frozenset(("count", "count_star", "count_if", "countif", "regr_count", "grouping"))
# A small change of what these read makes a small change of the result.
_SMOOTH = frozenset(
    "+ - * / cast abs sqrt cbrt ln exp log log2 log10 pow power coalesce greatest least case error".split()  # noqa: SIM905
)
_EQUALITIES = ("=", "<>", "in", "is_distinct_from", "is_not_distinct_from")
_FLOATS = ("FLOAT", "DOUBLE")
_NONE: frozenset[Column] = frozenset()


@value
class FloatOrder:
    """The effects of the last digits of a relation's sums.

    rounded: columns of the aggregates and windows that have such digits.
    matched: those of them whose values meet themselves on another way, and must come from one run.
    deciding: True if rows, or values that are not floating point numbers, depend on digits.
    """

    rounded: frozenset[Column] = _NONE
    matched: frozenset[Column] = _NONE
    deciding: bool = False


EXACT = FloatOrder()
"""Of a query without such sums."""


def float_order_of(relation: Relation) -> FloatOrder:
    """The effects of the last digits of sums in a relation.

    >>> from qoop.planner.algebra.expr import Literal, binary
    >>> from qoop.planner.algebra.relation import Scan
    >>> f, s = Column("f", "DOUBLE"), Column("s", "DOUBLE")
    >>> summed = Aggregate(
    ...     Scan("t", "1", (("f", f),)), (), (Aggregation(s, Call("sum", (f,), "sum({0})", "DOUBLE")),)
    ... )
    >>> float_order_of(summed).deciding
    False
    >>> float_order_of(Filter(summed, (binary(">", s, Literal("1", "DOUBLE")),))).deciding
    True
    """
    found = _DigitOrigins()
    found.visit(relation)
    own = frozenset(column for column, origins in found.origins.items() if column in origins)
    return FloatOrder(own, frozenset(found.matched), found.deciding)


def with_digits(relation: Relation) -> frozenset[Column]:
    """The columns of a relation's operators that carry the last digits of sums.

    >>> from qoop.planner.algebra.relation import Scan
    >>> f, s = Column("f", "DOUBLE"), Column("s", "DOUBLE")
    >>> summed = Aggregate(
    ...     Scan("t", "1", (("f", f),)), (), (Aggregation(s, Call("sum", (f,), "sum({0})", "DOUBLE")),)
    ... )
    >>> [str(column) for column in with_digits(summed)]
    ['s']
    """
    found = _DigitOrigins()
    found.visit(relation)
    return frozenset(found.origins)


class _DigitOrigins:
    """One walk up a relation.

    origins: by column, the aggregates whose digits it has. chosen: columns with one value of several such.
    """

    def __init__(self) -> None:
        self.origins: dict[Column, frozenset[Column]] = {}
        self.chosen: set[Column] = set()
        self.matched: set[Column] = set()
        self.deciding = False
        self.visited: set[int] = set()

    def visit(self, node: Relation) -> None:
        if id(node) in self.visited:
            return
        self.visited.add(id(node))
        for below in node.inputs:
            self.visit(below)
        match node:
            case Aggregate():
                self.decide(node.keys)
                for agg in node.aggregations:
                    self.aggregation(agg)
            case Window():
                for call in node.calls:
                    self.window(call)
        if self.origins:
            self.pass_on(node)

    def pass_on(self, node: Relation) -> None:
        match node:
            case Filter():
                self.test(node.predicates)
            case Join():
                self.test(node.on)
            case Project():
                for column, expr in node.exprs:
                    self.carry(column, expr)
            case Limit():
                self.cut(node)
            case SetOp():
                self.set_op(node)

    def read(self, *exprs: Expr) -> frozenset[Column]:
        """The aggregates whose digits the expressions read."""
        return _NONE.union(*(self.origins.get(column, _NONE) for column in columns_of_all(exprs)))

    def decide(self, exprs: Iterable[Expr]) -> None:
        """Records that rows depend on a comparison of these values."""
        self.deciding |= bool(self.read(*exprs))

    def test(self, exprs: Iterable[Expr]) -> None:
        """Values that are no floating point numbers are made of these."""
        for expr in exprs:
            if not isinstance(expr, Call) or not self.read(expr) or expr.op == "is_null":
                continue
            if expr.op in COMPARISONS or expr.op in ("in", "between", *_EQUALITIES):
                self.compare(expr)
            self.deciding |= expr.op not in ("and", "or", "not")
            self.test(expr.args)

    def compare(self, call: Call) -> None:
        """A value against itself: surely if they are to be equal; if one of them is the largest, too."""
        first, *others = call.args
        both = self.read(first) & self.read(*others)
        if both and (call.op in _EQUALITIES or not self.chosen.isdisjoint(columns_of(call))):
            self.matched |= both

    def carry(self, column: Column, expr: Expr) -> None:
        """The column is this expression: it carries the digits that it reads, or they decide its value."""
        origins = self.read(expr)
        if origins and self.is_smooth(expr):
            self.origins[column] = origins
            if not self.chosen.isdisjoint(columns_of(expr)):
                self.chosen.add(column)
        elif origins:
            self.test((expr,))

    def is_smooth(self, expr: Expr) -> bool:
        if not isinstance(expr, Call) or not self.read(expr):
            return True
        return expr.op in _SMOOTH and expr.type in _FLOATS and all(map(self.is_smooth, expr.args))

    def aggregation(self, agg: Aggregation) -> None:
        self.test(() if agg.filter is None else (agg.filter,))
        if agg.distinct:
            self.decide(agg.call.args)
        self.result(agg.column, agg.call, agg.call.args)

    def window(self, window: WindowCall) -> None:
        """The window partitions or orders by another expression than its function's argument."""
        own = window.call.template.partition("OVER")[0]
        read = tuple(arg for place, arg in enumerate(window.call.args) if f"{{{place}}}" in own)
        self.decide((*window.partition_by, *(expr for expr in window.call.args if expr not in read)))
        self.result(window.column, window.call, read)

    def result(self, column: Column, call: Call, read: tuple[Expr, ...]) -> None:
        """The column is a function of many input values."""
        origins = self.read(*read)
        self.test(expr for expr in read if not self.is_smooth(expr))
        if call.op in _ALWAYS or (call.op in _SUMS and any(expr.type in _FLOATS for expr in read)):
            self.origins[column] = origins | {column}
        elif origins and call.op in _CHOOSING:
            self.origins[column] = origins
            self.chosen.add(column)
        elif origins and call.op not in _COUNTING:
            self.decide(read)

    def cut(self, limit: Limit) -> None:
        below = limit.input
        while isinstance(below, Project | Exchange):
            below = below.input
        if isinstance(below, Sort):
            self.decide(key.expr for key in below.keys)

    def set_op(self, node: SetOp) -> None:
        for place, column in enumerate(node.columns):
            branches = [branch.columns[place] for branch in node.branches]
            if node.kind != "union" or not node.all:
                self.decide(branches)
                self.matched |= frozenset.intersection(*map(self.read, branches))
            elif origins := self.read(*branches):
                self.origins[column] = origins
