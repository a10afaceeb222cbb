"""Pictures of policies under load: times, fairness, deadlines and use of the slots over the load that is offered."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from qoop.tpcds.load.measures import Summary
from qoop.tpcds.suite import charts
from qoop.tpcds.suite.charts import CYCLE, Picture, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = (
    ("mean", "Mean time of a query", "seconds"),
    ("rho_tenant", "Largest ρ of a tenant", "ρ"),
    ("met", "Deadlines met", "part of all"),
    ("used", "Slots at work", "part of all"),
)
_SHOWN = ("max-min by job", "max-min", "finish time", "urgency", "urgency over all", "SRSF", "EDF", "LAS")
"""Policies that have a curve, as far as they were played; of others there are too many to tell them apart."""


def over_load(known: Sequence[Summary]) -> Picture:
    """A curve for each policy and figure, each point the mean over seeds."""
    played = tuple(dict.fromkeys(one.policy for one in known))
    policies = [policy for policy in _SHOWN if policy in played] or played[: len(CYCLE)]
    with sheet(panels=len(_PANELS), width=3.6, height=3.4) as page:
        for axes, (figure, title, unit) in zip(page.axes, _PANELS, strict=True):
            for number, policy in enumerate(policies):
                _curve(axes, [one for one in known if one.policy == policy], figure, policy, number)
            if figure == "rho_tenant":
                charts.log_ticks(axes, [1, 1.5, 2, 3, 4], "y")
            charts.labels(axes, title, "load that is offered", unit, legend=figure == "used")
        return page.picture()


def fairness(known: Sequence[Summary], load: float) -> Picture:
    """ρ of the jobs at a load: for each policy how many have at most so much, in the mean over seeds."""
    here = [one for one in known if one.load == load]
    played = tuple(dict.fromkeys(one.policy for one in here))
    with sheet(panels=1, width=6.0, height=3.8) as page:
        axes = page.axes[0]
        for number, policy in enumerate([policy for policy in _SHOWN if policy in played] or played[: len(CYCLE)]):
            own = [one.rho_parts for one in here if one.policy == policy]
            parts = [place / (len(own[0]) - 1) for place in range(len(own[0]))]
            axes.plot([fmean(rhos) for rhos in zip(*own, strict=True)], parts, label=policy, **_style(number))
        charts.log_ticks(axes, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
        axes.axvline(1.0, color="#888888", linewidth=0.8)
        charts.labels(
            axes, f"Fairness at a load of {load:g}", "ρ of a job; 1: as alone on its share", "part of the jobs"
        )
        return page.picture()


def _curve(axes: Axes, known: Sequence[Summary], figure: str, policy: str, number: int) -> None:
    loads = sorted({one.load for one in known})
    means = [fmean(getattr(one, figure) for one in known if one.load == load) for load in loads]
    axes.plot(loads, means, marker="o", markersize=3, label=policy, **_style(number))


def _style(number: int) -> dict[str, Any]:
    """Of a curve: each has a colour, and those that come when all colours are taken are dashed, with empty marks."""
    again, colour = divmod(number, len(CYCLE))
    dashed = {"linestyle": "--", "markerfacecolor": "white"} if again else {}
    return {"color": CYCLE[colour], **dashed}
