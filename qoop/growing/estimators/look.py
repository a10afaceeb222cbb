"""A look at a growing answer, and the ends of intervals at it."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np


@value
class Look:
    """A look at the answer, after so much was read. alpha: the part of what may go wrong that belongs to this look."""

    drawn: int
    pieces: int
    alpha: float

    @property
    def is_whole(self) -> bool:
        """True if all was read."""
        return self.drawn == self.pieces

    @property
    def z(self) -> float:
        """The quantile of the normal distribution at which intervals end."""
        return NormalDist().inv_cdf(1 - self.alpha / 2)


@value
class Ends:
    """Of a figure, by group. low, high: of its interval, NaN where there is none yet. plain: half its width, were no
    total skewed. needed: the pieces of which there is one. tail: where there is none because of a heavy tail."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    plain: np.ndarray
    needed: np.ndarray
    tail: np.ndarray | None = None
