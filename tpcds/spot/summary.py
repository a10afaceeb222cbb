"""The figures of the page: each engine in a class, at a pressure, over all tasks and windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from qoop.tpcds.quantiles import quantile
from qoop.tpcds.spot import measures
from qoop.tpcds.spot.entrants import REFERENCE
from qoop.tpcds.spot.measures import Cell, Ratio, ratio
from qoop.tpcds.spot.records import NONE, Run
from qoop.tpcds.spot.tasks import LOAD

KILL_SECONDS, GONE_SECONDS = 0.02, 0.1
"""Within these a kill has to arrive, and all processes to be gone."""


@dataclass(frozen=True, slots=True)
class Row:
    """An engine in a class. pressure: 0: undisturbed. All ratios are of sums over pairs of a task and a window.

    own, reference: stretch, over its own undisturbed seconds and over the reference's; credited: the latter without
    restarts. faster: seconds of the reference over its own. price: least undisturbed machine-seconds of any entrant
    over its own; the break-even discount is what is missing to 1. work: processor seconds undisturbed over those used.
    waits: of *load*, seconds from arrival to answer, the median and the 95th percentile. machine: mean machine-seconds
    of a task. busy: of each time that CPUs came, the seconds until all were busy, None if they never were. durable,
    durable_end: the most bytes in the durable folder, and after the last life, if known.
    """

    engine: str
    work_class: str
    pressure: float
    notice: float
    runs: int
    own: Ratio | None
    reference: Ratio | None
    credited: Ratio | None
    faster: Ratio | None
    price: Ratio | None
    work: Ratio | None
    right: float
    wrong: Mapping[str, str]
    losses: int
    start: float | None
    recovery: float | None
    busy: Sequence[float | None]
    machine: float
    durable: int
    durable_end: int | None
    disturbed: int
    late: int
    survived: int
    waits: tuple[float, float] | None

    @property
    def is_ranked(self) -> bool:
        """False: a wrong answer ends its rank in the class."""
        return not self.wrong


class Summary:
    """The rows of some runs that may be compared."""

    def __init__(self, found: Iterable[Run]) -> None:
        self.runs = list(found)
        self._calm: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
        self._places: dict[tuple[str, ...], Run] = {}
        self._measured: set[tuple[str, str]] = set()
        for run in self.runs:
            self._places[run.key.engine, *_place(run)] = run
            if run.key.market == NONE:
                self._calm[run.key.engine, run.key.work_class, run.key.task].append(run)
            else:
                self._measured.add((run.key.work_class, run.key.task))

    def rows(self) -> list[Row]:
        """By class, pressure and engine; calm ones first."""
        groups: dict[tuple[str, float, float, str], list[Run]] = defaultdict(list)
        for run in self.runs:
            key = run.key
            if self._able(run):
                groups[key.work_class, -(key.pressure or 1e9), key.notice, key.engine].append(run)
        return [self._row(groups[name]) for name in sorted(groups)]

    def unable(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The tasks that an engine cannot run even undisturbed, by engine and class."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (engine, work_class, task), own in self._calm.items():
            if not all(run.right for run in own):
                found[engine, work_class].append(task)
        return found

    def _able(self, run: Run) -> bool:
        """True for a run of a task that the engine answers undisturbed every time, and that has disturbed runs."""
        key = run.key
        calm = self._calm[key.engine, key.work_class, key.task]
        return bool(calm) and all(one.right for one in calm) and (key.work_class, key.task) in self._measured

    def _row(self, own: Sequence[Run]) -> Row:
        key = own[0].key
        events = [run.events for run in own]
        return Row(
            key.engine, key.work_class, key.pressure, key.notice, len(own),
            own=self._ratio(own, lambda run: (run.seconds, self._seconds(run.key.engine, run))),
            reference=self._ratio(own, lambda run: (run.seconds, self._seconds(REFERENCE, run))),
            credited=self._ratio(own, lambda run: (self._credited(run), self._seconds(REFERENCE, run))),
            faster=self._ratio(own, self._pair),
            price=self._ratio(own, lambda run: (self._least(run), run.machine_seconds)),
            work=self._ratio(own, lambda run: (self._calm_mean(run, lambda one: one.cpu), run.cpu)),
            right=sum(run.right for run in own) / sum(run.works for run in own),
            wrong={work: reason for run in own for work, reason in run.wrong.items()},
            losses=sum(map(measures.losses, events)),
            start=_median(start for one in events for start in measures.start_seconds(one)),
            recovery=_median(seconds for one in events for seconds in measures.recovery(one)),
            busy=[seconds for one in events for seconds in measures.until_busy(one)],
            machine=fmean(run.machine_seconds for run in own),
            durable=max(run.durable for run in own),
            durable_end=max((run.durable_end for run in own if run.durable_end is not None), default=None),
            disturbed=sum(run.disturbed for run in own),
            late=sum(measures.lateness(one) > KILL_SECONDS for one in events),
            survived=sum(measures.survival(one) > GONE_SECONDS for one in events),
            waits=_waits(own) if key.work_class == LOAD else None,
        )  # fmt: skip

    def _ratio(self, own: Sequence[Run], pair: Callable[[Run], Cell | None]) -> Ratio | None:
        cells = {(run.key.task, f"{run.key.market} {run.key.window}"): pair(run) for run in own}
        return ratio({place: cell for place, cell in cells.items() if cell is not None})

    def _seconds(self, engine: str, run: Run) -> float:
        """Undisturbed seconds of an engine in the task of a run: the median."""
        return median(one.seconds for one in self._calm[engine, run.key.work_class, run.key.task])

    def _calm_mean(self, run: Run, figure: Callable[[Run], float]) -> float:
        return fmean(map(figure, self._calm[run.key.engine, run.key.work_class, run.key.task]))

    def _credited(self, run: Run) -> float:
        if run.right < run.works or run.key.work_class == LOAD:  # the limit counts whole; starts delay many texts
            return run.seconds
        cold = median(
            life.ready - life.start
            for one in self._calm[run.key.engine, run.key.work_class, run.key.task]
            for life in measures.lives(one.events)
            if life.ready is not None
        )
        return measures.credited(run.events, cold)

    def _pair(self, run: Run) -> Cell | None:
        """Seconds of the reference in the same window, and its own."""
        theirs = self._places.get((REFERENCE, *_place(run)))
        return None if theirs is None else (theirs.seconds, run.seconds)

    def _least(self, run: Run) -> float:
        """The least undisturbed machine-seconds of any engine that answers the task of a run."""
        return min(
            median(one.machine_seconds for one in own)
            for (_, work_class, task), own in self._calm.items()
            if (work_class, task) == (run.key.work_class, run.key.task) and all(one.right for one in own)
        )


def _place(run: Run) -> tuple[str, ...]:
    key = run.key
    return key.work_class, key.task, key.market, f"{key.pressure:g}", str(key.window), f"{key.notice:g}"


def _waits(own: Sequence[Run]) -> tuple[float, float]:
    waits = [seconds for run in own for seconds in run.waits]
    return median(waits), quantile(waits, 0.95)


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None
