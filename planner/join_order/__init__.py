"""Join order: which joins commute (group), rows of sets (graph), the search (enumerate) and the way back (rebuild)."""

from __future__ import annotations

from qoop.planner.cardinality import Cardinality
from qoop.planner.cost import CostModel
from qoop.planner.expr import Column
from qoop.planner.join_order.enumerate import search
from qoop.planner.join_order.graph import JoinGraph
from qoop.planner.join_order.group import collect, is_group, movable
from qoop.planner.join_order.rebuild import rebuild
from qoop.planner.relation import Filter, Project, Relation, SetOp, with_inputs


def reorder(
    relation: Relation,
    cardinality: Cardinality,
    limit: int = 10_000,
    model: CostModel | None = None,
    *,
    bushy: bool = True,
) -> Relation:
    """The same rows and columns with every group of joins in the cheapest order found.

    limit: pairs of relation sets examined for one group before the search turns greedy.
    model: what joins cost (the usual). bushy: False: one side of every join is a leaf of the group.
    """
    return _Reordering(cardinality, limit, model or CostModel(), bushy).root(relation)


class _Reordering:
    def __init__(self, cardinality: Cardinality, limit: int, model: CostModel, bushy: bool):
        self.cardinality = cardinality
        self.limit = limit
        self.model = model
        self.bushy = bushy
        self.done: dict[int, tuple[Relation, Relation]] = {}

    def root(self, relation: Relation) -> Relation:
        """Reorder where the order of columns counts."""
        return _with_columns(self.any(relation), relation.columns)

    def any(self, relation: Relation) -> Relation:
        """Reorder; the order of columns may change."""
        known = self.done.get(id(relation))  # a shared subplan is met once for every reader
        if known is None:
            known = self.done[id(relation)] = (relation, self._any(relation))
        return known[1]

    def _any(self, relation: Relation) -> Relation:
        if is_group(relation):
            return self._group(relation)
        if isinstance(relation, Filter):
            free = tuple(predicate for predicate in relation.predicates if movable(predicate))
            fixed = tuple(predicate for predicate in relation.predicates if not movable(predicate))
            if free and fixed and is_group(relation.input):
                return Filter(self.any(Filter(relation.input, free)), fixed)
        rewrite = self.root if isinstance(relation, SetOp) else self.any
        return with_inputs(relation, tuple(rewrite(child) for child in relation.inputs))

    def _group(self, relation: Relation) -> Relation:
        group = collect(relation, self.any)
        graph = JoinGraph(group, self.cardinality)
        found = search(graph, self.model, self.limit, bushy=self.bushy)
        ordered = rebuild(found, graph.full)
        if graph.constants:
            ordered = Filter(ordered, tuple(graph.constants))
        if frozenset(ordered.columns) == frozenset(relation.columns):
            return ordered
        return Project(ordered, tuple((column, group.aliases.get(column, column)) for column in relation.columns))


def _with_columns(relation: Relation, columns: tuple[Column, ...]) -> Relation:
    if relation.columns == columns:
        return relation
    return Project(relation, tuple((column, column) for column in columns))
