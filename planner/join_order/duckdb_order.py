"""The order of joins in DuckDB's own plan, read from its EXPLAIN and applied to a group of joins.

DuckDB prints neither tables nor aliases there. A scan's table follows from the columns that it reads. A leaf of the
group stands where the plan reads the same tables; of several leaves over the same tables, each stands where its columns
are equated and its constants occur.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, permutations, product
from math import log
from typing import Any

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Literal, conjuncts, walk
from qoop.planner.algebra.relation import Filter, Relation, Scan, Shared
from qoop.planner.algebra.relation import walk as walk_relation
from qoop.planner.estimate.cost import CostModel
from qoop.planner.join_order.enumerate import Search, Step
from qoop.planner.join_order.graph import JoinGraph, Mask

Tables = frozenset[tuple[str, int]]
"""Names of tables in lower case, with how often each is read."""

_MOST_PLACINGS = 720
"""Ways to place leaves over the same tables that are compared."""

_EQUALITY = re.compile(r"(\w+) = (\w+)")
_NUMBERED = re.compile(r"(_\d+)+$")


@value
class KnownTable:
    """The columns of a table, in lower case, and the number of its rows."""

    columns: frozenset[str]
    rows: float


@value
class Operator:
    """An operator of DuckDB's plan.

    tables: read below it. equalities: the names of the columns that a join equates. filters: the texts of filters here
    and below.
    """

    tables: Tables
    children: tuple[Operator, ...] = ()
    equalities: tuple[tuple[str, str], ...] = ()
    filters: str = ""

    def walk(self) -> Iterator[Operator]:
        """The operator and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


class DuckDBOrder:
    """DuckDB's plan of a query, as far as it shows in which order tables are joined.

    explained: from EXPLAIN (FORMAT JSON). tables: all that the query reads, by lower-case name.
    """

    def __init__(self, explained: str, tables: Mapping[str, KnownTable]) -> None:
        reading, nodes = _Reading(tables), json.loads(explained)
        self._roots = [reading.operator(node) for node in nodes]
        self.groups_below_joins = any(_groups_below_joins(node) for node in nodes)
        """It groups rows before a join, and again above it."""

    def of(self, graph: JoinGraph, model: CostModel) -> Search | None:
        """The steps by which DuckDB joins the leaves of a group; None where its plan has no joins of these leaves
        alone."""
        group = _Group(graph)
        for operator in (one for root in self._roots for one in root.walk()):
            tree = group.tree(operator) if operator.tables == group.tables else None
            steps = group.steps(tree, Search(graph, model)) if tree is not None else None
            if steps is not None:
                return steps
        return None


class _Reading:
    """Reads operators from JSON. A scan of a common table expression has the tables of its definition."""

    def __init__(self, tables: Mapping[str, KnownTable]) -> None:
        self._tables = tables
        self._shared: dict[str, Tables] = {}

    def operator(self, node: Mapping[str, Any]) -> Operator:
        facts = node.get("extra_info", {})
        children = []
        for child in node["children"]:
            children.append(self.operator(child))
            if node["name"] == "CTE" and len(children) == 1:
                self._shared[str(facts.get("Table Index"))] = children[0].tables
        conditions = _texts(facts.get("Conditions"))
        equal = [found for text in conditions if (found := _EQUALITY.fullmatch(text.lower())) is not None]
        filters = [*_texts(facts.get("Filters")), *_texts(facts.get("Expression"))]
        tables = self._read(facts) if not children else _together([one.tables for one in _counted(node, children)])
        return Operator(
            tables,
            tuple(children),
            tuple((found[1], found[2]) for found in equal),
            " ".join([*filters, *(child.filters for child in children)]),
        )

    def _read(self, facts: Mapping[str, Any]) -> Tables:
        """The table of a scan: the one with its columns, and about as many rows as it is said to have."""
        if "CTE Index" in facts:
            return self._shared.get(str(facts["CTE Index"]), frozenset())
        if "Function" not in facts and "Table" not in facts:
            return frozenset()
        columns = {name.lower() for name in _texts(facts.get("Projections"))}
        rows = max(1.0, float(facts.get("Estimated Cardinality", 1.0)))
        able = {
            name: abs(log(max(1.0, one.rows) / rows)) for name, one in self._tables.items() if columns <= one.columns
        }
        return frozenset(((min(able, key=able.__getitem__), 1),)) if able else frozenset()


def _groups_below_joins(node: Mapping[str, Any], order: tuple[str, ...] = ("group", "join", "group")) -> bool:
    """True if a grouping stands below an inner join that stands below a grouping. order: the kinds still to be found on
    the way down."""
    left = order[1:] if _kind(node) == order[0] else order
    return not left or any(_groups_below_joins(child, left) for child in node["children"])


def _kind(node: Mapping[str, Any]) -> str:
    """The kind of an operator: group, join (an inner one), or an empty text."""
    if str(node["name"]).endswith("GROUP_BY"):
        return "group"
    return "join" if node.get("extra_info", {}).get("Join Type") == "INNER" else ""


def _counted(node: Mapping[str, Any], children: Sequence[Operator]) -> Sequence[Operator]:
    """The inputs of an operator; the definition of a common table expression is one of its readers."""
    return children[1:] if node["name"] == "CTE" else children


def _texts(found: object) -> list[str]:
    """A fact of EXPLAIN about an operator: nothing, a text, or several, as a list."""
    return [] if found is None else [found] if isinstance(found, str) else [str(one) for one in found]  # type: ignore[attr-defined]


def _together(several: Sequence[Tables]) -> Tables:
    times = Counter[str]()
    for tables in several:
        times.update(dict(tables))
    return frozenset(times.items())


@value
class _Slot:
    """The place of a leaf in a tree of joins."""

    operator: Operator


@value
class _Pair:
    """A join in it. probe, build: DuckDB makes a hash table of the second."""

    probe: _Tree
    build: _Tree
    equalities: tuple[tuple[str, str], ...]


_Tree = _Slot | _Pair


class _Group:
    """A group of joins whose leaves are looked for in a plan."""

    def __init__(self, graph: JoinGraph) -> None:
        self.graph = graph
        self.leaves = [_tables_of(relation) for relation in graph.relations]
        self.tables = _together(self.leaves) if all(self.leaves) else None

    def tree(self, operator: Operator) -> _Tree | None:
        """The joins below an operator, down to where leaves of the group begin; None if they do not fit."""
        if operator.tables in self.leaves:
            return _Slot(operator)
        inputs = [child for child in operator.children if child.tables]
        if len(inputs) == 1:
            return self.tree(inputs[0])
        if len(inputs) != 2:
            return None
        probe, build = map(self.tree, inputs)
        return None if probe is None or build is None else _Pair(probe, build, operator.equalities)

    def steps(self, tree: _Tree, found: Search) -> Search | None:
        """The tree as steps of a search; None if it has other leaves than the group."""
        slots = list(_slots(tree))
        if Counter(slot.operator.tables for slot in slots) != Counter(self.leaves):
            return None
        places = max(islice(self._placings(slots), _MOST_PLACINGS), key=lambda places: self._agreement(tree, places))
        return found if _joined(tree, places, found) else None

    def _placings(self, slots: Sequence[_Slot]) -> Iterator[Mapping[int, Mask]]:
        """The ways to put leaves in places, each the bit of a leaf by the identity of a slot."""
        kinds = list(dict.fromkeys(self.leaves))
        ours = [[1 << i for i, tables in enumerate(self.leaves) if tables == kind] for kind in kinds]
        theirs = [id(slot) for kind in kinds for slot in slots if slot.operator.tables == kind]
        for chosen in product(*(permutations(masks) for masks in ours)):
            yield dict(zip(theirs, (mask for masks in chosen for mask in masks), strict=True))

    def _agreement(self, tree: _Tree, places: Mapping[int, Mask]) -> int:
        """The equalities and constants of the tree that the leaves have where they are put."""
        if isinstance(tree, _Slot):
            constants = self._constants[places[id(tree)].bit_length() - 1]
            return sum(constant in tree.operator.filters for constant in constants)
        sides = _mask(tree.probe, places), _mask(tree.build, places)
        met = sum(any(self._equates(names, pair, sides) for pair in self._equalities) for names in tree.equalities)
        return met + self._agreement(tree.probe, places) + self._agreement(tree.build, places)

    def _equates(
        self, names: tuple[str, str], pair: tuple[tuple[str, Mask], tuple[str, Mask]], sides: tuple[Mask, Mask]
    ) -> bool:
        (x, a), (y, b) = pair
        return (x, y) == names and not a & ~sides[0] and not b & ~sides[1]

    @cached_property
    def _equalities(self) -> Sequence[tuple[tuple[str, Mask], tuple[str, Mask]]]:
        """Names of columns that are equal in the result, with the leaves that they are of; each pair both ways."""
        equal = [[expr for expr, _ in one.members] for one in self.graph.classes]
        ons = (part for leaf in self.graph.leaves for expr in leaf.on for part in conjuncts(expr))
        equal += [list(one.args) for one in ons if isinstance(one, Call) and one.op == "="]
        columns = [[expr for expr in members if isinstance(expr, Column)] for members in equal]
        known = [[(self._own_name(one), self._owner[one]) for one in members] for members in columns]
        return [(x, y) for members in known for x, y in permutations(members, 2)]

    @cached_property
    def _owner(self) -> Mapping[Column, Mask]:
        relations = enumerate(self.graph.relations)
        return {column: 1 << i for i, relation in relations for column in relation.columns}

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """The tables' names of columns, by ours."""
        scans = [node for one in self.graph.relations for node in walk_relation(one) if isinstance(node, Scan)]
        return {column.name: name.lower() for scan in scans for name, column in scan.fields}

    def _own_name(self, column: Column) -> str:
        return self._names.get(column.name) or _NUMBERED.sub("", column.name.lower())

    @cached_property
    def _constants(self) -> Sequence[frozenset[str]]:
        """The constants in the filters of each leaf, as DuckDB prints them."""
        return [frozenset(_constants_of(relation)) for relation in self.graph.relations]


def _tables_of(relation: Relation) -> Tables:
    return frozenset(_scans_of(relation, {}).items())


def _scans_of(relation: Relation, shared: dict[str, Counter[str]]) -> Counter[str]:
    """The tables, with how often each is read; those of a shared subplan once for each of its readers."""
    if isinstance(relation, Scan):
        return Counter((relation.table.lower(),))
    if isinstance(relation, Shared) and relation.name in shared:
        return shared[relation.name]
    found: Counter[str] = Counter()
    for below in relation.inputs:
        found.update(_scans_of(below, shared))
    if isinstance(relation, Shared):
        shared[relation.name] = found
    return found


def _constants_of(relation: Relation) -> Iterator[str]:
    for node in walk_relation(relation):
        if isinstance(node, Filter):
            for expr in (inner for predicate in node.predicates for inner in walk(predicate)):
                if isinstance(expr, Literal) and expr.value is not None:
                    yield str(expr.value)


def _slots(tree: _Tree) -> Iterator[_Slot]:
    if isinstance(tree, _Slot):
        yield tree
    else:
        yield from _slots(tree.probe)
        yield from _slots(tree.build)


def _mask(tree: _Tree, places: Mapping[int, Mask]) -> Mask:
    return sum(places[id(slot)] for slot in _slots(tree))


def _joined(tree: _Tree, places: Mapping[int, Mask], found: Search) -> bool:
    """Add the steps of a tree; False if one attaches a leaf to rows that have not the columns of its condition."""
    if isinstance(tree, _Slot):
        return True
    if not _joined(tree.probe, places, found) or not _joined(tree.build, places, found):
        return False
    probe, build = _mask(tree.probe, places), _mask(tree.build, places)
    graph = found.graph
    attached, kept = (probe, build) if probe in graph.needs else (build, probe)
    if attached in graph.needs and (kept in graph.needs or graph.needs[attached] & ~kept):
        return False
    graph.merged_rows(kept, attached)
    turned = attached == probe and graph.leaves[probe.bit_length() - 1].kind == "left"
    probe, build = (probe, build) if attached == build or turned else (build, probe)
    found.offer(probe | build, Step(0.0, probe, build))
    return True
