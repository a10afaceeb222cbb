"""`qoop bench shapes`: every text has an answer, and it is DuckDB's."""

from __future__ import annotations

import re

import pytest

from qoop.__main__ import main
from qoop.tpcds.bench.shapes import SHAPES, ShapeResult


def test_every_shape_is_answered_as_duckdb_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shapes", "--rows", "20000"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} +\d", shown, re.MULTILINE) for name in SHAPES)
    assert "wrong answers and errors: 0" in shown


def test_a_query_that_duckdb_does_not_end_is_marked() -> None:
    result = ShapeResult("NOT IN", 60.0, 2.0, stopped=True)
    assert result.line().split() == ["NOT", "IN", ">", "60.00", "2.00", ">", "30.0"]


def test_too_few_rows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shapes", "--rows", "10"]) == 1
    assert "--rows must be at least 1000" in capsys.readouterr().err
