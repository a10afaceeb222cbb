"""Sums over pieces of the powers of their totals, which estimators go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np


@value
class Moments:
    """Of a measure, by group: the sums over the pieces read of its values, their squares and their cubes, and the
    greatest of them."""

    sums: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    peaks: np.ndarray

    @classmethod
    def of(cls, totals: np.ndarray) -> Moments:
        """Of one group, from the totals of its pieces."""
        return cls(totals.sum()[None], (totals**2).sum()[None], (totals**3).sum()[None], abs(totals).max()[None])


def spread(drawn: int, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The variance between pieces."""
    import numpy as np

    return np.maximum(squares - sums**2 / drawn, 0.0) / (drawn - 1)


@value
class PairMoments:
    """Of two measures, by group: the sums of their products."""

    yx: np.ndarray
    yyx: np.ndarray
    yxx: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, x: np.ndarray) -> PairMoments:
        """Of one group, from the totals of its pieces."""
        return cls((y * x).sum()[None], (y * y * x).sum()[None], (y * x * x).sum()[None])
