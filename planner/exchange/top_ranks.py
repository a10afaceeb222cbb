"""The first ranks of each partition, found among any part of the rows before they are ranked among all.

A row with more than k rows, or k different values, ahead of it in one task has at least as many ahead of it among all
rows. So if a query keeps ranks up to k, every task may drop rows beyond its own first k ranks. The remaining rows have
the same first k ranks, and each of the others still has k rows ahead of it.

If the k-th value of the order decides which rows may be among the first, no ranks are computed: the value is found
without sorting, in a heap of k values a partition.
"""

from __future__ import annotations

import re

from qoop.catalog.value import value
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    calls_python,
    disjunction,
    is_null,
    is_volatile,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Project,
    Relation,
    Shared,
    Window,
    WindowCall,
)
from qoop.planner.identity.determinism import window_is_determined

_RANKS = frozenset({"rank", "dense_rank", "row_number"})
_COUNTING = frozenset({"rank", "row_number"})  # a rank up to k has fewer than k rows ahead
_FIRST_KEY = re.compile(
    r"ORDER BY \{(?P<slot>\d+)\}(?: (?P<way>ASC|DESC))?(?: NULLS LAST)?(?=\s*[,)]|\s+(?:ROWS|RANGE|GROUPS))",
    re.IGNORECASE,
)
_TYPES = re.compile(r"(?:U?(?:TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL\(.*\)|FLOAT|DOUBLE|DATE|TIMESTAMP)$")
_MOST_VALUES = 1000  # that a heap holds for each partition
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@value
class TopRanks:
    """Ranks by `call` up to `most`; no other rows matter to what reads the window."""

    call: WindowCall
    most: int

    @property
    def thins(self) -> bool:
        """True if rows can be left out without ranking them."""
        return self._first_key is not None and self.most <= _MOST_VALUES

    def within(self, rows: Relation, thinned: bool) -> Relation:
        """Of these rows those with the first ranks among them. thinned: without ranking the others."""
        ranked = Window(rows, (self.call,), self.most if thinned else None)
        bound = Literal(str(self.most), "BIGINT", self.most)
        first = Filter(ranked, (binary("<=", self.call.column, bound),))
        return Project(first, tuple((column, column) for column in rows.columns))

    def thinned(self, rows: Relation) -> Relation:
        """Of these rows those whose first value of the order is not beyond the k-th of their partition, in the order:
        a row that is has at least k others ahead of it. All of a partition of fewer than k values other than NULL,
        which come last."""
        found = self._first_key
        assert found is not None
        value, descending = found
        name, shared = self.call.column.name, Shared(f"{self.call.column.name}:rows", rows)
        keys = tuple((Column(f"{name}:key{i}", key.type), key) for i, key in enumerate(self.call.partition_by))
        least = self._least(Project(shared, (*keys, (Column(f"{name}:value", value.type), value))), descending)
        same = tuple(_same(mine, theirs) for (theirs, _), mine in zip(keys, self.call.partition_by, strict=True))
        bound = least.columns[-1]
        first = disjunction((is_null(bound), binary(">=" if descending else "<=", value, bound)))
        near = Filter(Join(shared, least, "inner", same), (first,))
        return Project(near, tuple((column, column) for column in rows.columns))

    def _least(self, values: Relation, descending: bool) -> Relation:
        """The k-th value of each partition, NULL where there is none. values: keys, then the value."""
        *keys, value = values.columns
        name, k, function = self.call.column.name, str(max(1, self.most)), "max" if descending else "min"
        firsts = Column(f"{name}:firsts", f"{value.type}[]")
        call = Call(function, (value,), f"{function}({{0}}, {k})", firsts.type)
        groups = Aggregate(values, tuple(keys), (Aggregation(firsts, call),))
        kth = Call("case", (firsts,), f"CASE WHEN len({{0}}) = {k} THEN {{0}}[{k}] END", value.type)
        return Project(groups, (*((key, key) for key in keys), (Column(f"{name}:least", value.type), kth)))

    @property
    def _first_key(self) -> tuple[Expr, bool] | None:
        """The first key of the order, and whether it goes from the greatest down; None if NULLs come first, if a rank
        up to k may have more than k values ahead of it, or if a value may not be worked out once more."""
        call = self.call.call
        found = _FIRST_KEY.search(call.template)
        if found is None or call.op not in _COUNTING or is_volatile(call) or calls_python(call):
            return None
        value = call.args[int(found["slot"])]
        return (value, (found["way"] or "").upper() == "DESC") if _TYPES.match(value.type) else None


def without_others(window: Window) -> Window:
    """A window of first ranks (`Window.first`) over the rows that can have them."""
    assert window.first is not None
    found = [TopRanks(call, window.first) for call in window.calls]
    near = next(one for one in found if one.thins).thinned(window.input)
    return Window(near, window.calls)


def top_ranks(node: Filter) -> TopRanks | None:
    """The first ranks that a filter over a window keeps; None if it keeps others, or if other rows matter too.

    All calls of the window have to be ranks by the same order, else dropping rows would change their values. The
    number of a row counts as its rank where the order leaves no ties (law 12).
    """
    window = node.input
    if not isinstance(window, Window) or not _is_ranking(window):
        return None
    bounds = [(most, call) for call in window.calls for part in node.predicates
              if (most := _most(part, call.column)) is not None]  # fmt: skip
    if not bounds:
        return None
    most, call = min(bounds, key=lambda bound: bound[0])
    return TopRanks(call, most)


def _is_ranking(window: Window) -> bool:
    orders = {(call.call.args, call.call.template.partition("(")[2]) for call in window.calls}
    return len(orders) == 1 and all(
        call.call.op in _RANKS and window_is_determined(call, window.input) for call in window.calls
    )


def _most(predicate: Expr, rank: Column) -> int | None:
    """The highest rank that passes a predicate."""
    if not isinstance(predicate, Call):
        return None
    if predicate.op == "between" and predicate.args[0] == rank:
        return _whole(predicate.args[2])
    if predicate.op not in _FLIPPED or rank not in predicate.args:
        return None
    left, right = predicate.args
    op, bound = (predicate.op, _whole(right)) if left == rank else (_FLIPPED[predicate.op], _whole(left))
    if bound is None or op in (">", ">="):
        return None
    return bound - 1 if op == "<" else bound


def _same(left: Expr, right: Expr) -> Expr:
    return Call("is_not_distinct_from", (left, right), "({0} IS NOT DISTINCT FROM {1})", "BOOLEAN")


def _whole(expr: Expr) -> int | None:
    value = expr.value if isinstance(expr, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
