"""Groups of joins that may be reordered: the maximal ones that commute.

Inner joins and the filters between them commute freely.  So do left, semi, anti and mark joins, seen as
operators on their left side: over rows that hold the columns its ON refers to, each may come before or
after any inner join that does not use its own columns.  (With A, B, C relations, p over A and B and q over A
and C: ``(A LEFT B ON p) JOIN C ON q = (A JOIN C ON q) LEFT B ON p``, and the same for SEMI, ANTI and mark;
Galindo-Legaria and Rosenthal, "Outerjoin Simplification and Reordering for Query Optimization", TODS 1997.)

Full joins, and conditions that can fail or differ from call to call, stay where they are (law 12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal as OneOf

from qoop.catalog.value import value
from qoop.planner.algebra.expr import (
    RAISING,
    Call,
    Column,
    Expr,
    conjuncts,
    is_volatile,
    substitute,
    walk,
)
from qoop.planner.algebra.relation import Filter, Join, Project, Relation

LeafKind = OneOf["inner", "left", "semi", "anti", "mark"]


@value
class JoinLeaf:
    """A relation of a group.

    kind: inner: joined freely. Others: attached by `on`, as the right side of a join of that kind, to rows that
        hold the other columns of `on`.
    anchor: the leaf to attach to where `on` refers to no other (index in the group).
    """

    relation: Relation
    kind: LeafKind = "inner"
    on: tuple[Expr, ...] = ()
    mark: Column | None = None
    anchor: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that joining the leaf adds."""
        if self.kind in ("inner", "left"):
            return self.relation.columns
        return (self.mark,) if self.mark is not None else ()


@dataclass
class JoinGroup:
    """Leaves and the predicates between them.

    aliases: columns that a Project between the joins renamed, by their new name.
    """

    leaves: list[JoinLeaf] = field(default_factory=list)
    predicates: list[Expr] = field(default_factory=list)
    aliases: dict[Column, Expr] = field(default_factory=dict)


def collect(relation: Relation, below: Callable[[Relation], Relation]) -> JoinGroup:
    """The group at the top of a relation; `below` rewrites what lies under its leaves."""
    group = JoinGroup()
    _collect(relation, group, below)
    return group


def is_group(relation: Relation) -> bool:
    """True if the relation's top operator is a join that may be reordered."""
    if isinstance(relation, Filter):
        return is_group(relation.input) and all(map(movable, relation.predicates))
    if isinstance(relation, Project):
        return is_group(relation.input) and all(isinstance(expr, Column) for _, expr in relation.exprs)
    return isinstance(relation, Join) and relation.kind != "full" and all(map(movable, relation.on))


def movable(expr: Expr) -> bool:
    """True if the expression may be evaluated on other rows than it was written for."""
    return not is_volatile(expr) and not any(_may_fail(node) for node in walk(expr))


_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INTEGER": 3, "BIGINT": 4, "HUGEINT": 5, "FLOAT": 6, "DOUBLE": 7}


def _may_fail(node: Expr) -> bool:
    """True for a call that can raise on some row; a cast to a wider type cannot."""
    if not isinstance(node, Call) or node.op not in RAISING or not node.columns:
        return False
    if node.op != "cast":
        return True
    source, target = node.args[0].type, node.type
    if source == target or target == "VARCHAR":
        return False
    if source == "DATE" and target.startswith("TIMESTAMP"):
        return False
    if source.startswith("DECIMAL") and target == "DOUBLE":
        return False
    return not (source in _WIDTHS and target in _WIDTHS and _WIDTHS[source] <= _WIDTHS[target])


def _collect(relation: Relation, group: JoinGroup, below: Callable[[Relation], Relation]) -> None:
    if not is_group(relation):
        group.leaves.append(JoinLeaf(below(relation)))
    elif isinstance(relation, Filter):
        _collect(relation.input, group, below)
        _add(relation.predicates, group)
    elif isinstance(relation, Project):
        _collect(relation.input, group, below)
        renamed = {new: substitute(old, group.aliases) for new, old in relation.exprs if new != old}
        group.aliases.update(renamed)
    elif isinstance(relation, Join):
        _collect_join(relation, group, below)


def _collect_join(join: Join, group: JoinGroup, below: Callable[[Relation], Relation]) -> None:
    anchor = len(group.leaves)
    if join.kind == "inner":
        _collect(join.left, group, below)
        _collect(join.right, group, below)
        _add(join.on, group)
        return
    kept, attached = (join.right, join.left) if join.kind == "right" else (join.left, join.right)
    _collect(kept, group, below)
    on = tuple(substitute(condition, group.aliases) for condition in join.on)
    kind: LeafKind = "left" if join.kind in ("left", "right") else join.kind  # type: ignore[assignment]
    group.leaves.append(JoinLeaf(below(attached), kind, on, join.mark, anchor))


def _add(predicates: tuple[Expr, ...], group: JoinGroup) -> None:
    for predicate in predicates:
        group.predicates.extend(conjuncts(substitute(predicate, group.aliases)))
