"""Wrong rewrites are caught: by a signature that differs, and by the row check wherever the rows differ."""

from __future__ import annotations

import pytest
import wrong_plans
from planner_world import World
from run_plan import run_plan, storage
from wrong_plans import WRONG_PLANS
from wrong_rewrites import TABLES, WRONG, Wrong

from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import Opaque, Relation, walk
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.provenance import provenance
from qoop.planner.plan import Plan
from qoop.planner.rules import apply_rules
from qoop.planner.sql.bind import Bound
from qoop.planner.sql.build import build
from qoop.tpcds.oracle import Difference, compare
from qoop.tpcds.ordering import ordering


@pytest.fixture(scope="module")
def world() -> World:
    return World(TABLES)


def built(world: World, wrong: Wrong) -> tuple[Bound, Relation]:
    bound = world.binder.bind(wrong.text)
    relation = build(bound, world.binder.describe)
    assert not any(isinstance(node, Opaque) for node in walk(relation))
    return bound, relation


def meaning(relation: Relation) -> tuple[object, ...]:
    """The identity of a root stage: its signature, and its columns by their canonical names."""
    known = provenance(relation)
    return known.signature, *(known.columns[column] for column in relation.columns)


def is_right(world: World, text: str, bound: Bound, relation: Relation) -> bool:
    """The row check: are the relation's rows DuckDB's answer to the text?"""
    names = [name for name, _ in bound.columns]
    theirs = storage(world.duckdb(text))
    ours = storage(world.duckdb(to_sql(relation))).rename_columns(names)
    assert theirs.num_rows, "an empty answer proves nothing"
    return compare(ours, theirs, order=ordering(text, names)) is None


@pytest.mark.parametrize("what", WRONG)
def test_it_is_caught(what: str, world: World) -> None:
    wrong = WRONG[what]
    bound, relation = built(world, wrong)
    changed = wrong.change(relation)
    shown = f"{outline(relation)}\n{outline(changed)}"
    assert meaning(changed) != meaning(relation), f"the signature is the same for\n{shown}"
    assert is_right(world, wrong.text, bound, changed) is not wrong.rows, shown


@pytest.mark.parametrize("what", WRONG)
def test_the_rules_make_no_such_mistake(what: str, world: World) -> None:
    wrong = WRONG[what]
    bound, relation = built(world, wrong)
    assert is_right(world, wrong.text, bound, relation)
    assert is_right(world, wrong.text, bound, apply_rules(relation))


def test_there_are_many() -> None:
    assert len(WRONG) >= 60 and len(WRONG_PLANS) >= 20


# --- mistakes of exchanges and of two-phase aggregates


@pytest.fixture(scope="module")
def large() -> World:
    return World(wrong_plans.TABLES, wrong_plans.SCALE)


@pytest.mark.parametrize("what", WRONG_PLANS)
def test_a_wrong_plan_has_wrong_rows(what: str, large: World) -> None:
    """Its stages keep their signatures, which say what was meant: the row check must see it."""
    wrong = WRONG_PLANS[what]
    plan = large.plan(wrong.text, wrong_plans.LIMITS, wrong_plans.COST, slots=3)
    assert judged(large, wrong.text, plan) is None
    changed = wrong.change(plan)
    assert [stage.signature for stage in changed.stages] == [stage.signature for stage in plan.stages]
    assert judged(large, wrong.text, changed) is not None


def judged(world: World, text: str, plan: Plan) -> Difference | None:
    theirs = storage(world.duckdb(text))
    assert theirs.num_rows, "an empty answer proves nothing"
    return compare(storage(run_plan(plan, world.tables)), theirs, order=ordering(text, theirs.column_names))


def test_session_settings_are_part_of_the_meaning(world: World) -> None:
    _, relation = built(world, Wrong("select k, cast(day as timestamptz) as z from t", lambda same: same))
    zones = [(("TimeZone", zone),) for zone in ("UTC", "Asia/Tokyo")]
    assert len({provenance(relation, settings).signature for settings in ((), *zones)}) == 3
