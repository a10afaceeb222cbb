"""Notebooks: results and jobs as HTML, and cells of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import qoop
from qoop.query.result import Result

ITEMS = pa.table({"item": ["<tea> & more", None], "price": [3, 2]})


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "qoop")
    made.run_line_magic("qoop", str(tmp_path))
    yield made
    made.run_line_magic("qoop", "").close()
    InteractiveShell.clear_instance()


def cells(html: str) -> list[list[str]]:
    """The texts of the rows of a table; the page must be well-formed."""
    page = ElementTree.fromstring(f"<div>{html.replace('<br>', ' ')}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


def test_a_result_is_a_table_of_html() -> None:
    with qoop.connect(slots=1) as session:
        session.register("items", ITEMS)
        html = session.sql("SELECT item, price FROM items ORDER BY price")._repr_html_()
        assert cells(html) == [["item varchar", "price bigint"], ["NULL", "2"], ["<tea> & more", "3"]]
        assert "2 rows" in html and "<tea>" not in html
        many = session.sql("SELECT range AS n FROM range(1000)")._repr_html_()
        assert len(cells(many)) == 1 + 40 + 1 and "1,000 rows, 40 of them shown" in many
        job = session.submit("SELECT count(*) FROM items")
        job.wait()
        assert "succeeded" in job._repr_html_() and cells(job._repr_html_())


def test_a_cell_runs_sql_and_its_answer_has_a_name(shell: InteractiveShell) -> None:
    found = shell.run_cell_magic("qoop", "dear", "CREATE VIEW v AS FROM items WHERE price > 2; SELECT item FROM v")
    assert isinstance(found, Result) and found.fetchall() == [("<tea> & more",)]
    assert shell.user_ns["dear"] is found
    assert shell.run_line_magic("qoop", "SELECT count(*) - 1 FROM items").fetchall() == [(1,)]
    with pytest.raises(qoop.ConfigError, match="--tenant, --deadline"):
        shell.run_cell_magic("qoop", "--tenat ann", "SELECT 1")
    with pytest.raises(qoop.ConfigError, match=r"qoop.connect\(slots"):
        shell.run_line_magic("qoop", "items.parquet --slots 4")
    with pytest.raises(qoop.BindError):
        shell.run_cell_magic("qoop", "", "SELECT nothing FROM items")


def test_a_cell_sees_the_data_frames_of_the_notebook(shell: InteractiveShell) -> None:
    assert shell.run_cell("import pandas as pd\nframe = pd.DataFrame({'a': [1, 2, 3]})").success
    ran = shell.run_cell("%%qoop\nSELECT sum(a) FROM frame")
    assert ran.success and ran.result.fetchall() == [(6,)]
    shell.run_cell("frame = pd.DataFrame({'a': [40, 2]})")
    assert shell.run_cell("%%qoop --approximate\nSELECT sum(a) AS s FROM frame").result.fetchall()[0][0] == 42


@pytest.mark.parametrize("cell", ["%%qoop\nSELECT nothing\nFROM items", "session.sql('SELECT nothing FROM items')"])
def test_a_typo_in_a_cell_is_told_in_a_few_lines(shell: InteractiveShell, cell: str) -> None:
    shell.user_ns["session"] = shell.run_line_magic("qoop", "")
    with capture_output() as captured:
        assert not shell.run_cell(cell).success
    lines = captured.stdout.strip().splitlines()
    assert any("SELECT nothing" in line for line in lines) and lines[-1].strip() == "^^^^^^^"
    assert len(lines) <= 8, captured.stdout


def test_a_session_of_ones_own_is_taken(shell: InteractiveShell) -> None:
    before = shell.run_line_magic("qoop", "")
    with qoop.connect(slots=1) as session:
        shell.user_ns["mine"] = session
        assert shell.run_line_magic("qoop", "mine") is session is not before
        assert shell.run_cell_magic("qoop", "", "SELECT 7").fetchall() == [(7,)]
        assert shell.run_cell_magic("qoop", "--tenant reports seven", "SELECT 7").fetchall() == [(7,)]
        assert [one.name for one in shell.run_line_magic("qoop", "").tenants()] == ["", "reports"]
        with pytest.raises(qoop.ConfigError, match="--tenant needs a value: the tenant of the queries"):
            shell.run_cell_magic("qoop", "--tenant", "SELECT 7")
    before.close()


def test_a_cell_says_how_soon_and_how_badly_answers_are_needed(shell: InteractiveShell) -> None:
    with qoop.connect(slots=1) as session:
        shell.user_ns["mine"] = session
        shell.run_line_magic("qoop", "mine")
        assert shell.run_cell_magic("qoop", "--deadline 2min --priority 8 seven", "SELECT 7").fetchall() == [(7,)]
        assert shell.user_ns["seven"].fetchall() == [(7,)]
        job = session.submit("SELECT 8")
        job.result()
        deadline = job.status().deadline
        assert deadline is not None and 60 < deadline <= 120
        with pytest.raises(qoop.ConfigError, match="priority must be from 1 to 10, not 80"):
            shell.run_cell_magic("qoop", "--priority 80", "SELECT 7")
        with pytest.raises(qoop.ConfigError, match="'soon' is not a length of time"):
            shell.run_cell_magic("qoop", "--deadline soon", "SELECT 7")
        with pytest.raises(qoop.ConfigError, match="--deadline needs a value: the seconds in which"):
            shell.run_cell_magic("qoop", "--deadline", "SELECT 7")


def test_a_long_query_is_shown_while_it_runs(shell: InteractiveShell) -> None:
    session = shell.run_line_magic("qoop", "")
    session.register("facts", pa.table({"k": np.arange(1_000_000)}))
    with capture_output() as captured:
        shell.run_cell_magic("qoop", "", "SELECT max(sha256(sha256(sha256(k::VARCHAR)))) AS most FROM facts")
    shown = [output.data["text/html"] for output in captured.outputs]
    assert len(shown) >= 2 and "running" in shown[0] and "succeeded" in shown[-1]


def test_a_cell_shows_an_answer_that_grows(shell: InteractiveShell) -> None:
    with qoop.connect(slots=1) as session:
        session.register(
            "sales", pa.table({"shop": ["a", "b"] * 150_000, "price": Random(1).choices(range(9), k=300_000)})
        )
        shell.user_ns["mine"] = session
        shell.run_line_magic("qoop", "mine")
        session.set("exact_within", 0)
        with capture_output() as captured:
            text = "WITHIN 5 PERCENT SELECT shop, sum(price) AS income FROM sales GROUP BY shop ORDER BY shop"
            found = shell.run_cell_magic("qoop", "--approximate sales", text)
        assert found.columns[:4] == ["shop", "income", "income_low", "income_high"] and shell.user_ns["sales"] is found
        page = captured.outputs[-1].data["text/html"]
        assert [row[0] for row in cells(page)] == ["shop", "a", "b"] and page.count("<svg") == 2 and "% read" in page
        with pytest.raises(qoop.QueryError):
            shell.run_cell_magic("qoop", "--approximate", "SELECT 1; SELECT 2")


def test_a_cell_is_the_step_of_a_sweep(shell: InteractiveShell) -> None:
    shell.user_ns["many"] = {"params": {"to": [1, 3, 2]}, "metric": "x", "start": "SELECT 0.0::DOUBLE AS x", "most": 4}
    with capture_output() as captured:
        study = shell.run_cell_magic("qoop", "--sweep many found", "SELECT x + $to AS x FROM former")
    assert study.best_params == {"to": 3} and study.best_value == 12 and shell.user_ns["found"] is study
    assert [row[-1] for row in cells(study._repr_html_())] == ["setting", "to=3", "to=2", "to=1"]
    assert captured.outputs and shell.run_line_magic("qoop", "SELECT count(*) FROM sweep('sweep1')").fetchall() == [
        (3,)
    ]
    for flags, message in {
        "--sweep": "--sweep needs a value: a variable with the arguments of session.sweep",
        "--sweep few": r"there must be a variable few = dict\(params=",
        "--sweep many --approximate": "--sweep and --approximate exclude each other",
    }.items():
        with pytest.raises(qoop.ConfigError, match=message):
            shell.run_cell_magic("qoop", flags, "SELECT x + $to AS x FROM former")
