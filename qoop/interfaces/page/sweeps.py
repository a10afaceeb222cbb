"""The sweeps of a session as JSON for the page: the best trials, their curves, and the slots by kind over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from qoop.programs.sweeps.report import params_text, ranked, summary

if TYPE_CHECKING:
    from qoop.programs.sweeps.report import StepSpan, TrialStatus
    from qoop.programs.sweeps.study import Study

_TRIALS, _POINTS, _PARTS = 30, 60, 60
"""The most trials, points of a curve, and parts of the time that a sweep has on the page."""
_KINDS = ("promising", "opportunistic", "poor", "")
"""Of trials; the last: not known yet."""


def sweep_view(study: Study) -> dict[str, Any]:
    """A sweep. trials: the best first. split: parts of its time, each with the slots of trials by kind."""
    curves = study.curves
    trials = ranked(study)
    return {
        "name": study.name,
        "summary": summary(study),
        "over": bool(study.why),
        "total": len(trials),
        "best": study.best_number,
        "trials": [_trial(one, curves[one.number]) for one in trials[:_TRIALS]],
        "split": _split(study.spans),
    }


def _trial(one: TrialStatus, curve: Sequence[float]) -> dict[str, Any]:
    every = -(-len(curve) // _POINTS) or 1
    places = sorted({*range(0, len(curve), every), *([len(curve) - 1] if curve else [])})
    return {
        "number": one.number, "state": one.state, "kind": one.kind, "value": _finite(one.value), "steps": one.steps,
        "seconds": round(one.seconds, 3), "chance": _finite(one.chance), "params": params_text(one), "why": one.why,
        "curve": [[place + 1, _finite(curve[place])] for place in places],
    }  # fmt: skip


def _split(spans: Iterable[StepSpan]) -> dict[str, Any]:
    """The slots of each kind of trials, in equal parts of the time until the last end of a step."""
    known = list(spans)
    if not known:
        return {"from": 0.0, "to": 0.0, "kinds": list(_KINDS), "parts": []}
    first, last = min(one.begun for one in known), max(one.ended for one in known)
    width = (last - first) / _PARTS or 1.0
    parts = [[0.0] * len(_KINDS) for _ in range(_PARTS)]
    for one in known:
        kind = _KINDS.index(one.kind) if one.kind in _KINDS else len(_KINDS) - 1
        for place in range(int((one.begun - first) / width), min(_PARTS - 1, int((one.ended - first) / width)) + 1):
            begun, ended = first + place * width, first + (place + 1) * width
            parts[place][kind] += one.slots * max(0.0, min(one.ended, ended) - max(one.begun, begun)) / width
    rounded = [[round(slots, 3) for slots in part] for part in parts]
    return {"from": round(first, 3), "to": round(last, 3), "kinds": list(_KINDS), "parts": rounded}


def _finite(number: float | None) -> float | None:
    return None if number is None or not isfinite(number) else float(f"{number:.6g}")
