"""Predicates that exclude each other, against all values that there are."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, binary, conjunction, disjunction
from qoop.planner.algebra.implication import exclusive, follows

COLUMNS = Column("a", "INTEGER"), Column("b", "INTEGER")
VALUES = (None, *range(-1, 6))
COMPARE = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__}

Row = tuple[int | None, int | None]


def literal(number: int) -> Literal:
    return Literal(str(number), "INTEGER", number)


@st.composite
def comparisons(draw: st.DrawFn) -> Expr:
    column, number = draw(st.sampled_from(COLUMNS)), draw(st.integers(0, 4))
    op = draw(st.sampled_from([*COMPARE, "in", "between"]))
    other = draw(st.integers(0, 4))
    if op == "in":
        return Call("in", (column, literal(number), literal(other)), "({0} IN ({1}, {2}))", "BOOLEAN")
    if op == "between":
        template = "({0} BETWEEN {1} AND {2})"
        return Call("between", (column, literal(number), literal(other)), template, "BOOLEAN")
    sides = (column, literal(number)) if draw(st.booleans()) else (literal(number), column)
    return binary(op, *sides, "BOOLEAN")


PREDICATES = st.recursive(
    comparisons(),
    lambda parts: st.builds(
        lambda join, some: join(some),
        st.sampled_from([conjunction, disjunction]),
        st.lists(parts, min_size=2, max_size=3),
    ),
    max_leaves=4,
)


def holds(predicate: Expr, row: Row) -> bool:
    """Is it true of the row? NULL is not."""
    assert isinstance(predicate, Call)
    if predicate.op in ("and", "or"):
        return (all if predicate.op == "and" else any)(holds(arg, row) for arg in predicate.args)
    values = [arg.value if isinstance(arg, Literal) else row[COLUMNS.index(arg)] for arg in predicate.args]  # type: ignore[arg-type]
    first, *rest = values
    if None in values:
        return False
    if predicate.op == "in":
        return first in rest
    if predicate.op == "between":
        return rest[0] <= first <= rest[1]  # type: ignore[operator]
    return bool(COMPARE[predicate.op](first, rest[0]))  # type: ignore[arg-type]


@given(st.lists(PREDICATES, min_size=2, max_size=3))
def test_what_is_told_to_exclude_each_other_does(predicates: list[Expr]) -> None:
    if exclusive(predicates, lambda column: column.name):
        for row in ((a, b) for a in VALUES for b in VALUES):
            assert not any(holds(one, row) and holds(two, row) for one, two in combinations(predicates, 2))


@given(PREDICATES, st.lists(PREDICATES, min_size=1, max_size=3))
def test_what_is_told_to_follow_does(weak: Expr, terms: list[Expr]) -> None:
    if follows(weak, terms, lambda column: column.name):
        for row in ((a, b) for a in VALUES for b in VALUES):
            assert holds(weak, row) or not all(holds(term, row) for term in terms)


def test_constants_that_may_be_one_float_tell_nothing() -> None:
    column = Column("f", "FLOAT")
    near, far = (Literal(text, "DECIMAL(9,6)") for text in ("1.000001", "1.000002"))
    below, above = binary("<=", column, near, "BOOLEAN"), binary(">=", column, far, "BOOLEAN")
    assert not exclusive([below, above], lambda column: column.name)
    assert exclusive([binary("<", column, near, "BOOLEAN"), binary(">=", column, near, "BOOLEAN")], lambda c: c.name)
    open_, closed = (binary(op, column, far, "BOOLEAN") for op in ("<", "<="))
    assert not follows(open_, [below], lambda column: column.name)
    assert follows(closed, [below], lambda column: column.name)
