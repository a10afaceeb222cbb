"""The last round over row groups: what is left of them, or the query itself, whichever should take less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.sources.pieces import Cut, CutFile
from qoop.catalog.table import Table
from qoop.programs.approximate import answer
from qoop.programs.approximate.final_round import Whole, is_taken_over, stretches

GROUPS, EACH = 60, 100_000


class Growth:
    """As much of a growth as the choice goes by."""

    ends_as_query = False


@pytest.fixture(scope="module")
def pieces() -> Cut:
    """A table in two files of 30 row groups each, which nobody reads."""

    class Source:
        rows = GROUPS * EACH

        def digest(self) -> str:
            return ""

    borders = tuple(range(0, GROUPS // 2 * EACH + 1, EACH))
    files = tuple(CutFile(name, borders[-1], EACH, borders) for name in "ab")
    source: Any = Source()
    return Cut(Table("t", (("i", "BIGINT"),), "", source, GROUPS * EACH), files)


def test_what_is_left_lies_in_stretches_by_file(pieces: Cut) -> None:
    assert stretches(pieces, range(GROUPS)) == 2
    assert stretches(pieces, [0, 1, 3, 29, 30, 31]) == 4


def test_a_long_query_reuses_the_pieces_of_interim_editions(pieces: Cut) -> None:
    left, growth = [one for one in range(GROUPS) if one % 6], Growth()
    long, short = Whole(2.0, 2.0), Whole(0.05, 2.0)
    assert is_taken_over(growth, pieces, left, long, [0.5])
    assert not is_taken_over(growth, pieces, left, short, [0.01]), "it saves less than the stretches cost"
    assert not is_taken_over(growth, pieces, left, long, [0.9]), "whole tables take less than interim editions indicate"
    growth.ends_as_query = True
    assert not is_taken_over(growth, pieces, left, long, [0.5])


@pytest.mark.parametrize("taken_over", [False, True])
def test_the_exact_answer_is_the_same_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_over: bool
) -> None:
    (tmp_path / "sales").mkdir()
    rows = pa.table({"id": [row % 7 for row in range(200_000)], "price": [row * 7919 % 100 for row in range(200_000)]})
    for number in range(2):
        pq.write_table(
            rows.slice(number * 100_000, 100_000), tmp_path / "sales" / f"{number}.parquet", row_group_size=2_000
        )
    monkeypatch.setattr(answer, "is_taken_over", lambda *_: taken_over)
    text = "SELECT id, count(*) AS n, sum(price) AS s, avg(price) AS a FROM sales GROUP BY id ORDER BY id"
    with qoop.connect(slots=1, memory="1GB") as session:
        session.register_folder(tmp_path)
        grown = session.approximate(text, error=0, seed=1)
        [first, last] = grown.editions()
        assert not first.exact and last.exact and last.share == 1.0
        wanted = duckdb.sql(text.replace("FROM sales", f"FROM '{tmp_path}/sales/*.parquet'")).fetchall()
        assert last.plain().fetchall() == wanted
        sql = [report.stage.sql for report in grown.jobs[-1].stage_reports()]
        assert any("qoop_pieces" in one for one in sql) is taken_over
