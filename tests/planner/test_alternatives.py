"""Shapes, the pool and the kept set: what counts as different, and that the kept plans cover the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.catalog.errors import PlanError
from qoop.planner.estimate.cost import CostModel
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput
from qoop.planner.search.alternatives import _tries, explain_alternatives, keep, smallest_cover
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, Pool, cluster_grid, local_grid, shape
from qoop.planner.variants import VARIANTS

INT = (("c", "INTEGER"),)
GRID = Grid.of((1, 2, 4, 8), (50.0, 100.0), threads=1)


def stage(name: str, reads: Sequence[str] = (), width: int = 1, seconds: float = 1.0, memory: float = 1.0) -> Stage:
    inputs = tuple(StageInput(source, source, "all") for source in reads)
    return Stage(name, "", inputs, INT, width, name, Layout(), estimate=Estimate(1, 0, seconds, memory))


def rectangle(name: str, width: int, seconds: float, memory: float = 1.0) -> Candidate:
    """A plan of one stage of that many tasks."""
    return Candidate(Plan((stage(name, (), width, seconds, memory),), INT), name)


def test_a_shape_forgets_ids_order_and_numbers_of_tasks() -> None:
    one = Plan((stage("a"), stage("b"), stage("root", ("a", "b"))), INT)
    a, b, root = stage("a", width=4), stage("b"), stage("root", ("b", "a"))
    named = {"a": "s2", "b": "s1", "root": "s3"}
    stages = [replace(s, id=named[s.id], inputs=tuple(replace(i, stage=named[i.stage]) for i in s.stage_inputs))
              for s in (b, a, root)]  # fmt: skip
    assert shape(Plan(tuple(stages), INT)) == shape(one)


def test_a_shape_tells_edges_and_signatures_apart() -> None:
    chain = Plan((stage("a"), stage("b", ("a",)), stage("root", ("b",))), INT)
    star = Plan((stage("a"), stage("b"), stage("root", ("a", "b"))), INT)
    both = Plan((stage("a"), stage("b", ("a",)), stage("root", ("a", "b"))), INT)
    other = Plan((stage("a"), replace(stage("b", ("a",)), signature="c"), stage("root", ("b",))), INT)
    assert len({shape(found) for found in (chain, star, both, other)}) == 4


def test_two_plans_are_kept_where_each_wins_somewhere() -> None:
    narrow, wide = rectangle("narrow", 1, 4.0), rectangle("wide", 8, 1.0)
    kept = keep(Pool(GRID, (narrow, wide, rectangle("worse", 8, 2.0))))
    assert {one.origin for one in kept.kept} == {"narrow", "wide"}
    assert kept.best(Resources(1, 100)).origin == "narrow"
    assert kept.best(Resources(8, 800)).origin == "wide"
    assert kept.cover_error <= 0.10


def test_one_plan_is_enough_where_it_is_near_the_best_everywhere() -> None:
    kept = keep(Pool(GRID, (rectangle("a", 8, 1.0), rectangle("b", 8, 1.05))))
    assert len(kept.kept) == 1
    assert len(keep(Pool(GRID, (rectangle("a", 4, 2.0), rectangle("b", 8, 1.05))), 0.0).kept) == 2


def test_memory_alone_can_make_another_plan_win() -> None:
    big, lean = rectangle("big", 8, 1.0, memory=100.0), rectangle("lean", 8, 1.3, memory=10.0)
    kept = keep(Pool(GRID, (big, lean)))
    assert kept.best(Resources(8, 800.0)).origin == "big"
    assert kept.best(Resources(8, 400.0)).origin == "lean"


candidates = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(1, 120)), min_size=1, max_size=8
)


@given(candidates, st.sampled_from([0.0, 0.05, 0.1]))
def test_the_kept_plans_cover_the_grid_and_none_is_needless(rows: list[tuple[int, float, int]], near: float) -> None:
    made = Pool(GRID, tuple(rectangle(f"p{i}", w, s, m) for i, (w, s, m) in enumerate(rows)))
    kept = keep(made, near)
    assert kept.cover_error <= near + 1e-9
    needed = kept.chosen[: kept.covering]
    for place in needed if len(needed) > 1 else ():
        fewer = Alternatives(made, tuple(other for other in needed if other != place))
        assert fewer.cover_error > near


@given(candidates)
def test_what_is_not_simulated_could_not_have_won(rows: list[tuple[int, float, int]]) -> None:
    made = Pool(GRID, tuple(rectangle(f"p{i}", w, s, m) for i, (w, s, m) in enumerate(rows)))
    for p, point in enumerate(GRID.points):
        assert made.best[p] == min(one.finish.seconds(point) for one in made.candidates)


@given(candidates, st.sampled_from([0.0, 0.05, 0.1]))
def test_no_fewer_plans_would_cover_the_grid(rows: list[tuple[int, float, int]], near: float) -> None:
    made = Pool(GRID, tuple(rectangle(f"p{i}", w, s, m) for i, (w, s, m) in enumerate(rows)))
    kept = keep(made, near)
    for fewer in combinations(range(len(rows)), max(1, kept.covering - 1)):
        assert Alternatives(made, fewer).cover_error > near or kept.covering == 1


def test_the_greedy_cover_gives_way_to_a_smaller_one() -> None:
    sets = [frozenset({1, 2, 3, 4}), frozenset({1, 2, 5}), frozenset({3, 4, 6}), frozenset({5, 6})]
    assert smallest_cover(sets, [0, 3, 1], [0.0] * 4) == (0, 3)
    assert smallest_cover(sets[:3], [0, 1, 2], [0.0] * 3) == (1, 2)
    assert smallest_cover(sets[:3], [0, 1, 2], [0.0] * 3, most=3) == (0, 1, 2)
    assert smallest_cover([*sets[:3], sets[1]], [0, 1, 2], [0.0, 2.0, 0.0, 1.0]) == (2, 3)


def test_a_plan_is_kept_where_it_can_go_on_with_what_another_has_finished() -> None:
    """The wide plan wins on many slots, the narrow one on one; from one to the other only `bridge` takes work over."""
    half = stage("half", width=8, seconds=1.0)
    wide = Candidate(Plan((half, stage("rest", ("half",), 8, 1.0)), INT), "wide")
    narrow = Candidate(Plan((stage("other", seconds=9.0),), INT), "narrow")
    bridge = Candidate(Plan((half, stage("slow", ("half",), 1, 6.0)), INT), "bridge")
    kept = keep(Pool(GRID, (wide, narrow, bridge)))
    assert [one.origin for one in kept.kept] == ["wide", "narrow", "bridge"]
    assert (kept.covering, kept.fallback_plans) == (2, 1)
    alone = Candidate(Plan((replace(half, shareable=False), stage("slow", ("half",), 1, 6.0)), INT), "alone")
    assert keep(Pool(GRID, (wide, narrow, alone))).fallback_plans == 0
    hardly = Candidate(Plan((half, stage("slow", ("half",), 1, 7.5)), INT), "hardly")  # 7.5 s where `wide` takes 8
    assert keep(Pool(GRID, (wide, narrow, hardly))).fallback_plans == 0


def test_a_tolerance_too_wide_to_be_known_is_refused() -> None:
    with pytest.raises(PlanError, match=r"not 0\.5"):
        keep(Pool(GRID, (rectangle("a", 1, 1.0),)), 0.5)


def test_grids() -> None:
    assert max(point.cpu for point in local_grid(Resources(2, 8.0), most=9).points) == 16
    assert [(point.cpu, point.memory) for point in local_grid(Resources(2, 8.0)).points] == [
        (1, 1.0), (2, 2.0), (4, 4.0), (1, 4.0), (2, 8.0), (4, 16.0)
    ]  # fmt: skip
    cluster = cluster_grid()
    assert max(point.cpu for point in cluster.points) == 600
    assert all(available.cpu <= 600 for available in cluster.availability)


def test_the_map_says_who_wins_where_and_what_is_shared() -> None:
    common = stage("common", width=8, seconds=1.0)
    one = Candidate(Plan((common, stage("slow", ("common",), 1, 4.0)), INT), "one")
    two = Candidate(Plan((common, stage("fast", ("common",), 8, 1.0)), INT), "two")
    text = explain_alternatives(keep(Pool(GRID, (one, two))))
    assert "2 plans of 2 shapes kept, of 2 plans of 2 shapes" in text
    assert "(also in A)" in text
    assert "stages in common: AB 1" in text
    rows = [line for line in text.splitlines() if line.lstrip().startswith("0.00 GB")]
    assert all({"A", "B"} <= set(row) for row in rows) and rows


def test_one_task_is_tried_where_it_can_have_all_slots() -> None:
    lone = next(one for one in VARIANTS if one.lone)
    assert lone.suits(2.0, threads=2) and not lone.suits(4.0, threads=2)
    assert not any(lone.suits(point.cpu, cluster_grid().threads) for point in cluster_grid().points if point.cpu > 1)


@pytest.mark.parametrize("lone", [True, False])
def test_no_plan_is_of_one_task_where_none_is_wanted(lone: bool) -> None:
    planning = SimpleNamespace(arranged=lambda logical: logical, cost=CostModel())
    tried = [variant for variant, _ in _tries(planning, local_grid(Resources(2, 2e9), lone), VARIANTS)]  # type: ignore[arg-type]
    assert any(one.lone for one in tried) == lone and len(tried) > 5
