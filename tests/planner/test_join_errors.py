"""Joins of the same tables are misjudged alike: what was seen of one plan corrects those that avoid it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from planner_world import World

from qoop.adaptive.replanning.decision import Option, observed_errors, reestimate
from qoop.adaptive.replanning.observations import SessionObservations
from qoop.planner.algebra.canonical_text import leaf_name, scan_digest
from qoop.planner.estimate.join_errors import join_errors
from qoop.planner.estimate.observed import NOTHING, Joined, Observation, Observations, Tables, tables_below
from qoop.planner.estimate.reestimate import reestimated
from qoop.planner.plan import Plan, Resources, Stage, StageId
from qoop.planner.planner import Planning, logical
from qoop.planner.search.candidate import Candidate
from qoop.planner.variants import Variant

SCRIPT = """
CREATE TABLE sales AS SELECT range % 1000 AS item, range % 50 AS day, range AS price, range % 977 AS n
FROM range(200000);
CREATE TABLE items AS SELECT range AS id, 'c' || (range % 10) AS category FROM range(1000);
CREATE TABLE days AS SELECT range AS did, range // 10 AS year FROM range(50);
"""
BOTH = Tables({("sales", "v1"), ("items", "v1")})
BY_CATEGORY = Joined(BOTH, frozenset({f"{leaf_name('[]', scan_digest('items', 'v1'))}:category"}))
AVAILABLE = Resources(2, 4 << 30)


def query(category: str) -> str:
    """Joins with an aggregate of many groups above, which is a stage of its own."""
    return f"""
    SELECT count(*) AS n FROM (
        SELECT price, sum(n) AS s FROM sales, items WHERE item = id AND category IN ({category}) GROUP BY price
    ) a, (SELECT DISTINCT price FROM sales WHERE n < 900) b WHERE a.price = b.price AND s > 0
    """


@pytest.fixture(scope="module")
def world() -> World:
    return World(SCRIPT, scale=100)


def plan(world: World, text: str, observed: Observations = NOTHING) -> Plan:
    bound = world.binder.bind(text)
    relation, splits = logical(bound, world.binder.describe), dict.fromkeys(world.tables, 8)
    return Planning(bound, relation, world.stats, splits, observed=observed).plan(Variant(), AVAILABLE)


def joining(plan: Plan) -> Stage:
    """The stage that puts out the rows of both tables, joined."""
    below = tables_below(plan)
    return next(stage for stage in plan.stages if below[stage.id] == BOTH)


def seen(plan: Plan, factor: float) -> Mapping[StageId, Observation]:
    stage = joining(plan)
    return {stage.id: Observation(factor * stage.estimate.rows)}


def test_the_error_of_joined_rows_is_told_by_their_tables(world: World) -> None:
    first = plan(world, query("'c1'"))
    assert join_errors(first, seen(first, 8)) == {BY_CATEGORY: pytest.approx(8)}
    assert join_errors(first, seen(first, 2)) == {}, "that may be chance"
    assert join_errors(first, {}) == {}


def test_groups_and_rows_of_one_table_say_nothing_of_joins(world: World) -> None:
    first = plan(world, query("'c1'"))
    others = {stage.id: Observation(100 * stage.estimate.rows) for stage in first.stages if stage is not joining(first)}
    assert others and join_errors(first, others) == {}


def test_a_plan_of_which_nothing_was_seen_errs_alike(world: World) -> None:
    other = plan(world, query("'c2', 'c3'"))
    before, after = joining(other), joining(reestimated(other, NOTHING, errors={BY_CATEGORY: 8.0}))
    assert after.estimate.rows == pytest.approx(8 * before.estimate.rows)
    assert after.estimate.task_seconds > before.estimate.task_seconds
    assert reestimated(other, NOTHING, errors={Joined(Tables({("items", "v1"), ("days", "v1")})): 8.0}) is other


def test_what_was_seen_of_a_stage_itself_comes_first(world: World) -> None:
    other = plan(world, query("'c2', 'c3'"))
    stage = joining(other)
    observed = Observations({stage.signature: Observation(stage.estimate.rows)})
    assert joining(reestimated(other, observed, errors={BY_CATEGORY: 8.0})).estimate.rows == stage.estimate.rows


def test_an_option_that_was_found_since_is_not_corrected_twice(world: World) -> None:
    first, second = plan(world, query("'c1'")), plan(world, query("'c2', 'c3'"))
    observed = Observations({joining(first).signature: Observation(8 * joining(first).estimate.rows)})
    runs, old = Option("A", Candidate(first, "")), Option("B", Candidate(second, ""))
    late = replace(old, known=frozenset({BOTH}))
    errors = observed_errors([runs, old, late], observed)
    assert errors == {BY_CATEGORY: pytest.approx(8)}
    observed |= Observations(errors=errors)
    assert joining(reestimate(old, observed, {}).candidate.plan).estimate.rows == pytest.approx(
        8 * joining(second).estimate.rows
    )
    assert reestimate(late, observed, {}) is late


def test_plans_that_are_made_later_know_of_it(world: World) -> None:
    """Other filters of the same tables; and, where a set was seen itself, what was seen of it."""
    usual = joining(plan(world, query("'c2', 'c3'"))).estimate.rows
    wrong = Observations(errors={BY_CATEGORY: 8.0})
    assert joining(plan(world, query("'c2', 'c3'"), wrong)).estimate.rows == pytest.approx(8 * usual, rel=0.01)


def test_a_session_remembers_the_first_error_that_nothing_was_known_of(world: World) -> None:
    first, remembered = plan(world, query("'c1'")), SessionObservations()
    remembered.add(first, seen(first, 8))
    remembered.add(first, seen(first, 5))
    assert remembered.over({"sales": "v1", "items": "v1", "days": "v1"}).errors == {BY_CATEGORY: pytest.approx(8)}
    assert remembered.over({"sales": "v2", "items": "v1"}).errors == {}


def test_an_error_under_a_filter_says_nothing_of_joins_without_it(world: World) -> None:
    """Filters that were believed to be independent may be what erred; of all rows there cannot be eight times more."""
    by_category, by_key = Observations(errors={BY_CATEGORY: 8.0}), Observations(errors={Joined(BOTH): 8.0})
    text = query("'c1'").replace("AND category IN ('c1')", "")
    usual = plan(world, text)
    assert joining(plan(world, text, by_category)).estimate.rows == joining(usual).estimate.rows
    assert reestimated(usual, NOTHING, errors=by_category.errors) is usual
    assert joining(plan(world, text, by_key)).estimate.rows == pytest.approx(8 * joining(usual).estimate.rows)
    more = query("'c1'").replace("AND category", "AND id < 900 AND category")
    less = joining(plan(world, more)).estimate.rows
    assert joining(plan(world, more, by_category)).estimate.rows > 5 * less
