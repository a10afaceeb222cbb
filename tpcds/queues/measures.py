"""The measures of a run: completion times, busy slots, and how long tasks waited at their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from qoop.adaptive.simulation import JobRun, SimulatedRun
from qoop.engine.replay import JobReplay
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.queues.workload import Setting, Work


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one run. short: median seconds of jobs with less work than the median job. usual, late: of all, the median and
    the 95th percentile. busy: part of the slots' time between the first job's coming and the last one's. waited: mean
    seconds of tasks between grant and beginning. rate: jobs a minute until the last one ended."""

    short: float
    usual: float
    late: float
    busy: float
    waited: float
    rate: float


def measured(run: SimulatedRun, jobs: Sequence[Work], setting: Setting) -> Measures:
    """Raises ValueError if a job did not end."""
    assert all(one.error is None for one in run.jobs), "no job fails"
    middle = median(job.total for job in jobs)
    short = [run[job.name].seconds for job in jobs if job.total <= middle]
    seconds = [one.seconds for one in run.jobs]
    spans = [span for one in run.jobs for span in _spans(one)]
    last = max(job.at for job in jobs)
    busy = sum(max(0.0, min(end, last) - begin) for _, begin, end in spans)
    return Measures(
        median(short), median(seconds), quantile(seconds, 0.95), busy / (setting.machines * setting.slots * last),
        fmean(begin - granted for granted, begin, _ in spans), 60 * len(jobs) / run.seconds,
    )  # fmt: skip


def _spans(job: JobRun) -> list[tuple[float, float, float]]:
    """Of every task that did anything: when it was granted, began and ended."""
    found = []
    for attempt, end in JobReplay.of(job.history).succeeded():
        if end.account is not None:
            at = job.at + attempt.granted
            begin = at + end.account.waited
            found.append((at, begin, begin + end.committed.seconds))
    return found
