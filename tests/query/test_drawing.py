"""Drawings of plans: every stage in its place, nothing over anything else, what is shared in colour."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.planner.estimate.observed import Observation
from qoop.planner.plan import Estimate, Plan, Stage, StageInput
from qoop.query.drawing.drawing import (
    BOX,
    TALL,
    Drawing,
    draw_plan,
    draw_plans,
    heat_map,
    shared_colours,
    side_by_side,
    stacked,
)

SVG = "{http://www.w3.org/2000/svg}"


def plan(*reads: tuple[int, ...], signatures: str = "") -> Plan:
    """A plan whose n-th stage reads these stages."""
    columns = (("a", "INTEGER"),)

    def stage(n: int, below: tuple[int, ...]) -> Stage:
        inputs = tuple(StageInput(f"s{i}", f"s{i}", "all") for i in below)
        signature, label = signatures[n] if signatures else f"x{n}", f"stage <{n}> & more " * 3
        return Stage(f"s{n}", "SELECT 1", inputs, columns, 1, signature, label=label, estimate=Estimate(10, 80, 0.1))

    return Plan(tuple(stage(n, below) for n, below in enumerate(reads)), columns)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Random DAGs in which every stage but the last has a reader."""
    count = draw(st.integers(1, 24))
    reads: list[set[int]] = [set() for _ in range(count)]
    for n in range(count - 1):
        for reader in draw(st.sets(st.integers(n + 1, count - 1), min_size=1, max_size=3)):
            reads[reader].add(n)
    return plan(*(tuple(sorted(below)) for below in reads))


def boxes(drawing: Drawing) -> dict[str, tuple[float, float]]:
    """Upper left corner by stage."""
    root = ElementTree.fromstring(drawing.svg())
    found = {}
    for group in root.iter(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        if rect is not None and title is not None:
            found[str(title.text).split()[0]] = (float(rect.attrib["x"]), float(rect.attrib["y"]))
    return found


@settings(max_examples=60, deadline=None)
@given(plans())
def test_no_box_covers_another_and_readers_stand_above(one: Plan) -> None:
    drawing = draw_plan(one)
    found = boxes(drawing)
    assert found.keys() == one.by_id.keys()
    for (x0, y0), (x1, y1) in combinations(found.values(), 2):
        assert abs(x0 - x1) >= BOX or abs(y0 - y1) >= TALL
    for stage in one.stages:
        for item in stage.stage_inputs:
            assert found[stage.id][1] + TALL <= found[item.stage][1]
    for x, y in found.values():
        assert 0 <= x <= drawing.width - BOX and 0 <= y <= drawing.height - TALL


@settings(max_examples=60, deadline=None)
@given(plans())
def test_no_line_runs_through_a_box(one: Plan) -> None:
    """Within a layer lines run straight down between boxes: look at their points at the edges of layers."""
    drawing = draw_plan(one)
    found = boxes(drawing)
    for path in re.findall(r'<path d="([^"]+)"', drawing.svg()):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        corners = list(zip(numbers[0::2], numbers[1::2], strict=True))[0::3]
        for (x, y), (_, below) in pairwise(corners[1:]):
            for left, top in found.values():
                assert not (left < x < left + BOX and min(y, below) < top + TALL / 2 < max(y, below))


def test_stages_of_two_plans_have_one_colour() -> None:
    one, other = plan((), (0,), signatures="ab"), plan((), (), (0, 1), signatures="acd")
    colours = shared_colours([one, other])
    assert len(colours) == 1
    svg = draw_plans([("A", one), ("B", other)]).svg()
    assert svg.count(f'fill="{next(iter(colours.values()))}"') == 2
    assert re.findall(r">= (.+?)<", svg) == ["B s0", "A s0"]


def test_many_shared_stages_have_different_colours() -> None:
    many = plan(*[()] * 20, tuple(range(20)))
    colours = shared_colours([many, many])
    assert len(set(colours.values())) == len(colours) == 21


def test_what_was_seen_is_shown_and_misjudged_stages_are_marked() -> None:
    one = plan((), (0,))
    svg = draw_plan(one, {"s0": Observation(1000, 8, 0.5), "s1": Observation(11)}).svg()
    assert svg.count("seen: 1.0k rows, 500 ms") == 1
    assert svg.count('stroke="#b03a2e"') == 1


def test_drawings_are_put_together_without_overlap() -> None:
    parts = [Drawing(10, 20, "a"), Drawing(30, 5, "b")]
    assert (stacked(parts).width, stacked(parts).height) == (30, 25)
    assert (side_by_side(parts).width, side_by_side(parts).height) == (40, 20)


def test_png_of_a_plan() -> None:
    pytest.importorskip("resvg_py")
    from qoop.query.drawing.picture import png

    assert png(draw_plan(plan((), (0,), (0, 1))).svg()).startswith(b"\x89PNG")


def test_the_map_has_a_cell_for_every_share() -> None:
    import qoop

    with qoop.connect(slots=2, memory="500MB") as session:
        alternatives = session.alternatives("SELECT sum(range) FROM range(10)")
        svg = heat_map(alternatives).svg()
    points = alternatives.pool.grid.points
    assert len(points) > 1
    assert svg.count("<tspan") == len(points)
