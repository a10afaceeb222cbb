"""Join order: from a group of joins that commute to the cheapest order found.

::

    group.py         which joins commute
    graph.py         rows of every set of relations
    corrections.py   corrects estimates by observations of some sets
    enumerate.py     the search
    duckdb_order.py  the order of DuckDB's own plan
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column, Expr, equals
from qoop.planner.algebra.relation import Filter, Join, Project, Relation, SetOp, with_inputs
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.join_order.duckdb_order import DuckDBOrder
from qoop.planner.join_order.enumerate import Search, search
from qoop.planner.join_order.graph import JoinGraph, Mask
from qoop.planner.join_order.group import JoinGroup, collect, is_group, movable
from qoop.planner.variants import AIMS, MEMORY, NETWORK, RESULTS, WORK, Aim

__all__ = ["AIMS", "MEMORY", "NETWORK", "RESULTS", "WORK", "Aim", "GroupCache", "reorder"]


def reorder(
    relation: Relation,
    cardinality: Cardinality,
    limit: int = 10_000,
    model: CostModel | None = None,
    *,
    bushy: bool = True,
    aim: Aim = WORK,
    known: GroupCache | None = None,
    duckdb_order: DuckDBOrder | None = None,
) -> Relation:
    """The same rows and columns with every group of joins in the cheapest order found.

    limit: pairs of relation sets examined for one group before the search turns greedy.
    model: the cost of joins. bushy: False: one side of every join is a leaf of the group.
    aim: the resource that the order saves besides work.
    known: the groups of relations that were reordered before, with this cardinality and this limit.
    duckdb_order: the order of DuckDB's plan, which groups have if it joins them.
    """
    known = GroupCache() if known is None else known
    return _Reordering(cardinality, limit, model or CostModel(), bushy, aim, known, duckdb_order).root(relation)


@value
class _Grouped:
    """A group of joins met before. relation: its top. originals: its leaves as they were written."""

    relation: Relation
    group: JoinGroup
    originals: tuple[Relation, ...]
    graph: JoinGraph


class GroupCache:
    """The facts of groups of joins that do not depend on the aim, by the identity of their top."""

    def __init__(self) -> None:
        self.groups: dict[int, _Grouped] = {}


class _Reordering:
    def __init__(
        self,
        cardinality: Cardinality,
        limit: int,
        model: CostModel,
        bushy: bool,
        aim: Aim,
        known: GroupCache,
        duckdb_order: DuckDBOrder | None,
    ) -> None:
        self.cardinality = cardinality
        self.limit = limit
        self.model = model
        self.bushy = bushy
        self.aim = aim
        self.known = known
        self.duckdb_order = duckdb_order
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
        grouped = self._grouped(relation)
        graph = grouped.graph
        found = self.duckdb_order.of(graph, self.model) if self.duckdb_order is not None else None
        if found is None:
            found = search(graph, self.model, self.limit, bushy=self.bushy, aim=self.aim)
        leaves = [graph.with_filters(i, self.any(leaf)) for i, leaf in zip(count(), grouped.originals)]
        ordered = rebuild(found, graph.full, leaves)
        if graph.corrected_by is not None:  # else operators above the joins would use their single estimates
            for mask in joined(found, graph.full):
                graph.corrected_by.follows(graph.meaning(mask), graph.rows[mask])
        if graph.constants:
            ordered = Filter(ordered, tuple(graph.constants))
        if frozenset(ordered.columns) == frozenset(relation.columns):
            return ordered
        aliases = grouped.group.aliases
        return Project(ordered, tuple((column, aliases.get(column, column)) for column in relation.columns))

    def _grouped(self, relation: Relation) -> _Grouped:
        known = self.known.groups.get(id(relation))
        if known is None:
            originals: list[Relation] = []

            def below(leaf: Relation) -> Relation:
                originals.append(leaf)
                return self.any(leaf)

            group = collect(relation, below)
            known = _Grouped(relation, group, tuple(originals), JoinGraph(group, self.cardinality))
            self.known.groups[id(relation)] = known
        return known


def _with_columns(relation: Relation, columns: tuple[Column, ...]) -> Relation:
    if relation.columns == columns:
        return relation
    return Project(relation, tuple((column, column) for column in columns))


# From the order found back to a relation


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
