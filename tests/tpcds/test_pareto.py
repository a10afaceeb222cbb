"""The Pareto line of a query: hull and worths by hand, and a picture of it."""

from __future__ import annotations

import pytest

from qoop.policies.price import Offer, Priced
from qoop.tpcds.pareto import Line, Ran, draw, table, to_json, worths

LINE = (Offer(0, 1, 10.0, 1.0), Offer(0, 2, 6.0, 2.0), Offer(1, 3, 5.5, 3.8), Offer(0, 4, 4.0, 4.0))
FOUND = Line(7, 0.01, LINE, LINE, (LINE[0], LINE[3]), (Ran(LINE[1], 6.5, 2.1, 0),))


def test_only_corners_of_the_hull_are_best_at_some_worth() -> None:
    assert [one.slots for one, _ in worths(LINE)] == [1, 2, 4]


def test_at_its_worth_each_corner_is_what_is_taken() -> None:
    for one, worth in worths(LINE):
        assert Priced(((0.0, 1.0),), worth).best(LINE) == one


def test_a_line_of_one_offer_has_one_corner() -> None:
    assert [one for one, _ in worths(LINE[:1])] == [LINE[0]]


def test_it_is_told_and_drawn() -> None:
    words = table(FOUND)
    assert "query 7: 4 of 4 offers" in words and "100% dearer" in words
    assert to_json(FOUND)["query"] == 7
    pytest.importorskip("matplotlib")
    assert draw(FOUND).svg.startswith(b"<?xml") and draw(FOUND).png.startswith(b"\x89PNG")
