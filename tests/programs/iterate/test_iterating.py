"""Steps in SQL that are repeated: where they end, against NumPy; what they tell the scheduler; what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.errors import ConfigError, ExecutionError, QueryError
from qoop.programs.iterate.curves import fitted
from qoop.query.planning import QueryPlanning
from qoop.session.session import Session

FEATURES = """SELECT ss_item_sk AS id, avg(ss_quantity)::DOUBLE / 100 AS x, avg(ss_sales_price)::DOUBLE / 200 AS y,
    (avg(ss_net_profit) > -900)::INTEGER AS good
  FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year = 2000 AND ss_quantity IS NOT NULL
    AND ss_sales_price IS NOT NULL AND ss_net_profit IS NOT NULL GROUP BY ss_item_sk"""

K_MEANS = """WITH near AS (
    SELECT p.id, p.x, p.y, min_by(c.k, (p.x - c.x) ** 2 + (p.y - c.y) ** 2) AS k,
      min((p.x - c.x) ** 2 + (p.y - c.y) ** 2) AS d
    FROM features p, former c GROUP BY p.id, p.x, p.y)
  SELECT k, avg(x) AS x, avg(y) AS y, sum(d) AS loss FROM near GROUP BY k"""

LOGISTIC = """WITH told AS (
    SELECT f.x, f.y, f.good, 1 / (1 + exp(-(w.a + w.b * f.x + w.c * f.y))) AS p, w.a, w.b, w.c
    FROM features f, former w)
  SELECT any_value(a) - 2 * avg(p - good) AS a, any_value(b) - 2 * avg((p - good) * x) AS b,
    any_value(c) - 2 * avg((p - good) * y) AS c,
    -avg(good * ln(p) + (1 - good) * ln(1 - p)) AS loss FROM told"""


@pytest.fixture(scope="module")
def session(benchmark_data: Callable[[str, float], Path]) -> Iterator[Session]:
    with qoop.connect(slots=2, memory="1GB", scheduler="quality") as opened:
        opened.register_folder(benchmark_data("tpcds", 0.01))
        opened.register("features", opened.sql(FEATURES))
        yield opened


@pytest.fixture(scope="module")
def features(session: Session) -> np.ndarray:
    found = session.sql("SELECT x, y, good FROM features ORDER BY id").arrow()
    table = np.stack([found.column(name).to_numpy() for name in ("x", "y", "good")], 1).astype(float)
    assert len(table) > 500 and 0.1 < table[:, 2].mean() < 0.9
    return table


def test_k_means_ends_where_numpy_does(session: Session, features: np.ndarray) -> None:
    points = features[:, :2]
    centers = points[:3].copy()
    start = pa.table({"k": range(3), "x": centers[:, 0], "y": centers[:, 1]})
    iteration = session.iterate(K_MEANS, start, until=0.0, most=60)
    losses = []
    for _ in range(60):
        far = ((points[:, None] - centers) ** 2).sum(2)
        near = far.argmin(1)
        centers = np.stack([points[near == k].mean(0) for k in range(3)])
        losses.append(far.min(1).sum())
        if len(losses) > 1 and losses[-1] == pytest.approx(losses[-2], rel=1e-12):
            break
    found = iteration.result().arrow().sort_by("k")
    assert iteration.losses[: len(losses)] == pytest.approx(losses) and len(losses) > 3
    assert np.allclose(np.stack([found.column("x"), found.column("y")], 1), centers)
    assert list(iteration.losses) == sorted(iteration.losses, reverse=True)


def test_logistic_regression_ends_where_numpy_does(session: Session, features: np.ndarray) -> None:
    x, good, w = np.column_stack([np.ones(len(features)), features[:, :2]]), features[:, 2], np.zeros(3)
    iteration = session.iterate(LOGISTIC, "SELECT 0.0::DOUBLE a, 0.0::DOUBLE b, 0.0::DOUBLE c", until=0.05, most=40)
    steps = list(iteration.steps())
    for step in steps:
        p = 1 / (1 + np.exp(-x @ w))
        assert step.loss == pytest.approx(-np.mean(good * np.log(p) + (1 - good) * np.log(1 - p)))
        w = w - 2 * x.T @ (p - good) / len(x)
    assert len(steps) > 3 and iteration.why == "the loss falls no more"
    assert steps[-1].result.fetchone()[:3] == pytest.approx(w)
    assert [step.number for step in iteration.steps()] == list(range(len(steps))) and len(iteration.jobs) == len(steps)


def test_a_step_tells_how_far_it_is(session: Session) -> None:
    step = "SELECT x / 2 AS x, x / 2 AS loss FROM former"
    iteration = session.iterate(step, "SELECT 1024.0::DOUBLE AS x", most=8, until=0.0)
    assert iteration.result().fetchall() == [(4.0, 4.0)] and iteration.why == "the most steps were done"
    assert len(iteration.jobs) == 8 and 0 < iteration._gain() < 0.02, "the first fall was of 256"
    assert iteration.predicted(1) == pytest.approx(2.0, rel=0.05)
    assert iteration.predicted(3) == pytest.approx(0.5, rel=0.3)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("long", [0.0, np.inf], ids=["compared", "as-before"])
def test_types_from_step_to_step_are_duckdbs(monkeypatch: pytest.MonkeyPatch, long: float) -> None:
    monkeypatch.setattr("qoop.programs.iterate.planning.LONG_SECONDS", long)
    start = "SELECT 7::TINYINT AS x, uuid'8a4e3bfa-34b1-4f21-9b5c-1a2b3c4d5e6f' AS u, '101'::BIT AS b"
    step = "SELECT sum(x) // 2 + 9 AS x, u, b, -x::DOUBLE AS loss FROM former GROUP BY x, u, b"
    with qoop.connect(slots=2, memory="500MB") as session, duckdb.connect() as connection:
        iteration = session.iterate(step, start, most=4, until=0.0)
        assert iteration.last().number == 3
        connection.execute(f"CREATE TABLE former AS {start}")
        for found in iteration.steps():
            connection.execute(f"CREATE OR REPLACE TABLE former AS {step}")
            true = connection.sql("FROM former")
            assert found.result.types == [str(type_) for type_ in true.types]
            assert found.result.fetchall() == true.fetchall() != []


@pytest.mark.usefixtures("as_installed")
def test_short_steps_are_not_compared_with_other_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.programs.iterate.planning.LONG_SECONDS", np.inf)
    compared = []
    plan = QueryPlanning.plan
    monkeypatch.setattr(QueryPlanning, "plan", lambda *given, **named: compared.append(1) or plan(*given, **named))
    step = "SELECT f.x + count(*) AS x, f.x::DOUBLE AS loss FROM former f, points GROUP BY f.x"
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("points", pa.table({"n": range(100)}))
        iteration = session.iterate(step, pa.table({"x": [0]}), most=5, until=0.0)
        assert iteration.result().fetchall() == [(500, 400.0)] and compared == [1]
        assert {job.plan.root.label for job in iteration.jobs} == {"DuckDB"}


def test_losses_to_come_are_predicted_within_a_twentieth_ten_steps_ahead() -> None:
    rng, curves = np.random.default_rng(1), (lambda k: 1 / (0.3 * k + 1) + 0.2, lambda k: 0.85 ** (k - 2) + 0.3)
    off, plain = [], []
    for curve in curves:
        for steps in (12, 20, 30, 45):
            losses = list(curve(np.arange(steps)) * (1 + 0.003 * rng.standard_normal(steps)))
            true = curve(steps + 9)
            off.append(abs(fitted(losses).at(steps + 9) / true - 1))
            plain.append(abs((losses[-1] - 10 * (losses[-2] - losses[-1])) / true - 1))
    assert np.mean(off) < 0.05 < np.mean(plain), "as the last fall repeated would have it"


def test_a_stopped_one_has_the_step_before_as_its_last(session: Session) -> None:
    iteration = session.iterate("SELECT x / 2 AS x, x AS loss FROM former", "SELECT 8.0::DOUBLE AS x", most=50)
    first = next(iteration.steps())
    last = iteration.stop()
    assert first.loss == 8.0 and last is not None and iteration.why == "it was stopped"
    assert iteration.last() is last and list(iteration.steps())[-1] is last
    assert all(job.wait(60) for job in iteration.jobs)


@pytest.mark.parametrize(
    "given",
    [{"until": -1.0}, {"most": 0}, {"curve": "round"}, {"former": "a b"}, {"former": "features"}],
    ids=lambda given: "-".join(given),
)
def test_terms_that_make_no_sense_are_refused(session: Session, given: dict[str, object]) -> None:
    ((name, wrong),) = given.items()
    with pytest.raises(ConfigError, match=str(wrong) if name == "former" else name):
        session.iterate("SELECT x AS loss FROM features", "SELECT 1 AS x", **given)


def test_what_cannot_be_is_refused(session: Session) -> None:
    with pytest.raises(ExecutionError, match="no column loss; it has x"):
        session.iterate("SELECT 1 AS x FROM former", "SELECT 1 AS x").result()
    with pytest.raises(ExecutionError, match="not a number"):
        session.iterate("SELECT 'nan'::DOUBLE AS loss FROM former", "SELECT 1 AS x").result()
    with pytest.raises(QueryError, match="nowhere"):
        session.iterate("SELECT * FROM nowhere", "SELECT 1 AS x")


def test_enums_keep_their_order_from_step_to_step(session: Session) -> None:
    start = "SELECT unnest(['small', 'large', 'medium'])::ENUM('small', 'medium', 'large') AS size, 8.0 AS loss"
    step = "SELECT size, loss / 2 AS loss FROM former ORDER BY size DESC LIMIT 2"
    last = session.iterate(step, start, most=3, until=0.0).last()
    assert last.number == 2 and last.result.types[0] == "ENUM('small', 'medium', 'large')"
    assert last.result.fetchall() == [("large", 1.0), ("medium", 1.0)]
