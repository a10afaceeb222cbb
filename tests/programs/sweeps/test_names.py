"""Names in steps and metrics mean what they do in other queries: DuckDB, with the same names, is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.errors import ConfigError

DEFINITIONS = """
CREATE TABLE points AS SELECT (i % 7)::DOUBLE AS v FROM range(700) t(i);
CREATE VIEW shown AS SELECT v FROM points WHERE v > 0;
CREATE VIEW again AS FROM shown;
CREATE MACRO twice(x) AS 2 * x;
CREATE MACRO moved(x, rate, mean) AS x - rate * twice(x - mean);
CREATE MACRO least(a) AS TABLE SELECT v FROM points WHERE v >= a;
CREATE SCHEMA apart;
CREATE TABLE apart.points AS SELECT v + 1 AS v FROM points;
CREATE VIEW apart.shown AS SELECT v + 2 AS v FROM points;
"""
KINDS = (
    "points", "again", "least(3)", "apart.points", "apart.shown", "filed.points", "frame", "rows", "'FILE'",
    "memory.main.points",
)  # fmt: skip
STEP = "WITH p AS ({}), points AS (SELECT v FROM p) SELECT moved(f.x, $rate, avg(v)) AS x FROM former f, p GROUP BY f.x"
METRIC = "WITH p AS ({}) SELECT twice(sum(halved(abs(p.v - f.x)))) FROM former f, p"
START = "SELECT 9.0::DOUBLE AS x"
ROWS = pa.table({"v": [1.5, 2.5]})


def halved(number: float) -> float:
    return number / 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    with duckdb.connect(made / "filed.duckdb") as file:
        file.execute("CREATE TABLE points AS SELECT i::DOUBLE AS v FROM range(20) t(i)")
        file.execute(f"COPY (SELECT i::DOUBLE AS v FROM range(5) t(i)) TO '{made}/file.parquet'")
    return made


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="300MB") as made:
        made.register_function("halved", halved, ["DOUBLE"], "DOUBLE")
        made.register("frame", ROWS)
        made.sql(f"ATTACH '{folder}/filed.duckdb' AS filed; {DEFINITIONS}")
        yield made


def text(pattern: str, folder: Path) -> str:
    tables = " UNION ALL ".join(f"SELECT v FROM {one}" for one in KINDS)
    return pattern.format(tables).replace("FILE", f"{folder}/file.parquet")


def by_duckdb(folder: Path, step: str, metric: str) -> list[float]:
    """The metrics of two steps."""
    with duckdb.connect() as oracle:
        oracle.create_function("halved", halved, ["DOUBLE"], "DOUBLE")
        oracle.register("frame", ROWS)
        oracle.register("rows", ROWS)
        oracle.execute(f"ATTACH '{folder}/filed.duckdb' AS filed; {DEFINITIONS}; CREATE TABLE former AS {START}")
        found = []
        for _ in range(2):
            oracle.execute(f"CREATE OR REPLACE TABLE former AS {step.replace('$rate', '0.2')}")
            found += oracle.sql(metric).fetchall()[0]
        return found


def test_steps_and_metrics_find_all_kinds_of_names(session: qoop.Session, folder: Path) -> None:
    step, metric = text(STEP, folder), text(METRIC, folder)
    expected = by_duckdb(folder, step, metric)
    rows = ROWS
    options = {"start": START, "direction": "minimize", "most": 2, "every": 1}
    study = session.sweep(step, {"rate": [0.2, 0.1]}, metric=metric, **options)
    iteration = session.iterate(step.replace("$rate", "0.2"), START, loss="x", most=2)
    session.sql("DROP VIEW again; DROP MACRO moved")
    del rows
    assert study.wait(60) and study.curves[0] == pytest.approx(expected) and len(set(expected)) == 2
    assert {one.state for one in study.trials} == {"COMPLETE"}
    assert study.best_result().fetchall() == [(pytest.approx(iteration.last().loss),)]


def test_names_that_are_taken_are_refused(session: qoop.Session) -> None:
    step = "SELECT x - $rate AS x FROM shown"
    with pytest.raises(ConfigError, match="there is a table shown already: pass another name as former"):
        session.sweep(step, {"rate": [1]}, metric="x", start=START, former="shown")
    with pytest.raises(ConfigError, match="there is a table shown already"):
        session.iterate(step.replace("$rate", "1"), START, former="shown")
    session.sql("CREATE VIEW prepared AS SELECT 1 AS x")
    with pytest.raises(ConfigError, match="there is a table prepared already"):
        session.sweep("SELECT x - $rate AS x FROM prepared", {"rate": [1]}, metric="x", prepare="SELECT 1 AS x")


def test_a_trial_whose_step_cannot_be_read_says_why(session: qoop.Session) -> None:
    study = session.sweep("SELECT twice($x) AS x FROM range(1)", {"x": ["a", 3]}, metric="x")
    assert study.wait(60) and study.best_value == 6
    assert "Could not convert string 'a'" in study.trials[0].why
    with pytest.raises(qoop.BindError, match="nowhere"):
        session.sweep("SELECT twice($x) AS x FROM nowhere", {"x": [1, 2]}, metric="x")
