"""The quality of the predicted end of a query: at half time, does the true end lie in the range that is shown?

Every query runs once, and its status is read repeatedly (:meth:`qoop.query.job.Job.status`). After its end, the
prediction nearest to half of its time is compared with the time that was left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from qoop.adaptive.cluster.job_status import RemainingTime
from qoop.catalog.errors import QoopError
from qoop.query.job import Job
from qoop.session.session import Session
from qoop.tpcds.quantiles import quantile_if_any
from qoop.tpcds.queries import texts

_EVERY = 0.01
"""Seconds between two questions."""

_NEAR = 0.15
"""Part of a query's time by which an answer may be off half time to count."""

SHOWN = 0.25
"""Seconds after which the shell begins to show a query; queries that end sooner are counted separately."""


@dataclass(frozen=True, slots=True)
class EtaOptions:
    """The queries, their data, and the slots and memory of the session. staged: it runs queries in stages only."""

    directory: Path
    queries: tuple[int, ...] = ()
    slots: int | None = None
    memory: str | None = None
    staged: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a query at about half time. seconds: of the whole query. at: the second of the prediction.
    likely, least, most: predicted seconds that are left. left: the seconds that were left."""

    query: int
    seconds: float
    at: float
    likely: float
    least: float
    most: float

    @property
    def left(self) -> float:
        return self.seconds - self.at

    @property
    def in_range(self) -> bool:
        return self.least <= self.left <= self.most


@dataclass(frozen=True, slots=True)
class EtaReport:
    """silent: seconds of queries that had said nothing when half of their time was over. failed: why others did not
    run."""

    predicted: tuple[Prediction, ...]
    silent: dict[int, float]
    failed: dict[int, str]

    def totals(self) -> dict[str, Any]:
        """The number of ends that lay in the range, of all queries and of those that are long enough to be shown."""
        return {
            "all": _summary(self.predicted),
            "shown": _summary([one for one in self.predicted if one.seconds >= 2 * SHOWN]),
        }

    def json(self) -> dict[str, Any]:
        """The report as JSON values."""
        queries = [{**asdict(one), "left": one.left, "in_range": one.in_range} for one in self.predicted]
        return {"queries": queries, "totals": self.totals(), "silent": self.silent, "failed": self.failed}


def _summary(predicted: Sequence[Prediction]) -> dict[str, Any]:
    inside = sum(one.in_range for one in predicted)
    return {
        "queries": len(predicted),
        "in_range": inside,
        "part": inside / len(predicted) if predicted else None,
        "sooner": sum(one.left < one.least for one in predicted),
        "later": sum(one.left > one.most for one in predicted),
        "median_ratio": quantile_if_any([one.likely / max(one.left, 1e-3) for one in predicted], 0.5),
        "median_width": quantile_if_any([one.most / max(one.least, 1e-3) for one in predicted], 0.5),
    }


def measure(options: EtaOptions, progress: Callable[[str], object] = lambda text: None) -> EtaReport:
    """Run the chosen queries; `progress` hears of each one. Raises ConfigError or SourceError if it cannot begin."""
    import qoop

    chosen = texts(directory=options.directory)
    predicted: list[Prediction] = []
    silent: dict[int, float] = {}
    failed: dict[int, str] = {}
    with qoop.connect(slots=options.slots, memory=options.memory, reuse=False, staged=options.staged) as session:
        session.register_folder(options.directory)
        numbers = options.queries or tuple(chosen)
        for place, number in enumerate(numbers, 1):
            progress(f"query {number}, {place} of {len(numbers)}")
            try:
                found = _predicted(session, number, chosen[number])
                if isinstance(found, Prediction):
                    predicted.append(found)
                else:
                    silent[number] = found
            except QoopError as error:
                failed[number] = str(error)
    return EtaReport(tuple(predicted), silent, failed)


def _predicted(session: Session, number: int, text: str) -> Prediction | float:
    """The prediction of the query at half time; if it made none, the seconds that it took."""
    session.prepare(text)  # statistics, which are collected once
    job = session.submit(text)
    begun, answers = perf_counter(), _answers(job)
    seconds = perf_counter() - begun
    job.result()
    return at_half_time(number, seconds, [(at - begun, left) for at, left in answers])


def _answers(job: Job) -> list[tuple[float, RemainingTime]]:
    """The times at which the status of the job was read until it ended, and its predictions."""
    found: list[tuple[float, RemainingTime]] = []
    while not job.wait(_EVERY):
        left = job.status().left
        if left is not None:
            found.append((perf_counter(), left))
    return found


def at_half_time(number: int, seconds: float, answers: Sequence[tuple[float, RemainingTime]]) -> Prediction | float:
    """The answer nearest to half time, if there is one near it; else the seconds.

    answers: each with the seconds since the query was begun.
    """
    at, left = min(answers, key=lambda answer: abs(answer[0] - seconds / 2), default=(0.0, None))
    if left is None or abs(at - seconds / 2) > _NEAR * seconds:
        return seconds
    return Prediction(number, seconds, at, left.likely, left.least, left.most)


def table(report: EtaReport) -> str:
    """The report for people: those whose end lay outside, then the summary."""
    lines = [f"{'query':>5} {'took':>8} {'at':>9} {'likely':>8} {'from':>8} {'to':>8} {'left':>8}"]
    for one in report.predicted:
        if not one.in_range:
            times = (one.seconds, one.at, one.likely, one.least, one.most, one.left)
            took, *rest = (f"{time:.2f}s" for time in times)
            lines.append(f"{one.query:>5} {took:>8} {rest[0]:>9} " + " ".join(f"{time:>8}" for time in rest[1:]))
    lines.append("")
    for name, total in report.totals().items():
        if total["queries"]:
            lines.append(
                f"{name}: the end of {total['in_range']} of {total['queries']} queries ({total['part']:.0%}) lay in "
                f"the range predicted at half time; {total['sooner']} ended sooner, {total['later']} later"
            )
    if report.silent:
        lines.append(
            f"{len(report.silent)} queries had said nothing by half time: {', '.join(map(str, report.silent))}"
        )
    lines += [f"query {number} failed: {error}" for number, error in report.failed.items()]
    return "\n".join(lines)
