"""Schedulers by a text: the name of a policy, or the `repr` in a trace, with all parameters.

>>> made("Reserving(policy=Tetris(fairness=0.5), patience=4)")
Reserving(policy=Tetris(fairness=0.5, shortness=1.0), patience=4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib import import_module
from typing import Any

from qoop.adaptive.schedulers.base import Scheduler
from qoop.catalog.errors import ConfigError
from qoop.catalog.written.described import described

_OWN, _PUBLISHED = "qoop.adaptive.schedulers", "qoop.tpcds.schedulers"

MODULES = {
    "MaxMin": f"{_OWN}.max_min",
    "Reserving": f"{_OWN}.reserving",
    "FinishTime": f"{_OWN}.finish_time",
    "Urgency": f"{_OWN}.urgency",
    "Quality": f"{_OWN}.quality.sharing",
    "DRF": f"{_PUBLISHED}.drf",
    "SJF": f"{_PUBLISHED}.sjf",
    "Tetris": f"{_PUBLISHED}.tetris",
    "Carbyne": f"{_PUBLISHED}.carbyne",
    "LAS": f"{_PUBLISHED}.las",
    "EDF": f"{_PUBLISHED}.edf",
}
"""The module of each scheduler, which is loaded when a text names the scheduler. The benchmarks have those that others
published; traces name them, too."""

NAMES = {
    "max_min": "MaxMin()",
    "finish_time": "FinishTime()",
    "urgency": "Urgency()",
    "quality": "Quality()",
}
"""The policies of :data:`qoop.query.options.SCHEDULERS`, with their usual parameters."""


def made(text: str) -> Scheduler:
    """The scheduler that a text describes. Raises ConfigError if there is none such."""
    try:
        scheduler = described(text, _kind)
        if not isinstance(scheduler, Scheduler):
            raise TypeError("it is a value")
        return scheduler
    except (SyntaxError, ValueError, TypeError) as error:
        raise ConfigError(f"{text!r} describes no scheduler: {error}") from error


def named(name: str) -> Scheduler:
    """The scheduler of a session: a policy by its name, with resources reserved for tasks that were passed over."""
    return made(f"Reserving({NAMES[name]})" if name in NAMES else name)


def _kind(name: str) -> Callable[..., Any]:
    if name not in MODULES:
        raise ValueError(f"there is no {name}; there are {', '.join(MODULES)}")
    return partial(_checked, getattr(import_module(MODULES[name]), name))


def _checked(kind: type[Any], *values: object, **named: object) -> object:
    """One of that kind. Raises TypeError for a parameter of another type than it should have."""
    found = kind(*values, **named)
    for parameter in (one for one in fields(found) if one.init):
        value, usual = getattr(found, parameter.name), parameter.default
        if parameter.type == Scheduler.__name__ and not isinstance(value, Scheduler):
            raise TypeError(f"{parameter.name} must be a scheduler, such as MaxMin(), not {value!r}")
        if isinstance(usual, (bool, int, float)) and not _alike(value, usual):
            raise TypeError(f"{parameter.name} must be like {usual}, not {value!r}")
    return found


def _alike(value: object, usual: object) -> bool:
    """True if both are numbers, or both are true or false."""
    return isinstance(value, (int, float)) and isinstance(value, bool) == isinstance(usual, bool)
