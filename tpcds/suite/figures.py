"""The figures of the paper's evaluation (paper section 6) drawn from our results, next to the paper's values.

One function a figure, from measurements to a picture; None: nothing is measured for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from qoop.tpcds.quantiles import quantile
from qoop.tpcds.suite import charts, cluster_figures, runs
from qoop.tpcds.suite.charts import COLOURS, Picture, sheet
from qoop.tpcds.suite.micro import SWITCH_SECONDS
from qoop.tpcds.suite.runs import (
    CLARINET,
    CLASSES,
    HINDSIGHT,
    NO_BACKTRACKING,
    QOOP,
    VOLCANO,
    RunRecord,
    Suite,
    by_query,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_MEDIAN: Mapping[str, Mapping[str, float]] = {
    "spot": {"low": 1.08, "medium": 1.11, "high": 1.47},
    "shared": {"low": 1.08, "medium": 1.11, "high": 1.20},
}
PAPER_FASTER: Mapping[str, Mapping[str, float]] = {
    "spot": {"low": 0.58, "medium": 0.62, "high": 0.66},
    "shared": {"low": 0.56, "medium": 0.58, "high": 0.60},
}
PAPER_TENTH: Mapping[str, float] = {"spot": 4.0, "shared": 3.3}
"""Gain that a tenth of the queries is over under 'high'."""
_GAINS = (0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8)
_FASTER = f"gain: {CLARINET} / {QOOP}"


@dataclass(frozen=True, slots=True)
class Figure:
    """number: as in the paper, or an initial for those it does not have. paper: what is seen there."""

    number: str
    title: str
    paper: str
    draw: Callable[[Suite], Picture | None]

    @property
    def name(self) -> str:
        """Of its files."""
        return f"figure-{self.number}"


def gain_distribution(kind: str) -> Callable[[Suite], Picture | None]:
    """2.6a and b: how much faster than Clarinet queries are, by class."""

    def draw(suite: Suite) -> Picture | None:
        groups = _by_class(suite.micro, kind)
        if not groups:
            return None
        with sheet(width=5.6) as page:
            (axes,) = page.axes
            for name, records in groups.items():
                gains = [query.gain() for query in by_query(records)]
                faster = runs.share(gains, FASTER)
                label = f"{name}: median {median(gains):.2f} ×, {faster:.0%} faster"
                charts.distribution(axes, gains, label, COLOURS[name])
                if kind in PAPER_MEDIAN:
                    point = [PAPER_MEDIAN[kind][name]]
                    axes.plot(point, [50], "D", color=COLOURS[name], markeredgecolor="black", markersize=5)
            if kind in PAPER_MEDIAN:
                axes.plot([], [], "D", color="white", markeredgecolor="black", markersize=5, label="the paper's median")
            axes.axvline(1.0, color="#888888", linewidth=0.8)
            charts.log_ticks(axes, _GAINS)
            charts.labels(axes, f"Gain over {CLARINET}, {_PROFILES[kind]}", _FASTER, "% of queries")
            return page.picture()

    return draw


FASTER = 1.001
"""From this gain on a query counts as faster."""
_PROFILES = {"spot": "spot profiles", "shared": "shared cluster", "file": "the given profile"}


def _by_class(records: Sequence[RunRecord], kind: str, *systems: str) -> dict[str, list[RunRecord]]:
    ours = systems or (QOOP, CLARINET)
    groups = {name: runs.of(records, kind, name, ours) for name in CLASSES}
    return {name: group for name, group in groups.items() if group}


def _both(draw: Callable[[Axes, Mapping[str, list[RunRecord]], str], None]) -> Callable[[Suite], Picture | None]:
    """A panel for each kind of profile that there are runs of."""

    def figure(suite: Suite) -> Picture | None:
        groups = {kind: _by_class(suite.micro, kind) for kind in runs.kinds(suite.micro)}
        groups = {kind: group for kind, group in groups.items() if group}
        if not groups:
            return None
        with sheet(len(groups)) as page:
            for axes, (kind, group) in zip(page.axes, groups.items(), strict=True):
                draw(axes, group, _PROFILES[kind])
            return page.picture()

    return figure


@_both
def against_duration(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.7: a point each query, and medians over fifths of them."""
    for name, records in groups.items():
        queries = sorted(by_query(records), key=lambda query: query.seconds(CLARINET))
        seconds, gains = [query.seconds(CLARINET) for query in queries], [query.gain() for query in queries]
        axes.plot(seconds, gains, "o", color=COLOURS[name], markersize=3, alpha=0.45)
        parts = _cut(list(zip(seconds, gains, strict=True)), 5)
        axes.plot(
            [fmean(s for s, _ in part) for part in parts], [fmean(g for _, g in part) for part in parts],
            "-", color=COLOURS[name], label=f"{name}, mean of fifths",
        )  # fmt: skip
    charts.log_ticks(axes, (3, 10, 30, 100, 300, 1000, 3000))
    charts.log_ticks(axes, _GAINS, "y")
    charts.labels(axes, title, f"completion time of {CLARINET}, s", _FASTER)


def _cut(values: Sequence[Any], number: int) -> list[Sequence[Any]]:
    edges = [round(place * len(values) / number) for place in range(number + 1)]
    return [values[low:high] for low, high in pairwise(edges) if high > low]


@_both
def against_joins(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.8: mean gain of queries by their number of joins."""
    for name, records in groups.items():
        bins: dict[int, list[float]] = defaultdict(list)
        for query in by_query(records):
            bins[_join_bin(query.joins)].append(query.gain())
        places = sorted(bins)
        axes.plot(places, [fmean(bins[place]) for place in places], "o-", color=COLOURS[name], label=name)
    axes.set_xticks(range(len(_JOINS)), [f"{low}–{high - 1}" if high < 99 else f"{low}+" for low, high in _JOINS])
    charts.labels(axes, title, "joins of the query", f"mean {_FASTER}")


_JOINS = ((0, 4), (4, 7), (7, 10), (10, 14), (14, 99))


def _join_bin(joins: int) -> int:
    return next(place for place, (_, high) in enumerate(_JOINS) if joins < high or high == 99)


@_both
def against_switches(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.9: mean gain of runs by their number of switches."""
    most = max(record.runs[QOOP].switches for records in groups.values() for record in records)
    for name, records in groups.items():
        by_count: dict[int, list[float]] = defaultdict(list)
        for record in records:
            by_count[record.runs[QOOP].switches].append(record.gain())
        counts = sorted(by_count)
        axes.plot(counts, [fmean(by_count[n]) for n in counts], "o-", color=COLOURS[name], label=name)
        for count in counts:
            axes.annotate(
                f"{len(by_count[count])}", (count, fmean(by_count[count])), fontsize=6, color=COLOURS[name],
                textcoords="offset points", xytext=(3, 4),
            )  # fmt: skip
    axes.set_xticks(range(most + 1))
    charts.paper_line(axes, 3, "the paper's most")
    charts.labels(axes, title, "switches of a run (numbers: runs)", f"mean {_FASTER}")


@_both
def task_rate(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.10: tasks a second."""
    series = {name: [mean_rate(records, name) for records in groups.values()] for name in (CLARINET, QOOP)}
    charts.bars(axes, list(groups), series)
    ratio = [f"{ours / theirs - 1:+.0%}" for ours, theirs in zip(series[QOOP], series[CLARINET], strict=True)]
    charts.labels(axes, title, f"{', '.join(ratio)} (paper: about +24 %)", "tasks per second")


def mean_rate(records: Sequence[RunRecord], system: str) -> float:
    """Tasks a second, mean over runs."""
    return fmean(record.runs[system].tasks / record.runs[system].seconds for record in records)


@_both
def switching_time(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.11: seconds of changing plan, deciding included, as a part of the completion time: of runs that did."""
    for name, records in groups.items():
        parts = [100 * overhead(record) for record in records if record.runs[QOOP].switches]
        if parts:
            charts.distribution(axes, parts, f"{name}: mean {fmean(parts):.3f} %", COLOURS[name])
    charts.paper_line(axes, 1.0, "the paper: under 1 %")
    charts.labels(axes, title, "% of completion time, runs that switched", "% of runs")


def overhead(record: RunRecord) -> float:
    """The part of its time that a run spent on changing plan: on the decisions, while the plan before goes on, and on
    the changes themselves, which take no virtual time and count with what the engine needs for one."""
    ours = record.runs[QOOP]
    return ours.switches * (ours.deciding / max(1, ours.decisions) + SWITCH_SECONDS) / ours.seconds


@_both
def backtracking_depth(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.12: how deep runs went back."""
    counts = {name: Counter(deepest(record) for record in records) for name, records in groups.items()}
    most = max(max(count) for count in counts.values())
    series = {
        f"{depth} stages" if depth != 1 else "1 stage": [
            100 * count[depth] / count.total() for count in counts.values()
        ]
        for depth in range(most + 1)
    }
    charts.bars(axes, list(groups), series, form="{:.1f}")
    charts.labels(axes, title, "(paper: low 85.3 % none; two deep only under high)", "% of runs")


def deepest(record: RunRecord) -> int:
    """Of the switches of a run the one that went back furthest."""
    return max(record.runs[QOOP].depths, default=0)


@_both
def backtracking(axes: Axes, groups: Mapping[str, list[RunRecord]], title: str) -> None:
    """2.13: with and without backtracking."""
    for name, group in groups.items():
        records = [record for record in group if NO_BACKTRACKING in record.runs]
        if records:
            queries = by_query(records)
            charts.distribution(axes, [query.gain() for query in queries], f"{name}, with", COLOURS[name])
            without = sorted(query.gain(ours=NO_BACKTRACKING) for query in queries)
            parts = [100 * (place + 1) / len(without) for place in range(len(without))]
            axes.plot(without, parts, ":", color=COLOURS[name], label=f"{name}, without")
    charts.log_ticks(axes, _GAINS)
    charts.labels(axes, title, f"gain over {CLARINET}", "% of queries")


def variant(name: str, value: float) -> str:
    """The name of a system that differs in one number from QOOP.

    >>> variant("hysteresis", 10)
    'hysteresis 10'
    """
    return f"{name} {value:g}"


def sweep(name: str, over: str = CLARINET) -> Callable[[Sequence[RunRecord]], dict[float, float]]:
    """By value of a number that was varied, the mean over queries of the gain."""

    def measured(records: Sequence[RunRecord]) -> dict[float, float]:
        values = {float(key.removeprefix(f"{name} ")) for record in records for key in record.runs if _is(key, name)}
        found = {}
        for value in sorted(values):
            ours = variant(name, value)
            baseline = over if over == CLARINET else variant(over, value)
            some = [record for record in records if ours in record.runs and baseline in record.runs]
            found[value] = fmean(query.gain(baseline, ours) for query in by_query(some))
        return found

    return measured


def _is(key: str, name: str) -> bool:
    head, _, number = key.rpartition(" ")
    return head == name and number.lstrip("-").replace(".", "", 1).isdigit()


STRAGGLING, CLARINET_STRAGGLING = "QOOP with stragglers", "Clarinet with stragglers"
STAGE_ERRORS, CLARINET_STAGE_ERRORS = "QOOP with errors by stage", "Clarinet with errors by stage"
_SAME_GROUND_TRUTH = {STRAGGLING: CLARINET_STRAGGLING, STAGE_ERRORS: CLARINET_STAGE_ERRORS}
"""The systems whose tasks take longer or shorter than usual, and the Clarinet that meets the same tasks."""
HYSTERESIS, ERROR, CLARINET_ERROR, THRESHOLD = "hysteresis", "error", "Clarinet with error", "share threshold"


def error_robustness(suite: Suite) -> Picture | None:
    """2.14: estimates that are wrong by so much, for us and for Clarinet."""
    return _sweep(
        suite, sweep(ERROR, CLARINET_ERROR), "Wrong estimates", "error of demands and durations, %",
        {"high": (1.4, "the paper, high: 1.4 × at the worst"), "low": (1.18, "the paper, low: 1.18 × at the worst")},
    )  # fmt: skip


def hysteresis(suite: Suite) -> Picture | None:
    """2.15: how much better a plan must look to be switched to."""
    return _sweep(suite, sweep(HYSTERESIS), "Hysteresis", "hysteresis, %", {}, best=(10, 25))


def threshold(suite: Suite) -> Picture | None:
    """By how much the share must have changed for the plan to be thought over."""
    return _sweep(suite, sweep(THRESHOLD), "Share threshold", "change of the share that is a reason, %", {})


def _sweep(
    suite: Suite, measured: Callable[[Sequence[RunRecord]], dict[float, float]], title: str, x: str,
    paper: Mapping[str, tuple[float, str]], best: tuple[float, float] | None = None,
) -> Picture | None:  # fmt: skip
    panels = {kind: curves for kind in runs.kinds(suite.ablation) if (curves := _curves(suite, kind, measured))}
    if not panels:
        return None
    with sheet(len(panels), width=5.6) as page:
        for axes, (kind, curves) in zip(page.axes, panels.items(), strict=True):
            for name, curve in curves.items():
                axes.plot(list(curve), list(curve.values()), "o-", color=COLOURS[name], label=name)
            for name, (value, text) in paper.items():
                charts.paper_line(axes, value, text, across=True, colour=COLOURS[name])
            if best is not None:
                axes.axvspan(*best, color="#eeeeee", zorder=0, label=f"best in the paper: {best[0]:g} to {best[1]:g} %")
            axes.axhline(1.0, color="#888888", linewidth=0.8)
            charts.labels(axes, f"{title}, {_PROFILES[kind]}", x, f"mean gain over {CLARINET}")
        return page.picture()


def _curves(
    suite: Suite, kind: str, measured: Callable[[Sequence[RunRecord]], dict[float, float]]
) -> dict[str, dict[float, float]]:
    """By class what was swept under profiles of a kind."""
    curves = {name: measured(records) for name, records in _by_class(suite.ablation, kind, CLARINET).items()}
    return {name: curve for name, curve in curves.items() if curve}


def hindsight(suite: Suite) -> Picture | None:
    """The time relative to the best single plan, known afterwards."""
    groups = {
        kind: {name: runs.of(suite.micro, kind, name, (QOOP, CLARINET, HINDSIGHT)) for name in CLASSES}
        for kind in runs.kinds(suite.micro)
    }
    if not any(records for classes in groups.values() for records in classes.values()):
        return None
    shown = {kind: [record for records in classes.values() for record in records] for kind, classes in groups.items()}
    shown = {kind: records for kind, records in shown.items() if records}
    with sheet(len(shown)) as page:
        for axes, (kind, records) in zip(page.axes, shown.items(), strict=True):
            for name in (QOOP, CLARINET, VOLCANO):
                ratios = [record.gain(name, HINDSIGHT) for record in records if name in record.runs]
                if ratios:
                    tail = f"95 % {quantile(ratios, 0.95):.2f}, worst {max(ratios):.2f}"
                    text = f"{name}: median {median(ratios):.2f}, {tail}"
                    charts.distribution(axes, ratios, text, COLOURS[name])
            charts.log_ticks(axes, (0.5, 0.7, 1, 1.4, 2, 4, 8, 16))
            charts.labels(axes, _PROFILES[kind], "time / time of the best single plan in hindsight", "% of runs")
        return page.picture()


def parts_alone(suite: Suite) -> Picture | None:
    """The worth of each part of QOOP: mean gain over Clarinet without it, or with what is added; below, the median of
    its time over that of the best single plan in hindsight."""
    kinds = runs.kinds(suite.ablation)
    panels = {kind: groups for kind in kinds if (groups := _by_class(suite.ablation, kind, CLARINET, QOOP))}
    names = variants_of(suite.ablation)
    if not panels or len(names) < 2:
        return None
    with sheet(len(panels), width=2.6 + 1.1 * len(names), below=True) as page:
        for axes, (kind, groups) in zip(page.axes, panels.items(), strict=True):
            series = {
                volatility: [_mean_gain(records, name) for name in names] for volatility, records in groups.items()
            }
            every = [record for records in groups.values() for record in records]
            charts.bars(axes, [_part(name, over_hindsight(every, name)) for name in names], series)
            axes.axhline(1.0, color="#888888", linewidth=0.8)
            charts.labels(axes, f"With and without each part, {_PROFILES[kind]}", "", f"mean gain over {CLARINET}")
        return page.picture()


def _part(name: str, ratios: Sequence[float]) -> str:
    """The text below its bars."""
    words = fill(name, 15)
    return f"{words}\n{median(ratios):.2f} × hindsight" if ratios else words


def over_hindsight(records: Sequence[RunRecord], name: str) -> list[float]:
    """By run, the time of a system over that of the best single plan in hindsight.

    Empty for a system whose ground truth is not that of the plans of hindsight.
    """
    if name in _SAME_GROUND_TRUTH:
        return []
    return [record.gain(name, HINDSIGHT) for record in records if name in record.runs and HINDSIGHT in record.runs]


def _mean_gain(records: Sequence[RunRecord], name: str) -> float:
    theirs = _SAME_GROUND_TRUTH.get(name, CLARINET)
    some = [record for record in records if name in record.runs and theirs in record.runs]
    return fmean(query.gain(theirs, name) for query in by_query(some)) if some else 0.0


def variants_of(records: Sequence[RunRecord]) -> list[str]:
    """Systems of the ablation that are not one of a sweep, ours first."""
    swept = (HYSTERESIS, ERROR, CLARINET_ERROR, THRESHOLD)
    baselines = (QOOP, CLARINET, VOLCANO, HINDSIGHT, *_SAME_GROUND_TRUTH.values())
    names = dict.fromkeys(name for record in records for name in record.runs)
    rest = [name for name in names if name not in baselines and not any(_is(name, one) for one in swept)]
    return [QOOP, *rest]


FIGURES = (
    Figure("F", "Real and simulated completion times", "not in the paper", cluster_figures.fidelity),
    Figure(
        "2.3a", "What one job sees in a shared cluster", "shares that move all the time", cluster_figures.shared_view
    ),
    Figure(
        "2.3b", "Events a job sees", "78 % of jobs see one event of 10 % or more, 20 % at least four",
        cluster_figures.events_of_jobs,
    ),
    Figure("2.3c", "Machines of a spot job", "between 2 and 20", cluster_figures.spot_machines),
    Figure("2.4", "Toy query", "Volcano 9, Clarinet 7, QOOP 6 time units", cluster_figures.toy),
    Figure("2.6a", "Gain, spot", "58 / 62 / 66 % faster, median 1.08 / 1.11 / 1.47 ×", gain_distribution("spot")),
    Figure("2.6b", "Gain, shared", "56 / 58 / 60 % faster, median 1.08 / 1.11 / 1.20 ×", gain_distribution("shared")),
    Figure("2.6", "Gain, the given profile", "other profiles", gain_distribution("file")),
    Figure("2.7", "Gain against duration", "grows with duration", against_duration),
    Figure("2.8", "Gain against joins", "grows with joins, and with volatility", against_joins),
    Figure("2.9", "Gain against switches", "grows; at most 3 switches a query", against_switches),
    Figure("2.10", "Tasks per second", "QOOP about 24 % above Clarinet", task_rate),
    Figure("2.11", "Time spent switching", "under 1 % of the completion time", switching_time),
    Figure(
        "2.12", "Depth of backtracking", "low: 85.3 % none; 5.7 % of all runs two deep, only under high",
        backtracking_depth,
    ),
    Figure("2.13", "With and without backtracking", "with is better throughout", backtracking),
    Figure("2.14", "Wrong estimates", "high: 1.4 × kept at the worst; low: 1.18 ×; never below", error_robustness),
    Figure("2.15", "Hysteresis", "flat best between 10 and 25 %", hysteresis),
    Figure("2.16", "200 jobs", "ours near SJF in time, DRF in fairness, Tetris in makespan", cluster_figures.macro),
    Figure("A", "Ratio to the hindsight optimum", "not in the paper", hindsight),
    Figure("B", "Parts of QOOP", "not in the paper", parts_alone),
    Figure("C", "Share threshold", "not in the paper", threshold),
)  # fmt: skip
