"""Two-phase aggregation: partial groups in every task, finished over all of them.

``two_phase(aggregate)`` returns both phases, None where the functions do not allow them.  The finished columns have
exactly the values and types that DuckDB gives in one go:

- a sum is the sum of the sums, a count their sum as BIGINT (0, not NULL, over nothing);
- an average of decimals divides the unscaled sum once, as DuckDB does; dividing the decimal sum would round
  twice and differ in the last digit in one group of four. (DuckDB 2 does so itself where another aggregate shares the
  count);
- DISTINCT arguments become further keys of the partial groups, so that the final phase sees every value of a
  group at least once and at most once a task;
- grouping sets are partially grouped by all keys and applied to the partial groups, since every grouping is
  a coarsening of the finest one (Gray et al., "Data Cube", 1997: distributive and algebraic functions).

Variances are left whole: merging their parts by plain sums cancels, and DuckDB's own merge is not in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, is_volatile
from qoop.planner.algebra.relation import Aggregate, Aggregation, Project, Relation
from qoop.planner.algebra.types import value_of_nothing

# Functions whose parts combine by the function itself.
_SELF = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "product"})
_COUNTS = frozenset({"count", "count_star", "count_if", "countif"})
_OVER_PARTS = re.compile(rf"\b(?:sum|{'|'.join(sorted(_SELF))})\((\{{\d\}})\)", re.IGNORECASE)
_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)


@value
class TwoPhase:
    """The two phases of an aggregate.

    keys: of the partial groups: the aggregate's own and the DISTINCT arguments.
    computed: those of the keys that are expressions and not columns of the input.
    partials, finals: the aggregations of each phase.
    """

    whole: Aggregate
    keys: tuple[Column, ...]
    computed: tuple[tuple[Column, Expr], ...]
    partials: tuple[Aggregation, ...]
    finals: tuple[Aggregation, ...]

    def partial(self, relation: Relation) -> Aggregate:
        """The groups of one task's share of the input."""
        if self.computed:
            kept = tuple((column, column) for column in relation.columns)
            relation = Project(relation, (*kept, *self.computed))
        return Aggregate(relation, self.keys, self.partials)

    def merged(self, relation: Relation) -> Aggregate:
        """The partial groups, from partial groups by these keys and others."""
        return Aggregate(relation, self.keys, tuple(map(_merging, self.partials)))

    def final(self, relation: Relation) -> Aggregate:
        """The whole aggregate's rows, from the partial groups of all tasks."""
        return Aggregate(relation, self.whole.keys, self.finals, self.whole.grouping_sets, self.whole.cascade)

    def finished(self, relation: Relation) -> Project:
        """The same where each group has come as one partial group: nothing is left to be grouped."""
        kept = tuple((key, key) for key in self.whole.keys)
        return Project(relation, (*kept, *((agg.column, _of_one(agg.call)) for agg in self.finals)))


def _of_one(call: Call) -> Call:
    """The value of a final function over a single partial group.

    >>> part = Column("n:part", "BIGINT")
    >>> str(_of_one(Call("count", (part,), "coalesce(CAST(sum({0}) AS BIGINT), 0)", "BIGINT")))
    'coalesce(CAST("n:part" AS BIGINT), 0)'
    """
    return replace(call, op="finished", template=_OVER_PARTS.sub(r"\1", call.template))


def two_phase(aggregate: Aggregate) -> TwoPhase | None:
    """Return how the aggregate is split in two phases, None if one of its functions cannot be."""
    keys, computed = list(aggregate.keys), list[tuple[Column, Expr]]()
    partials, finals = list[Aggregation](), list[Aggregation]()
    for agg in aggregate.aggregations:
        split = _split_distinct(agg, keys, computed) if agg.distinct else _split(agg)
        if split is None:
            return None
        partials += split[0]
        finals.append(split[1])
    return TwoPhase(aggregate, tuple(keys), tuple(computed), tuple(partials), tuple(finals))


def whole_of(final: Aggregation, parts: Mapping[Column, Aggregation]) -> Aggregation | None:
    """The aggregation that these two phases make together, None if they are not the phases of one.

    parts: the partial aggregations for `final`, by their columns.
    """
    args = [parts.get(arg) if isinstance(arg, Column) else None for arg in final.call.args]
    if final.distinct or final.ordered or final.filter is not None or not args:
        return None
    known = [arg for arg in args if arg is not None and not arg.distinct]
    if len(known) < len(args):
        return None
    whole = replace(known[0], column=final.column)
    if len(known) > 1:
        whole = replace(whole, call=Call("avg", known[0].call.args, "avg({0})", final.column.type))
    split = _split(whole)
    return whole if split is not None and _are_phases(split, known, final) else None


def _are_phases(split: _Split, parts: Sequence[Aggregation], final: Aggregation) -> bool:
    partials, expected = split
    return _plainly(expected.call) == _plainly(final.call) and [
        (_plainly(part.call), part.call.args, part.filter) for part in parts
    ] == [(_plainly(part.call), part.call.args, part.filter) for part in partials]


def _plainly(call: Call) -> tuple[str, str, str]:
    return call.op, call.template.lower(), call.type


_Split = tuple[tuple[Aggregation, ...], Aggregation]


def _split(agg: Aggregation) -> _Split | None:
    op, args = agg.call.op, agg.call.args
    if op == "grouping":
        return (), agg
    if agg.ordered or any(map(is_volatile, agg.exprs)):
        return None
    if op in _COUNTS:
        total = f"CAST(sum({{0}}) AS {agg.column.type})"
        nothing = value_of_nothing(agg.call)  # a count's is 0, but count_if's is NULL
        return _combine(agg, total if nothing is None else f"coalesce({total}, {nothing})")
    if op in ("avg", "mean") and len(args) == 2:
        return _split_averaging(agg)
    if len(args) != 1:
        return None
    if op in _SELF or op == "sum":
        return _combine(agg, op + "({0})")
    if op in ("avg", "mean"):
        return _split_average(agg)
    return None


def _combine(agg: Aggregation, template: str) -> _Split:
    """The function itself, its parts combined by `template`."""
    part = Column(agg.column.name + ":part", agg.column.type)
    final = Call(agg.call.op, (part,), template, agg.column.type)
    return (Aggregation(part, agg.call, filter=agg.filter),), Aggregation(agg.column, final)


def _merging(part: Aggregation) -> Aggregation:
    """The way to combine parts to one that is again a part, under the same name."""
    split = _split(replace(part, filter=None))
    assert split is not None  # parts are of functions that combine
    call = split[1].call
    return Aggregation(part.column, replace(call, args=(part.column,)))


def _split_average(agg: Aggregation) -> _Split | None:
    (arg,) = agg.call.args
    sum_type = _sum_type(arg.type)
    if sum_type is None:
        return None
    total, count = Column(agg.column.name + ":sum", sum_type), Column(agg.column.name + ":count", "BIGINT")
    partials = (
        Aggregation(total, Call("sum", (arg,), "sum({0})", sum_type), filter=agg.filter),
        Aggregation(count, Call("count", (arg,), "count({0})", "BIGINT"), filter=agg.filter),
    )
    final = Call("avg", (total, count), _average(sum_type), agg.column.type)
    return partials, Aggregation(agg.column, final)


def _split_averaging(agg: Aggregation) -> _Split:
    """An average of sums and counts: their parts are sums of both."""
    total, count = (
        Column(f"{agg.column.name}:{what}", arg.type) for what, arg in zip(("sum", "count"), agg.call.args, strict=True)
    )
    sums, counts = agg.call.args
    partials = (
        Aggregation(total, Call("sum", (sums,), "sum({0})", sums.type)),
        Aggregation(count, Call("count", (counts,), "CAST(sum({0}) AS BIGINT)", "BIGINT")),
    )
    return partials, Aggregation(agg.column, replace(agg.call, args=(total, count)))


def _sum_type(type_: str) -> str | None:
    if type_ in _INTEGERS:
        return "HUGEINT"
    if type_ in ("FLOAT", "DOUBLE"):
        return "DOUBLE"
    return f"DECIMAL(38,{_scale(type_)})" if type_.startswith("DECIMAL(") else None


def _scale(decimal: str) -> int:
    return int(decimal.rstrip(")").split(",")[1])


def _average(sum_type: str) -> str:
    plain = "CAST(sum({0}) AS DOUBLE) / sum({1})"
    scale = _scale(sum_type) if sum_type.startswith("DECIMAL") else 0
    if not 0 < scale <= 9:
        return plain
    factor = 10**scale
    exact = f"CAST(CAST(sum({{0}}) * {factor} AS HUGEINT) AS DOUBLE) / (sum({{1}}) * {factor})"
    fits = f"abs(sum({{0}})) < 1e{36 - 2 * scale}"  # beyond, the product would overflow
    return f"CASE WHEN {fits} THEN {exact} ELSE {plain} END"


def _split_distinct(agg: Aggregation, keys: list[Column], computed: list[tuple[Column, Expr]]) -> _Split | None:
    if agg.ordered or any(map(is_volatile, agg.exprs)):
        return None
    if not keys and all(isinstance(expr, Literal) for expr in agg.exprs):
        return None  # without a key there is a partial group of no rows, too
    args = tuple(_key(expr, agg, i, keys, computed) for i, expr in enumerate(agg.call.args))
    condition = None if agg.filter is None else _key(agg.filter, agg, len(args), keys, computed)
    call = Call(agg.call.op, args, agg.call.template, agg.call.type)
    return (), Aggregation(agg.column, call, distinct=True, filter=condition)


def _key(expr: Expr, agg: Aggregation, i: int, keys: list[Column], computed: list[tuple[Column, Expr]]) -> Expr:
    """The partial groups' key that holds the value of `expr`, added where there is none yet."""
    if isinstance(expr, Literal):
        return expr
    known = expr if isinstance(expr, Column) else next((c for c, e in computed if e == expr), None)
    if known is None:
        known = Column(f"{agg.column.name}:arg{i}", expr.type)
        computed.append((known, expr))
    if known not in keys:
        keys.append(known)
    return known
