"""From the order found back to a relation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qoop.planner.algebra.expr import Expr, equals
from qoop.planner.algebra.relation import Filter, Join, Relation
from qoop.planner.join_order.enumerate import Search
from qoop.planner.join_order.graph import JoinGraph, Mask


def rebuild(found: Search, leaves: Mask, relations: Sequence[Relation]) -> Relation:
    """The relation of a set of leaves, joined as the search decided. relations: the leaves."""
    step, graph = found.best[leaves], found.graph
    if not step.build:
        return relations[leaves.bit_length() - 1]
    conditions = _conditions(graph, step.probe, step.build)
    left, right = rebuild(found, step.probe, relations), rebuild(found, step.build, relations)
    if step.build in graph.needs:
        leaf = graph.leaves[step.build.bit_length() - 1]
        return _filtered(Join(left, right, leaf.kind, leaf.on, leaf.mark), conditions)
    if step.probe in graph.needs:
        leaf = graph.leaves[step.probe.bit_length() - 1]
        return _filtered(Join(left, right, "right", leaf.on), conditions)
    return Join(left, right, "inner", tuple(conditions))


def joined(found: Search, leaves: Mask) -> Iterator[Mask]:
    """The sets of leaves that the search joins on its way to these."""
    step = found.best[leaves]
    if step.build:
        yield leaves
        yield from joined(found, step.probe)
        yield from joined(found, step.build)


def _conditions(graph: JoinGraph, probe: Mask, build: Mask) -> list[Expr]:
    """The conditions on a joined row that neither side could test: each class once, then the rest."""
    both = probe | build
    conditions: list[Expr] = []
    for cls in graph.classes:
        left, right = cls.available(probe), cls.available(build)
        new = [expr for expr in cls.available(both) if expr not in left and expr not in right]
        conditions.extend(_equated(left, right, new))
    conditions.extend(p for p, mask in graph.predicates if not mask & ~both and mask & ~probe and mask & ~build)
    return conditions


def _equated(left: list[Expr], right: list[Expr], new: list[Expr]) -> list[Expr]:
    """Equalities that chain two sets of already equal members and some further ones."""
    found: list[Expr] = []
    if left and right:
        pairs = [(x, y) for x in left for y in right]
        found.append(equals(*next((pair for pair in pairs if pair[0].type == pair[1].type), pairs[0])))
    known = (left or right or new)[:1]
    found.extend(equals(known[0], expr) for expr in new if expr is not known[0])
    return found


def _filtered(relation: Relation, predicates: list[Expr]) -> Relation:
    return Filter(relation, tuple(predicates)) if predicates else relation
