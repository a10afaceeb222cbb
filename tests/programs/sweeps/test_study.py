"""Sweeps in a session: what they find is what DuckDB computes, and they go on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.catalog.errors import Cancelled, ConfigError, ExecutionError, QoopError, QueryError, SessionClosed
from qoop.engine.history import Succeeded
from qoop.programs.sweeps.journal import Journal
from qoop.query.job import Job, Planned
from qoop.query.tables import SessionTables

STEP = "SELECT f.x - $rate * 2 * (f.x - avg(p.v)) AS x FROM former f, points p GROUP BY f.x"
"""A step of gradient descent towards the mean."""
METRIC = "SELECT avg((p.v - f.x) * (p.v - f.x)) FROM former f, points p"
START = "SELECT 9.0::DOUBLE AS x"
RATES = [0.001, 0.3, 1.2, 0.02]
EVERY = "SELECT (n + $by)::INTEGER AS n, * EXCLUDE (n) FROM former"
SWEEP = f"""
import sys, qoop
session = qoop.connect(slots=2, memory="500MB", checkpoints=sys.argv[1])
session.register("points", sys.argv[2])
session.sql("CREATE MACRO slow(x) AS x")
study = session.sweep({STEP!r}, {{"rate": {RATES!r}}}, metric={METRIC!r}, start={START!r}, direction="minimize",
    every=2, most=12, name="rates", target=1.0)
for trial in study.events():
    print(trial.number, trial.steps, trial.value, flush=True)
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("points") / "points.parquet"
    pq.write_table(pa.table({"v": [float(number % 7) for number in range(7000)]}), path)
    return path


@pytest.fixture
def session(points: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB") as made:
        made.register("points", points)
        yield made


def by_duckdb(points: Path, rate: float, steps: int) -> tuple[float, float]:
    """The value after these steps, and their best metric."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW points AS FROM '{points}'")
        connection.execute(f"CREATE TABLE former AS {START}")
        best = float("inf")
        for _ in range(steps):
            connection.execute(f"CREATE OR REPLACE TABLE former AS {STEP.replace('$rate', repr(rate))}")
            best = min(best, connection.sql(METRIC).fetchall()[0][0])
        return connection.sql("FROM former").fetchall()[0][0], best


@pytest.mark.parametrize("scheduler", ["pop", "asha"])
def test_it_finds_the_best_setting_and_its_rows(session: qoop.Session, points: Path, scheduler: str) -> None:
    study = session.sweep(
        STEP, {"rate": RATES}, metric=METRIC, start=START, direction="minimize", every=2, most=6, scheduler=scheduler
    )
    seen = list(study.events())
    frame = study.trials_dataframe()
    assert study.why == "all trials have ended" and len(seen) == frame.steps.sum() == 24
    assert study.best_params == {"rate": 0.3}
    x, best = by_duckdb(points, 0.3, 6)
    assert study.best_value == pytest.approx(best) and study.best_result().fetchall()[0][0] == pytest.approx(x)
    assert sorted(frame.params_rate) == sorted(RATES) and set(frame.state) == {"COMPLETE"}
    assert [one.value for one in study.trials] == [pytest.approx(by_duckdb(points, rate, 6)[1]) for rate in RATES]


@pytest.mark.usefixtures("as_installed")
def test_steps_that_run_at_once_take_a_slot_each(
    session: qoop.Session, points: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.programs.iterate.planning.LONG_SECONDS", float("inf"))
    slots, start = [], session.start

    def started(planned: Planned, **options: object) -> Job:
        slots.append(planned.plan.root.slots)
        return start(planned, **options)

    monkeypatch.setattr(session, "start", started)
    first = pa.table({"x": [9.0]})
    options = {"metric": METRIC, "start": first, "direction": "minimize", "most": 8, "scheduler": "none"}
    study = session.sweep(STEP, {"rate": RATES}, **options)
    assert study.wait(60)
    assert [one.value for one in study.trials] == [pytest.approx(by_duckdb(points, rate, 8)[1]) for rate in RATES]
    assert len(slots) == 32 and set(slots[2:24]) == {1}, "three trials have not ended before"
    slots.clear()
    assert session.sweep(STEP, {"rate": RATES[:1]}, **options).wait(60)
    assert len(slots) == 8 and min(slots) >= 2, "a trial that runs alone has all slots"


def test_sql_reads_the_trials_of_a_sweep(session: qoop.Session) -> None:
    options = {"metric": METRIC, "start": START, "direction": "minimize", "every": 2, "most": 4}
    study = session.sweep(STEP, {"rate": RATES}, **options)
    assert study.wait(60) and session.sweeps() == [study] and study.name == "sweep1"
    trials = session.sql(
        "SELECT number, params.rate, value, steps, state FROM sweep('SWEEP1') WHERE steps > 1 ORDER BY 1"
    )
    assert trials.fetchall() == [(one.number, one.params["rate"], one.value, 4, "COMPLETE") for one in study.trials]
    steps = session.sql("SELECT sweep.number, unnest(values) AS value FROM sweep('sweep1')").fetchall()
    assert steps == [(number, value) for number, curve in enumerate(study.curves) for value in curve]
    assert len(steps) == 16 == len(study.spans)
    mixed = session.sweep("SELECT 1 AS n, $x AS x", {"x": [1, "a", None]}, metric="n")
    assert mixed.wait(60) and mixed.name == "sweep2"
    assert session.sql("SELECT params.x FROM sweep('sweep2')").fetchall() == [("1",), ("a",), (None,)]
    for text, message in {
        "FROM sweep('rates')": "there is no sweep rates in this session; its sweeps: sweep1, sweep2",
        "FROM sweep(1)": r"sweep\(\) takes the name of a sweep",
        "SELECT steps FROM sweep('sweep1') WHERE best": "best",
    }.items():
        with pytest.raises(QueryError, match=message):
            session.sql(text)


def test_a_study_prints_itself_and_draws_its_curves(session: qoop.Session) -> None:
    options = {"metric": METRIC, "start": START, "direction": "minimize", "every": 2, "most": 4}
    study = session.sweep(STEP, {"rate": RATES}, **options)
    assert study.wait(60)
    assert repr(study) == (
        f"<Study sweep1: 4 trials, 4 complete, best {study.best_value:.6g} with rate=0.3; all trials have ended>"
    )
    page = study._repr_html_()
    assert page.count("<polyline") == page.count("<td>COMPLETE</td>") == 4
    assert page.index("rate=0.3<") < page.index("rate=0.02<") < page.index("rate=1.2<"), "the best trial comes first"
    failed = session.sweep("SELECT CAST($x AS INT) AS n", {"x": ["<b>", "1"]}, metric="n")
    assert failed.wait(60) and "&lt;b&gt;" in failed._repr_html_() and "<b>'" not in failed._repr_html_()


def test_the_target_ends_it_and_the_metric_may_be_a_column(session: qoop.Session) -> None:
    study = session.sweep(
        "SELECT count(*) AS n FROM points WHERE v < $most", {"most": [1, 2, 3, 4, 5]}, metric="n", target=2500
    )
    assert study.wait(60) and study.why == "the target was reached"
    # two trials run at once: the next one may have ended, too, when the first with the target is seen
    assert study.best_value in (3000, 4000) and study.best_params == {"most": study.best_value // 1000}
    assert study.best_result().fetchall() == [(study.best_value,)]


def test_time_and_stop_end_it_with_what_was_found(session: qoop.Session) -> None:
    endless = {"metric": METRIC, "start": START, "direction": "minimize", "most": 1_000_000}
    study = session.sweep(STEP, {"rate": RATES}, within="1h", **endless)
    assert any(one.value < 30 for one in study.events()) and not study.why
    study._begun -= 3600.0  # an hour is over
    assert study.wait(60) and study.why == "the time was over" and study.best_value < 30
    stopped = session.sweep(STEP, {"rate": qoop.log_uniform(0.001, 1)}, trials=3, **endless)
    next(iter(stopped.events()))
    stopped.stop()
    assert stopped.why == "it was stopped" and stopped.best_value > 0
    assert session.sql("SELECT count(*) FROM points").fetchall() == [(7000,)]


def test_its_slots_follow_its_share(points: Path) -> None:
    endless = {"metric": METRIC, "start": START, "direction": "minimize", "most": 1_000_000}
    with qoop.connect(slots=2, memory="500MB", tenants="a=1,b=3") as session:
        session.register("points", points)
        study = session.sweep(STEP, {"rate": RATES}, tenant="a", **endless)

        def runs_on(slots: int) -> bool:
            return any(study.slots == slots for _, _ in zip(range(5000), study.events(), strict=False))

        session.resize(slots=4)
        assert runs_on(4), "it has all of the machine"
        other = session.submit("SELECT count(*) FROM range(100000000000) t(i) WHERE i % 7 = 1", tenant="b")
        assert runs_on(1), "a tenant of three times its weight has come"
        other.cancel()
        assert runs_on(4) and not study.why
        study.stop()


def test_a_metric_is_one_number(session: qoop.Session) -> None:
    step = "SELECT v FROM points WHERE v < $a"
    study = session.sweep(step, {"a": [3, 2, 0]}, metric="WITH w AS (FROM former) SELECT sum(v) FROM w -- all")
    assert study.wait(60) and study.best_value == 3000.0 and study.best_result().columns == ["v"]
    assert "the step has no rows" in study.trials[2].why
    wrong = {"FROM former": "and has 3000", "SELECT NULL": "number: None", "SELECT 'nan'::DOUBLE": "number: nan"}
    for metric, why in wrong.items():
        with pytest.raises(ExecutionError, match=why):
            session.sweep(step, {"a": [3]}, metric=metric).wait(60)


def test_a_refused_sweep_releases_its_prepared_rows(session: qoop.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = [], SessionTables.close
    monkeypatch.setattr(SessionTables, "close", lambda one: closed.append(set(one.catalog.tables())) or close(one))
    step = "SELECT f.x - $rate * (f.x - p.mean) AS x FROM former f, prepared p"
    options = {"metric": METRIC, "start": START, "prepare": "SELECT 3.0 AS mean", "name": "rates"}
    with pytest.raises(ConfigError, match="a sweep with a name needs a folder"):
        session.sweep(step, {"rate": RATES}, **options)
    assert closed == [{"prepared", "points"}]


def test_common_work_runs_once(points: Path, tmp_path: Path) -> None:
    step = "SELECT f.x - $rate * 2 * (f.x - p.mean) AS x FROM former f, prepared p"
    options = {"metric": METRIC, "start": START, "direction": "minimize", "most": 2}
    with qoop.connect(slots=2, memory="500MB", checkpoints=tmp_path) as session:
        session.register("points", points)
        for life in range(2):
            study = session.sweep(step, {"rate": RATES}, prepare="SELECT avg(v) AS mean FROM points", **options)
            assert study.wait(60) and study.best_value == pytest.approx(by_duckdb(points, 0.3, 2)[1])
            jobs = [job for job in session.cluster.jobs() if "avg(v) AS mean FROM points" in job.text]
            ran = [any(isinstance(one, Succeeded) for one in job.news(0)) for job in jobs]
            assert ran == [True, False][: life + 1], "the second sweep finds the rows of the first"
        for text, query, message in (
            (STEP, "SELECT 3.0 AS mean", "neither the step nor the metric reads prepared"),
            (step, 3, "prepare must be a query, not 3"),
            (step, "FROM nothing", "nothing does not exist"),
        ):
            with pytest.raises(QoopError, match=message):
                session.sweep(text, {"rate": RATES}, prepare=query, **options)
        session.sql("CREATE TABLE prepared AS SELECT 1 AS mean")
        with pytest.raises(ConfigError, match="there is a table prepared already"):
            session.sweep(step, {"rate": RATES}, prepare="SELECT 3.0 AS mean", **options)


def test_poor_trials_end_where_that_is_the_wish(session: qoop.Session) -> None:
    options = {"metric": METRIC, "start": START, "direction": "minimize", "every": 2, "most": 8}
    study = session.sweep(STEP, {"rate": RATES}, hopeless=30.0, prune="kill", **options)
    assert study.wait(60) and study.best_params == {"rate": 0.3}
    pruned = {one.params["rate"] for one in study.trials if one.state == "PRUNED"}
    assert 0.001 in pruned and 0.3 not in pruned
    parked = session.sweep(STEP, {"rate": RATES}, hopeless=30.0, **options)
    assert parked.wait(60) and {one.state for one in parked.trials} == {"COMPLETE"}


def test_a_trial_that_fails_says_why_and_the_others_go_on(session: qoop.Session) -> None:
    study = session.sweep(
        "SELECT CAST($text AS INT) AS n FROM range(1)", {"text": ["7", "x", None, "3"]}, metric="n", scheduler="none"
    )
    assert study.wait(60) and study.best_value == 7
    failed = {one.number: one.why for one in study.trials if one.state == "FAIL"}
    assert "Could not convert string 'x'" in failed[1] and "no number: None" in failed[2] and len(failed) == 2
    rows = session.sweep("SELECT v FROM points WHERE v < $a", {"a": [3]}, metric="v")
    with pytest.raises(ExecutionError, match=r"all trials have failed, the first by: the metric must be one row"):
        rows.wait(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": {"rate": [0.1]}, "metric": 3}, "metric must be a text"),
        ({"params": {"other": [1]}}, "parameter"),
        ({"params": {}}, "names no parameter"),
        ({"params": {"rate": []}}, "rate must be a list of values or a range"),
        ({"params": {"rate": [0.1], "k": [1]}}, "no parameters, for: k"),
        ({"params": {"rate": 0.1}}, "rate must be a list of values or a range"),
        ({"params": [{"rate": 1}, {"speed": 2}]}, r"parameter \$rate has no value; there are values for: speed"),
        ({"params": [1, 2]}, "params must be values or ranges by name, or rows, not list"),
        ({"params": {"rate": [0.1]}, "trials": 0}, "trials must be at least 1"),
        ({"params": {"rate": [0.1]}, "every": 5, "most": 4}, "every must be from 1 to most, which is 4, not 5"),
        ({"step": 3, "params": {"rate": [0.1]}}, "step must be a query, not 3"),
        ({"step": "FROM points; FROM points", "params": [{}]}, "a single query is needed here"),
        ({"params": {"rate": [0.1]}, "metric": "SELECT random()", "name": "rates"}, "that depends on chance"),
        ({"params": {"rate": [0.1]}, "name": "a b"}, "name must be an identifier such as rates_1"),
        ({"params": {"rate": [0.1]}, "start": None}, "the step reads former: pass start"),
        *(
            ({"params": {"rate": [0.1]}, name: value}, f"{name} must be {what}")
            for what, values in {
                "a whole number": {"trials": 2.5, "every": "1", "most": True, "seed": [1]},
                "a number": {"target": "x", "hopeless": float("nan")},
                "a text": {"former": 3, "name": 3},
            }.items()
            for name, value in values.items()
        ),
        ({"params": {"rate": [0.1]}, "scheduler": "best"}, "scheduler must be one of pop, asha"),
        ({"params": {"rate": [0.1]}, "direction": "up"}, "direction must be maximize or minimize"),
        ({"params": {"rate": [0.1]}, "prune": "end"}, "prune must be park or kill, not 'end'"),
        ({"params": {"rate": [0.1]}, "hopeless": float("nan")}, "hopeless must be a number"),
        ({"params": {"rate": [0.1]}, "most": 0}, "most must be at least 1, not 0"),
        ({"params": {"rate": [0.1]}, "name": "rates"}, r"connect\(checkpoints=FOLDER\)"),
        ({"params": {"rate": [0.1]}, "former": "points"}, "there is a table points already"),
        ({"params": []}, "no rows"),
        (
            {"params": {"rate": [0.1]}, "tagret": 1},
            "there is no option tagret; the options of a sweep are weight, tenant",
        ),
    ],
)
def test_what_is_wrong_is_said_at_once(session: qoop.Session, options: dict[str, object], message: str) -> None:
    with pytest.raises(QoopError, match=message):
        session.sweep(**{"step": STEP, "metric": METRIC, "start": START, **options})


def test_rows_and_frames_are_settings(session: qoop.Session) -> None:
    for rows in ([{"a": 1}, {"a": 5}], pa.table({"a": [1, 5]}), pa.table({"a": [1, 5]}).to_pandas()):
        study = session.sweep("SELECT $a + 1 AS n", rows, metric="n")
        assert study.wait(60) and study.best_params == {"a": 5} and len(study.trials) == 2
    with pytest.raises(ConfigError, match="to a higher one"):
        qoop.log_uniform(0, 1)


def test_a_named_sweep_goes_on_after_a_kill(tmp_path: Path, points: Path) -> None:
    words = [sys.executable, "-c", SWEEP, str(tmp_path / "checkpoints"), str(points)]
    steps: dict[int, int] = {}
    for life in range(2):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            seen = [process.stdout.readline().split() for _ in range(6)]
            os.kill(process.pid, signal.SIGKILL)
            seen += [line.split() for line in process.stdout.read().splitlines() if len(line.split()) == 3]
        assert all(seen), f"life {life} has ended by itself"
        for trial, done, _ in seen:
            number = int(trial)
            assert int(done) >= steps.get(number, 0), "no step that was seen is done again"
            steps[number] = int(done)
    with qoop.connect(slots=2, memory="500MB", checkpoints=tmp_path / "checkpoints") as session:
        session.register("points", points)
        options = {"metric": METRIC, "start": START, "direction": "minimize", "every": 2, "most": 12, "name": "rates"}
        with pytest.raises(ConfigError, match="another sweep of this name, with other trials"):
            session.sweep(STEP, {"rate": [0.5]}, target=1.0, **options)
        study = session.sweep(STEP, {"rate": RATES}, target=1.0, **options)
        with pytest.raises(ConfigError, match="another process runs the sweep rates"):
            session.sweep(STEP, {"rate": RATES}, target=1.0, **options)
        assert study.wait(60) and study.why == "all trials have ended"
        assert all(one.steps >= steps[one.number] for one in study.trials if one.number in steps)
        x, best = by_duckdb(points, 0.3, 12)
        assert study.best_params == {"rate": 0.3} and study.best_value == pytest.approx(best)
        assert study.best_result().fetchall()[0][0] == pytest.approx(x)


def test_a_named_sweep_keeps_the_answers_that_it_may_need(tmp_path: Path) -> None:
    step, found = "SELECT n + 1 + $x AS n FROM former", [3, 1, 5, 5, 5, 2, 2, 7, 6]
    metric = f"SELECT {found}[n] FROM former"
    with qoop.connect(slots=1, memory="200MB", checkpoints=tmp_path) as session:
        study = session.sweep(step, {"x": [0]}, metric=metric, start="SELECT 0 AS n", most=len(found), name="few")
        assert study.wait(60) and study.curves == [found] and study.best_result().fetchall() == [(8,)]
    kept = sorted(path.stem for path in (tmp_path / "sweeps" / "few" / "answers").iterdir())
    assert kept == ["0-7", "0-8"], "the best, and the last"


def test_every_type_survives_steps_and_a_kill(tmp_path: Path) -> None:
    every = (
        "SELECT row_number() OVER () AS id, 0 AS n, ['medium']::ENUM('small', 'medium')[] AS enums, "
        "MAP {'medium': 1}::MAP(ENUM('small', 'medium'), UTINYINT) AS by_enum, "
        "{'a': ['small']::ENUM('small', 'medium')[1]} AS within, * FROM test_all_types()"
    )
    options = {"metric": "SELECT max(n) FROM former", "start": every, "most": 6, "name": "types"}
    sweep = f"session.sweep({EVERY!r}, {{'by': [1, 2]}}, **{options!r})"
    killed = f"""
import os, signal, sys, qoop
session = qoop.connect(slots=1, memory="300MB", checkpoints=sys.argv[1])
for trial in {sweep}.events():
    if trial.steps == 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", killed, str(tmp_path)]).returncode == -signal.SIGKILL
    with qoop.connect(slots=1, memory="300MB", checkpoints=tmp_path) as session, duckdb.connect() as alone:
        study = session.sweep(EVERY, {"by": [1, 2]}, **options)
        assert max(one.steps for one in study.trials) >= 2, "it goes on"
        assert study.wait(60) and {one.state for one in study.trials} == {"COMPLETE"} and study.best_value == 12
        found = study.best_result()
        alone.execute(f"CREATE TABLE former AS {every}")
        expected = alone.sql(EVERY.replace("$by", "12") + " ORDER BY id")
        assert found.types == list(map(str, expected.types)) and "ENUM('small', 'medium')[]" in found.types
        rows = sorted(found.fetchall(), key=lambda row: row[1])
        assert repr(rows) == repr(expected.fetchall()) and len(rows) == 3


def test_a_session_that_ends_ends_its_sweep_and_one_with_fewer_slots_continues_it(
    points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_jobs, released = threading.Event(), []
    end_jobs, release = Cluster.close, Journal.close
    monkeypatch.setattr(Cluster, "close", lambda one: (end_jobs(one), no_jobs.set()))
    monkeypatch.setattr(Journal, "close", lambda one: released.append(no_jobs.wait(60)) or release(one))
    options = {"metric": METRIC, "start": START, "direction": "minimize", "most": 8, "name": "rates"}
    steps = dict.fromkeys(range(len(RATES)), 0)
    for slots in (2, 1):
        session = qoop.connect(slots=slots, memory="200MB", checkpoints=tmp_path)
        session.register("points", points)
        study = session.sweep(STEP, {"rate": RATES}, **options)
        assert all(one.steps >= steps[one.number] for one in study.trials), "no step is forgotten"
        if slots == 2:
            for one in study.events():
                steps[one.number] = one.steps
                if sorted(steps.values())[-2]:  # two of them have ended one
                    break
            session.close()
            assert released == [True], "its folder is free"
            with pytest.raises((Cancelled, SessionClosed)):
                study.wait()
        else:
            assert study.wait(60) and {one.state for one in study.trials} == {"COMPLETE"}
            session.close()
