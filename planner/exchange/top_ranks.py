"""The first ranks of each partition, found among any part of the rows before they are ranked among all.

A row with more than k rows, or k different values, ahead of it in one task has at least as many ahead of it among all
rows. So where a query keeps ranks up to k, every task may drop what is beyond its own first k ranks: what is left has
the same first k ranks, and each of its other rows has still k rows ahead of it.
"""

from __future__ import annotations

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, binary
from qoop.planner.algebra.relation import Filter, Project, Relation, Window, WindowCall
from qoop.planner.identity.determinism import window_is_determined

_RANKS = frozenset({"rank", "dense_rank", "row_number"})
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@value
class TopRanks:
    """Ranks by `call` up to `most`; no other rows matter to what reads the window."""

    call: WindowCall
    most: int

    def within(self, rows: Relation) -> Relation:
        """Of these rows those with the first ranks among them."""
        ranked = Window(rows, (self.call,))
        bound = Literal(str(self.most), "BIGINT", self.most)
        first = Filter(ranked, (binary("<=", self.call.column, bound),))
        return Project(first, tuple((column, column) for column in rows.columns))


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


def _whole(expr: Expr) -> int | None:
    value = expr.value if isinstance(expr, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
