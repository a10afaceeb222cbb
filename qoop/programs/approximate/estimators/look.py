"""A look at a growing answer, and the ends of intervals at it."""

from __future__ import annotations

from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.programs.approximate.estimators.moments import Moments

if TYPE_CHECKING:
    import numpy as np


@value
class Sizes:
    """The rows of pieces, which footers tell, in any unit. whole: of all pieces. drawn: moments of those read."""

    whole: float
    drawn: Moments

    @property
    def scale(self) -> float:
        """The rows of all pieces by those of the pieces that were read."""
        return self.whole / float(self.drawn.sums[0])


@value
class Look:
    """A look at the answer, after so much was read. alpha: the part of what may go wrong that belongs to this look.

    of_pieces: the rows of the pieces; None: each has as many as any other.
    """

    drawn: int
    pieces: int
    alpha: float
    of_pieces: Sizes | None = None

    @property
    def is_whole(self) -> bool:
        """True if all was read."""
        return self.drawn == self.pieces

    @property
    def z(self) -> float:
        """The quantile of the normal distribution at which intervals end."""
        return NormalDist().inv_cdf(1 - self.alpha / 2)

    @cached_property
    def sizes(self) -> Sizes:
        """The rows of the pieces."""
        import numpy as np

        return self.of_pieces or Sizes(self.pieces, Moments.of(np.ones(self.drawn)))

    @property
    def unseen(self) -> float:
        """The part of the rows that may be unlike all that was read, in one stretch. A longer one reaches through a
        stratum of the order of pieces (`qoop.programs.approximate.schedule`), and was read in part."""
        return 1 / self.drawn - 1 / self.pieces

    @property
    def share(self) -> float:
        """The part of the rows that was read."""
        return 1 / self.sizes.scale


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
