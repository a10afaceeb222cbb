"""Sweeps that run for real: the seconds until a trial reaches its target, next to Optuna and Ray Tune.

Every side runs the same steps on the same rows, with the same settings in the same order, two at a time: qoop by each
of its schedulers; Optuna with `SuccessiveHalvingPruner` and Ray Tune with `ASHAScheduler` as Python over DuckDB. The
target is what a tenth of the trials reach in all their steps, found by DuckDB before, to four digits: trials that end
in one place differ by rounding. The clock of Ray Tune begins when
its cluster is up. Each run is kept, so that a benchmark that was ended goes on.
"""

from __future__ import annotations

import math
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Literal

import duckdb

from qoop.catalog.errors import ConfigError
from qoop.programs.sweeps.policies import NAMES
from qoop.tpcds.results import Results

OTHERS = ("optuna", "tune")
PIECES = "pieces"
"""The side that is `pop`, with early steps over some pieces of the rows."""
SLOTS = 2
_REACHED = 0.1
"""The part of the trials that reach the target."""
_DIGITS = 4


@dataclass(frozen=True)
class Workload:
    """rows: the query that makes the table points, of $rows rows. low, high: the ends of the rates, all of whose
    magnitudes are equally likely. most: steps of a trial."""

    name: str
    rows: str
    start: str
    step: str
    metric: str
    direction: Literal["maximize", "minimize"]
    low: float
    high: float
    most: int

    def rates(self, trials: int) -> list[float]:
        """The settings, in an order of their own."""
        source = random.Random(self.name)
        return [math.exp(source.uniform(math.log(self.low), math.log(self.high))) for _ in range(trials)]

    def is_reached(self, value: float, target: float) -> bool:
        """True if a metric is as good as the target."""
        return value >= target if self.direction == "maximize" else value <= target


WORKLOADS = (
    Workload(
        "logistic",
        "SELECT i, hash(i) % 1000 / 100 AS x, (hash(i) % 1000 / 100 + hash(i + 7) % 1000 / 500 - 1 > 5)::INT AS y "
        "FROM range($rows) t(i)",
        "SELECT 0.0::DOUBLE AS a, 0.0::DOUBLE AS b",
        "SELECT f.a - $rate * s.a AS a, f.b - $rate * s.b AS b FROM former f, (SELECT avg(hit - y) AS a, "
        "avg((hit - y) * x) AS b FROM (SELECT x, y, 1 / (1 + exp(-(f.a + f.b * x))) AS hit FROM points, former f "
        "WHERE i % 10 > 0)) s",
        "SELECT avg(((f.a + f.b * x > 0) = (y = 1))::INT) AS hits FROM points, former f WHERE i % 10 = 0",
        "maximize", 1e-3, 10.0, 60,
    ),
    Workload(
        "kmeans",
        "SELECT i, hash(i) % 8 * 3 + hash(i + 1) % 1000 / 400 AS x, "
        "hash(i) % 8 % 3 * 4 + hash(i + 2) % 1000 / 400 AS y FROM range($rows) t(i)",
        "SELECT i::INT AS k, i * 0.5 AS x, i * 0.25 AS y FROM range(8) t(i)",
        "SELECT f.k, f.x + $rate * (coalesce(m.x, f.x) - f.x) AS x, f.y + $rate * (coalesce(m.y, f.y) - f.y) AS y "
        "FROM former f LEFT JOIN (SELECT k, avg(x) AS x, avg(y) AS y FROM (SELECT arg_min(f.k, (p.x - f.x) ** 2 + "
        "(p.y - f.y) ** 2) AS k, any_value(p.x) AS x, any_value(p.y) AS y FROM points p, former f GROUP BY p.i) "
        "GROUP BY k) m ON f.k = m.k",
        "SELECT avg(d) AS distance FROM (SELECT min((p.x - f.x) ** 2 + (p.y - f.y) ** 2) AS d FROM points p, former f "
        "GROUP BY p.i)",
        "minimize", 1e-2, 1.9, 30,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class RealOptions:
    """rows: of the points. trials: settings. orders: in which they are tried. sides: schedulers of qoop, `PIECES`, and
    `OTHERS`.
    every: steps to the first decision. results: a file taken up and kept."""

    rows: int = 100_000
    trials: int = 50
    orders: int = 5
    sides: tuple[str, ...] = ("pop", "asha", "median", "none", *OTHERS)
    every: int = 5
    results: Path | None = None
    workloads: tuple[Workload, ...] = WORKLOADS


@dataclass(frozen=True)
class _Race:
    """The task of each side: the rates in their order, until one reaches the target."""

    workload: Workload
    rates: Sequence[float]
    target: float
    every: int
    file: Path


class Steps:
    """The steps of one trial as Python over DuckDB. connection: has the points, and a table `former` of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, workload: Workload, rate: float) -> None:
        self._connection, self._metric = connection, workload.metric
        self._step = workload.step.replace("$rate", repr(rate))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE former AS {workload.start}")

    def next(self) -> float:
        """Run a step; returns its metric."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE former AS {self._step}")
        found = self._connection.execute(self._metric).fetchone()
        return float(found[0]) if found is not None and found[0] is not None else math.nan


def run(options: RealOptions, tell: Callable[[str], object]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every side on every workload in each order. Returns the runs by workload and side: seconds, steps, reached.

    Raises ConfigError."""
    unknown = set(options.sides) - {*NAMES, PIECES, *OTHERS}
    if unknown:
        known = ", ".join([*NAMES, PIECES, *OTHERS])
        raise ConfigError(f"there is no side {', '.join(sorted(unknown))}; there are {known}")
    settings = {"rows": options.rows, "trials": options.trials, "every": options.every, "duckdb": duckdb.__version__}
    results = Results(options.results, settings)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory(prefix="qoop-sweeps-") as folder:
        for workload in options.workloads:
            file = _points(workload, options.rows, Path(folder))
            rates = workload.rates(options.trials)
            target = _target(workload, rates, file, results)
            tell(f"{workload.name}: {options.trials} trials of {workload.most} steps, target {target:.6g}")
            runs = found[workload.name] = {side: [] for side in options.sides}
            for order in range(options.orders):
                shuffled = random.Random(order).sample(rates, len(rates))
                race = _Race(workload, shuffled, target, options.every, file)
                for side in options.sides:
                    runs[side].append(_kept(results, f"{workload.name} {side} {order}", partial(_side, side, race)))
            for line in summary(runs):
                tell(f"  {line}")
    return found


def summary(runs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """A line a side: its mean seconds, its steps, how many runs succeed, and its time over that of the first side in
    the same orders."""
    first = next(iter(runs.values()))
    for side, of_side in runs.items():
        pairs = [(one, other) for one, other in zip(of_side, first, strict=True) if one["reached"] and other["reached"]]
        ratio = geometric_mean(one["seconds"] / other["seconds"] for one, other in pairs) if pairs else math.nan
        seconds = sum(one["seconds"] for one in of_side) / len(of_side)
        steps = sum(one["steps"] for one in of_side) / len(of_side)
        succeed = sum(one["reached"] for one in of_side) / len(of_side)
        yield f"{side:10} {seconds:7.2f} s, {steps:7.1f} steps, {succeed:4.0%} succeed, {ratio:5.2f} x the first"


def _kept(results: Results, name: str, make: Callable[[], Any]) -> Any:
    if results.get(name) is None:
        results.put(name, make())
    return results.get(name)


def _points(workload: Workload, rows: int, folder: Path) -> Path:
    file = folder / f"{workload.name}.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({workload.rows.replace('$rows', str(rows))}) TO '{file}'")
    return file


def _target(workload: Workload, rates: Sequence[float], file: Path, results: Results) -> float:
    """The metric that a part of the trials reach in all their steps."""

    def best() -> list[float]:
        choose = max if workload.direction == "maximize" else min
        with _opened(file) as connection:
            trials = (Steps(connection, workload, rate) for rate in rates)
            return [choose(trial.next() for _ in range(workload.most)) for trial in trials]

    found = sorted(_kept(results, f"{workload.name} best", best), reverse=workload.direction == "maximize")
    return as_written(found[max(0, round(len(found) * _REACHED) - 1)], workload.direction)


def as_written(value: float, direction: Literal["maximize", "minimize"]) -> float:
    """A metric that is as good as this one or hardly worse, to four digits.

    >>> as_written(0.94997, "maximize"), as_written(8.7487022, "minimize"), as_written(-0.12345, "maximize")
    (0.9499, 8.749, -0.1235)
    """
    if value == 0.0:
        return value
    digits = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    scaled = value * 10.0**digits
    return round((math.floor(scaled) if direction == "maximize" else math.ceil(scaled)) / 10.0**digits, digits)


def _opened(file: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": SLOTS})
    connection.execute(f"CREATE TABLE points AS FROM '{file}'")
    return connection


def _side(side: str, race: _Race) -> dict[str, Any]:
    if side == "optuna":
        return _by_optuna(race)
    return _by_tune(race) if side == "tune" else _by_qoop(side, race)


def _by_qoop(side: str, race: _Race) -> dict[str, Any]:
    import qoop

    with qoop.connect(slots=SLOTS, memory="2GB") as session:
        session.register("source", race.file)
        session.sql("CREATE TABLE points AS FROM source")
        begun = time.monotonic()
        study = session.sweep(
            race.workload.step, {"rate": list(race.rates)}, metric=race.workload.metric, start=race.workload.start,
            target=race.target, direction=race.workload.direction, every=race.every,
            most=race.workload.most, scheduler="pop" if side == PIECES else side,
            fidelity="pieces" if side == PIECES else None,
        )  # fmt: skip
        study.wait()
        seconds = time.monotonic() - begun
        reached = study.why == "the target was reached"
        return {"seconds": seconds, "steps": sum(one.steps for one in study.trials), "reached": reached}


def _by_optuna(race: _Race) -> dict[str, Any]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=race.every, reduction_factor=3)
    study = optuna.create_study(direction=race.workload.direction, pruner=pruner)
    for rate in race.rates:
        study.enqueue_trial({"rate": rate})
    steps: list[int] = []
    reached, ended = threading.Event(), time.monotonic()

    def objective(trial: optuna.Trial) -> float:
        nonlocal ended
        rate = trial.suggest_float("rate", race.workload.low, race.workload.high, log=True)
        with connection.cursor() as own:
            of_trial = Steps(own, race.workload, rate)
            for number in range(1, race.workload.most + 1):
                value = of_trial.next()
                steps.append(trial.number)
                trial.report(value, number)
                if race.workload.is_reached(value, race.target) and not reached.is_set():
                    ended = time.monotonic()
                    reached.set()
                    study.stop()
                if reached.is_set() or trial.should_prune():
                    raise optuna.TrialPruned
        return value

    with _opened(race.file) as connection:
        begun = time.monotonic()
        study.optimize(objective, n_trials=len(race.rates), n_jobs=SLOTS)
        if not reached.is_set():
            ended = time.monotonic()
    return {"seconds": ended - begun, "steps": len(steps), "reached": reached.is_set()}


def _by_tune(race: _Race) -> dict[str, Any]:
    """Raises ConfigError if Ray Tune is missing."""
    try:
        import ray
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler
    except ImportError as error:
        raise ConfigError(f"there is no {error.name}: pip install 'ray[tune]', or leave tune out of --sides") from error

    workload, file = race.workload, race.file

    def train(config: dict[str, Any]) -> None:
        with _opened(file) as connection:
            steps = Steps(connection, workload, config["rate"])
            for _ in range(workload.most):
                tune.report({"value": steps.next()})

    class AtTarget(tune.Stopper):  # type: ignore[misc]  # Ray has no types
        """Ends all trials once one has reached the target."""

        def __init__(self) -> None:
            self.steps, self.ended = 0, 0.0

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.steps += 1
            if not self.ended and workload.is_reached(result["value"], race.target):
                self.ended = time.monotonic()
            return bool(self.ended)

        def stop_all(self) -> bool:
            return bool(self.ended)

    if not ray.is_initialized():
        ray.init(num_cpus=SLOTS, include_dashboard=False, log_to_driver=False)
    stopper, mode = AtTarget(), workload.direction[:3]
    scheduler = ASHAScheduler(
        metric="value", mode=mode, max_t=workload.most, grace_period=race.every, reduction_factor=3
    )
    with tempfile.TemporaryDirectory(prefix="qoop-tune-") as folder:
        tuner = tune.Tuner(
            tune.with_resources(train, {"cpu": 1}),
            param_space={"rate": tune.grid_search(list(race.rates))},
            tune_config=tune.TuneConfig(scheduler=scheduler, max_concurrent_trials=SLOTS),
            run_config=tune.RunConfig(stop=stopper, verbose=0, storage_path=folder),
        )
        begun = time.monotonic()
        tuner.fit()
        ended = stopper.ended or time.monotonic()
    return {"seconds": ended - begun, "steps": stopper.steps, "reached": bool(stopper.ended)}
