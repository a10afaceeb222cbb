"""The number of distinct values.

Observed values exist for certain. A value in M of N pieces is in none of n drawn pieces with a chance of at most ``N/n
- 1`` times that of being in exactly one, for any M (their ratio is ``(N-M-n+1) / (M n)``). So the observed values, plus
``N/n - 1`` times those observed in one piece alone, are on average no fewer than the distinct values. This is the upper
end of Charikar, Chaudhuri, Motwani and Narasayya, Towards estimation error guarantees for distinct values (PODS 2000),
with pieces as units in place of rows, so that rows within a piece may be alike. The margin for chance is added by the
jackknife over pieces (Burnham and Overton, Robust estimation of population size when capture probabilities vary among
animals, Ecology 60, 1979). The estimate is their GEE: the root in place of ``N/n``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


@value
class Incidence:
    """The observed values, by group. observed: their number. once: the number of those that one piece alone has.

    own, shared: moments, over pieces, of the number of values that no other piece has, and that exactly one other has.
    both: the sums of their products.
    """

    observed: np.ndarray
    once: np.ndarray
    own: Moments
    shared: Moments
    both: PairMoments

    def estimate(self, scale: float) -> np.ndarray:
        """The estimated number of distinct values. scale: all pieces over pieces drawn.

        >>> import numpy as np
        >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
        >>> u, v = np.array([1.0, 0.0]), np.array([2.0, 2.0])
        >>> found = Incidence(np.array([3.0]), np.array([1.0]), Moments.of(u), Moments.of(v), PairMoments.of(u, v))
        >>> float(found.estimate(9.0)[0]), float(found.most(9.0)[0])
        (5.0, 11.0)
        """
        return self.observed + (scale**0.5 - 1) * self.once  # type: ignore[no-any-return]

    def most(self, scale: float) -> np.ndarray:
        """The upper estimate: on average no fewer than the distinct values."""
        return self.observed + (scale - 1) * self.once

    def powers(self, drawn: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """The sums of squares and cubes of the deviations of what each piece adds to `most`."""
        from qoop.programs.approximate.estimators.skewness import central

        a, b = scale, 1 - scale
        u, v, both = self.own, self.shared, self.both
        sums = a * u.sums + b * v.sums
        squares = a**2 * u.squares + 2 * a * b * both.yx + b**2 * v.squares
        cubes = a**3 * u.cubes + 3 * a * a * b * both.yyx + 3 * a * b * b * both.yxx + b**3 * v.cubes
        return central(drawn, sums, squares, cubes)


def standard_error(drawn: int, pieces: int, squares: np.ndarray) -> np.ndarray:
    """The standard error of `Incidence.most`, by the jackknife. squares: as in `Incidence.powers`."""
    import numpy as np

    return np.sqrt((1 - drawn / pieces) * np.maximum(squares, 0.0) * (drawn - 1) / drawn)  # type: ignore[no-any-return]
