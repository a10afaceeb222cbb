"""Texts that mean the same at any time: found mostly without DuckDB's list of functions."""

from __future__ import annotations

import pytest

from qoop.query.statements import normal_text
from qoop.query.statements.normal_text import is_steady


def test_names_that_count_as_steady_are_so_in_this_duckdb():
    unsteady = normal_text._unsteady_words() | normal_text._unsteady_calls()
    assert "random" in unsteady and "read_csv" in unsteady
    assert not normal_text._STEADY & unsteady


def test_common_texts_need_no_list_of_functions(monkeypatch):
    monkeypatch.setattr(normal_text, "_functions", lambda: pytest.fail("DuckDB was asked for its functions"))
    assert is_steady("SELECT random, sum(a) FROM t WHERE b IN (1, 2) AND (a > 0) GROUP BY random HAVING (count(*) > 1)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT random() FROM t", 'SELECT "random"() FROM t', "SELECT a.Random () FROM t",
        "SELECT current_date, sum(a) FROM t",
        "FROM glob('*')", "SELECT * FROM t USING SAMPLE 3", "SELECT * FROM t TABLESAMPLE (3 ROWS)",
        "SELECT localtimestamp", "SELECT sum(a), now() FROM t", "SELECT getenv('HOME')",
    ],
)  # fmt: skip
def test_others_are_found(text):
    assert not is_steady(text)


@pytest.mark.parametrize("call", ["dayname(d)", "date_trunc('month', d)", "last_day(d)", "d - to_days(1)", "range(3)"])
def test_functions_of_dates_are_steady_since_the_zone_is_a_setting(call):
    assert is_steady(f"SELECT {call}, sum(a) FROM t GROUP BY ALL")
