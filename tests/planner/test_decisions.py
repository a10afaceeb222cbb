"""Plans made along the decisions of another query: right where they hold, refused where they need not."""

from __future__ import annotations

import pytest
from planner_world import SPLITS, World

from qoop.planner.plan_json import read, write
from qoop.planner.planner import Planning, logical
from qoop.planner.search.alternatives import explain_alternatives, keep, pool
from qoop.planner.search.candidate import Alternatives, Grid
from qoop.planner.search.decisions import PlanDecision, decisions, recalled, replay
from qoop.planner.variants import Variant

SCRIPT = """
create table facts as select i as id, i % 1000 as k, i % 97 as v from range(5000) t(i);
create table kinds as select i as k, i % 10 as kind from range(1000) t(i);
"""
GRID = Grid.of((1, 4, 16), (64e6, 1e9), threads=4)


@pytest.fixture(scope="module")
def world() -> World:
    return World(SCRIPT, scale=2000)


def planning(world: World, text: str) -> Planning:
    bound = world.binder.bind(text)
    return Planning(bound, logical(bound, world.binder.describe), world.stats, dict.fromkeys(world.tables, SPLITS))


def text(kind: int, least: int = 10) -> str:
    return f"SELECT v, count(*), max(id) FROM facts JOIN kinds USING (k) WHERE kind = {kind} AND v > {least} GROUP BY v"


def searched(world: World, query: str) -> Alternatives:
    return keep(pool(planning(world, query), GRID))


def test_the_same_text_leads_to_the_same_plans(world: World) -> None:
    found = searched(world, text(3))
    again = replay(planning(world, text(3)), GRID, decisions(found))
    assert again is not None
    assert [one.plan for one in again.kept] == [one.plan for one in found.kept]
    assert again.winners == found.winners
    assert "earlier search" in explain_alternatives(again)


def test_other_literals_are_in_the_plans(world: World) -> None:
    again = replay(planning(world, text(4)), GRID, decisions(searched(world, text(3))))
    assert again is not None
    for one, other in zip(again.kept, searched(world, text(4)).kept, strict=True):
        assert one.plan == other.plan
    assert any("4" in stage.sql for stage in again.kept[0].plan.stages)


def test_estimates_that_have_moved_far_are_another_case(world: World) -> None:
    made = decisions(searched(world, "SELECT id, v FROM facts WHERE id < 5000000 ORDER BY v, id"))
    wide = planning(world, "SELECT id, v FROM facts WHERE id < 5000000 ORDER BY v, id")
    assert replay(wide, GRID, made) is not None
    none = planning(world, "SELECT id, v FROM facts WHERE id = 7 ORDER BY v, id")
    assert replay(none, GRID, made) is None


def test_decisions_and_plans_outlive_the_process(world: World) -> None:
    found = searched(world, text(3))
    made = tuple(read(PlanDecision, write(one)) for one in decisions(found))
    assert made == decisions(found)
    back = recalled(zip([one.plan for one in found.kept], made, strict=True), GRID, found.kept[0].cost)
    assert back.winners == found.winners
    assert [one.origin for one in back.kept] == [one.origin for one in found.kept]


def test_a_variant_is_tried_with_its_slots_only(world: World) -> None:
    found = pool(planning(world, text(3)), GRID, [Variant("few", slots=(2.0, 8.0))])
    assert {one.available.cpu for one in found.candidates} == {4}
    assert {available.cpu for available in GRID.availability} == {16, 4, 1}
