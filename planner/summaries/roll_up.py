"""A block computed from the groups of a summary: filtered, and grouped again."""

from __future__ import annotations

from collections.abc import Mapping

from qoop.planner.algebra.expr import Call, Column, Expr, Literal
from qoop.planner.algebra.relation import Aggregate, Filter, Project, Relation
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.summaries.block import SummaryBlock, block_of, text
from qoop.planner.summaries.summary import Summary


def over_summary(relation: Relation, summary: Summary, groups: Relation) -> Relation | None:
    """The relation with all aggregates over base tables computed from a summary; None if one cannot be.

    groups: the rows of the summary, with its columns.
    """
    missing = False

    def visit(node: Relation) -> Relation:
        nonlocal missing
        block = block_of(node) if isinstance(node, Aggregate) else None
        if block is None:
            return node
        found = rolled_up(block, summary, groups)
        missing = missing or found is None
        return node if found is None else found

    found = bottom_up(relation, visit)
    return None if missing else found


def rolled_up(block: SummaryBlock, summary: Summary, groups: Relation) -> Aggregate | None:
    """The rows of the block from the groups of a summary; None if the summary does not cover it."""
    residual = _residual(block, summary)
    keys = {column: _over(expr, summary.columns) for column, expr in block.keys.items()}
    parts = {column: summary.partials.get(part.column.name) for column, part in block.partials.items()}
    if residual is None or None in keys.values() or None in parts.values():
        return None
    kept = Filter(groups, residual) if residual else groups
    exprs = [(column, expr) for column, expr in keys.items() if expr is not None]
    exprs += [(column, part.column) for column, part in parts.items() if part is not None]
    return block.phases.final(Project(kept, tuple(exprs)))


def _residual(block: SummaryBlock, summary: Summary) -> tuple[Expr, ...] | None:
    """The predicates that restrict the groups of the summary to those of the block."""
    partners = [one for one in summary.partners if one.leaf.name in block.leaves]
    leaves = {**summary.leaves, **{one.leaf.name: one.leaf for one in partners}}
    if block.leaves.keys() != leaves.keys() or not summary.predicates.keys() <= block.predicates.keys():
        return None
    if any(leaf.version != leaves[name].version for name, leaf in block.leaves.items()):
        return None
    joins = {text(one.on) for one in partners}
    if not joins <= block.predicates.keys():
        return None
    exist = [one.exists for one in partners]
    rest = [one for name, one in block.predicates.items() if name not in summary.predicates and name not in joins]
    found = [_over(one, summary.columns) for one in (*exist, *rest)]
    return None if None in found else tuple(one for one in found if one is not None)


def _over(expr: Expr, keys: Mapping[str, Column]) -> Expr | None:
    """An expression over columns of leaves, over the keys of a summary; None if these do not determine it."""
    known = keys.get(text(expr))
    if known is not None:
        return known if known.type == expr.type else None
    if not isinstance(expr, Call):
        return expr if isinstance(expr, Literal) else None
    args = [_over(arg, keys) for arg in expr.args]
    if any(arg is None for arg in args):
        return None
    return Call(expr.op, tuple(arg for arg in args if arg is not None), expr.template, expr.type)
