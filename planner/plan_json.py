"""Plans as JSON, for files that outlive a process or that other processes read: plan caches, bundles, traces.

The text has the fields of the dataclasses of :mod:`qoop.planner.plan`, see :mod:`qoop.catalog.written.codec`.

    dump(plan) -> values that json can write -> load -> an equal plan
"""

from __future__ import annotations

from typing import Any

from qoop.catalog.errors import PlanError
from qoop.catalog.written.codec import Codec
from qoop.planner.plan import Plan

FORMAT = 1
"""Raised when a field means something else than before; texts of another format are refused."""

_CODEC = Codec({})


def dump(plan: Plan) -> dict[str, Any]:
    """The plan as dicts, lists, texts and numbers, with the number of the format.

    >>> from qoop.planner.plan import Stage
    >>> plan = Plan((Stage("s1", "SELECT 1 AS a", (), (("a", "INTEGER"),), 1, "f00"),), (("a", "INTEGER"),))
    >>> load(dump(plan)) == plan
    True
    """
    return {"format": FORMAT, **_CODEC.write(plan)}


def load(data: Any) -> Plan:
    """The plan that :func:`dump` took apart. Raises PlanError where `data` is damaged or of another format."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise PlanError(f"a plan of format {found!r} cannot be read here, only one of format {FORMAT}")
    plan: Plan = read(Plan, {name: value for name, value in data.items() if name != "format"})
    return plan


def write(value: Any) -> Any:
    """One dataclass of plans (a Stage, a Resources …) as :func:`dump` writes it, without a format."""
    return _CODEC.write(value)


def read(kind: type, data: Any) -> Any:
    """The value that :func:`write` took apart. Raises PlanError where `data` is damaged."""
    return _CODEC.read(kind, data)
