"""Plans written as JSON and read back are equal, and what is no plan is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_world import World

from qoop.catalog.errors import PlanError
from qoop.planner.plan import Estimate, Layout, Plan, Stage, StageInput, TableInput
from qoop.planner.plan_json import FORMAT, dump, load

texts = st.text(max_size=8)
typed = st.lists(st.tuples(texts, texts), min_size=1, max_size=3).map(tuple)
numbers = st.floats(allow_nan=False)
layouts = st.builds(Layout, st.lists(texts, max_size=2).map(tuple), st.integers(1, 500))
tables = st.builds(TableInput, texts, texts, texts, st.lists(texts, max_size=3).map(tuple), st.booleans())
stages = st.builds(
    Stage,
    id=st.just("s0"),
    sql=texts,
    inputs=st.lists(tables, max_size=2).map(tuple),
    columns=typed,
    width=st.integers(1, 1000),
    signature=texts,
    layout=layouts,
    cut=texts,
    slots=st.integers(1, 64),
    estimate=st.builds(Estimate, numbers, numbers, numbers, numbers),
    opaque=st.none() | texts,
    shareable=st.booleans(),
    join_filters=st.booleans(),
    label=texts,
    meaning=texts,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    made: list[Stage] = []
    for number, stage in enumerate(draw(st.lists(stages, min_size=1, max_size=4))):
        below = draw(st.sets(st.sampled_from(made), max_size=2)) if made else set()
        reads = tuple(StageInput(item.id, item.id, "all") for item in sorted(below, key=lambda item: item.id))
        made.append(replace(stage, id=f"s{number}", inputs=(*stage.inputs, *reads)))
    return Plan(tuple(made), draw(typed), draw(st.lists(st.tuples(texts, texts), max_size=2).map(tuple)))


@settings(max_examples=60, deadline=None)
@given(plans())
def test_a_plan_comes_back_equal(plan: Plan) -> None:
    text = json.dumps(dump(plan))
    assert load(json.loads(text)) == plan
    json.loads(text, parse_constant=pytest.fail)  # Infinity, as some writers have it, is no JSON
    assert json.dumps(dump(load(json.loads(text)))) == text


def test_a_plan_of_a_real_query_comes_back_equal() -> None:
    world = World("create table t as select i % 7 as a, i as b from range(100) t(i)", scale=1e6)
    plan = world.plan("select x.a, sum(y.b) from t x join t y on x.b = y.b group by x.a order by 1", slots=4)
    assert {item.mode for stage in plan.stages for item in stage.stage_inputs} >= {"all"}
    assert load(json.loads(json.dumps(dump(plan)))) == plan


@pytest.fixture
def written() -> dict[str, object]:
    reads = (TableInput("t", "t", "v1", ("a",), True),)
    first = Stage("s1", "FROM t", reads, (("a", "INTEGER"),), 2, "x")
    second = Stage("s2", "FROM s1", (StageInput("s1", "s1", "all"),), (("a", "INTEGER"),), 1, "y")
    return dump(Plan((first, second), (("a", "INTEGER"),)))


def test_what_is_no_plan_is_refused(written: dict[str, object]) -> None:
    assert load(written).root.id == "s2"
    for other in ({**written, "format": FORMAT + 1}, {**written, "color": 1}, {"format": FORMAT}, [], None):
        with pytest.raises(PlanError):
            load(other)


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", "2"), ("width", True), ("inputs", {}), ("columns", [["a"]]), ("inputs", [{"name": "t"}]), ("sql", 1)],
)
def test_damage_inside_is_refused(written: dict[str, object], field: str, value: object) -> None:
    data = json.loads(json.dumps(written))
    data["stages"][0][field] = value
    with pytest.raises(PlanError, match="damaged"):
        load(data)


def test_a_plan_that_hangs_together_no_more_is_refused(written: dict[str, object]) -> None:
    data = json.loads(json.dumps(written))
    data["stages"][1]["inputs"][0]["stage"] = "s9"
    with pytest.raises(PlanError, match="s9"):
        load(data)
