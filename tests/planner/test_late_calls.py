"""The places of predicates in Python among the joins, and estimates of calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qoop.planner.algebra.expr import PYTHON, VOLATILE_PYTHON, Call, Column, Expr, equals
from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import Filter, Join, Project, Relation, Scan
from qoop.planner.arrange.late_calls import lifted, put_down
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.observed import Observation, Observations
from qoop.planner.estimate.reestimate import reestimated
from qoop.planner.plan import CallEstimate, Estimate, Plan, Predicate, Stage, StageInput, TableInput

A, B, C, X = (Column(name, "INTEGER") for name in "abcx")
T, U, V = (Scan(name, "v", ((column.name, column),)) for name, column in (("t", A), ("u", B), ("v", C)))
WITH_X = Scan("t", "v", (("a", A), ("x", X)))


def call(name: str, *columns: Column, op: str = PYTHON) -> Expr:
    slots = ", ".join("{" + str(place) + "}" for place in range(len(columns)))
    return Call(op, columns, f'"{name}"({slots})', "BOOLEAN")


F, G = call("f@1", A), call("g@1", B)
RAISES = equals(Call("cast", (Call("lower", (A,), "lower({0})", "VARCHAR"),), "CAST({0} AS INTEGER)", "INTEGER"), A)


def join(left: Relation, right: Relation, kind: str = "inner", on: Expr | None = None) -> Join:
    return Join(left, right, kind, (on or equals(left.columns[0], right.columns[0]),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (join(T, Filter(U, (G,))), 'filter["g@1"(b)](inner[(a = b)](t[a], u[b]))'),
        (join(Filter(T, (F,)), U, "semi"), 'filter["f@1"(a)](semi[(a = b)](t[a], u[b]))'),
        (join(Filter(T, (F,)), U, "anti"), 'filter["f@1"(a)](anti[(a = b)](t[a], u[b]))'),
        (join(Filter(T, (F,)), U, "left"), 'filter["f@1"(a)](left[(a = b)](t[a], u[b]))'),
        (join(join(Filter(T, (F,)), U), V), 'filter["f@1"(a)](inner[(a = c)](inner[(a = b)](t[a], u[b]), v[c]))'),
        (
            join(Project(Filter(WITH_X, (call("f@1", X),)), ((A, A),)), U),
            'project[a, b](filter["f@1"(x)](inner[(a = b)](project[a, x](t[a, x]), u[b])))',
        ),
    ],
)
def test_a_predicate_goes_above_what_keeps_its_rows(before: Relation, after: str) -> None:
    assert outline(lifted(before)) == after


@pytest.mark.parametrize(
    "kept",
    [
        join(T, Filter(U, (G,)), "left"),
        join(T, Filter(U, (G,)), "semi"),
        join(Filter(T, (F,)), U, "full"),
        join(Filter(T, (call("f@1", A, op=VOLATILE_PYTHON),)), U),
        join(Filter(T, (F, RAISES)), U),
        join(Filter(T, (F,)), U, on=equals(RAISES, Call("c", (B,), "c({0})", "BOOLEAN"))),
    ],
)
def test_a_predicate_stays_where_it_decides_or_may_guard(kept: Relation) -> None:
    assert lifted(kept) is kept


class Rows(Cardinality):
    """Rows by the tables that a relation reads."""

    def __init__(self, **rows: float) -> None:
        super().__init__({})
        self.by_tables = rows

    def rows(self, relation: Relation) -> float:
        return self.by_tables[_tables(relation)]


def _tables(relation: Relation) -> str:
    return relation.table if isinstance(relation, Scan) else "".join(map(_tables, relation.inputs))


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ((9, 2, 5), 'inner[(a = c)](filter["f@1"(a)](inner[(a = b)](t[a], u[b])), v[c])'),
        ((9, 9, 5), 'filter["f@1"(a)](inner[(a = c)](inner[(a = b)](t[a], u[b]), v[c]))'),
        ((2, 2, 5), 'inner[(a = c)](inner[(a = b)](filter["f@1"(a)](t[a]), u[b]), v[c])'),
    ],
)
def test_a_predicate_is_put_down_where_the_fewest_rows_are(rows: tuple[float, ...], after: str) -> None:
    known = Rows(**dict(zip(("t", "tu", "tuv"), rows, strict=True)))
    assert outline(put_down(Filter(join(join(T, U), V), (F,)), known)) == after


# --- what is seen of functions and of tables corrects plans ---------------------------------------------------

CALLS = (CallEstimate("f@1", 1000, 1e-6),)
SCAN = Stage("s", "", (TableInput("t", "t", "1", (), True),), (), 4, "s", estimate=Estimate(4e3, 4e4, 0.5, calls=CALLS))
READER = Stage("r", "", (StageInput("s", "s", "all"),), (), 1, "r", estimate=Estimate(1, 8, 0.5, calls=CALLS))
PLAN = Plan((SCAN, READER), ())


def seconds(observed: Observations) -> list[float]:
    return [round(stage.estimate.task_seconds, 6) for stage in reestimated(PLAN, observed).stages]


def test_seconds_a_row_of_a_function_take_the_place_of_what_was_believed() -> None:
    assert seconds(Observations(calls={"f@1": 1e-3})) == [1.499, 1.499]
    assert seconds(Observations(calls={"g@1": 1e-3})) == [0.5, 0.5]
    once = reestimated(PLAN, Observations(calls={"f@1": 1e-3}))
    assert reestimated(once, Observations(calls={"f@1": 1e-3})) is once, "twice is once"
    assert reestimated(PLAN, Observations(calls={"f@1": 1e-6})) is PLAN


def test_more_rows_are_more_calls() -> None:
    [scan, reader] = reestimated(PLAN, Observations({"s": Observation(8e3)}, calls={"f@1": 1e-3})).stages
    assert scan.estimate.calls[0].rows == 1000 and reader.estimate.calls[0].rows == 2000
    assert reader.estimate.task_seconds > 2.0


IN_TURN = (
    CallEstimate("f@1", 1000, 1e-6, Predicate(1, 0, 0.5)),
    CallEstimate("g@1", 500, 1e-6, Predicate(1, 1, 0.1)),
    CallEstimate("h@1", 500, 1e-6, Predicate(1, 1, 0.1)),
    CallEstimate("f@1", 7, 1e-6, Predicate(2, 0, 0.5)),
)


@pytest.mark.parametrize(
    ("seen", "rows"),
    [
        ({}, [1000, 500, 500, 7]),
        ({"f@1": 1e-3}, [100, 1000, 1000, 7]),
        ({"f@1": 1e-3, "h@1": 1e-1}, [1000, 500, 500, 7]),
    ],
)
def test_predicates_of_a_filter_are_counted_on_in_the_best_order(seen: dict[str, float], rows: list[float]) -> None:
    stage = replace(SCAN, estimate=Estimate(4e3, 4e4, 0.5, calls=IN_TURN))
    [found] = reestimated(Plan((stage,), ()), Observations(calls=seen)).stages
    assert [call.rows for call in found.estimate.calls] == rows
    more = sum(call.seconds for call in found.estimate.calls) - sum(call.seconds for call in IN_TURN)
    assert found.estimate.task_seconds == pytest.approx(0.5 + more)


def test_the_wait_for_a_table_is_divided_where_the_reading_is() -> None:
    assert seconds(Observations(waits={"table t 1": 8.0})) == [2.5, 0.5]
    assert seconds(Observations(waits={"table t 2": 8.0})) == [0.5, 0.5]
    whole = replace(SCAN, inputs=(replace(SCAN.table_inputs[0], split=False),))
    [stage] = reestimated(Plan((whole,), ()), Observations(waits={"table t 1": 8.0})).stages
    assert stage.estimate.task_seconds == 8.5
