"""The error of the estimates of seconds: for every stage of a query, predicted against measured seconds.

Each query runs its plan for the given slots, but with one thread a task: the processor seconds of a thread are known
exactly, and other work on the machine disturbs them little. Of several runs the least counts.
The
prediction is the completion time estimate of the same stage (:meth:`qoop.planner.finish.Finish.thread_seconds`); the
model was made without these queries (:mod:`qoop.interfaces.commands.calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from qoop.catalog.errors import QoopError
from qoop.engine.history import Succeeded
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.finish import Finish
from qoop.planner.plan import Plan, StageId
from qoop.planner.variants import Variant
from qoop.session.session import Session
from qoop.tpcds.quantiles import quantile_if_any
from qoop.tpcds.queries import texts

NOISE = 0.002
"""Seconds; stages that take less are dominated by what any task takes and by the resolution of the clock."""


@dataclass(frozen=True, slots=True)
class StageCostOptions:
    """The queries and the data; `slots` of the session; each query is run `repeat` times.

    shipped: predict by the constants that ship, even if this machine was calibrated.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    suite: str = "tpcds"
    slots: int | None = None
    repeat: int = 1
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class StageCost:
    """One stage: seconds of one thread of all its tasks, rows of its output."""

    query: int
    stage: str
    label: str
    tasks: int
    predicted: float
    measured: float
    predicted_rows: float
    rows: int

    @property
    def error(self) -> float:
        """The error of the prediction, relative to what was measured."""
        return abs(self.predicted - self.measured) / self.measured


@dataclass(frozen=True, slots=True)
class CostReport:
    """All stages of all queries that ran; `failed`: why the others did not."""

    stages: tuple[StageCost, ...]
    failed: dict[int, str]

    def totals(self) -> dict[str, Any]:
        """Median and 90th percentile of the error, rank correlation and median ratio; also of the longer stages."""
        return {"all": _summary(self.stages), "longer": _summary([s for s in self.stages if s.measured >= NOISE])}

    def json(self) -> dict[str, Any]:
        """The report as JSON values: stages, totals, failed."""
        stages = [{**asdict(stage), "error": stage.error} for stage in self.stages]
        return {"stages": stages, "totals": self.totals(), "failed": self.failed}


def _summary(stages: Sequence[StageCost]) -> dict[str, Any]:
    errors = [stage.error for stage in stages]
    return {
        "stages": len(stages),
        "median_error": quantile_if_any(errors, 0.5),
        "p90_error": quantile_if_any(errors, 0.9),
        "median_ratio": quantile_if_any([stage.predicted / stage.measured for stage in stages], 0.5),
        "rank_correlation": rank_correlation([s.predicted for s in stages], [s.measured for s in stages]),
        "predicted_seconds": sum(stage.predicted for stage in stages),
        "measured_seconds": sum(stage.measured for stage in stages),
    }


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's coefficient, with mean ranks for ties; None where a side has fewer than two different values.

    >>> rank_correlation([1, 2, 3], [10, 20, 15]), rank_correlation([1, 1], [1, 2])
    (0.5, None)
    """
    import pandas  # takes half a second

    found = pandas.Series(left, dtype=float).rank().corr(pandas.Series(right, dtype=float).rank())
    return None if isnan(found) else round(float(found), 12)


def measure(options: StageCostOptions, progress: Callable[[int], object] = lambda query: None) -> CostReport:
    """Run the chosen queries and compare; `progress` hears of each query done.

    Raises ConfigError or SourceError if the run cannot begin.
    """
    import qoop

    chosen = texts(options.suite, options.directory)
    stages: list[StageCost] = []
    failed: dict[int, str] = {}
    with qoop.connect(slots=options.slots, replan=False, reuse=False, staged=True, statistics="full") as session:
        session.register_folder(options.directory)
        for number in options.queries or tuple(chosen):
            try:
                stages += _compared(session, options, number, chosen[number])
            except QoopError as error:
                failed[number] = str(error)
            progress(number)
    return CostReport(tuple(stages), failed)


def _compared(session: Session, options: StageCostOptions, number: int, text: str) -> list[StageCost]:
    prepared = replace(session.prepare(text), known=NOTHING)  # earlier queries must not help
    if options.shipped:
        prepared = replace(prepared, cost=DEFAULT)
    plan = in_one_thread(prepared.planning().plan(Variant(), session.available))
    predicted = Finish(plan, cost=prepared.cost).thread_seconds()
    best: dict[StageId, StageCost] = {}
    for _ in range(options.repeat):
        for id_, (seconds, rows) in _run(session, text, plan).items():
            if id_ in best and best[id_].measured <= seconds:
                continue
            stage = plan.by_id[id_]
            best[id_] = StageCost(
                number, id_, stage.label, stage.width, predicted[id_], seconds, stage.estimate.rows, rows
            )
    return list(best.values())


def _run(session: Session, text: str, plan: Plan) -> dict[StageId, tuple[float, int]]:
    """By stage the processor seconds of its tasks and the rows they put out."""
    job = session.submit(text, plan=plan)
    job.result()
    found: dict[StageId, tuple[float, int]] = {}
    for record in job.history():
        if isinstance(record, Succeeded) and record.used:
            seconds, rows = found.get(record.attempt.task.stage, (0.0, 0))
            done = record.committed
            found[record.attempt.task.stage] = seconds + done.cpu_seconds, rows + sum(done.rows)
    return found


def in_one_thread(plan: Plan) -> Plan:
    """The plan with every task on one thread, whose processor seconds are known."""
    return replace(plan, stages=tuple(replace(stage, slots=1) for stage in plan.stages))


def table(report: CostReport, worst: int = 20) -> str:
    """The report for people: the stages in which most seconds were predicted wrongly, then the summary."""
    lines = [f"{'query':>5} {'stage':<5} {'predicted':>10} {'measured':>10} {'rows':>11} {'of':>11}  label"]
    for stage in sorted(report.stages, key=lambda stage: -abs(stage.predicted - stage.measured))[:worst]:
        label = stage.label if len(stage.label) <= 60 else stage.label[:57] + "..."
        lines.append(
            f"{stage.query:>5} {stage.stage:<5} {stage.predicted:>9.3f}s {stage.measured:>9.3f}s "
            f"{stage.predicted_rows:>11,.0f} {stage.rows:>11,}  {label}"
        )
    lines.append("")
    for name, total in report.totals().items():
        lines.append(f"{name} {total['stages']} stages: " + ", ".join(_facts(total)))
    lines += [f"query {number} failed: {error}" for number, error in report.failed.items()]
    return "\n".join(lines)


def _facts(total: dict[str, Any]) -> list[str]:
    names = ("median_error", "p90_error", "median_ratio", "rank_correlation", "predicted_seconds", "measured_seconds")
    return [f"{name.replace('_', ' ')} {total[name]:.3g}" for name in names if total[name] is not None]
