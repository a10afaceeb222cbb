"""`qoop bench streams`: its texts, its changes of tables, and its figures."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.streams import bench
from qoop.tpcds.streams.constants import Constants
from qoop.tpcds.streams.tables import ChangingTables
from qoop.tpcds.streams.workload import EVERY, statements

CONSTANTS = Constants([["Books", "Music", "Shoes"], ["TN", "OH"]], {"d_year": (1998, 2002), "d_moy": (1, 12)})
TEXT = """SELECT 'Books' AS "TN", count(*) FROM t WHERE d_year IN (1999, 1999 + 1) AND d_moy BETWEEN 2 AND 4
AND d_date > '1999-02-01' AND i_category IN ('Books', 'Music') AND n = 1999"""


def test_constants_of_a_column_change_together_and_nothing_else_does():
    drawn = {CONSTANTS.drawn(TEXT, random.Random(seed)) for seed in range(200)}
    assert len(drawn) > 50
    for text in drawn:
        year = next(year for year in range(1998, 2003) if f"IN ({year}, {year} + 1)" in text)
        assert f"'{year}-02-01'" in text and '"TN"' in text and text.endswith("n = 1999")
        [(first, last)] = [(n, n + 2) for n in range(1, 11) if f"BETWEEN {n} AND {n + 2}" in text]
        assert 1 <= first < last <= 12


def test_a_part_of_the_statements_repeats_earlier_ones_and_every_twentieth_is_a_change():
    templates = {number: TEXT.replace("count(*)", f"count(*) + {number}") for number in range(1, 40)}
    for stream, least, most in ((0, 0, 20), (9, 160, 188)):
        drawn = statements(templates, CONSTANTS, stream, 200)
        assert drawn == statements(templates, CONSTANTS, stream, 200)
        assert [place for place, one in enumerate(drawn, 1) if one.kind == "change"] == list(range(EVERY, 201, EVERY))
        repeats = [one for one in drawn if one.kind == "repeat"]
        assert least < len(repeats) < most
        others = [one.text for one in drawn if one.kind in ("new", "constants")]
        assert len(set(others)) == len(others) and {one.text for one in repeats} <= set(others)


def test_tables_change_in_the_copy_alone(tpcds_small, tmp_path):
    tables, chance = ChangingTables(Path(tpcds_small), tmp_path), random.Random(1)
    with Oracle(tmp_path) as oracle, Oracle(tpcds_small) as before:
        done = [tables.change(number, chance) for number in range(6)]
        oracle.read_again(tmp_path)
        grown = next(one.removeprefix("append to ") for one in done if one.startswith("append to "))
        assert sum(one.startswith("replace") for one in done) and sum(one.startswith("update") for one in done)
        rows, rows_before = (side.answer(f"SELECT count(*) FROM {grown}").to_pylist() for side in (oracle, before))
        assert rows and rows != rows_before


@pytest.fixture
def options(as_installed, tpcds_small, tmp_path):
    return bench.StreamsOptions(
        Path(tpcds_small), (3, 42, 52), streams=1, statements=EVERY + 3, results=tmp_path / "streams.jsonl"
    )


def test_repeats_are_answered_without_work_and_a_second_run_goes_on_from_the_results(options):
    [done] = bench.run(options, lambda line: None)
    assert not done.errors
    repeats = [one for one in done.taken if one.kind == "repeat"]
    assert len(repeats) > 10 and sum(one.there for one in repeats) >= len(repeats) - 4  # a change is between
    assert not any(one.there for one in done.taken if one.kind != "repeat")
    assert bench.run(options, lambda line: None) == [done]
    assert "were there" in bench.table([done])
    with pytest.raises(ConfigError, match="other settings"):
        bench.run(replace(options, reuse=False))


def test_a_wrong_answer_is_an_error(options, monkeypatch):
    def other_answer(self, text):
        return answer(self, text.replace("DESC", "ASC").replace("LIMIT", "OFFSET 1 LIMIT"))

    answer = Oracle.answer
    monkeypatch.setattr(Oracle, "answer", other_answer)
    [done] = bench.run(replace(options, statements=2, results=None), lambda line: None)
    assert done.errors and "statement" in done.errors[0]


def test_numbers_that_cannot_be_are_refused(capsys):
    assert main(["bench", "streams", "nowhere", "--streams", "11"]) == 1
    assert "--streams must be from 1 to 10, not 11" in capsys.readouterr().err
