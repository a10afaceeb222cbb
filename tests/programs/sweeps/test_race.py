"""Races of what-if queries: the best is what DuckDB finds, and most trials end before they are exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.adaptive.program import Begin, End, Show
from qoop.catalog.errors import Cancelled, ExecutionError, SessionClosed
from qoop.programs.approximate.estimators.interim import Interim
from qoop.programs.sweeps.messages import (
    Abandoned,
    Compared,
    ReadPieces,
    RunStep,
    RunWhole,
    TrialFailed,
    TrialStepEnded,
    WholeEnded,
)
from qoop.programs.sweeps.paired import comparison
from qoop.programs.sweeps.race import Race, Racer

INCOME = """SELECT sum(sold * (price * (1 - $cut) - cost) * (1 + 6 * $cut)) AS income, count(*) AS n
    FROM sales WHERE sold > 20 * $cut AND shop < 9"""
CUTS = [number / 25 for number in range(15)]


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sales") / "sales.parquet"
    draw, rows = np.random.default_rng(3), 200_000
    price = draw.uniform(5, 20, rows).round(2)
    columns = {"sold": draw.integers(0, 30, rows), "price": price, "cost": (price * 0.5).round(2)}
    pq.write_table(pa.table({**columns, "shop": draw.integers(0, 10, rows)}), path, row_group_size=4000)
    return path


@pytest.fixture
def session(sales: Path) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB") as made:
        made.register("sales", sales)
        made.sql("SET exact_within = 0")
        yield made


@cache
def best_by_duckdb(sales: Path, text: str) -> tuple[float, float, list[tuple[object, ...]]]:
    """The best cut, its income and its row."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE sales AS FROM '{sales}'")
        rows = {one: connection.sql(text.replace("$cut", repr(one))).fetchall() for one in CUTS}
    best = max(CUTS, key=lambda one: rows[one][0][0])
    return best, rows[best][0][0], rows[best]


@pytest.mark.parametrize(
    "text",
    [
        INCOME,
        "SELECT avg((price - 8 - 9 * $cut) * (12 + 9 * $cut - price)) AS income FROM sales",
        "SELECT sum(price) FILTER (WHERE shop = 1) / (1 + abs(sum(sold) / 1e6 - 10 * $cut)) AS income FROM sales",
    ],
)
def test_the_best_wins_and_most_trials_are_never_exact(session: qoop.Session, sales: Path, text: str) -> None:
    study = session.sweep(text, {"cut": CUTS}, metric="income")
    assert study.wait(60) and study.why == "all trials have ended" and study.reason == ""
    best, income, rows = best_by_duckdb(sales, text)
    assert 0 < best < CUTS[-1] and study.best_params == {"cut": best}
    assert study.best_value == pytest.approx(income)
    assert [float(one) for one in study.best_result().fetchall()[0]] == pytest.approx([float(one) for one in rows[0]])
    states = [one.state for one in study.trials]
    assert states.count("COMPLETE") == 1 and states.count("PRUNED") == len(CUTS) - 1
    most = max(one.steps for one in study.trials)
    assert sum(one.steps < most for one in study.trials) > len(CUTS) / 2, "most are beaten before the last round"
    exact = {one.params["cut"]: one.value for one in study.trials}
    assert exact[best] == study.best_value and all(value is not None for value in exact.values())


def test_a_target_ends_it_and_equal_trials_are_read_whole(session: qoop.Session, sales: Path) -> None:
    best, income, _ = best_by_duckdb(sales, INCOME)
    study = session.sweep(INCOME, {"cut": CUTS}, metric="income", target=income * 0.9)
    assert study.wait(60) and study.why == "the target was reached" and study.best_value >= income * 0.9
    late = session.sweep(INCOME, {"cut": CUTS}, metric="income", within=1e-6)
    assert late.wait(60) and late.why == "the time was over"
    with pytest.raises(ExecutionError, match=r"no (trial of the race is exact|step of the sweep has ended)"):
        late.best_result()
    twice = [{"cut": best, "shop": 9}, {"cut": best, "shop": 10}, {"cut": 0.55, "shop": 9}]
    text = INCOME.replace("shop < 9", "shop < $shop - 0 * shop AND shop < 9")
    study = session.sweep(text, twice, metric="income")
    assert study.wait(60) and study.best_value == pytest.approx(income)
    assert study.trials[2].steps < 3 and sorted(one.steps for one in study.trials[:2]) == [3, 4]
    least = session.sweep(INCOME, {"cut": [best, 0.55]}, metric="income", direction="minimize")
    assert least.wait(60) and least.best_params == {"cut": 0.55}


def test_a_trial_that_fails_says_why_and_the_others_run_their_own_queries(session: qoop.Session) -> None:
    text = "SELECT sum(sold) * CAST($factor AS INT) AS n FROM sales"
    study = session.sweep(text, {"factor": ["1", "x", "3"]}, metric="n")
    assert study.wait(60) and study.best_params == {"factor": "3"}
    assert [one.state for one in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert "Could not convert string 'x'" in study.trials[1].why


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("SELECT max(price * $cut) AS n FROM sales", {}, "an extreme, a distinct count or a quantile"),
        ("SELECT sum(price) AS n FROM sales GROUP BY shop > 10 * $cut HAVING n > 1 LIMIT 1", {}, "it has GROUP"),
        ("SELECT sum(price) AS n FROM (SELECT * FROM sales WHERE sold > $cut)", {}, "not only in its columns"),
        (
            "SELECT sum(price * $cut) AS n FROM sales",
            {"metric": "SELECT sum(n) FROM former"},
            "metric is another query",
        ),
        ("SELECT sum(price * $cut) AS n FROM sales", {"scheduler": "none"}, "runs each query to its end"),
    ],
)
def test_other_queries_run_exactly_and_say_why(
    session: qoop.Session, text: str, options: dict[str, str], reason: str
) -> None:
    study = session.sweep(text, {"cut": [0.1, 0.2]}, **{"metric": "n", **options})
    assert study.wait(60) and reason in study.reason
    assert {one.state for one in study.trials} == {"COMPLETE"}
    session.sql("SET exact_within = 100")
    short = session.sweep(INCOME, {"cut": [0.1, 0.2]}, metric="income")
    assert short.wait(60) and "and race from 100 s on" in short.reason


def test_a_named_race_goes_on_where_it_was(sales: Path, tmp_path: Path) -> None:
    cuts = [0.2, 0.2, 0.2, 0.55]  # three are equal, so that all rounds are read
    for life in range(2):
        session = qoop.connect(slots=1, memory="300MB", checkpoints=tmp_path)
        session.register("sales", sales)
        study = session.sweep(INCOME, {"cut": cuts}, metric="income", name="cuts")
        if life == 0:
            for one in study.events():
                if one.steps == 1:
                    break
            session.close()
            with suppress(Cancelled, SessionClosed):  # by then it may have ended
                study.wait(60)
        else:
            seen = [one.steps for one in study.events()]
            assert study.wait(60) and all(steps > 1 for steps in seen) and study.best_params == {"cut": 0.2}, (
                "the first round is not read again"
            )
            assert study.trials[3].state == "PRUNED" and study.trials[3].steps == 1
            session.close()


# The program and its statistics


def compared(number: int, scores: dict[int, float], beaten: tuple[int, ...] = (), half: float = 0.5) -> Compared:
    nothing = (half,) * len(scores)
    return Compared(number, tuple(scores), tuple(scores.values()), nothing, nothing, beaten, 1.0, 1.0)


def begun(trials: int = 3, **options: float) -> Race:
    race, orders = Race((Racer(),) * trials, 2, **options).after(Begin())  # type: ignore[arg-type]
    assert orders == (ReadPieces(0, tuple(range(trials))),)
    return race


def test_beaten_trials_are_not_read_further_and_the_last_ones_are_compared_exactly() -> None:
    race, orders = begun().after(compared(0, {0: 1.0, 1: 5.0, 2: 4.9}, (0,)))
    assert orders == (ReadPieces(1, (1, 2)),) and race.trials[0].state == "pruned"
    assert race.after(compared(0, {1: 5.0})) == (race, ()), "it came late"
    race, orders = race.after(compared(1, {1: 5.0, 2: 4.9}))
    assert orders == (RunWhole((1, 2)),) and race.pending == orders
    race, orders = race.after(WholeEnded((1, 2), (5.0, 5.1), 1.0, 2.0))
    assert orders == (RunStep(2, 3),) and race.pending == orders
    race, orders = race.after(TrialStepEnded(2, 3, 5.1, 1.0, 3.0))
    assert orders == (Show(2), End()) and race.best == 2 and race.trials[1].state == "pruned"


def test_the_next_one_runs_where_the_leader_fails_or_is_worse_than_it_seemed() -> None:
    race, orders = begun(target=4.0).after(compared(0, {0: 1.0, 1: 5.0, 2: 4.9}, (0,)))
    assert orders == (RunStep(1, 1),), "its interval is above the target"
    failed, orders = race.after(TrialFailed(1, "no such column", 2.0))
    assert orders == (RunStep(2, 1),) and failed.trials[1].why == "no such column"
    race, orders = race.after(TrialStepEnded(1, 1, 3.0, 1.0, 2.0))
    assert orders == (Show(1), RunStep(2, 1)) and race.highest == 3.0
    assert race.after(TrialStepEnded(2, 1, 4.5, 1.0, 3.0))[0].why == "the target was reached"


def test_after_a_query_that_failed_each_runs_its_own() -> None:
    race, orders = begun(slots=2).after(Abandoned("no conversion", 1.0))
    assert orders == (RunStep(0, 0), RunStep(1, 0)) and race.highest == -inf
    race, orders = race.after(TrialStepEnded(0, 0, 1.0, 1.0, 2.0))
    assert orders == (Show(0), RunStep(2, 0)), "it has no interval so far"


def test_the_best_is_rarely_beaten() -> None:
    draw, pieces, read, errors, ended = np.random.default_rng(5), 1024, 64, 0, 0
    for _ in range(300):
        common = draw.lognormal(0, 0.5, (pieces, 1))
        values = common * (1 + draw.normal(0, 0.1, 12)) + draw.normal(0, 0.05, (pieces, 12)) * common
        sums = values[draw.permutation(pieces)[:read]]
        without = (sums.sum(axis=0) - sums) * pieces / (read - 1)
        found = comparison(np.vstack([sums.mean(axis=0) * pieces, without]), Interim(read, pieces, 0.05 / 11), None)
        errors += bool(found.beaten[np.argmax(values.sum(axis=0))])
        ended += int(found.beaten.sum())
    assert errors <= 0.05 * 300 and ended > 0.5 * 11 * 300, "most others are beaten"
