"""The price of a machine over time."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value


@value
class Prices:
    """A step function of dollars an hour: (seconds, price), the first at 0; the last holds until `seconds`.

    Raises ConfigError for steps out of order and for prices that are none.
    """

    steps: tuple[tuple[float, float], ...]
    seconds: float

    def __post_init__(self) -> None:
        if not self.steps or self.steps[0][0] != 0:
            raise ConfigError("a series of prices begins at 0 seconds")
        if not all(price > 0 and math.isfinite(price) for _, price in self.steps):
            raise ConfigError("a price is a number of dollars an hour, above 0")
        if not all(one < other for (one, _), (other, _) in pairwise((*self.steps, (math.inf, 0.0)))):
            raise ConfigError("prices come in order of time")
        if not self.steps[-1][0] <= self.seconds < math.inf:
            raise ConfigError(f"a series ends with its last step or later, not at {self.seconds!r}")

    def at(self, seconds: float) -> float:
        """The price at that time; before 0 that at 0."""
        return self.steps[max(0, bisect_right(self.steps, seconds, key=lambda step: step[0]) - 1)][1]

    @property
    def peak(self) -> float:
        """The highest price there is."""
        return max(price for _, price in self.steps)

    def cost(self, begin: float, end: float) -> float:
        """Dollars that one machine costs from `begin` to `end`, paid by the second at the price of the moment.

        >>> Prices(((0, 0.5), (3600, 1.0)), 7200).cost(1800, 5400)
        0.75
        """
        inside = [at for at, _ in self.steps if begin < at < end]
        moments = [begin, *inside, max(begin, end)]
        return sum((later - at) * self.at(at) for at, later in pairwise(moments)) / 3600
