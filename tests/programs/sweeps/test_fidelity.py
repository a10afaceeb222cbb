"""Sweeps whose early steps read some pieces of a table: what they find is what DuckDB computes over all rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp, parse_one

import qoop
from qoop.adaptive.program import Begin
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.programs.approximate.names import Refused
from qoop.programs.sweeps.messages import RunStep, TrialStepEnded
from qoop.programs.sweeps.scale_free import shape_of
from qoop.programs.sweeps.sweep import Probe, Sweep, Trial

ROWS = "SELECT (hash(i) % 1000)::DOUBLE AS v FROM range(250000) t(i)"
STEP = "SELECT f.x - $rate * 2 * (f.x - avg(p.v)) AS x FROM former f, points p GROUP BY f.x"
"""A step towards the mean, which one with the rate 0.5 reaches."""
METRIC = "SELECT avg((p.v - f.x) * (p.v - f.x)) FROM former f, points p"
OPTIONS = {
    "params": {"rate": [0.01, 0.5, 0.02]}, "metric": METRIC, "start": "SELECT 9.0::DOUBLE AS x", "every": 3, "most": 6,
    "direction": "minimize", "fidelity": "pieces",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB") as made:
        made.sql(f"CREATE TABLE points AS {ROWS}")
        yield made


@pytest.fixture
def without_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early steps stay: those of these tests are too short to pay."""
    monkeypatch.setattr("qoop.programs.sweeps.sweep._PROBES", 0)
    monkeypatch.setattr(Probe, "is_over", False)


def mean_and_variance() -> tuple[float, float]:
    [(mean, variance)] = duckdb.sql(f"SELECT avg(v), var_pop(v) FROM ({ROWS})").fetchall()
    return mean, variance


@pytest.mark.usefixtures("without_probes")
def test_early_steps_estimate_and_results_are_of_all_rows(session: qoop.Session) -> None:
    mean, variance = mean_and_variance()
    study = session.sweep(STEP, **OPTIONS)
    seen = list(study.events())
    early = [one for one in seen if one.steps <= 3]
    assert len(early) == 9 and {one.value for one in early} == {None}
    assert str(early[0]).endswith("an estimate by some pieces") and len(seen) > 9
    [at_mean] = {one.estimate for one in early if one.params["rate"] == 0.5 and one.steps > 1}
    assert at_mean == pytest.approx(variance, rel=0.05) and at_mean != pytest.approx(variance, rel=1e-9)
    assert all(one.estimate is None and one.value >= variance * (1 - 1e-9) for one in seen if one.steps > 3)
    assert study.best_params == {"rate": 0.5} and study.best_value == pytest.approx(variance)
    assert study.best_result().fetchall() == [(pytest.approx(mean),)]


@pytest.mark.usefixtures("without_probes")
def test_no_estimate_reaches_the_target(session: qoop.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    start = session.start
    monkeypatch.setattr(
        session, "start", lambda planned, **terms: texts.append(planned.bound.text) or start(planned, **terms)
    )
    duckdb.execute(f"COPY (SELECT *, 'x' AS other FROM ({ROWS})) TO '{tmp_path}/filed.parquet'")
    session.register("filed", tmp_path / "filed.parquet")
    metric = METRIC.replace("points", "filed")
    study = session.sweep(STEP.replace("points", "filed"), target=1e9, **{**OPTIONS, "metric": metric})
    assert study.wait(60) and study.why == "the target was reached"
    assert study.trials[study.best_number].steps == 4
    assert texts[1] == 'SELECT "v" FROM "filed"' and texts[2].startswith("WITH qoop_step"), (
        "pieces are read once, apart"
    )
    endless = session.sweep(STEP, **{**OPTIONS, "most": 1000})
    assert next(iter(endless.events())).estimate is not None
    endless.stop()
    with pytest.raises(ExecutionError, match="all metrics are estimates so far"):
        endless.best_value.hex()
    pure, orders = Sweep("pop", (Trial(estimated=2),), 1, 5, 9, 0.5).after(Begin())
    for step, score in enumerate((0.9, 0.8)):
        pure, orders = pure.after(TrialStepEnded(0, step, score, 1.0, 1.0))
        assert orders == (RunStep(0, step + 1, early=step == 0),) and pure.best == -1 and pure.trials[0].best == -inf
        assert pure.highest == 0.9 and pure.trials[0].estimate == score
    pure, _ = pure.after(TrialStepEnded(0, 2, 0.4, 1.0, 1.0))
    assert pure.best == 0 and pure.trials[0].best == 0.4 and not pure.why
    assert pure.after(TrialStepEnded(0, 3, 0.5, 1.0, 1.0))[0].why == "the target was reached"


@pytest.mark.parametrize("whole", [1.9, 2.1])
def test_early_steps_stay_only_where_whole_ones_take_much_longer(whole: float) -> None:
    sweep, orders = Sweep("none", (Trial(turn=0, estimated=9), Trial(turn=1, estimated=9), Trial(turn=2)), 2).after(
        Begin()
    )
    done: list[RunStep] = []
    while len(done) < 8:
        [*rest, order] = orders[::-1]
        assert isinstance(order, RunStep)
        done.append(order)
        ended = TrialStepEnded(order.trial, order.number, 0.1, 1.0 if order.early else whole, 1.0)
        sweep, further = sweep.after(ended)
        orders = (*rest[::-1], *further)
    probes = [one for one in done[:6] if not one.early]
    assert [(one.trial, one.number) for one in probes] == [(0, 1), (0, 2)] and sweep.probe.is_over
    assert sweep.trials[0].estimated == sweep.trials[1].estimated == 9 if whole > 2 else sweep.trials[0].estimated < 5
    assert {one.early for one in done[6:]} == {whole > 2}
    assert sweep.best == -1 or whole < 2, "the scores of probes are no results"


def test_a_named_sweep_goes_on_from_early_steps_and_from_later_ones(tmp_path: Path) -> None:
    steps = dict.fromkeys(range(3), 0)
    for ends in (2, 10, None):
        session = qoop.connect(slots=2, memory="500MB", checkpoints=tmp_path)
        session.sql(f"CREATE OR REPLACE TABLE points AS {ROWS}")
        study = session.sweep(STEP, name="rates", **OPTIONS)
        assert all(one.steps >= steps[one.number] for one in study.trials), "no step is forgotten"
        for one in study.events():
            steps[one.number] = one.steps
            if ends is not None and sum(steps.values()) >= ends:
                break
        else:
            mean, variance = mean_and_variance()
            assert study.wait(60) and study.best_value == pytest.approx(variance)
            assert study.best_result().fetchall() == [(pytest.approx(mean),)]
        session.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (STEP, "fixed"),
        ("SELECT f.x FROM former f", "apart"),
        ("WITH s AS (SELECT avg(v) AS m FROM points) SELECT f.x - s.m AS x FROM former f, s", "fixed"),
        (
            "SELECT f.k, coalesce(m.x, f.x) AS x FROM former f LEFT JOIN (SELECT k, avg(x) AS x FROM (SELECT "
            "arg_min(f.k, p.v - f.x) AS k, any_value(p.v) AS x FROM points p, former f GROUP BY p.i) GROUP BY k) m "
            "ON f.k = m.k",
            "fixed",
        ),
        ("SELECT sum(v) / nullif(count(*), 0) + (SELECT max(v) FROM points) AS x FROM points", "fixed"),
        ("SELECT k, avg(v) FROM points GROUP BY k", "groups"),
        ("SELECT f.k, avg(v) FROM former f JOIN points p ON f.k = p.k GROUP BY f.k", "groups"),
        ("SELECT f.x + v FROM former f, points", "rows"),
        ("SELECT v FROM points UNION ALL SELECT avg(v) FROM points", "rows"),
        ("SELECT sum(v) / 1000 FROM points", "divide it by another"),
        ("SELECT count(DISTINCT v) / count(*) FROM points", "how many rows"),
        ("SELECT list(v) FROM points", "how many rows"),
        ("SELECT product(v) FROM points", "how many rows"),
        ("SELECT avg(v) FROM points a JOIN points b USING (k)", "joined with each other"),
        ("SELECT avg(x) FROM former WHERE x IN (SELECT v FROM points)", "in a column or condition"),
        ("SELECT avg(v) FROM (SELECT v FROM points ORDER BY v LIMIT 5)", "read with LIMIT"),
        ("SELECT avg(r) FROM (SELECT row_number() OVER () AS r FROM points)", "a window function"),
        ("SELECT avg(f.x) FROM former f ANTI JOIN points p ON f.x = p.v", "in a ANTI JOIN"),
        ("SELECT v FROM points EXCEPT SELECT x FROM former", "EXCEPT reads it"),
        ("SELECT avg(v) FROM (SELECT DISTINCT v FROM points)", "read with DISTINCT"),
    ],
)
def test_answers_that_some_rows_estimate(text: str, found: str) -> None:
    query = parse_one(text, read="duckdb")
    assert isinstance(query, exp.Query)
    if found in ("apart", "fixed", "groups", "rows"):
        assert shape_of(query, "points") == found
    else:
        with pytest.raises(Refused, match=found):
            shape_of(query, "points")


@pytest.mark.parametrize(
    ("step", "options", "message"),
    [
        (STEP, {"fidelity": "rows"}, 'fidelity must be "pieces" or None'),
        (STEP, {"most": 1, "every": 1}, "needs most to be at least 2"),
        ("SELECT f.x + $rate AS x FROM former f", {"metric": "x"}, "no table but its own former rows"),
        ("SELECT v FROM points WHERE v < $rate LIMIT 1", {"metric": "v"}, "fidelity is for steps that read former"),
        (STEP.replace("avg(p.v)", "sum(p.v)"), {}, r"points, the largest table: SUM\(p.v\) grows with the rows"),
        ("SELECT p.v + $rate AS x FROM former f, points p", {}, "depend on which rows of points"),
        (STEP.replace("points", "few"), {"metric": "x"}, "few, the largest table, has only 5,000 rows"),
    ],
)
def test_what_some_rows_do_not_estimate_is_refused(
    session: qoop.Session, step: str, options: dict[str, object], message: str
) -> None:
    session.sql("CREATE OR REPLACE TABLE few AS SELECT v FROM points LIMIT 5000")
    with pytest.raises(ConfigError, match=message):
        session.sweep(step, **{**OPTIONS, **options})
