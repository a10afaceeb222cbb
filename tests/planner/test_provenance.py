"""Signatures: equal however a join is written down, different as soon as it means something else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations

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
    substitute,
)
from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Exchange,
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
    Window,
    WindowCall,
)
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.determinism import NonDeterminism
from qoop.planner.identity.provenance import Provenances, is_non_deterministic, provenance

TABLES = {"t": ("a", "b"), "u": ("d", "e"), "v": ("f", "g")}
INTEGER = "INTEGER"


def column(name: str) -> Column:
    return Column(name, INTEGER)


def literal(value: int) -> Literal:
    return Literal(str(value), INTEGER, value)


def scan(table: str, suffix: str = "", version: str = "1") -> Scan:
    return Scan(table, version, tuple((own, column(own + suffix)) for own in TABLES[table]))


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for table, names in TABLES.items():
            connection.execute(f"CREATE TABLE {table}({names[0]} INT, {names[1]} INT)")
        connection.execute("INSERT INTO t VALUES (0,1),(1,1),(1,2),(NULL,0),(2,NULL)")
        connection.execute("INSERT INTO u VALUES (1,0),(1,2),(NULL,1),(2,2)")
        connection.execute("INSERT INTO v VALUES (0,0),(1,2),(2,1),(2,NULL)")
        yield connection


@dataclass(frozen=True)
class Query:
    """A join of `tables` (by place), `predicates` over columns ``<own>_<place>``, and the columns put out."""

    tables: tuple[str, ...]
    predicates: tuple[Expr, ...]
    outputs: tuple[Column, ...]


@st.composite
def queries(draw: st.DrawFn) -> Query:
    tables = tuple(draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=4)))
    columns = [column(f"{own}_{place}") for place, table in enumerate(tables) for own in TABLES[table]]
    predicates: list[Expr] = []
    for _ in range(draw(st.integers(0, 4))):
        left = draw(st.sampled_from(columns))
        right = draw(st.one_of(st.sampled_from(columns), st.integers(0, 2).map(literal)))
        op = draw(st.sampled_from(["=", "=", "=", "<", "<>"]))
        predicates.append(binary(op, left, right))
    outputs = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique=True))
    return Query(tables, tuple(predicates), tuple(outputs))


def written(query: Query, seed: int) -> tuple[Relation, dict[Column, Column]]:
    """One of the many ways to write the query: bracketing, sides, place of predicates, names and projections."""
    dice = random.Random(seed)
    stem = f"x{dice.randrange(1000)}_"
    renamed = {column(f"{own}_{i}"): column(f"{stem}{own}{i}") for i, t in enumerate(query.tables) for own in TABLES[t]}
    waiting = [turned(substitute(p, renamed), dice) for p in query.predicates]
    dice.shuffle(waiting)
    pieces: list[Relation] = [
        Scan(t, "1", tuple((own, renamed[column(f"{own}_{i}")]) for own in TABLES[t]))
        for i, t in enumerate(query.tables)
    ]
    dice.shuffle(pieces)
    while len(pieces) > 1:
        right, left = pieces.pop(dice.randrange(len(pieces))), pieces.pop(dice.randrange(len(pieces)))
        both = frozenset(left.columns + right.columns)
        fitting = [p for p in waiting if columns_of(p) <= both and dice.random() < 0.7]
        waiting = [p for p in waiting if p not in fitting]
        pieces.append(disguised(Join(left, right, "inner", tuple(fitting)), dice))
    whole = Filter(pieces[0], (conjunction(waiting),)) if waiting else pieces[0]
    outputs = {renamed[c]: column(f"{stem}out_{c.name}") for c in query.outputs}
    items = [(new, old) for old, new in outputs.items()]
    dice.shuffle(items)
    return disguised(Project(whole, tuple(items)), dice), {c: outputs[renamed[c]] for c in query.outputs}


def turned(predicate: Expr, dice: random.Random) -> Expr:
    assert isinstance(predicate, Call)
    mirrored = {"=": "=", "<>": "<>", "<": ">"}[predicate.op]
    return binary(mirrored, *predicate.args[::-1]) if dice.random() < 0.5 else predicate


def disguised(relation: Relation, dice: random.Random) -> Relation:
    """The same rows behind an operator that only says how they are made."""
    columns = list(relation.columns)
    dice.shuffle(columns)
    shape = dice.randrange(5)
    if shape == 0:
        return Project(relation, tuple((c, c) for c in columns))
    if shape == 1:
        return Exchange(relation, "gather")
    return Shared("cte", relation) if shape == 2 else relation


def rows(database: duckdb.DuckDBPyConnection, relation: Relation, order: Callable[[Column], str]) -> Counter[object]:
    names = ", ".join(str(c) for c in sorted(relation.columns, key=order))
    return Counter(database.execute(f"SELECT {names} FROM ({to_sql(without_exchanges(relation))})").fetchall())


def without_exchanges(relation: Relation) -> Relation:
    """Exchanges and shared subplans taken out (a drawn query may hold several of one name)."""
    if isinstance(relation, Exchange | Shared):
        return without_exchanges(relation.input)
    if isinstance(relation, Join):
        return replace(relation, left=without_exchanges(relation.left), right=without_exchanges(relation.right))
    return (
        replace(relation, input=without_exchanges(relation.input))
        if isinstance(relation, Project | Filter)
        else relation
    )


@settings(max_examples=50, deadline=None)
@given(queries(), st.integers(), st.integers())
def test_the_way_a_join_is_written_leaves_no_trace(
    database: duckdb.DuckDBPyConnection, query: Query, one: int, other: int
) -> None:
    first, second = written(query, one)[0], written(query, other)[0]
    a, b = provenance(first), provenance(second)
    assert a.signature == b.signature, f"{outline(first)}\n{outline(second)}"
    assert sorted(a.columns.values()) == sorted(b.columns.values())
    assert rows(database, first, lambda c: a.columns[c]) == rows(database, second, lambda c: b.columns[c])


_ROWS_OF: dict[str, tuple[str, Counter[object]]] = {}


@settings(max_examples=100, deadline=None)
@given(queries(), st.integers())
def test_one_signature_has_one_set_of_rows(database: duckdb.DuckDBPyConnection, query: Query, seed: int) -> None:
    relation, _ = written(query, seed)
    known = provenance(relation)
    found = rows(database, relation, lambda c: known.columns[c])
    text, expected = _ROWS_OF.setdefault(known.signature, (outline(relation), found))
    assert found == expected, f"{outline(relation)}\n{text}"


# --- what must change the signature

A, B, D, E = column("a"), column("b"), column("d"), column("e")
T, U = scan("t"), scan("u")
JOINED = Join(T, U, "inner", (binary("=", A, D),))
BASE = Filter(JOINED, (binary("<", B, literal(1)),))


def count_by(relation: Relation, *keys: Column, sets: tuple[tuple[Column, ...], ...] | None = None) -> Aggregate:
    call = Call("count_star", (), "count(*)", "BIGINT")
    return Aggregate(relation, keys, (Aggregation(Column("n", "BIGINT"), call),), sets)


def total(template: str, filter_: Expr | None = None) -> Relation:
    return Aggregate(T, (A,), (Aggregation(column("s"), Call("sum", (B,), template, INTEGER), filter=filter_),))


def ranked(by: Column) -> Relation:
    call = Call("rank", (by,), "rank() OVER (ORDER BY {0} ASC)", "BIGINT")
    return Window(T, (WindowCall(Column("r", "BIGINT"), call, ()),))


def marked(*on: Expr) -> Relation:
    return Join(T, U, "mark", on, Column("m", "BOOLEAN"))


def limited(limit: int | None, offset: int = 0, key: Column = A) -> Relation:
    return Limit(Sort(T, (SortKey(key), SortKey(B))), limit, offset)


def union(kind: str, all_: bool, left: Relation = T, right: Relation = U) -> Relation:
    return SetOp(kind, all_, (left, right), (column("x"), column("y")))  # type: ignore[arg-type]


ONES = Project(U, ((D, D), (column("one"), literal(1))))
SWAPPED = Project(U, ((column("p"), E), (column("q"), D)))

DIFFERENT: dict[str, tuple[Relation, Relation]] = {
    "constant": (BASE, Filter(JOINED, (binary("<", B, literal(2)),))),
    "column": (BASE, Filter(JOINED, (binary("<", A, literal(1)),))),
    "comparison": (BASE, Filter(JOINED, (binary("<=", B, literal(1)),))),
    "sides of a comparison": (BASE, Filter(JOINED, (binary("<", literal(1), B),))),
    "filter dropped": (BASE, JOINED),
    "key": (JOINED, Join(T, U, "inner", (binary("=", A, E),))),
    "key dropped": (JOINED, Join(T, U, "inner", ())),
    "version": (JOINED, Join(T, scan("u", version="2"), "inner", JOINED.on)),
    "table": (T, Scan("t2", "1", T.fields)),
    "left": (JOINED, Join(T, U, "left", JOINED.on)),
    "sides of a left join": (Join(T, U, "left", JOINED.on), Join(U, T, "left", JOINED.on)),
    "column of the left side of a left join": (
        Join(T, U, "left", JOINED.on),
        Join(T, U, "left", (binary("=", B, D),)),
    ),
    "full": (Join(T, U, "left", JOINED.on), Join(T, U, "full", JOINED.on)),
    "filter on the padded side": (
        Filter(Join(T, U, "left", JOINED.on), (is_null(E),)),
        Join(T, Filter(U, (is_null(E),)), "left", JOINED.on),
    ),
    "filter above or in ON": (
        Filter(Join(T, U, "left", JOINED.on), (is_null(B),)),
        Join(T, U, "left", (*JOINED.on, is_null(B))),
    ),
    "constant of the padded side": (
        Project(Join(T, ONES, "left", JOINED.on), ((column("o"), column("one")),)),
        Project(Join(T, U, "left", JOINED.on), ((column("o"), literal(1)),)),
    ),
    "semi, anti": (Join(T, U, "semi", JOINED.on), Join(T, U, "anti", JOINED.on)),
    "semi, all": (Join(T, U, "semi", JOINED.on), T),
    "semi, inner": (
        Join(T, U, "semi", JOINED.on),
        Project(JOINED, ((A, A), (B, B))),
    ),
    "semi keys": (Join(T, U, "semi", JOINED.on), Join(T, U, "semi", (binary("=", B, D),))),
    "mark, semi": (Filter(marked(*JOINED.on), (Column("m", "BOOLEAN"),)), Join(T, U, "semi", JOINED.on)),
    "mark condition": (marked(*JOINED.on), marked(*JOINED.on, binary("<", E, literal(1)))),
    "mark membership": (
        marked(binary("=", A, D), binary("=", B, E)),
        marked(binary("=", B, E), binary("=", A, D)),
    ),
    "set of columns": (T, Project(T, ((A, A),))),
    "column twice": (T, Project(T, ((A, A), (B, B), (column("again"), A)))),
    "rows twice": (T, union("union", True, T, scan("t", "2"))),
    "group": (count_by(T, A), count_by(T, B)),
    "group by a column that is not put out": (
        Project(count_by(T, A), ((column("o"), Column("n", "BIGINT")),)),
        Project(count_by(T, B), ((column("o"), Column("n", "BIGINT")),)),
    ),
    "group by more": (count_by(T, A), count_by(T, A, B)),
    "grouping sets": (count_by(T, A, B), count_by(T, A, B, sets=((A, B), (A,)))),
    "other grouping sets": (count_by(T, A, B, sets=((A,), (A, B))), count_by(T, A, B, sets=((B,), (A, B)))),
    "distinct": (T, Aggregate(T, (A, B), ())),
    "having": (
        Filter(count_by(T, A), (binary("<", A, literal(1)),)),
        Filter(count_by(T, A), (binary("<", Column("n", "BIGINT"), literal(1)),)),
    ),
    "aggregate": (total("sum({0})"), total("avg({0})")),
    "distinct aggregate": (total("sum({0})"), total("sum(DISTINCT {0})")),
    "aggregate's filter": (total("sum({0})"), total("sum({0})", binary("<", B, literal(1)))),
    "aggregate of filtered rows": (
        Aggregate(Filter(T, (binary("<", B, literal(1)),)), (A,), ()),
        Filter(Aggregate(T, (A, B), ()), (binary("<", B, literal(1)),)),
    ),
    "window order": (ranked(A), ranked(B)),
    "window, then filter": (
        Filter(ranked(A), (binary("<", B, literal(1)),)),
        Window(Filter(T, (binary("<", B, literal(1)),)), ranked(A).calls),  # type: ignore[union-attr]
    ),
    "outer join, filter that lets NULL pass": (
        Filter(Join(T, U, "left", JOINED.on), (is_null(E),)),
        Filter(JOINED, (is_null(E),)),
    ),
    "full join, filter on either side": (
        Filter(Join(T, U, "full", JOINED.on), (binary("<", B, literal(1)),)),
        Filter(Join(T, U, "full", JOINED.on), (binary("<", E, literal(1)),)),
    ),
    "filter on a count, not a key": (
        Filter(count_by(T, A), (binary("<", Column("n", "BIGINT"), literal(1)),)),
        count_by(Filter(T, (binary("<", A, literal(1)),)), A),
    ),
    "key of some grouping sets": (
        Filter(count_by(T, A, B, sets=((A, B), (B,))), (binary("<", A, literal(1)),)),
        count_by(Filter(T, (binary("<", A, literal(1)),)), A, B, sets=((A, B), (B,))),
    ),
    "semi join below a sum": (
        count_by(Join(T, U, "semi", JOINED.on), A),
        count_by(JOINED, A),
    ),
    "filter on one branch": (
        Filter(union("union", True), (binary("<", column("x"), literal(1)),)),
        union("union", True, Filter(T, (binary("<", A, literal(1)),))),
    ),
    "filter of an anti join's right side": (
        Join(T, Filter(U, (binary("<", D, literal(1)),)), "anti", JOINED.on),
        Join(T, U, "anti", JOINED.on),
    ),
    "FILTER of one of two values": (
        total("sum({0})"),
        Filter(total("sum({0})"), (binary("<", A, literal(1)),)),
    ),
    "limit": (limited(1), limited(2)),
    "offset": (limited(1), limited(1, 1)),
    "order under a limit": (limited(1), limited(1, key=B)),
    "limit, then filter": (
        Filter(limited(1), (binary("<", B, literal(1)),)),
        Limit(Sort(Filter(T, (binary("<", B, literal(1)),)), (SortKey(A), SortKey(B))), 1),
    ),
    "union, union all": (union("union", False), union("union", True)),
    "union, intersect": (union("union", False), union("intersect", False)),
    "sides of except": (union("except", False), union("except", False, U, T)),
    "columns of a branch": (union("union", True), union("union", True, T, SWAPPED)),
    "which self-join side": (
        Project(Join(T, scan("t", "2"), "inner", (binary("<", A, column("b2")),)), ((column("o"), A),)),
        Project(Join(T, scan("t", "2"), "inner", (binary("<", A, column("b2")),)), ((column("o"), column("a2")),)),
    ),
    "cycle of three, or a path": (
        Join(Join(T, scan("t", "2"), "inner", (binary("<", A, column("b2")),)), scan("t", "3"), "inner",
             (binary("<", column("a2"), column("b3")), binary("<", column("a3"), B))),
        Join(Join(T, scan("t", "2"), "inner", (binary("<", A, column("b2")),)), scan("t", "3"), "inner",
             (binary("<", column("a2"), column("b3")), binary("<", column("a3"), column("b2")))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENT)
def test_another_meaning_has_another_signature(what: str) -> None:
    left, right = DIFFERENT[what]
    assert provenance(left).signature != provenance(right).signature


def test_settings_are_part_of_the_meaning() -> None:
    utc, here = (("TimeZone", "UTC"),), (("TimeZone", "CET"),)
    assert len({provenance(T).signature, provenance(T, utc).signature, provenance(T, here).signature}) == 3


# --- what must not change it

BETWEEN = Call("between", (B, literal(0), literal(2)), "({0} BETWEEN {1} AND {2})", "BOOLEAN")
C2 = column("a2")
EITHER = disjunction(
    (
        conjunction((equals(A, literal(1)), binary("<", B, literal(1)))),
        conjunction((equals(A, literal(2)), is_null(B))),
    )
)
NEXT = binary("+", D, literal(1), INTEGER)
SAME: dict[str, tuple[Relation, Relation]] = {
    "filter through a left join": (
        Filter(Join(T, U, "left", JOINED.on), (is_null(B),)),
        Join(Filter(T, (is_null(B),)), U, "left", JOINED.on),
    ),
    "condition on the padded side": (
        Join(T, U, "left", (*JOINED.on, is_null(E))),
        Join(T, Filter(U, (is_null(E),)), "left", JOINED.on),
    ),
    "semi and inner commute": (
        Join(Join(T, scan("v"), "inner", (binary("=", A, column("f")),)), U, "semi", JOINED.on),
        Join(Join(T, U, "semi", JOINED.on), scan("v"), "inner", (binary("=", A, column("f")),)),
    ),
    "left and inner commute": (
        Join(Join(T, scan("v"), "inner", (binary("=", A, column("f")),)), U, "left", JOINED.on),
        Join(Join(T, U, "left", JOINED.on), scan("v"), "inner", (binary("=", A, column("f")),)),
    ),
    "transitive equalities": (
        Join(JOINED, scan("t", "2"), "inner", (binary("=", A, C2),)),
        Join(JOINED, scan("t", "2"), "inner", (binary("=", D, C2),)),
    ),
    "between": (
        Filter(T, (BETWEEN,)),
        Filter(T, (binary("<=", B, literal(2)), binary("<=", literal(0), B))),
    ),
    "order of IN": (
        Filter(T, (Call("in", (A, literal(1), literal(2)), "({0} IN ({1}, {2}))", "BOOLEAN"),)),
        Filter(T, (Call("in", (A, literal(2), literal(1)), "({0} IN ({1}, {2}))", "BOOLEAN"),)),
    ),
    "a constant, however it is written": (
        Filter(T, (binary("<", B, Literal("(1 + 1)", INTEGER, 2)),)),
        Filter(T, (binary("<", B, literal(2)),)),
    ),
    "a wider range next to a narrower one": (
        Filter(T, (binary("<", B, literal(2)), binary("<", B, literal(5)))),
        Filter(T, (binary("<", B, literal(2)),)),
    ),
    "what an OR implies": (
        Filter(T, (EITHER, Call("in", (A, literal(1), literal(2)), "({0} IN ({1}, {2}))", "BOOLEAN"))),
        Filter(T, (EITHER,)),
    ),
    "an outer join whose padded rows are dropped": (
        Filter(Join(T, U, "left", JOINED.on), (binary("<", E, literal(1)),)),
        Filter(JOINED, (binary("<", E, literal(1)),)),
    ),
    "a full join of which one side's padded rows are dropped": (
        Filter(Join(T, U, "full", JOINED.on), (binary("<", B, literal(1)),)),
        Filter(Join(T, U, "left", JOINED.on), (binary("<", B, literal(1)),)),
    ),
    "a filter on a key, above or below the groups": (
        Filter(count_by(T, A, B), (binary("<", A, literal(1)),)),
        count_by(Filter(T, (binary("<", A, literal(1)),)), A, B),
    ),
    "a filter above or in a union": (
        Filter(union("union", True), (binary("<", column("x"), literal(1)),)),
        union("union", True, Filter(T, (binary("<", A, literal(1)),)), Filter(U, (binary("<", D, literal(1)),))),
    ),
    "a semi join below DISTINCT": (
        Aggregate(Join(T, U, "semi", JOINED.on), (A,), ()),
        Aggregate(JOINED, (A,), ()),
    ),
    "a filter that a semi join implies": (
        Join(T, Filter(U, (binary("<", D, literal(1)),)), "semi", JOINED.on),
        Join(Filter(T, (binary("<", A, literal(1)),)), Filter(U, (binary("<", D, literal(1)),)), "semi", JOINED.on),
    ),
    "equal computed values": (
        Join(Join(T, U, "inner", (equals(A, NEXT),)), scan("v"), "inner", (equals(column("f"), A),)),
        Join(Join(T, U, "inner", (equals(A, NEXT),)), scan("v"), "inner", (equals(column("f"), NEXT),)),
    ),
    "order of branches": (union("union", True), union("union", True, U, T)),
    "order of keys": (count_by(T, A, B), count_by(T, B, A)),
    "more aggregates below": (count_by(T, A), Project(total("sum({0})"), ((A, A),))),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_another_way_has_the_same_signature(what: str) -> None:
    left, right = SAME[what]
    if what == "more aggregates below":
        left = Project(left, ((A, A),))
    keep = tuple((c, c) for c in left.columns)
    assert provenance(left).signature == provenance(Project(right, keep)).signature


def test_columns_of_one_value_have_names_of_their_own() -> None:
    doubled = Project(T, ((column("x"), A), (column("y"), A)))
    names = provenance(doubled).columns
    assert len(set(names.values())) == 2


def test_a_symmetric_self_join_has_one_signature_from_either_side() -> None:
    other = scan("t", "2")
    on = (binary("<>", A, C2),)
    one, two = Join(T, other, "inner", on), Join(other, T, "inner", on)
    assert provenance(one).signature == provenance(two).signature


def test_interchangeable_pairs_stay_pairs() -> None:
    """Of two equal pairs either may come first, but both halves of it: one choice decides the rest."""
    pairs = {n: (scan("t", n), scan("u", n), binary("=", column(f"a{n}"), column(f"d{n}"))) for n in ("1", "2", "3")}
    signatures = set()
    for order in permutations(pairs):
        for turned_round in permutations(pairs):
            ts: Relation = pairs[order[0]][0]
            for n in order[1:]:
                ts = Join(ts, pairs[n][0], "inner", ())
            for n in turned_round:
                ts = Join(ts, pairs[n][1], "inner", (pairs[n][2],))
            signatures.add(provenance(ts).signature)
    assert len(signatures) == 1


def reduced(keys: Relation, *on: Call) -> Relation:
    """T joined with the keys' rows, after a semi join by them."""
    other = Shared("keys", keys)
    fresh = Project(other, ((column("k"), D), (column("l"), E)))
    whole = Project(other, tuple((c, c) for c in keys.columns))
    return Join(Join(T, fresh, "semi", on), whole, "inner", (equals(A, D),))


def test_a_semi_join_by_the_keys_of_a_partner_leaves_no_trace() -> None:
    few = Filter(U, (binary("<", E, literal(2)),))
    plain = provenance(Join(T, few, "inner", (equals(A, D),))).signature
    assert provenance(reduced(few, equals(A, column("k")))).signature == plain
    fewer = Filter(scan("u", "2"), (binary("<", column("e2"), literal(1)),))
    others = [
        reduced(few, equals(B, column("k"))),
        reduced(few, equals(A, column("l"))),
        reduced(few, binary("<", A, column("k"))),
        reduced(U, equals(A, column("k"))),
        Join(Join(T, fewer, "semi", (equals(A, column("d2")),)), few, "inner", (equals(A, D),)),
        Join(Join(T, few, "semi", (equals(A, D),)), U, "inner", (equals(B, E),)),
    ]
    assert plain not in {provenance(other).signature for other in others}


def test_stages_of_one_query_share_what_is_known() -> None:
    known = Provenances()
    assert known.of(Exchange(JOINED, "gather")).signature == known.of(JOINED).signature
    assert known.of(JOINED) is known.of(JOINED)


# --- islands

RANDOM = Call("random", (), "random()", "DOUBLE")


def numbered(template: str, *args: Column) -> Relation:
    return Window(T, (WindowCall(Column("r", "BIGINT"), Call("row_number", args, template, "BIGINT"), ()),))


def gathered(op: str, template: str, ordered: bool, *args: Column) -> Relation:
    return Aggregate(T, (A,), (Aggregation(column("x"), Call(op, args, template, INTEGER), ordered=ordered),))


NON_DETERMINISTIC: dict[str, tuple[Relation, bool]] = {
    "scan": (T, False),
    "random": (Project(T, ((Column("r", "DOUBLE"), RANDOM),)), True),
    "random below": (count_by(Filter(T, (binary("<", RANDOM, literal(1)),)), A), True),
    "limit": (Limit(T, 1), True),
    "limit by some columns": (Limit(Sort(T, (SortKey(A),)), 1), True),
    "limit by all columns": (limited(1), False),
    "limit by the columns it keeps": (Limit(Project(Sort(T, (SortKey(A),)), ((column("x"), A),)), 1), False),
    "limit by a unique key": (Limit(Sort(count_by(T, A), (SortKey(A),)), 1), False),
    "limit of one row": (Limit(count_by(T), 1), False),
    "no limit": (Limit(T, None), False),
    "rank": (ranked(A), False),
    "row_number": (numbered("row_number() OVER (ORDER BY {0})", A), True),
    "row_number in total order": (numbered("row_number() OVER (PARTITION BY {0} ORDER BY {1})", A, B), False),
    "first": (gathered("first", "first({0})", False, B), True),
    "string_agg": (gathered("string_agg", "string_agg({0}, ',')", False, B), True),
    "string_agg in order": (gathered("string_agg", "string_agg({0}, ',' ORDER BY {0})", True, B), False),
    "string_agg in another order": (gathered("string_agg", "string_agg({0}, ',' ORDER BY {1})", True, B, A), True),
    "sum": (total("sum({0})"), False),
}


@pytest.mark.parametrize("what", NON_DETERMINISTIC)
def test_non_deterministic_stages(what: str) -> None:
    relation, expected = NON_DETERMINISTIC[what]
    assert is_non_deterministic(relation) is expected


def test_non_deterministic_stages_are_remembered_as_they_are() -> None:
    known = NonDeterminism()
    for _ in range(2):
        for relation, expected in NON_DETERMINISTIC.values():
            assert known.of(relation) is expected
            assert known.of(Project(relation, ())) is expected
