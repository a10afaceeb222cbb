"""Random relations over small tables with NULLs and duplicates: every rule keeps the rows DuckDB finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    columns_of,
    conjunction,
    disjunction,
    equals,
    is_null,
    negate,
)
from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    SortKey,
    Values,
    Window,
    WindowCall,
    walk,
)
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.provenance import Provenance, Provenances
from qoop.planner.rules import RULES, apply_rules

TABLES = {
    "t": ("a", "b", "c"),
    "u": ("d", "e"),
    "v": ("f", "g"),
}
INTEGER = "INTEGER"
NUMBERS = st.integers(0, 3)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        # DuckDB 1.5.5 pushes the keys of a join's build side below a LIMIT on its probe side, and so answers wrongly.
        connection.execute("SET disabled_optimizers = 'join_filter_pushdown'")
        connection.execute("CREATE TABLE t(a INT, b INT, c INT)")
        connection.execute("INSERT INTO t VALUES (0,1,2),(1,1,NULL),(1,2,0),(NULL,0,1),(2,NULL,2),(3,3,3),(1,1,NULL)")
        connection.execute("CREATE TABLE u(d INT, e INT)")
        connection.execute("INSERT INTO u VALUES (1,0),(1,2),(NULL,1),(2,2),(4,NULL)")
        connection.execute("CREATE TABLE v(f INT, g INT)")
        connection.execute("INSERT INTO v VALUES (0,0),(1,3),(3,1),(3,NULL),(2,2),(2,2)")
        yield connection


def literal(value: int) -> Literal:
    return Literal(str(value), INTEGER, value)


class Grower:
    """Draws a relation; every column it makes has a name of its own."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.numbers = count()
        self.shared: list[Shared] = []

    def fresh(self, stem: str, type_: str = INTEGER) -> Column:
        return Column(f"{stem}_{next(self.numbers)}", type_)

    def pick(self, items: tuple[Column, ...]) -> Column:
        return self.draw(st.sampled_from(items))

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            return self.scan()
        grow = self.draw(
            st.sampled_from(
                [self.scan, self.filter, self.filter, self.project, self.join, self.join, self.join, self.aggregate,
                 self.window, self.set_op, self.top, self.twice]
            )
        )  # fmt: skip
        return grow() if grow == self.scan else grow(depth - 1)

    def scan(self) -> Relation:
        table = self.draw(st.sampled_from(sorted(TABLES)))
        return Scan(table, "1", tuple((own, self.fresh(own)) for own in TABLES[table]))

    def filter(self, depth: int) -> Relation:
        below = self.relation(depth)
        predicates = self.draw(st.integers(1, 3))
        return Filter(below, tuple(self.predicate(below.columns, 2) for _ in range(predicates)))

    def project(self, depth: int) -> Relation:
        below = self.relation(depth)
        kept = [c for c in below.columns if self.draw(st.booleans())] or [below.columns[0]]
        exprs: list[tuple[Column, Expr]] = [(c, c) for c in kept]
        for _ in range(self.draw(st.integers(0, 2))):
            expr = self.value(below.columns)
            exprs.append((self.fresh("p", expr.type), expr))
        return Project(below, tuple(self.draw(st.permutations(exprs))))

    def join(self, depth: int) -> Relation:
        left, right = self.relation(depth), self.relation(depth - 1 if depth else 0)
        kind = self.draw(st.sampled_from(["inner", "inner", "inner", "left", "left", "full", "semi", "anti", "mark"]))
        both = left.columns + right.columns
        on: list[Expr] = []
        if kind != "inner" or self.draw(st.booleans()):
            on.append(equals(self.pick(left.columns), self.pick(right.columns)))
        if kind != "full":
            on += [self.predicate(both, 2) for _ in range(self.draw(st.integers(0, 1)))]
        return Join(left, right, kind, tuple(on), self.fresh("mark", "BOOLEAN") if kind == "mark" else None)

    def aggregate(self, depth: int) -> Relation:
        below = self.relation(depth)
        keys = tuple(c for c in below.columns[:3] if self.draw(st.booleans()))
        sets = None
        if len(keys) > 1 and self.draw(st.booleans()):
            sets = (keys, keys[:1], ())
        aggregations = [
            Aggregation(self.fresh("n", "BIGINT"), Call("count_star", (), "count(*)", "BIGINT")),
            self.max_of(below.columns),
        ]
        if keys and self.draw(st.booleans()):
            aggregations = []
        return Aggregate(below, keys, tuple(aggregations), sets)

    def max_of(self, columns: tuple[Column, ...]) -> Aggregation:
        column = self.pick(columns)
        call = Call("max", (column,), "max({0})", column.type)
        return Aggregation(self.fresh("m", column.type), call, filter=self.predicate(columns, 1))

    def window(self, depth: int) -> Relation:
        below = self.relation(depth)
        part, other = self.pick(below.columns), self.pick(below.columns)
        call = Call("count", (other, part), "count({0}) OVER (PARTITION BY {1})", "BIGINT")
        return Window(below, (WindowCall(self.fresh("w", "BIGINT"), call, (part,)),))

    def set_op(self, depth: int) -> Relation:
        width = self.draw(st.integers(1, 2))
        branches = tuple(self.integers(self.relation(depth), width) for _ in range(2))
        kind = self.draw(st.sampled_from(["union", "union", "intersect", "except"]))
        return SetOp(kind, self.draw(st.booleans()), branches, tuple(self.fresh("s") for _ in range(width)))

    def integers(self, below: Relation, width: int) -> Relation:
        """`below` projected to this many INTEGER columns; the first may be a constant."""
        fitting = tuple(c for c in below.columns if c.type == INTEGER)
        exprs: list[Expr] = [self.pick(fitting) if fitting else literal(0) for _ in range(width)]
        if self.draw(st.booleans()):
            exprs[0] = literal(self.draw(NUMBERS))
        return Project(below, tuple((self.fresh("i"), expr) for expr in exprs))

    def top(self, depth: int) -> Relation:
        below = self.relation(depth)
        ordered = Sort(below, tuple(SortKey(column) for column in below.columns))
        return Limit(ordered, self.draw(st.integers(0, 4)), self.draw(st.integers(0, 1)))

    def twice(self, depth: int) -> Relation:
        """A shared subplan, joined with itself, each reader under a filter of its own or none."""
        shared = Shared(f"cte_{next(self.numbers)}", self.relation(depth))
        left, right = self.reader(shared), self.reader(shared)
        return Join(left, right, "inner", (equals(self.pick(left.columns), self.pick(right.columns)),))

    def reader(self, shared: Shared) -> Relation:
        renamed = Project(shared, tuple((self.fresh("r", c.type), c) for c in shared.columns))
        return Filter(renamed, (self.predicate(renamed.columns, 2),)) if self.draw(st.booleans()) else renamed

    def value(self, columns: tuple[Column, ...]) -> Expr:
        numbers = tuple(c for c in columns if c.type == INTEGER)
        if not numbers or self.draw(st.integers(0, 3)) == 0:
            return literal(self.draw(NUMBERS))
        column = self.pick(numbers)
        if self.draw(st.booleans()):
            return column
        zero_for_null = Call("coalesce", (column,), "COALESCE({0}, 0)", INTEGER)
        return self.draw(st.sampled_from([binary("+", column, literal(1), INTEGER), zero_for_null]))

    def predicate(self, columns: tuple[Column, ...], depth: int) -> Expr:
        shape = self.draw(st.integers(0, 9))
        if depth and shape < 3:
            parts = [self.predicate(columns, depth - 1) for _ in range(self.draw(st.integers(2, 3)))]
            return (conjunction if shape == 0 else disjunction)(parts)
        if depth and shape == 3:
            return negate(self.predicate(columns, depth - 1))
        left = self.value(columns)
        if shape == 4:
            return is_null(left)
        if shape == 5:
            return Call("in", (left, literal(1), literal(2)), "({0} IN ({1}, {2}))", "BOOLEAN")
        if shape == 6:
            low, high = sorted((self.draw(NUMBERS), self.draw(NUMBERS)))
            return Call("between", (left, literal(low), literal(high)), "({0} BETWEEN {1} AND {2})", "BOOLEAN")
        op = self.draw(st.sampled_from(["=", "=", "<>", "<", ">="]))
        return binary(op, left, self.value(columns))


@st.composite
def relations(draw: st.DrawFn) -> Relation:
    grower = Grower(draw)
    relation = grower.relation(draw(st.integers(1, 4)))
    if draw(st.booleans()):
        return relation
    kept = tuple(c for c in relation.columns if draw(st.booleans())) or relation.columns[:1]
    return Project(relation, tuple((c, c) for c in kept))


def rows(database: duckdb.DuckDBPyConnection, relation: Relation) -> Counter[tuple[object, ...]]:
    return Counter(database.execute(to_sql(relation)).fetchall())


@settings(max_examples=120, deadline=None)
@given(relations())
def test_rules_keep_rows(database: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    expected = rows(database, relation)
    before = relation
    for rule in RULES:
        after = rule(before)
        if after is not before:
            assert after.columns == relation.columns, rule.__name__
            assert rows(database, after) == expected, f"{rule.__name__}\n{outline(before)}\n{outline(after)}"
        assert rule(after) == after, f"{rule.__name__} is not idempotent\n{outline(after)}\n{outline(rule(after))}"
        before = after


@settings(max_examples=60, deadline=None)
@given(relations())
def test_all_rules_together_lose_no_column_and_no_reference(relation: Relation) -> None:
    result = apply_rules(relation)
    assert result.columns == relation.columns
    assert isinstance(result, Values) or result.inputs or isinstance(result, Scan)
    assert columns_of(result.columns[0]) <= frozenset(relation.columns)


def canonical_rows(database: duckdb.DuckDBPyConnection, relation: Relation, known: Provenance) -> Counter[object]:
    """The rows with columns in the order of their canonical names."""
    ordered = sorted(relation.columns, key=lambda column: known.columns[column])
    names = ", ".join(map(str, ordered))
    return Counter(database.execute(f"SELECT {names} FROM ({to_sql(relation)})").fetchall())


_ROWS_OF: dict[str, tuple[str, Counter[object]]] = {}


@settings(max_examples=70, deadline=None)
@given(relations())
def test_equal_signatures_have_equal_rows(database: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    """Over all relations drawn, their parts, and what the rules make of them."""
    provenances = Provenances()
    for part in (*walk(relation), *walk(apply_rules(relation))):
        if not part.columns or len(part.columns) != len(set(part.columns)):
            continue
        known = provenances.of(part)
        found = canonical_rows(database, part, known)
        other, expected = _ROWS_OF.setdefault(known.signature, (outline(part), found))
        assert found == expected, f"one signature for\n{outline(part)}\n{other}"
