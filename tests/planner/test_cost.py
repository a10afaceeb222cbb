"""Costs: what the search relies on when it compares plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Call, Column, binary, equals
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Exchange,
    Join,
    Limit,
    Relation,
    Scan,
    SetOp,
    Sort,
    SortKey,
    Window,
    WindowCall,
    walk,
)
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel

A, B = Column("a", "BIGINT"), Column("b", "BIGINT")
STATS = {
    "large": TableStats(10_000_000, 8e7, {"k": ColumnStats(0, 1000, 1, 1000)}),
    "small": TableStats(1000, 8000, {"k": ColumnStats(0, 1000, 1, 1000)}, frozenset({frozenset({"k"})})),
}
LARGE, SMALL = Scan("large", "v1", (("k", A),)), Scan("small", "v1", (("k", B),))
ON = (equals(A, B),)


@pytest.fixture
def cardinality() -> Cardinality:
    return Cardinality(STATS)


def test_building_the_small_side_is_cheaper_and_smaller(cardinality: Cardinality) -> None:
    model = CostModel()
    good, bad = Join(LARGE, SMALL, "inner", ON), Join(SMALL, LARGE, "inner", ON)
    assert tree_cost.seconds(model, good, cardinality) < tree_cost.seconds(model, bad, cardinality) / 2
    assert tree_cost.memory(model, good, cardinality) < tree_cost.memory(model, bad, cardinality) / 1000


def test_a_tree_costs_what_its_operators_cost(cardinality: Cardinality) -> None:
    model = CostModel()
    tree: Relation = Aggregate(Join(LARGE, SMALL, "inner", ON), (B,), ())
    assert tree_cost.seconds(model, tree, cardinality) == pytest.approx(
        sum(tree_cost.own_seconds(model, node, cardinality) for node in walk(tree))
    )


def test_an_exchange_costs_only_reading_it(cardinality: Cardinality) -> None:
    model = CostModel()
    exchange = Exchange(Join(LARGE, SMALL, "inner", ON), "gather")
    assert tree_cost.seconds(model, exchange, cardinality) < tree_cost.seconds(model, exchange.input, cardinality) / 2
    assert tree_cost.memory(model, exchange, cardinality) == 0


def test_joins_without_equality_try_all_pairs(cardinality: Cardinality) -> None:
    model = CostModel()
    theta = Join(LARGE, SMALL, "inner", (binary("<", A, B),))
    assert not tree_cost.equalities(theta) and tree_cost.equalities(Join(LARGE, SMALL, "inner", (equals(B, A),)))
    assert tree_cost.own_seconds(model, theta, cardinality) > 10 * tree_cost.own_seconds(
        model, Join(LARGE, SMALL, "inner", ON), cardinality
    )


def test_a_top_n_keeps_only_its_rows(cardinality: Cardinality) -> None:
    model = CostModel()
    ordered = Sort(LARGE, (SortKey(A),))
    assert tree_cost.memory(model, ordered, cardinality) == pytest.approx(8e7)
    assert tree_cost.memory(model, Limit(ordered, 100), cardinality) == pytest.approx(800)


def test_a_top_n_compares_rows_and_sorts_none(cardinality: Cardinality) -> None:
    model = CostModel()
    ordered = Sort(LARGE, (SortKey(A),))
    few, many = (tree_cost.seconds(model, Limit(ordered, rows), cardinality) for rows in (100, 1_000_000))
    assert tree_cost.seconds(model, LARGE, cardinality) < few < 0.2 * many


def test_what_an_aggregate_computes_costs(cardinality: Cardinality) -> None:
    model = CostModel()
    total = Aggregation(Column("t", "BIGINT"), Call("sum", (A,), "sum({0})", "BIGINT"))
    one, two = (tree_cost.own_seconds(model, Aggregate(LARGE, (), (total,) * count), cardinality) for count in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.01)
    guarded = Aggregate(LARGE, (), (replace(total, filter=binary("<", A, A)),))
    grouped = Aggregate(LARGE, (A,), (total,))
    assert tree_cost.own_seconds(model, guarded, cardinality) > one
    assert one < 0.5 * tree_cost.own_seconds(model, grouped, cardinality)


def test_groups_that_miss_the_cache_are_dear() -> None:
    """A row of a million groups costs several times one of a thousand, and more with each aggregate."""
    model = CostModel()

    def row(groups: float, values: int) -> float:
        return (model.group(1e7, groups, 1, 4.0, values) - groups * model.group_row) / 1e7

    assert row(1e6, 1) > 2 * row(1e3, 1)
    assert row(1e6, 4) > 1.5 * row(1e6, 1)
    assert row(1e3, 4) < 1.3 * row(1e3, 1)


def test_a_union_without_repeats_costs_what_its_groups_cost(cardinality: Cardinality) -> None:
    model, columns = CostModel(), (Column("u", "BIGINT"),)
    union, pasted = (SetOp("union", every, (LARGE, LARGE), columns) for every in (False, True))
    grouped = tree_cost.own_seconds(model, Aggregate(LARGE, (A,), ()), cardinality)
    assert tree_cost.own_seconds(model, union, cardinality) == pytest.approx(2 * grouped, rel=0.05)
    assert tree_cost.own_seconds(model, pasted, cardinality) < grouped


def test_windows_cost_what_they_sort_and_compute(cardinality: Cardinality) -> None:
    model = CostModel()

    def seconds(*templates: str) -> float:
        calls = (
            WindowCall(Column(f"w{place}", "BIGINT"), Call(text.split("(")[0], (A,), text, "BIGINT"), (A,))
            for place, text in enumerate(templates)
        )
        return tree_cost.own_seconds(model, Window(LARGE, tuple(calls)), cardinality)

    whole, rank = "sum({0}) OVER (PARTITION BY {0})", "rank() OVER (PARTITION BY {0} ORDER BY {0})"
    running = "sum({0}) OVER (PARTITION BY {0} ORDER BY {0} ROWS UNBOUNDED PRECEDING)"
    assert seconds(whole) < 0.7 * seconds(rank) < 0.7 * 0.7 * seconds(running)
    assert seconds(rank, rank.replace("rank", "dense_rank")) == seconds(rank), "sorted once"
    assert seconds(rank, running) == seconds(running), "sorted once, whatever the frame"
    assert seconds(rank, rank.replace("ORDER BY {0}", "ORDER BY {0} DESC")) > 1.8 * seconds(rank)


def test_several_threads_obey_amdahl() -> None:
    model = CostModel(serial_part=0.2)
    assert model.on_threads(10.0, 1) == 10.0
    assert model.on_threads(10.0, 4) == pytest.approx(4.0)
    assert model.on_threads(10.0, 1_000_000) == pytest.approx(2.0, rel=1e-3)


def test_tables_that_divide_the_keys_miss_the_cache_less(cardinality: Cardinality) -> None:
    """The table of each task of a hashed stage fits the cache where one table of all keys does not."""
    model = CostModel()
    assert model.group(1e7, 1e6, 1, 4.0, 1, parts=16) < 0.9 * model.group(1e7, 1e6, 1, 4.0, 1)
    assert model.hash_join(1e7, 1e6, 8.0, 1e7, parts=16) < 0.9 * model.hash_join(1e7, 1e6, 8.0, 1e7)
    groups = Aggregate(LARGE, (A,), ())
    assert tree_cost.own_seconds(model, groups, cardinality, 16) <= tree_cost.own_seconds(model, groups, cardinality)
    few, many = (tree_cost.partial_seconds(model, groups, cardinality, each, 8) for each in (10.0, 1e6))
    assert many - few > 8e6 * model.group_row, "each task puts its own groups out"
