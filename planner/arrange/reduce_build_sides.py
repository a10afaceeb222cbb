"""Semi-join reduction: a large build side is first cut down to the keys that a small probe side has.

A semi or anti join builds its whole right side, even for few probing rows.  If few rows probe many, they are computed
once (`Shared`), and each scan task of the right side filters by their keys before its rows are gathered (Bernstein and
Chiu, "Using Semi-Joins to Solve Relational Queries", JACM 1981).  The keys may be a superset of the necessary ones, so
a chain of such joins is reduced by the rows at its bottom.
"""

from __future__ import annotations

from itertools import count

from qoop.planner.algebra.expr import Call, Column, Expr, columns_of, equals, substitute
from qoop.planner.algebra.relation import Join, Project, Relation, Shared, with_inputs
from qoop.planner.estimate.cardinality import Cardinality

_KINDS = ("semi", "anti")
LARGE_ROWS = 200_000.0  # of a build side: below, a reduction costs more than it saves
RATIO = 8.0  # of the rows of the build side to those that probe it


def reduce_build_sides(relation: Relation, cardinality: Cardinality) -> Relation:
    """Return the relation with the large build sides of its semi and anti joins reduced."""
    return _Reducer(cardinality).walk(relation)


class _Reducer:
    def __init__(self, cardinality: Cardinality) -> None:
        self.cardinality = cardinality
        self.numbers = count(1)
        self.done: dict[int, Relation] = {}

    def walk(self, node: Relation) -> Relation:
        known = self.done.get(id(node))
        if known is None:
            chain = _chain(node)
            known = self.chain(chain) if chain else with_inputs(node, tuple(map(self.walk, node.inputs)))
            self.done[id(node)] = known
        return known

    def chain(self, joins: list[Join]) -> Relation:
        """Rebuild semi and anti joins on top of each other, the lowest first."""
        probing = joins[0].left
        worth = {id(join) for join in joins if self.is_worth_it(probing, join)}
        base = self.walk(probing)
        result = base
        if worth:
            shared = Shared(f"keys_{next(self.numbers)}", base)
            result = Project(shared, tuple((column, column) for column in shared.columns))
        for join in joins:
            right = self.walk(join.right)
            if id(join) in worth:
                right = self.reduced(right, shared, _equalities(join))
            result = with_inputs(join, (result, right))
        return result

    def is_worth_it(self, probing: Relation, join: Join) -> bool:
        keys = [mine for mine, _ in _equalities(join)]
        if not keys or any(not columns_of(key) <= frozenset(probing.columns) for key in keys):
            return False
        rows = self.cardinality.rows(join.right)
        return rows >= LARGE_ROWS and rows >= RATIO * self.cardinality.rows(probing)

    def reduced(self, right: Relation, shared: Shared, pairs: list[tuple[Expr, Expr]]) -> Join:
        number = next(self.numbers)
        fresh = {column: Column(f"{column.name}:key{number}", column.type) for column in shared.columns}
        keys = Project(shared, tuple((new, old) for old, new in fresh.items()))
        on = tuple(equals(theirs, substitute(mine, fresh)) for mine, theirs in pairs)
        return Join(right, keys, "semi", on)


def _chain(node: Relation) -> list[Join]:
    joins: list[Join] = []
    while isinstance(node, Join) and node.kind in _KINDS:
        joins.append(node)
        node = node.left
    return joins[::-1]


def _equalities(join: Join) -> list[tuple[Expr, Expr]]:
    """(left's expression, right's expression) of every equality between the sides."""
    left, right = frozenset(join.left.columns), frozenset(join.right.columns)
    pairs: list[tuple[Expr, Expr]] = []
    for condition in join.on:
        if isinstance(condition, Call) and condition.op == "=":
            for mine, theirs in (condition.args, condition.args[::-1]):
                if columns_of(mine) and columns_of(theirs) and columns_of(mine) <= left and columns_of(theirs) <= right:
                    pairs.append((mine, theirs))
                    break
    return pairs
