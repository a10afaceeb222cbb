"""The settings of a sweep's trials: drawn from ranges, all of a grid, or rows."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

Setting = Mapping[str, Any]
"""The value of each parameter."""

DRAWN = 10
"""The trials of a space with a range, by default."""


@value
class Range:
    """Values from low to high. log: equal parts of their logarithms are equally likely. whole: integers."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def draw(self, source: random.Random) -> float | int:
        """A value."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.whole and not self.log:
            return source.randint(int(self.low), int(self.high))
        drawn = source.uniform(low, high)
        found = math.exp(drawn) if self.log else drawn
        return round(found) if self.whole else found


def uniform(low: float, high: float) -> Range:
    """A parameter of a sweep between two numbers. Raises ConfigError."""
    return _range(low, high)


def log_uniform(low: float, high: float) -> Range:
    """A parameter of a sweep between two positive numbers, whose magnitudes are equally likely. Raises ConfigError."""
    return _range(low, high, log=True)


def int_uniform(low: int, high: int) -> Range:
    """A whole parameter of a sweep between two numbers, both included. Raises ConfigError."""
    return _range(low, high, whole=True)


def _range(low: float, high: float, log: bool = False, whole: bool = False) -> Range:
    kinds = int if whole else int | float
    are_numbers = all(
        isinstance(end, kinds) and not isinstance(end, bool) and math.isfinite(end) for end in (low, high)
    )
    if not (are_numbers and low < high and (low > 0 or not log)):
        kind = "positive number" if log else "whole number" if whole else "number"
        raise ConfigError(f"a range must go from a {kind} to a higher one, not from {low!r} to {high!r}")
    return Range(low, high, log, whole)


def settings(params: object, trials: int | None, seed: int) -> list[Setting]:
    """The settings of a sweep, in order.

    params: for each parameter a range, or a list of its values; or the rows themselves: mappings, or a table with a
    column for each parameter (Arrow, pandas, a result). trials: how many, at least 1; None: all of a grid or of the
    rows, and 10 if a parameter has a range. Raises ConfigError.

    >>> settings({"k": [4, 8], "way": ["a", "b"]}, None, 0)[1]
    {'k': 4, 'way': 'b'}
    """
    if isinstance(params, Mapping):
        return _of_space(params, trials, seed)
    rows = _rows(params)
    if not rows:
        raise ConfigError("params has no rows: a sweep needs at least one setting")
    return rows[:trials]


def _of_space(params: Mapping[str, object], trials: int | None, seed: int) -> list[Setting]:
    if not params:
        raise ConfigError("params names no parameter: it needs one, such as {'rate': qoop.log_uniform(0.001, 1)}")
    choices: dict[str, Sequence[Any]] = {}
    for name, one in params.items():
        if isinstance(one, Range):
            continue
        if isinstance(one, str | bytes) or not isinstance(one, Sequence) or not one:
            raise ConfigError(f"the parameter {name} must be a list of values or a range (qoop.uniform), not {one!r}")
        choices[name] = one
    source = random.Random(seed)
    if len(choices) == len(params):
        grid: list[Setting] = [
            dict(zip(params, values, strict=True)) for values in itertools.product(*choices.values())
        ]
        return grid if trials is None or trials >= len(grid) else source.sample(grid, trials)

    def drawn(name: str, one: object) -> Any:
        return one.draw(source) if isinstance(one, Range) else source.choice(choices[name])

    number = DRAWN if trials is None else trials
    return [{name: drawn(name, one) for name, one in params.items()} for _ in range(number)]


def _rows(params: object) -> list[Setting]:
    if isinstance(params, Sequence) and not isinstance(params, str) and all(isinstance(row, Mapping) for row in params):
        return [dict(row) for row in params]
    table = params.arrow() if hasattr(params, "arrow") else params
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        return [dict(row) for row in table.to_dict("records")]
    if hasattr(table, "to_pylist"):
        return [dict(row) for row in table.to_pylist()]
    raise ConfigError(f"params must be values or ranges by name, or rows, not {type(params).__name__}")
