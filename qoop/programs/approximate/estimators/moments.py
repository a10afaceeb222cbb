"""Sums over pieces of the powers of their totals, the input of estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np


@value
class Moments:
    """The moments of a measure, by group: sums over the pieces read of its values, their squares and their cubes, and
    its greatest value."""

    sums: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    peaks: np.ndarray

    @classmethod
    def of(cls, totals: np.ndarray) -> Moments:
        """The moments of one group, from the totals of its pieces."""
        return cls(totals.sum()[None], (totals**2).sum()[None], (totals**3).sum()[None], abs(totals).max()[None])


def spread(drawn: int, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The variance between pieces."""
    import numpy as np

    return np.maximum(squares - sums**2 / drawn, 0.0) / (drawn - 1)


@value
class PairMoments:
    """The sums of the products of two measures, by group."""

    yx: np.ndarray
    yyx: np.ndarray
    yxx: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, x: np.ndarray) -> PairMoments:
        """The sums of one group, from the totals of its pieces."""
        return cls((y * x).sum()[None], (y * y * x).sum()[None], (y * x * x).sum()[None])
