"""Equal relations are one object; whatever differs stays apart, what an Exchange's fragment was decided to be too."""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.algebra.expr import Column, is_null
from qoop.planner.algebra.interning import Interner
from qoop.planner.algebra.relation import Exchange, Filter, Fragment, Join, Limit, Relation, Scan, Values
from qoop.planner.plan import Estimate

A, B = Column("a", "INTEGER"), Column("b", "INTEGER")


def tree(limit: int = 3) -> Relation:
    left = Filter(Scan("t", "1", (("a", A),)), (is_null(A),))
    return Limit(Join(left, Scan("u", "1", (("b", B),)), "inner", ()), limit)


def exchange(fragment: Fragment) -> Exchange:
    return Exchange(Scan("t", "1", (("a", A),)), "gather", fragment=fragment)


def test_equal_trees_and_equal_parts_of_others_are_one_object() -> None:
    interner = Interner()
    first = interner.of(tree())
    assert interner.of(tree()) is first == tree()
    other = interner.of(tree(4))
    assert other == tree(4) and other.inputs[0] is first.inputs[0]


def test_what_differs_stays_apart() -> None:
    interner = Interner()
    scan = Scan("t", "1", (("a", A),))
    different = [
        scan, replace(scan, version="2"), replace(scan, parts=2), replace(scan, fields=(("a", B),)),
        Filter(scan, (is_null(A),)), Limit(scan, 1), Limit(scan, 1, 1), Values((A,), ()),
        Join(scan, scan, "inner", ()), Join(scan, scan, "left", ()), Exchange(scan, "gather"),
        Exchange(scan, "hash", (A,), 2), Exchange(scan, "hash", (A,), 3),
    ]  # fmt: skip
    assert len({id(interner.of(one)) for one in different}) == len(different)


def test_fragments_that_were_decided_otherwise_stay_apart() -> None:
    interner = Interner()
    usual = Fragment(tree(), False, 2, 1, Estimate(10))
    others = [replace(usual, width=3), replace(usual, slots=2), replace(usual, partial=True),
              replace(usual, estimate=Estimate(11)), replace(usual, meaning=tree(5))]  # fmt: skip
    found = interner.of(exchange(usual))
    assert interner.of(exchange(replace(usual, meaning=tree()))) is found
    assert all(interner.of(exchange(other)) is not found for other in others)
