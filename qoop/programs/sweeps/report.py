"""A sweep for readers: its trials as a table, its state as a sentence, and both with curves as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qoop.catalog.sizes import counted
from qoop.catalog.value import value

if TYPE_CHECKING:
    import pandas

    from qoop.programs.sweeps.space import Setting
    from qoop.programs.sweeps.study import Study

_GREY = ' style="color: #888"'
_WIDTH, _HEIGHT, _STYLE = 480, 120, ' style="overflow: visible; margin: 6px 0"'
_SHOWN = 20
"""Trials of a page of HTML; the best come first."""
_POINTS = 200
"""Points of a drawn curve."""
_COLOURS = {"promising": "#36c", "opportunistic": "#999", "poor": "#ddd"}


@value
class TrialStatus:
    """A trial of a sweep as a reader sees it.

    state: WAITING, RUNNING, COMPLETE, PRUNED or FAIL. params: its setting. value: the best metric of a step; None: no
    step has ended. steps: that have ended. seconds: of slots. chance: of the target; None: not predicted.
    kind: "promising", "opportunistic", "poor", or empty where it is not known yet. why: the error that ended it.
    estimate: the metric of its last step, as long as its steps read only some pieces of a table.
    """

    number: int
    state: str
    params: Setting
    value: float | None
    steps: int
    seconds: float
    chance: float | None
    kind: str
    why: str
    estimate: float | None = None

    def __str__(self) -> str:
        found = "" if self.value is None else f": {self.value:.6g}"
        if self.estimate is not None:
            found = f": {self.estimate:.6g}, an estimate by some pieces"
        return f"trial {self.number}, {self.state.lower()} after {self.steps} steps{found}"


@value
class StepSpan:
    """A step that has ended, in seconds since the sweep began. kind: as of its trial, when the step ended. slots: of
    its query, which several trials may share."""

    trial: int
    begun: float
    ended: float
    kind: str
    slots: float = 1.0


def trials_table(study: Study) -> pa.Table:
    """A row a trial: number, state, kind, value, steps, seconds, chance, params, the metrics of its steps, why, and
    estimate."""
    trials, curves = study.trials, study.curves
    columns = {
        "number": pa.array([one.number for one in trials], pa.int32()),
        "state": pa.array([one.state for one in trials], pa.string()),
        "kind": pa.array([one.kind for one in trials], pa.string()),
        "value": pa.array([one.value for one in trials], pa.float64()),
        "steps": pa.array([one.steps for one in trials], pa.int32()),
        "seconds": pa.array([one.seconds for one in trials], pa.float64()),
        "chance": pa.array([one.chance for one in trials], pa.float64()),
        "params": _structs([dict(one.params) for one in trials]),
        "values": pa.array(curves, pa.list_(pa.float64())),
        "why": pa.array([one.why for one in trials], pa.string()),
        "estimate": pa.array([one.estimate for one in trials], pa.float64()),
    }
    return pa.table(columns)


def trials_frame(trials: Sequence[TrialStatus]) -> pandas.DataFrame:
    """A row a trial: its status, and a column `params_…` for each parameter."""
    import pandas

    names = "number", "state", "value", "steps", "seconds", "chance", "kind", "why", "estimate"
    rows = [
        {name: getattr(one, name) for name in names} | {f"params_{name}": found for name, found in one.params.items()}
        for one in trials
    ]
    return pandas.DataFrame(rows)


def _structs(settings: Sequence[dict[str, Any]]) -> pa.Array:
    """Settings as structs; a parameter whose values have no common type is a text."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    return pa.StructArray.from_arrays([_column([one.get(name) for one in settings]) for name in names], names)


def _column(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def summary(study: Study) -> str:
    """The state of a sweep: ``rates: 12 trials, 3 complete, best 0.97 with rate=0.3; the target was reached``."""
    trials = study.trials
    ended = [(state.lower(), sum(one.state == state for one in trials)) for state in ("COMPLETE", "PRUNED", "FAIL")]
    parts = [counted(len(trials), "trial"), *(f"{count} {state}" for state, count in ended if count)]
    best = _best(trials, study)
    if best is not None:
        parts.append(f"best {best.value:.6g} with {params_text(best)}")
    return f"{study.name}: {', '.join(parts)}; {study.why or 'it runs'}"


def _best(trials: Sequence[TrialStatus], study: Study) -> TrialStatus | None:
    return trials[study.best_number] if study.best_number is not None else None


def params_text(trial: TrialStatus) -> str:
    """The setting of a trial in a few words.

    >>> params_text(TrialStatus(0, "RUNNING", {"rate": 0.123456789, "k": 4}, None, 0, 0.0, None, "", ""))
    'rate=0.123457, k=4'
    """
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in trial.params.items()
    )


def ranked(study: Study) -> list[TrialStatus]:
    """The trials, the best first, those without a value last."""
    sign = -1.0 if study.direction == "maximize" else 1.0
    return sorted(study.trials, key=lambda one: (one.value is None, sign * (one.value or 0.0), one.number))


def study_html(study: Study) -> str:
    """A sentence, the curves of all trials, and a table of the best ones."""
    head = f"<div><b>{escape(summary(study))}</b></div>"
    rows = "".join(_row(one) for one in ranked(study)[:_SHOWN])
    names = "".join(f"<th>{name}</th>" for name in ("trial", "state", "kind", "value", "steps", "seconds", "setting"))
    left = len(study.trials) - _SHOWN
    more = f"<small{_GREY}>{counted(left, 'trial')} more</small>" if left > 0 else ""
    return f"{head}{curves_svg(study)}<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(one: TrialStatus) -> str:
    value = "" if one.value is None else f"{one.value:.6g}"
    cells = (str(one.number), one.state, one.kind, value, str(one.steps), f"{one.seconds:.2f}", params_text(one))
    hint = f' title="{escape(one.why)}"' if one.why else ""
    return f"<tr{hint}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def curves_svg(study: Study) -> str:
    """A line a trial: its metric by step. Empty while no trial has two steps."""
    curves = study.curves
    values = [value for curve in curves for value in curve]
    longest = max(map(len, curves), default=0)
    if longest < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    lines = []
    best = study.best_number
    for trial in sorted(study.trials, key=lambda one: one.number == best):
        curve = curves[trial.number]
        every = max(1, len(curve) // _POINTS)
        places = [*range(0, len(curve), every)]
        points = " ".join(
            f"{at * _WIDTH / (longest - 1):.1f},{(high - curve[at]) * _HEIGHT / span:.1f}" for at in places
        )
        colour = "#c63" if trial.number == best else _COLOURS.get(trial.kind, "#999")
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    label = f"the metric of {counted(len(curves), 'trial')} by step, from {low:.6g} to {high:.6g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}"{_STYLE}>'
        f"<title>{label}</title>{''.join(lines)}</svg>"
    )
