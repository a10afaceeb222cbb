"""Non-deterministic fragments: those that may come out differently when they are run again (law 12).

The answer errs on the side of caution: functions are deterministic if they are listed here, an order is total
if that can be shown. Sums of floating point numbers differ in their last digits with the order of summation; that
counts where the digits decide something, which depends on the whole query (:mod:`qoop.planner.algebra.float_order`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

from qoop.planner.algebra.expr import Call, Column, Expr, columns_of, is_volatile, walk
from qoop.planner.algebra.float_order import EXACT, FloatOrder, float_order_of
from qoop.planner.algebra.properties import unique_keys
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Exchange,
    Filter,
    Join,
    Limit,
    Opaque,
    Project,
    Relation,
    SetOp,
    Sort,
    Values,
    Window,
    WindowCall,
)

# Aggregates whose value does not depend on the order of their input.
_DETERMINISTIC = frozenset(
    """sum avg min max count count_star count_if stddev stddev_samp stddev_pop variance var_samp var_pop median
    quantile_cont quantile_disc quantile corr covar_pop covar_samp regr_slope regr_intercept regr_r2 regr_avgx regr_avgy
    regr_count regr_sxx regr_sxy regr_syy bool_and bool_or bit_and bit_or bit_xor product grouping kurtosis kurtosis_pop
    skewness entropy approx_count_distinct sum_no_overflow favg fsum kahan_sum sumkahan mean countif sem mad""".split()  # noqa: SIM905
)
_PEER_FUNCTIONS = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))  # equal for rows that tie
_SLOT = re.compile(r"\{(\d+)\}")
_FRAME = re.compile(r"\b(ROWS|RANGE|GROUPS)\b", re.IGNORECASE)


def is_non_deterministic(relation: Relation, query: FloatOrder = EXACT) -> bool:
    """True if running the relation again may give other rows; such output is never shared between plans.

    query: the effects of the last digits of sums in the whole query.

    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> is_non_deterministic(Limit(Scan("t", "v", (("a", a),)), 5))
    True
    """
    visited: set[int] = set()
    guarded: set[Column] = set()

    def visit(node: Relation) -> bool:
        if id(node) in visited:
            return False
        visited.add(id(node))
        guarded.update(_guarded(node))
        return _varies(node, guarded) or not query.matched.isdisjoint(_made(node)) or any(map(visit, node.inputs))

    return visit(relation) or _decides(relation, query)


def _decides(relation: Relation, query: FloatOrder) -> bool:
    """True if last digits decide which rows there are."""
    return bool(query.rounded) and float_order_of(relation).deciding


def _made(node: Relation) -> Iterator[Column]:
    if isinstance(node, Aggregate):
        yield from (agg.column for agg in node.aggregations)
    elif isinstance(node, Window):
        yield from (call.column for call in node.calls)


class NonDeterminism:
    """The same of many relations that share parts, such as the meanings of one query's stages.

    Caches by object identity, and keeps the objects alive; use one for the planning of one query.
    """

    def __init__(self, query: FloatOrder = EXACT) -> None:
        self.query = query
        self._steady: dict[int, tuple[Relation, bool]] = {}

    def of(self, relation: Relation) -> bool:
        """See :func:`is_non_deterministic`."""
        return (
            _decides(relation, self.query) if self._is_steady(relation) else is_non_deterministic(relation, self.query)
        )

    def by_digits(self, relation: Relation) -> bool:
        """True of a non-deterministic relation if that is only because last digits of sums decide its rows."""
        return self._is_steady(relation)

    def _is_steady(self, node: Relation) -> bool:
        """True if no operator of the tree varies, wherever its columns are read."""
        known = self._steady.get(id(node))
        if known is None:
            varies = _varies(node, frozenset()) or not self.query.matched.isdisjoint(_made(node))
            known = self._steady[id(node)] = (node, not varies and all(map(self._is_steady, node.inputs)))
        return known[1]


def _varies(node: Relation, guarded: Set[Column]) -> bool:
    if any(map(is_volatile, _exprs(node))):
        return True
    match node:
        case Opaque():
            return node.rows is None
        case Limit():
            return not _cut_is_determined(node)
        case Aggregate():
            return any(agg.column not in guarded and not _is_determined(agg) for agg in node.aggregations) or any(
                map(_has_twins, node.keys)
            )
        case SetOp():
            return any(map(_has_twins, node.columns)) and not (node.kind == "union" and node.all)
        case Window():
            return not all(window_is_determined(call, node.input) for call in node.calls)
    return False


def _exprs(node: Relation) -> Iterator[Expr]:
    match node:
        case Filter():
            yield from node.predicates
        case Project():
            yield from (expr for _, expr in node.exprs)
        case Join():
            yield from node.on
        case Aggregate():
            yield from (expr for agg in node.aggregations for expr in (agg.call, *agg.exprs))
        case Window():
            yield from (call.call for call in node.calls)
        case Sort():
            yield from (key.expr for key in node.keys)
        case Values():
            yield from (expr for row in node.rows for expr in row)


def _guarded(node: Relation) -> Iterator[Column]:
    """Columns read only where a count next to them is at most 1 (the value of a scalar subquery)."""
    for expr in _exprs(node) if isinstance(node, Project) else ():
        for call in walk(expr):
            if isinstance(call, Call) and call.op == "error" and call.template.startswith("CASE WHEN {1} > 1 THEN"):
                yield from columns_of(call.args[0])


def _has_twins(column: Expr) -> bool:
    """True if equal values can look different: a month equals 30 days."""
    return "INTERVAL" in column.type


def _is_determined(agg: Aggregation) -> bool:
    if agg.call.op in _DETERMINISTIC:
        return not any(map(_has_twins, agg.call.args)) or agg.call.op in ("count", "sum", "avg")
    order = _columns_in(agg.call, agg.call.template.upper().rpartition("ORDER BY")[2]) if agg.ordered else set()
    return agg.ordered and columns_of(agg.call) <= order  # rows that tie are equal in all that is read of them


def window_is_determined(window: WindowCall, rows: Relation) -> bool:
    """True if a window function gives each of the rows the same value each time."""
    _head, _, over = window.call.template.partition("OVER")
    exact_frame = re.search(r"\bROWS\b", over, re.IGNORECASE) is not None
    if window.call.op in _PEER_FUNCTIONS or (window.call.op in _DETERMINISTIC and not exact_frame):
        return True
    order = _columns_in(window.call, _FRAME.split(over)[0])
    return _is_total(order, rows)


def _cut_is_determined(node: Limit) -> bool:
    """True if LIMIT keeps the same rows each time: all of them, or the first by a total order."""
    if node.limit is None and not node.offset:
        return True
    below, read = node.input, frozenset(node.columns)
    while isinstance(below, Project | Exchange):
        if isinstance(below, Project):
            read = frozenset(c for column, expr in below.exprs if column in read for c in columns_of(expr))
        below = below.input
    if not isinstance(below, Sort):
        return frozenset() in unique_keys(below)
    order = {key.expr for key in below.keys if isinstance(key.expr, Column)}
    return read <= order or _is_total(order, below.input)


def _is_total(order: set[Column], rows: Relation) -> bool:
    """True if rows that agree on these columns agree on all, or there are no two of them."""
    if any(map(_has_twins, order)):
        return False
    return order.issuperset(rows.columns) or any(order.issuperset(key) for key in unique_keys(rows))


def _columns_in(call: Call, text: str) -> set[Column]:
    """Columns that stand as such in a part of the call's template."""
    args: Iterable[Expr] = (call.args[int(slot)] for slot in _SLOT.findall(text))
    return {arg for arg in args if isinstance(arg, Column)}
