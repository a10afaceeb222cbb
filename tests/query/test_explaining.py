"""EXPLAIN in all its forms, from SQL, from Python and from the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.__main__ import main
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.engine.history import Succeeded
from qoop.query.drawing.analysis import StageRun
from qoop.session.session import Session

TEXT = "SELECT k, name, sum(v) AS total FROM sales JOIN kinds USING (k) WHERE v > 10 GROUP BY k, name ORDER BY k"
SALES = pa.table({"k": [i % 7 for i in range(90_000)], "v": list(range(90_000))})
KINDS = pa.table({"k": list(range(7)), "name": [f"kind {i}" for i in range(7)]})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(SALES, folder / "sales.parquet", row_group_size=10_000)
    pq.write_table(KINDS, folder / "kinds.parquet")
    return folder


@pytest.fixture(scope="module")
def session(data: Path) -> Iterator[Session]:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register_folder(data)
        yield session


def test_analyze_says_what_the_stages_turned_out_to_be(session: Session) -> None:
    text = session.explain(TEXT, analyze=True)
    assert "seen: 7 rows" in text
    assert "seen: nothing" not in text
    plan = json.loads(session.explain(TEXT, analyze=True, format="json"))
    assert plan["switches"] == 0
    assert plan["stages"][-1]["seen"]["rows"] == 7
    assert all(stage["seen"]["seconds"] > 0 for stage in plan["stages"])
    notes = [note for stage in plan["stages"] for note in stage["notes"]]
    for phrase in ("filter: v > 10", "group by: k, name", "order: k"):
        assert any(note.startswith(phrase) for note in notes) and phrase in text, (phrase, notes)
    assert sum(note.startswith("time: ") and "computing" in note for note in notes) == len(plan["stages"])


def test_analyze_of_duckdbs_own_plan_has_its_operators(tmp_path: Path) -> None:
    pq.write_table(KINDS, tmp_path / "kinds.parquet")
    text = "SELECT name, count(*) FROM kinds WHERE k > 1 GROUP BY name"
    with qoop.connect(slots=2, memory="500MB", staged=False) as session:
        session.register_folder(tmp_path)
        [stage] = json.loads(session.explain(text, analyze=True, format="json"))["stages"]
        analyzed = session.explain(text, analyze=True)
    profile = stage["profile"]
    assert 0 < profile["peak_memory"] < 250e6 and profile["spilled"] == 0 and 0 <= profile["cpu_seconds"] < 5
    operators = {one["name"]: one for one in profile["operators"]}
    assert operators["HASH_GROUP_BY"]["rows"] == 5 and "kinds.parquet" in operators["TABLE_SCAN"]["detail"]
    assert operators["TABLE_SCAN"]["depth"] > operators["HASH_GROUP_BY"]["depth"]
    assert "of memory at most" in analyzed and "hash group by (#0; count_star()): 5 rows, " in analyzed


def test_what_stages_spill_and_read_is_told_and_costs_no_others_anything(tmp_path: Path) -> None:
    rows = 2_000_000
    path, trace = tmp_path / "wide.parquet", tmp_path / "t.jsonl"
    duckdb.sql(
        f"COPY (SELECT range * 7919 % {rows} AS k, repeat('x', 20) || range AS s FROM range({rows})) TO '{path}'"
    )
    text = "SELECT k, s FROM wide ORDER BY s DESC"
    with qoop.connect(slots=1, memory="160MB", staged=True, trace=trace) as session:
        session.register_path(path)
        stages = json.loads(session.explain(text, analyze=True, format="json"))["stages"]
        job = session.submit(text + " LIMIT 3")
        assert job.result().fetchall()[0][1] == f"{'x' * 20}999999"
        assert all(record.profile is None for record in job.history() if isinstance(record, Succeeded))
    profiles = [stage["profile"] for stage in stages]
    assert all(0 < one["peak_memory"] <= 80e6 for one in profiles), profiles
    assert max(one["spilled"] for one in profiles) > 10e6
    assert sum(one["read"] for one in profiles) > 10e6  # the table's, and what was spilled
    assert all(one["operators"] == [] for one in profiles)  # of planned stages their own text tells
    again = rerun(read_trace(trace))
    assert again.difference is None
    replayed = [one.profile for one in again.jobs[0].history if isinstance(one, Succeeded)]
    assert replayed and max(one.spilled for one in replayed if one is not None) == max(
        one["spilled"] for one in profiles
    )


def test_analyze_speaks_of_columns_as_the_text_does() -> None:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("sales", SALES)
        text = session.explain(
            "SELECT a.k, count(*) FROM (SELECT k, max(v) AS top FROM sales GROUP BY k) a JOIN sales b ON a.top = b.v "
            "GROUP BY a.k",
            analyze=True,
        )
    assert "join: " in text and "seen: 7 rows" in text
    assert re.search(r"_[0-9a-f]{10}\b", text) is None, text


def test_a_task_that_takes_much_longer_than_the_others_is_reported() -> None:
    assert StageRun(0.0, 9.0, (1.0, 1.0, 4.0), None).skew == 4.0


def test_analyze_in_sql_says_the_same(session: Session) -> None:
    [(key, text)] = session.sql(f"EXPLAIN ANALYZE {TEXT}").fetchall()
    assert key == "analyzed_plan"
    assert "seen: 7 rows" in text


def test_alternatives_in_all_forms(session: Session) -> None:
    found = json.loads(session.explain(TEXT, alternatives=True, format="json"))
    names = [plan["name"] for plan in found["plans"]]
    assert names[0] == "A"
    assert {point["plan"] for point in found["grid"]} <= set(names)
    assert {(point["cpu"]) for point in found["grid"]} >= {1, 2}
    assert "wins on" in session.explain(TEXT, alternatives=True)
    [(key, text)] = session.sql(f"EXPLAIN ALTERNATIVES {TEXT}").fetchall()
    assert (key, text) == ("alternatives", session.explain(TEXT, alternatives=True))


@pytest.mark.parametrize("options", [{}, {"alternatives": True}, {"analyze": True}])
def test_pictures_are_well_formed(session: Session, options: dict[str, bool]) -> None:
    assert ElementTree.fromstring(session.explain(TEXT, format="svg", **options)).tag.endswith("svg")
    page = session.explain(TEXT, format="html", **options)
    assert page.startswith("<!doctype html>")
    assert "src=" not in page and "<link" not in page  # it needs nothing else


def test_two_plans_are_compared(session: Session) -> None:
    names = [plan["name"] for plan in json.loads(session.explain(TEXT, alternatives=True, format="json"))["plans"]]
    pair = f"{names[0]},{names[-1]}"
    assert "shared, about" in session.explain(TEXT, diff=pair)
    found = json.loads(session.explain(TEXT, diff=pair, format="json"))
    assert found["plans"][0]["marks"].keys() == {stage["id"] for stage in found["plans"][0]["stages"]}
    assert ElementTree.fromstring(session.explain(TEXT, diff=pair, format="svg")).tag.endswith("svg")


def test_what_cannot_be_explained_is_refused(session: Session) -> None:
    with pytest.raises(qoop.ConfigError, match="text, json, svg, html"):
        session.explain(TEXT, format="pdf")
    with pytest.raises(qoop.ConfigError, match="either"):
        session.explain(TEXT, analyze=True, alternatives=True)
    with pytest.raises(qoop.ConfigError, match="no plan Z of this query; there are A"):
        session.explain(TEXT, diff="AZ")
    with pytest.raises(qoop.ConfigError, match="two plans"):
        session.explain(TEXT, diff="A")
    with pytest.raises(qoop.QueryError):
        session.explain("SET TimeZone = 'UTC'")


def test_the_command_line_has_it_all(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["explain", "-c", TEXT, "--data", str(data), "--slots", "2", "--memory", "500MB"]
    assert main([*base, "--analyze"]) == 0
    assert "seen: 7 rows" in capsys.readouterr().out
    assert main([*base, "--alternatives", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"]
    assert main([*base, "--diff", "A,A"]) == 0
    assert "0 stages only in A" in capsys.readouterr().out
    for name in ("plan.svg", "plan.html", "plan.json", "plan.txt"):
        assert main([*base, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 100
    assert capsys.readouterr().out == ""
    assert main([*base, "-o", str(tmp_path / "no" / "plan.txt")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_png_needs_the_extra_and_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    assert main(["explain", "-c", TEXT, "--data", str(data), "--alternatives", "-o", str(tmp_path / "plan.png")]) == 1
    assert "qoop[plot]" in capsys.readouterr().err
