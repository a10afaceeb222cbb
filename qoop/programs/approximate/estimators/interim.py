"""An interim analysis of a growing answer, and the ends of its intervals."""

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
    """The rows of pieces by footers, in any unit. whole: of all pieces. drawn: moments of the pieces read."""

    whole: float
    drawn: Moments

    @property
    def scale(self) -> float:
        """The rows of all pieces over those of the pieces read."""
        return self.whole / float(self.drawn.sums[0])


@value
class Interim:
    """An interim analysis: the state of an answer after some of its pieces are read, as in sequential trials.

    alpha: the part of the chance of error that it spends. of_pieces: the rows of the pieces; None: all have the same.
    """

    drawn: int
    pieces: int
    alpha: float
    of_pieces: Sizes | None = None

    @property
    def is_whole(self) -> bool:
        """True if all pieces are read."""
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
        """The part of the rows that may lie unread in one stretch. A longer stretch reaches through a stratum of the
        order of pieces (`qoop.programs.approximate.schedule`), and is read in part."""
        return 1 / self.drawn - 1 / self.pieces

    @property
    def share(self) -> float:
        """The part of the rows that is read."""
        return 1 / self.sizes.scale


@value
class Ends:
    """The estimate and interval of a figure, by group. low, high: NaN where there is no interval yet. plain: half the
    width if no total were skewed. needed: the pieces that an interval needs. tail: True where a heavy tail prevents it.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    plain: np.ndarray
    needed: np.ndarray
    tail: np.ndarray | None = None
