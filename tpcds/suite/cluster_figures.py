"""Figures of many jobs, of the shares and machines that they get, and of the simulator itself.

One function a figure, from measurements to a picture; None: nothing is measured for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from qoop.adaptive.profiles.summary import PERCENTS
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.suite import charts
from qoop.tpcds.suite.charts import COLOURS, Picture, sheet
from qoop.tpcds.suite.macro import Setting, whole_seeds
from qoop.tpcds.suite.macro import figures as macro_figures
from qoop.tpcds.suite.runs import CLARINET, QOOP, VOLCANO, Suite

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def toy(suite: Suite) -> Picture | None:
    """2.4: the small instance."""
    ends = suite.toy.get("ends")
    if ends is None:
        return None
    with sheet() as page:
        (axes,) = page.axes
        names = [VOLCANO, CLARINET, QOOP]
        charts.bars(axes, names, {"ours": [ends[name] for name in names], "paper": [9, 7, 6]}, form="{:g}")
        charts.labels(axes, "A ⋈ B ⋈ C ⋈ D, resources change at 1", "", "end, time units")
        return page.picture()


def macro(suite: Suite) -> Picture | None:
    """2.16: 200 jobs under seven combinations and the controls."""
    means = macro_means(suite)
    if not means:
        return None
    with sheet(3, width=4.6, height=3.6) as page:
        titles = {"mean": "Mean completion time, s", "jain": "Jain's index", "makespan": "Makespan, s"}
        for axes, (key, title) in zip(page.axes, titles.items(), strict=True):
            values = [one[key] for one in means.values()]
            colours = [COLOURS[QOOP] if name.startswith(QOOP) else "#bbbbbb" for name in means]
            drawn = axes.barh(list(means), values, color=colours)
            axes.bar_label(drawn, [f"{value:.3g}" if key == "jain" else f"{value:.0f}" for value in values], fontsize=7)
            axes.margins(x=0.15)  # space for the numbers
            axes.invert_yaxis()
            axes.grid(visible=False, axis="y")
            charts.labels(axes, title, "", "")
        return page.picture()


def macro_means(suite: Suite) -> dict[str, dict[str, float]]:
    """By combination its three figures, each the mean over seeds: of the runs with the most jobs."""
    by_jobs: dict[int, dict[str, Any]] = defaultdict(dict)
    for name, value in suite.macro.items():
        jobs, _, item = name.partition(" jobs: ")
        by_jobs[int(jobs)][item] = value
    for count, values in sorted(by_jobs.items(), reverse=True):
        found = macro_figures(Setting("", count, seeds=whole_seeds(values)), values)
        if found:
            return {one.combination: {"mean": one.mean, "jain": one.jain, "makespan": one.makespan} for one in found}
    return {}


def of_kind(suite: Suite, kind: str) -> list[Mapping[str, Any]]:
    """The profiles of a kind that were looked at."""
    return [one for one in suite.profiles.values() if one["kind"] == kind]


def shared_view(suite: Suite) -> Picture | None:
    """2.3a: what a few jobs of a shared cluster see."""
    some = of_kind(suite, "shared")
    if not some:
        return None
    with sheet(width=6.4) as page:
        (axes,) = page.axes
        for number, points in enumerate(some[0]["shares"], 1):
            _steps(axes, points, points[-1][0], f"job {number}", charts.CYCLE[number - 1])
        axes.set_ylim(bottom=0)  # after all steps: from then on the top stays, too
        charts.labels(axes, "What one job sees", "seconds", "slots")
        return page.picture()


def _steps(axes: Axes, points: Sequence[Sequence[float]], end: float, label: str, colour: str) -> None:
    times, values = [at for at, _ in points], [value for _, value in points]
    axes.step([*times, end], [*values, values[-1]], where="post", label=label, color=colour)


def events_of_jobs(suite: Suite) -> Picture | None:
    """2.3b: how many events jobs of a shared cluster see."""
    some = of_kind(suite, "shared")
    if not some:
        return None
    with sheet(width=5.0) as page:
        (axes,) = page.axes
        for place, percent in enumerate(PERCENTS):
            counts = [count for one in some for count in one["jobs"][place]]
            charts.distribution(axes, counts, f"events of {percent} %", charts.CYCLE[place])
        axes.plot([0.5], [22], "D", color="white", markeredgecolor="black", label="paper, 10 %: 22 % see none")
        axes.plot([3.5], [80], "s", color="white", markeredgecolor="black", label="paper, 10 %: 20 % see four")
        axes.set_xlim(-0.3, 12)
        charts.labels(axes, "Volatility events of a job", "events", "% of jobs")
        return page.picture()


def spot_machines(suite: Suite) -> Picture | None:
    """2.3c: machines of one spot profile."""
    some = of_kind(suite, "spot")
    if not some:
        return None
    with sheet(width=6.4) as page:
        (axes,) = page.axes
        hours = [[at / 3600, count] for at, count in some[0]["machines"]]
        _steps(axes, hours, some[0]["seconds"] / 3600, "ours", COLOURS[QOOP])
        axes.set_ylim(bottom=0)
        for bound in (2, 20):
            charts.paper_line(axes, bound, "the paper's least and most" if bound == 2 else "", across=True)
        charts.labels(axes, "Machines bought for 5 $/h", "hours", "machines")
        return page.picture()


def fidelity(suite: Suite) -> Picture | None:
    """Simulated against real completion times, and how far they are off."""
    pairs = [pair for pair in suite.fidelity.get("pairs", ()) if not pair["fitted"]]
    if not pairs:
        return None
    with sheet(2) as page:
        times, errors = page.axes
        for number, name in enumerate(dict.fromkeys(pair["profile"] for pair in pairs)):
            some = [pair for pair in pairs if pair["profile"] == name]
            colour = charts.CYCLE[number]
            real, simulated = ([pair[key] for pair in some] for key in ("real", "simulated"))
            times.plot(real, simulated, ".", color=colour, markersize=4, label=name)
            off = [100 * pair["error"] for pair in some]
            charts.distribution(errors, off, f"{name}: median {median(off):.1f} %", colour)
        ends = [min(pair["real"] for pair in pairs), max(pair["real"] for pair in pairs)]
        times.plot(ends, ends, "-", color="#888888", linewidth=0.8)
        times.set_xscale("log")
        times.set_yscale("log")
        charts.labels(times, "A run each", "real, s", "simulated, s")
        charts.paper_line(errors, 10, "target of the median: 10 %")
        errors.set_xlim(0, max(30.0, 1.5 * 100 * quantile([pair["error"] for pair in pairs], 0.9)))
        charts.labels(errors, "How far off", "error of the completion time, %", "% of runs")
        return page.picture()
