"""The stages that two plans have in common, and the text that shows them."""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.plan import Estimate, Layout, Plan, Stage, StageInput
from qoop.planner.search.difference import Difference, Mark, explain_difference, marks

COLUMNS = (("a", "INTEGER"),)


def stage(id: str, signature: str, *below: str, width: int = 1, shareable: bool = True) -> Stage:
    inputs = tuple(StageInput(name, name, "all") for name in below)
    estimate = Estimate(100, 800, 0.5, 1e6)
    return Stage(
        id, "", inputs, COLUMNS, width, signature, estimate=estimate, shareable=shareable, label=f"does {signature}"
    )


LEFT = Plan((stage("s1", "x"), stage("s2", "y", "s1"), stage("s3", "own", "s2")), COLUMNS)
RIGHT = Plan(
    (stage("s1", "other"), stage("s2", "x"), stage("s3", "y", "s2", width=2), stage("s4", "z", "s1", "s3")), COLUMNS
)


def test_stages_are_shared_recut_or_on_their_own() -> None:
    left, right = Difference(LEFT, RIGHT).marks
    assert left == {"s1": Mark.SHARED, "s2": Mark.RECUT, "s3": Mark.OWN}
    assert right == {"s1": Mark.OWN, "s2": Mark.SHARED, "s3": Mark.RECUT, "s4": Mark.OWN}


def test_a_plan_shares_all_with_itself_but_non_deterministic_stages() -> None:
    assert set(marks(LEFT, LEFT).values()) == {Mark.SHARED}
    non_deterministic = replace(LEFT, stages=(*LEFT.stages[:-1], replace(LEFT.root, shareable=False)))
    assert marks(non_deterministic, non_deterministic)["s3"] is Mark.OWN


def test_another_layout_is_another_cut() -> None:
    cut = replace(LEFT.stages[0], layout=Layout(("a",), 4))
    assert marks(Plan((cut,), COLUMNS), LEFT) == {"s1": Mark.RECUT}


def test_equal_stages_stand_side_by_side_and_every_stage_once() -> None:
    pairs = Difference(LEFT, RIGHT).pairs
    assert [(one and one.id, other and other.id) for one, other in pairs][:3] == [
        (None, "s1"), ("s1", "s2"), ("s2", "s3"),
    ]  # fmt: skip
    assert [one.id for one, _ in pairs if one] == ["s1", "s2", "s3"]
    assert [other.id for _, other in pairs if other] == ["s1", "s2", "s3", "s4"]


def test_the_text_marks_what_is_shared_and_says_what_it_is_worth() -> None:
    text = explain_difference(Difference(LEFT, RIGHT, ("B", "D")))
    lines = text.splitlines()
    assert lines[0].startswith("B ") and lines[0].endswith("│ D")
    assert lines[2].startswith("= s1  does x") and "│ = s2  does x" in lines[2]
    assert lines[3].startswith("~ s2") and "│ ~ s3" in lines[3]
    assert len({line.index("│") for line in lines[:5]}) == 1
    assert "= 1 stage shared, about 500 ms of one thread to keep" in text
    assert "~ 1 stage of B and 1 of D have the same rows, cut otherwise" in text
    assert "  1 stage only in B, about 500 ms" in text and "  2 stages only in D, about 1.0 s" in text
