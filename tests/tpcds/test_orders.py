"""`qoop bench orders`: the same query whatever the order of its tables."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from qoop.catalog.errors import ConfigError
from qoop.tpcds.bench.orders import MOST_JOINS, OrdersResult, chosen, joins, shuffled, table
from qoop.tpcds.queries import texts


def test_orders_differ_in_nothing_but_the_places_of_tables() -> None:
    for number in chosen(texts(), None):
        text = texts()[number]
        orders = {shuffled(text, seed) for seed in range(5)}
        assert len(orders) > 1
        for order in orders:
            assert names(order) == names(text) and joins(order) == joins(text)


def test_the_queries_with_most_joins_are_chosen() -> None:
    found = chosen(texts(), None)
    assert len(found) == MOST_JOINS
    least = min(joins(texts()[number]) for number in found)
    assert all(joins(text) <= least for number, text in texts().items() if number not in found)


def test_a_query_without_another_order_is_refused() -> None:
    alone = next(number for number, text in texts().items() if not joins(text))
    with pytest.raises(ConfigError, match=f"query {alone} has no two items of FROM"):
        chosen(texts(), (alone,))


def test_columns_of_a_star_stay_in_order() -> None:
    assert shuffled("SELECT * FROM t, u, v", 3) == "SELECT * FROM t, u, v"


def test_the_figure_is_of_longest_over_shortest() -> None:
    done = [OrdersResult(1, (1.0, 1.2), (1.0, 3.0)), OrdersResult(2, (2.0, 2.0), (1.0, 1.0))]
    assert "of 2 queries: qoop 1.18, DuckDB 2.80; wrong answers and errors: 0" in table(done)


def names(text: str) -> list[str]:
    return sorted(node.name for node in sqlglot.parse_one(text, dialect="duckdb").find_all(exp.Identifier))
