"""The purpose of each rule, a case each. The random relations show that rows stay the same."""

from __future__ import annotations

import duckdb
import pytest

from qoop.catalog.errors import PlanError
from qoop.planner import rules
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    cast,
    conjunction,
    disjunction,
    equals,
    substitute,
)
from qoop.planner.algebra.fold_constants import fold_constants, simplify
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
)
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.rules import apply_rules
from qoop.planner.rules.drop_distinct import drop_distinct
from qoop.planner.rules.drop_sorts import drop_sorts
from qoop.planner.rules.infer_predicates import infer_predicates
from qoop.planner.rules.merge_projects import merge_projects
from qoop.planner.rules.merge_scalar_aggregates import merge_scalar_aggregates
from qoop.planner.rules.outer_to_inner import outer_to_inner
from qoop.planner.rules.prune_columns import prune_columns
from qoop.planner.rules.push_filters import push_filters

A, B, D, E = (Column(name, "INTEGER") for name in "abde")
TEXT = Column("s", "VARCHAR")
T = Scan("t", "1", (("a", A), ("b", B)))
U = Scan("u", "1", (("d", D), ("e", E)))
N = Column("n", "BIGINT")
COUNT = Aggregation(N, Call("count_star", (), "count(*)", "BIGINT"))


def number(value: int) -> Literal:
    return Literal(str(value), "INTEGER", value)


def text(value: str) -> Literal:
    return Literal(f"'{value}'", "VARCHAR", value)


def is_(column: Column, value: int) -> Expr:
    return equals(column, number(value))


def test_a_filter_stops_where_it_would_change_its_meaning() -> None:
    padded = Filter(Join(T, U, "left", (equals(A, D),)), (is_(B, 1), is_(E, 1)))
    assert outline(push_filters(padded)) == "filter[(e = 1)](left[(a = d)](filter[(b = 1)](t[a, b]), u[d, e]))"
    first = Filter(Limit(T, 5), (is_(A, 1),))
    assert push_filters(first) is first
    grouped = Filter(Aggregate(T, (A, B), (COUNT,), ((A, B), (A,))), (is_(A, 1), is_(B, 2)))
    assert outline(push_filters(grouped)).startswith("filter[(b = 2)](aggregate[a, b in 2 sets")
    call = Call("rank", (A, B), "rank() OVER (PARTITION BY {0} ORDER BY {1})", "BIGINT")
    ranked = Filter(Window(T, (WindowCall(N, call, (A,)),)), (is_(A, 1), is_(B, 2)))
    assert outline(push_filters(ranked)).startswith("filter[(b = 2)](window[")
    assert outline(push_filters(ranked)).endswith("(filter[(a = 1)](t[a, b])))")


def test_what_may_fail_or_varies_stays_behind_its_guard() -> None:
    words = Scan("w", "1", (("s", TEXT),))
    failing = is_(Column("x", "INTEGER"), 1).args  # type: ignore[union-attr]
    predicate = equals(cast(TEXT, "INTEGER"), failing[1])
    guarded = Filter(Join(words, U, "inner", (equals(TEXT, cast(D, "VARCHAR")),)), (predicate,))
    assert push_filters(guarded) == guarded
    dice = binary("<", Call("random", (), "random()", "DOUBLE"), number(1))
    drawn = Filter(Join(T, U, "inner", (equals(A, D),)), (dice,))
    assert push_filters(drawn) == drawn


def test_each_side_gets_its_part_of_an_or() -> None:
    either = disjunction((conjunction((is_(B, 1), is_(E, 2))), conjunction((is_(B, 3), is_(E, 4)))))
    joined = fold_constants(push_filters(Filter(Join(T, U, "inner", (equals(A, D),)), (either,))))
    assert "filter[(b IN (1, 3))](t[a, b]), filter[(e IN (2, 4))](u[d, e])" in outline(joined)
    assert str(either) in outline(joined)


def reader(shared: Shared, stem: str, *predicates: int) -> Relation:
    names = {c: Column(f"{stem}{c.name}", c.type) for c in shared.columns}
    renamed = Project(shared, tuple((new, old) for old, new in names.items()))
    return Filter(renamed, tuple(is_(names[A], value) for value in predicates)) if predicates else renamed


def test_a_shared_subplan_keeps_what_any_reader_wants() -> None:
    shared = Shared("cte", Project(T, ((A, A), (B, B))))
    both = Join(reader(shared, "x", 1), reader(shared, "y", 2), "inner", ())
    assert outline(push_filters(both)).count("filter[(a IN (1, 2))](t[a, b])") == 2
    open_ = Join(reader(shared, "x", 1), reader(shared, "y"), "inner", ())
    assert push_filters(open_) == open_


def test_last_digits_of_sums_decide_nothing_in_a_shared_subplan_where_readers_have_more_predicates() -> None:
    """So its output may serve other runs: the readers compare the digits, as before."""
    total = Column("total", "DOUBLE")
    summed = Aggregate(T, (A,), (Aggregation(total, Call("sum", (cast(B, "DOUBLE"),), "sum({0})", "DOUBLE")),))
    shared = Shared("cte", Project(summed, ((A, A), (total, total))))

    def read(name: str, *predicates: Expr) -> Relation:
        names = {column: Column(f"{column.name}_{name}", column.type) for column in (A, total)}
        renamed = Project(shared, tuple((new, old) for old, new in names.items()))
        return Filter(renamed, tuple(substitute(one, names) for one in predicates))

    large, first, second = binary(">", total, Literal("0", "DOUBLE", 0)), is_(A, 1), is_(A, 2)
    pushed = push_filters(Join(read("x", first, large), read("y", second, large), "inner", ()))
    assert "filter[(a IN (1, 2))](t[a, b])" in outline(pushed) and outline(pushed).count("> 0") == 2
    pushed = push_filters(Join(read("x", large), read("y", first, large), "inner", ()))
    assert outline(pushed).count("> 0") > 2, "else all groups would be put out"


def test_constants_from_a_branch_decide_a_filter_on_a_union() -> None:
    kind = Column("kind", "VARCHAR")
    left = Project(T, ((Column("k1", "VARCHAR"), text("x")), (Column("a1", "INTEGER"), A)))
    right = Project(U, ((Column("k2", "VARCHAR"), text("y")), (Column("d1", "INTEGER"), D)))
    union = SetOp("union", True, (left, right), (kind, Column("v", "INTEGER")))
    assert outline(apply_rules(Filter(union, (equals(kind, text("y")),)))) == "project[kind: 'y', v: d](u[d])"


def test_predicates_cross_an_outer_join_one_way_only() -> None:
    def over(left: Relation, right: Relation) -> str:
        return outline(infer_predicates(Join(left, right, "left", (equals(A, D),))))

    assert over(Filter(T, (is_(A, 1),)), U).endswith("filter[(d = 1)](u[d, e]))")
    assert over(T, Filter(U, (is_(D, 1),))) == "left[(a = d)](t[a, b], filter[(d = 1)](u[d, e]))"


def test_equality_of_floats_carries_nothing_over() -> None:
    x, y = Column("x", "DOUBLE"), Column("y", "DOUBLE")
    left = Filter(Scan("f", "1", (("x", x),)), (equals(x, Literal("0.0", "DOUBLE", 0.0)),))
    joined = Join(left, Scan("g", "1", (("y", y),)), "inner", (equals(x, y),))
    assert infer_predicates(joined) is joined


@pytest.mark.parametrize(
    ("predicate", "kind"),
    [
        (is_(E, 1), "inner"),
        (disjunction((is_(E, 1), binary("<", E, A))), "inner"),
        (disjunction((is_(E, 1), is_(A, 1))), "left"),
        (Call("is_null", (E,), "({0} IS NULL)", "BOOLEAN"), "left"),
        (binary(">", Call("coalesce", (E,), "COALESCE({0}, 0)", "INTEGER"), number(0)), "inner"),
        (binary(">=", Call("coalesce", (E,), "COALESCE({0}, 0)", "INTEGER"), number(0)), "left"),
    ],
)
def test_a_filter_that_no_null_passes_makes_a_left_join_inner(predicate: Expr, kind: str) -> None:
    result = outer_to_inner(Filter(Join(T, U, "left", (equals(A, D),)), (predicate,)))
    assert isinstance(result, Filter) and isinstance(result.input, Join) and result.input.kind == kind


def test_a_full_join_loses_the_side_that_is_filtered() -> None:
    full = Join(T, U, "full", (equals(A, D),))
    assert "left[(a = d)](t[a, b], u[d, e])" in outline(outer_to_inner(Filter(full, (is_(B, 1),))))
    turned = outer_to_inner(Filter(full, (is_(E, 1),)))
    assert "left[(a = d)](u[d, e], t[a, b])" in outline(turned) and turned.columns == full.columns
    assert "inner[" in outline(outer_to_inner(Filter(full, (is_(B, 1), is_(E, 1)))))


def test_counting_rows_reads_no_column() -> None:
    assert outline(prune_columns(Aggregate(T, (), (COUNT,)))) == "aggregate[; n: count(*)](t[])"


def test_only_union_all_may_lose_columns() -> None:
    x, y = Column("x", "INTEGER"), Column("y", "INTEGER")
    for all_, width in ((True, 1), (False, 2)):
        union = SetOp("union", all_, (T, U), (x, y))
        pruned = prune_columns(Project(union, ((x, x),)))
        assert isinstance(pruned, Project) and len(pruned.input.columns) == width


def test_an_order_is_kept_where_it_is_seen() -> None:
    ordered = Sort(T, (SortKey(A),))
    gathered = Call("list", (B,), "list({0})", "INTEGER[]")
    listed = Aggregate(ordered, (A,), (Aggregation(Column("l", "INTEGER[]"), gathered),))
    for kept in (ordered, Limit(ordered, 1), Project(ordered, ((B, B),)), listed):
        assert drop_sorts(kept) is kept
    assert drop_sorts(Join(ordered, U, "inner", ())) == Join(T, U, "inner", ())


def test_distinct_is_dropped_only_where_rows_are_distinct() -> None:
    grouped = Aggregate(T, (A,), (COUNT,))
    assert drop_distinct(Aggregate(grouped, (A, N), ())) is grouped
    needed = Aggregate(grouped, (N,), ())
    assert drop_distinct(needed) is needed
    assert drop_distinct(Join(U, Aggregate(T, (A,), ()), "semi", (equals(A, D),))) == Join(
        U, Project(T, ((A, A),)), "semi", (equals(A, D),)
    )


def test_a_volatile_or_repeated_expression_is_computed_once() -> None:
    r, p, q = (Column(name, "DOUBLE") for name in "rpq")
    for expr in (Call("random", (), "random()", "DOUBLE"), binary("/", A, B, "DOUBLE")):
        twice = Project(Project(T, ((r, expr),)), ((p, r), (q, r)))
        assert merge_projects(twice) is twice


def test_numbers_compare_by_value_and_texts_only_where_no_collation_can_tell() -> None:
    assert str(simplify(binary("<", number(9), number(10)))) == "true"
    assert str(simplify(equals(text("x"), text("y")))) == "false"
    undecided = equals(text("x"), text("X"))
    assert simplify(undecided) is undecided


def test_one_pass_for_scalar_aggregates_over_one_table() -> None:
    def counted(place: int, *predicates: int) -> Relation:
        a, b = Column(f"a{place}", "INTEGER"), Column(f"b{place}", "INTEGER")
        call = Call("max", (b,), "max({0})", "INTEGER")
        where = Filter(Scan("t", "1", (("a", a), ("b", b))), (is_(b, 1), *(is_(a, value) for value in predicates)))
        return Aggregate(where, (), (Aggregation(Column(f"m{place}", "INTEGER"), call),))

    cross: Relation = Join(
        Join(counted(0, 1), U, "inner", ()), Join(counted(1, 2), counted(2), "inner", ()), "inner", ()
    )
    merged = merge_scalar_aggregates(cross)
    assert merged.columns == cross.columns
    assert outline(merged).count("aggregate[") == 1
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 1), (2, NULL), (3, 1), (2, 5)) v(a, b)")
        connection.execute("CREATE TABLE u AS SELECT 7 AS d, 8 AS e")
        one, other = (connection.execute(to_sql(r)).fetchall() for r in (cross, merged))
        assert one == other == [(1, 7, 8, None, 1)]


def test_nothing_to_do_gives_the_same_object_back() -> None:
    done = Aggregate(Filter(T, (is_(B, 1),)), (A,), (COUNT,))
    assert apply_rules(done) is done
    assert apply_rules(Values((), ((),))) == Values((), ((),))


def test_a_rule_that_changes_the_columns_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", (lambda relation: Project(relation, ((A, A),)),))
    with pytest.raises(PlanError, match="changed the columns"):
        apply_rules(T)
