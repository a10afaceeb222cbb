"""Observed rows win over estimates, for the same rows however they are joined, and change nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_world import World

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Column, Literal, equals
from qoop.planner.algebra.relation import Aggregate, Filter, Join, Relation, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.observed import NOTHING, Observation, Observations, observe
from qoop.planner.estimate.observed_rows import ObservedRows
from qoop.planner.identity.keyed import Keys
from qoop.planner.identity.provenance import Provenances
from qoop.planner.join_order import reorder
from qoop.planner.plan import Estimate, Plan, Resources
from qoop.planner.planner import Planning, logical
from qoop.planner.sql.bind import Bound
from qoop.planner.variants import Variant

AVAILABLE = Resources(2, 4 << 30)


def stats(rows: float, **distinct: float) -> TableStats:
    columns = {name: ColumnStats(0, count, 1, count) for name, count in distinct.items()}
    return TableStats(rows, rows * 16, columns, frozenset({frozenset({name}) for name in distinct if name == "id"}))


# A fact table and two dimensions whose filters keep equally much, as far as the planner can know.
STATS = {
    "fact": stats(10_000_000, x=1000, y=1000),
    "dim_x": stats(1000, id=1000, p=10),
    "dim_y": stats(1000, id=1000, p=10),
}
X, Y = Column("x", "BIGINT"), Column("y", "BIGINT")
FACT = Scan("fact", "v1", (("x", X), ("y", Y)))


def dimension(name: str) -> tuple[Relation, Column]:
    key, p = Column(f"{name}_id", "BIGINT"), Column(f"{name}_p", "BIGINT")
    scan = Scan(name, "v1", (("id", key), ("p", p)))
    return Filter(scan, (equals(p, Literal("1", "BIGINT")),)), key


DIM_X, X_ID = dimension("dim_x")
DIM_Y, Y_ID = dimension("dim_y")
WITH_X = Join(FACT, DIM_X, "inner", (equals(X, X_ID),))
WITH_Y = Join(FACT, DIM_Y, "inner", (equals(Y, Y_ID),))
STAR = Join(WITH_X, DIM_Y, "inner", (equals(Y, Y_ID),))


def seen(relation: Relation, rows: float, version: str = "v1") -> Observations:
    tables = frozenset((node.table, version) for node in walk(relation) if isinstance(node, Scan))
    return Observations({Provenances().rows(relation): Observation(rows)}, frozenset({tables}))


def knowing(observations: Observations) -> Cardinality:
    return Cardinality(STATS, ObservedRows(observations, Provenances()))


def test_rows_that_were_seen_win() -> None:
    assert knowing(seen(WITH_X, 77)).rows(WITH_X) == 77
    assert knowing(seen(WITH_X, 77)).rows(WITH_Y) == Cardinality(STATS).rows(WITH_Y)
    assert knowing(seen(DIM_X, 3)).rows(DIM_X) == 3


def test_the_same_rows_in_another_form_are_found() -> None:
    other = Filter(Join(DIM_X, FACT, "inner", ()), (equals(X_ID, X),))
    assert knowing(seen(WITH_X, 77)).rows(other) == 77


def test_what_is_built_on_it_follows() -> None:
    before, after = Cardinality(STATS), knowing(seen(WITH_X, 1000))
    assert after.rows(STAR) == pytest.approx(before.rows(STAR) * 1000 / before.rows(WITH_X))
    grouped = Aggregate(WITH_X, (Y,), ())
    assert knowing(seen(WITH_X, 5)).rows(grouped) <= 5


def test_another_version_of_a_table_is_another_table() -> None:
    scan = Scan("fact", "v2", FACT.fields)
    relation = Join(scan, DIM_X, "inner", (equals(X, X_ID),))
    assert knowing(seen(WITH_X, 77)).rows(relation) == Cardinality(STATS).rows(relation)


def test_only_what_is_over_the_observed_tables_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Relation] = []
    provenances = Provenances()
    digest = provenances.rows
    monkeypatch.setattr(provenances, "rows", lambda relation: asked.append(relation) or digest(relation))
    cardinality = Cardinality(STATS, ObservedRows(seen(WITH_X, 77), provenances))
    cardinality.rows(STAR)
    assert asked == [WITH_X]


def first_joined(relation: Relation) -> set[str]:
    """The tables under the deepest join."""
    deepest = [node for node in walk(relation) if isinstance(node, Join)][-1]
    return {node.table for node in walk(deepest) if isinstance(node, Scan)}


@pytest.mark.parametrize("few", ["dim_x", "dim_y"])
def test_joins_are_ordered_by_what_was_seen(few: str) -> None:
    """A join that was seen to leave few rows comes first."""
    observations = seen(WITH_X if few == "dim_x" else WITH_Y, 10)
    cardinality = knowing(observations)
    ordered = reorder(STAR, cardinality)
    assert first_joined(ordered) == {"fact", few}
    assert cardinality.rows(ordered) < 100


def test_an_order_seen_to_be_bad_is_left() -> None:
    """The planner's choice turns out to multiply rows: it then does the other join first."""
    usual = first_joined(reorder(STAR, Cardinality(STATS)))
    seen_badly = seen(WITH_X if "dim_x" in usual else WITH_Y, 9_000_000)
    assert first_joined(reorder(STAR, knowing(seen_badly))) != usual


def test_semi_joins_of_a_group_count_too() -> None:
    semi = Join(FACT, DIM_X, "semi", (equals(X, X_ID),))
    both = Join(semi, DIM_Y, "inner", (equals(Y, Y_ID),))
    assert first_joined(reorder(both, knowing(seen(semi, 10)))) == {"fact", "dim_x"}
    inner_first = Join(WITH_Y, DIM_X, "semi", (equals(X, X_ID),))
    assert first_joined(reorder(inner_first, knowing(seen(WITH_Y, 10)))) == {"fact", "dim_y"}


KEYS: Keys = {"dim_x": [{"id"}], "dim_y": [{"id"}]}
SEMI_X = Join(FACT, DIM_X, "semi", (equals(X, X_ID),))
CHAIN = Join(DIM_X, DIM_Y, "inner", (equals(DIM_X.columns[1], Y_ID),))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (WITH_X, SEMI_X),
        (STAR, Join(SEMI_X, DIM_Y, "inner", (equals(Y, Y_ID),))),
        (STAR, Join(SEMI_X, DIM_Y, "semi", (equals(Y, Y_ID),))),
        (Join(FACT, CHAIN, "inner", (equals(X, X_ID),)), Join(FACT, CHAIN, "semi", (equals(X, X_ID),))),
    ],
)
def test_a_semi_join_by_a_key_has_as_many_rows_as_the_inner_one(one: Relation, other: Relation) -> None:
    """Plans with the one must not look better than those with the other, of which alone something was seen."""
    keyed, unkeyed = Provenances(keys=KEYS), Provenances()
    assert keyed.rows(one) == keyed.rows(other)
    assert unkeyed.rows(one) != unkeyed.rows(other)
    assert keyed.of(one).signature == unkeyed.of(one).signature


def test_a_semi_join_by_less_than_a_key_is_another() -> None:
    pairs: Keys = {"dim_x": [{"id", "p"}], "dim_y": [{"p"}]}
    assert Provenances(keys=pairs).rows(WITH_X) != Provenances(keys=pairs).rows(SEMI_X)
    chain = Join(FACT, CHAIN, "semi", (equals(X, X_ID),))
    keyed = Provenances(keys={"dim_x": [{"id"}]})
    assert keyed.rows(chain) != keyed.rows(replace(chain, kind="inner"))


def test_what_was_seen_corrects_whatever_leans_on_the_same() -> None:
    """The join with dim_x was as expected, but after that with dim_y there were far more rows: nobody has tried to join
    dim_y first, but it must be as bad as it was later."""
    figures = {**STATS, "dim_y": stats(1000, id=1000, p=20)}
    usual = Cardinality(figures)
    assert first_joined(reorder(STAR, usual)) == {"fact", "dim_y"}
    both = seen(WITH_X, usual.rows(WITH_X)) | seen(STAR, 100 * usual.rows(STAR))
    corrected = Cardinality(figures, ObservedRows(both, Provenances()))
    assert first_joined(reorder(STAR, corrected)) == {"fact", "dim_x"}


SCRIPT = """
CREATE TABLE sales AS SELECT range % 1000 AS item, range % 50 AS store, range AS price FROM range(100000);
CREATE TABLE items AS SELECT range AS id, 'c' || (range % 10) AS category FROM range(1000);
CREATE TABLE stores AS SELECT range AS sid, 's' || (range % 5) AS state FROM range(50);
"""
QUERY = """
SELECT category, state, sum(price) FROM sales, items, stores
WHERE item = id AND store = sid AND category = 'c1' GROUP BY category, state
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World(SCRIPT)


def plan(world: World, query: str = QUERY, observed: Observations = NOTHING) -> Plan:
    bound: Bound = world.binder.bind(query)
    relation = logical(bound, world.binder.describe)
    splits = dict.fromkeys(world.tables, 8)
    return Planning(bound, relation, world.stats, splits, observed=observed).plan(Variant(), AVAILABLE)


def test_stages_take_what_was_seen_of_them(world: World) -> None:
    before = plan(world)
    target = next(stage for stage in before.stages if stage.meaning)
    observations = observe(before, {target.id: Observation(1234, 56_789, 2.0, 10_000_000)})
    after = plan(world, observed=observations)
    same = next(stage for stage in after.stages if stage.signature == target.signature)
    assert same.estimate == Estimate(1234, 56_789, 2.0 / same.width, 10_000_000)


def test_seconds_and_memory_count_for_a_stage_that_reads_the_same_alone() -> None:
    """The last of many stages puts out the same as one that does all the work at once, in less time."""
    planned = Estimate(10, 100, 5.0, 1000.0, 2000.0)
    seen = Observations({"s": Observation(70, 700, seconds=0.5, memory=50.0, reads=frozenset({"a"}))})
    assert seen.estimate("s", 2, planned, frozenset({"a"})) == Estimate(70, 700, 0.25, 50.0, 0.0)
    assert seen.estimate("s", 2, planned, frozenset({"table t v1"})) == Estimate(70, 700, 5.0, 1000.0, 2000.0)


def test_what_was_not_seen_keeps_its_estimate() -> None:
    planned = Estimate(5, 50, 0.5, 500)
    known = Observations({"s": Observation(7)})
    assert known.estimate("s", 2, planned) == replace(planned, rows=7)
    assert known.estimate("other", 2, planned) is planned


def test_without_observations_nothing_changes(world: World) -> None:
    assert plan(world) == plan(world, observed=Observations())
    assert ObservedRows(NOTHING, Provenances()).rows(FACT) is None
    assert Cardinality(STATS, ObservedRows(NOTHING, Provenances())).observed is None


def test_what_may_differ_from_run_to_run_is_not_kept(world: World) -> None:
    before = plan(world, "SELECT item FROM sales LIMIT 5")
    non_deterministic = [stage for stage in before.stages if not stage.shareable]
    assert non_deterministic
    assert observe(before, {stage.id: Observation(5) for stage in non_deterministic}) == NOTHING


def test_newer_observations_win() -> None:
    old, new = seen(WITH_X, 1), seen(WITH_X, 2)
    assert knowing(old | new).rows(WITH_X) == 2
    assert knowing(old | seen(WITH_Y, 2)).rows(WITH_X) == 1
