"""The kinds of a sweep's options: a value of another kind is refused by name, before anything begins."""

from __future__ import annotations

from math import isfinite
from typing import Any

from qoop.catalog.errors import ConfigError

_WHOLE = ("trials", "every", "most", "seed")
_NUMBERS = ("target", "hopeless")
_TEXTS = ("metric", "former", "name")


def check_kinds(options: Any) -> None:
    """Raise ConfigError for an option whose value is of another kind; None stands for an option without a value.

    options: see :class:`qoop.programs.sweeps.start.SweepOptions`."""
    for name in _WHOLE:
        _check(name, getattr(options, name), int, "a whole number")
    for name in _NUMBERS:
        number = getattr(options, name)
        _check(name, number, int | float, "a number")
        if number is not None and not isfinite(number):
            raise ConfigError(f"{name} must be a number, not {number}")
    for name in _TEXTS:
        _check(name, getattr(options, name), str, "a text")
    if options.metric is None:
        raise ConfigError("metric must be a column of the step, or a query for one number, not None")
    for name, least in (("trials", 1), ("most", 1)):
        if getattr(options, name) is not None and getattr(options, name) < least:
            raise ConfigError(f"{name} must be at least {least}, not {getattr(options, name)}")


def _check(name: str, found: object, kind: Any, what: str) -> None:
    if found is not None and (not isinstance(found, kind) or isinstance(found, bool)):
        raise ConfigError(f"{name} must be {what}, not {found!r}")
