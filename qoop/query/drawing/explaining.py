"""EXPLAIN in its forms: a plan, a plan with measurements, all kept plans, the difference of two of them; each as
text, JSON, SVG or a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from qoop.catalog.errors import ConfigError
from qoop.engine.history import Record
from qoop.planner.explain import FORMAT, StageObservations, as_json, explain
from qoop.planner.plan import Plan
from qoop.planner.search.alternatives import explain_alternatives
from qoop.planner.search.candidate import Alternatives, plan_name
from qoop.planner.search.difference import Difference, explain_difference
from qoop.query.drawing.analysis import analysis, stage_profiles
from qoop.query.drawing.drawing import Drawing, draw_alternatives, draw_plan, draw_plans
from qoop.query.drawing.picture import page

Format = Literal["text", "json", "svg", "html"]
FORMATS: tuple[Format, ...] = ("text", "json", "svg", "html")


def explained_plan(
    plan: Plan,
    observed: StageObservations | None = None,
    switches: int = 0,
    format: Format = "text",
    history: Sequence[Record] = (),
) -> str:
    """One plan. observed: the measurements of its stages. switches: the number of plans before it.

    history: the records of the job that ran it.
    """
    more = analysis(plan, history) if history else {}
    if format == "text":
        changed = [f"the plan was changed {switches} times; the last one:"] if switches else []
        return "\n".join([*changed, explain(plan, observed, more)])
    if format == "json":
        document = as_json(plan, observed)
        profiles = stage_profiles(plan, history)
        for stage in document["stages"]:
            stage |= {"notes": list(more[stage["id"]]), "profile": profiles[stage["id"]]} if more else {}
        return _json({**document, "switches": switches})
    return _picture(draw_plan(plan, observed), explain(plan, observed, more), format)


def explained_alternatives(alternatives: Alternatives, format: Format = "text") -> str:
    """All plans that are kept, and which of them ends first on which share."""
    if format == "text":
        return explain_alternatives(alternatives)
    if format == "json":
        return _json(_alternatives_json(alternatives))
    return _picture(draw_alternatives(alternatives), explain_alternatives(alternatives), format)


def explained_difference(alternatives: Alternatives, names: Sequence[str], format: Format = "text") -> str:
    """Two of the plans that are kept, by name (A, B …). Raises ConfigError for a name that none has."""
    first, second = (_named(alternatives, name) for name in names)
    difference = Difference(first, second, (names[0], names[1]))
    if format == "text":
        return explain_difference(difference)
    if format == "json":
        return _json(_difference_json(difference))
    drawing = draw_plans(list(zip(difference.names, (first, second), strict=True)), abreast=True)
    return _picture(drawing, explain_difference(difference), format)


def plan_names(text: str) -> tuple[str, str]:
    """The names of two plans, as "A,B" or "AB". Raises ConfigError.

    >>> plan_names("A,B1"), plan_names("ca")
    (('A', 'B1'), ('C', 'A'))
    """
    parts = [part.strip().upper() for part in text.split(",")] if "," in text else list(text.strip().upper())
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f'name two plans to compare, such as "A,B", not {text!r}')
    return parts[0], parts[1]


def checked_format(format: str) -> Format:
    """One of FORMATS. Raises ConfigError for another."""
    for known in FORMATS:
        if known == format:
            return known
    raise ConfigError(f"a plan is explained as {', '.join(FORMATS)}, not as {format!r}")


def _named(alternatives: Alternatives, name: str) -> Plan:
    plans = {plan_name(place): one.plan for place, one in enumerate(alternatives.kept)}
    if name not in plans:
        raise ConfigError(f"there is no plan {name} of this query; there are {', '.join(plans)}")
    return plans[name]


def _picture(drawing: Drawing, text: str, format: Format) -> str:
    if format == "svg":
        return drawing.svg()
    from html import escape

    return page("qoop explain", drawing.svg(), f"<pre>{escape(text)}</pre>")


def _alternatives_json(alternatives: Alternatives) -> dict[str, Any]:
    points = zip(alternatives.pool.grid.points, alternatives.winners, strict=True)
    return {
        "format": FORMAT,
        "pool": len(alternatives.pool.candidates),
        "pool_shapes": alternatives.pool.shapes,
        "cover_error": alternatives.cover_error,
        "plans": [
            {"name": plan_name(place), "origin": one.origin, "shape": one.shape, **as_json(one.plan)}
            for place, one in enumerate(alternatives.kept)
        ],
        "grid": [
            {"cpu": point.cpu, "memory": point.memory, "network": point.network, "plan": plan_name(winner),
             "seconds": alternatives.seconds(place)}
            for place, (point, winner) in enumerate(points)
        ],
    }  # fmt: skip


def _difference_json(difference: Difference) -> dict[str, Any]:
    sides = zip(difference.names, (difference.left, difference.right), difference.marks, strict=True)
    plans = [
        {"name": name, **as_json(plan), "marks": {id: mark.name.lower() for id, mark in marks.items()}}
        for name, plan, marks in sides
    ]
    return {"format": FORMAT, "plans": plans}


def _json(value: object) -> str:
    return json.dumps(value, indent=1)
