"""Drop ORDER BYs without effect: only the root, a Limit and order-sensitive functions depend on the order."""

from __future__ import annotations

from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Limit,
    Project,
    Relation,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.algebra.traversal import each_block

# Aggregates whose value depends on the order of their input, unless they say an order themselves.
ORDER_SENSITIVE = frozenset(
    """first last any_value arbitrary list array_agg string_agg group_concat listagg mode arg_min arg_max min_by
    max_by argmin argmax histogram reservoir_quantile approx_quantile json_group_array json_group_object""".split()  # noqa: SIM905
)


def drop_sorts(relation: Relation) -> Relation:
    """Drop every Sort that is neither at the root nor below something that reads rows in order.

    >>> from qoop.planner.algebra.expr import Column
    >>> from qoop.planner.algebra.relation import Scan, SortKey
    >>> from qoop.planner.algebra.outline import outline
    >>> a = Column("a", "INTEGER")
    >>> ordered = Sort(Scan("t", "v", (("a", a),)), (SortKey(a),))
    >>> outline(drop_sorts(Aggregate(ordered, (a,), ())))
    'aggregate[a](t[a])'
    """
    return each_block(relation, lambda block: _walk(block, order_matters=True))


def _walk(node: Relation, order_matters: bool) -> Relation:
    match node:
        case Shared():
            return node
        case Sort():
            below = _walk(node.input, False)
            return with_inputs(node, (below,)) if order_matters else below
        case Project() | Filter() | Exchange():
            return with_inputs(node, (_walk(node.input, order_matters),))
        case Limit() | Window():
            return with_inputs(node, (_walk(node.input, True),))
        case Aggregate():
            sensitive = any(agg.call.op in ORDER_SENSITIVE and not agg.ordered for agg in node.aggregations)
            return with_inputs(node, (_walk(node.input, sensitive),))
    return with_inputs(node, tuple(_walk(child, False) for child in node.inputs)) if node.inputs else node
