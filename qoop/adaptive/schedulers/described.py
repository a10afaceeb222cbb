"""Schedulers by a text: the name that people give, or the `repr` that a trace keeps, with all parameters.

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

MODULES = {
    "MaxMin": "max_min",
    "Reserving": "reserving",
    "DRF": "drf",
    "SJF": "sjf",
    "Tetris": "tetris",
    "Carbyne": "carbyne",
    "LAS": "las",
    "EDF": "edf",
    "FinishTime": "finish_time",
    "Urgency": "urgency",
    "Quality": "quality.sharing",
}
"""Of each scheduler the module that has it, which is loaded when it is asked for."""

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
    return partial(_checked, getattr(import_module(f"qoop.adaptive.schedulers.{MODULES[name]}"), name))


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
