"""The number of distinct values.

Those seen are surely there. Of a value that is in M of N pieces the chance to be in none of n drawn is at most
``N/n - 1`` times the chance to be in just one, whatever M is (their ratio is ``(N-M-n+1) / (M n)``). So those seen, and
``N/n - 1`` times those that were seen in one piece alone, are on average no fewer than there are: the upper end of
Charikar, Chaudhuri, Motwani and Narasayya, Towards estimation error guarantees for distinct values (PODS 2000), with
pieces as units in place of rows, and so with rows in them as alike as they like. To it comes what it may be short of
by chance, by the jackknife over pieces (Burnham and Overton, Robust estimation of population size when capture
probabilities vary among animals, Ecology 60, 1979). The estimate is theirs, too (GEE): the root in place of ``N/n``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


@value
class Incidence:
    """Of the values seen, by group. seen: their number. once: of those, the number that one piece alone has.

    own, shared: moments, over pieces, of the values that a piece alone has, and that it has with just one other;
    both: the sums of their products.
    """

    seen: np.ndarray
    once: np.ndarray
    own: Moments
    shared: Moments
    both: PairMoments

    def estimate(self, scale: float) -> np.ndarray:
        """The number of distinct values. scale: pieces of all by pieces drawn.

        >>> import numpy as np
        >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
        >>> u, v = np.array([1.0, 0.0]), np.array([2.0, 2.0])
        >>> found = Incidence(np.array([3.0]), np.array([1.0]), Moments.of(u), Moments.of(v), PairMoments.of(u, v))
        >>> float(found.estimate(9.0)[0]), float(found.most(9.0)[0])
        (5.0, 11.0)
        """
        return self.seen + (scale**0.5 - 1) * self.once  # type: ignore[no-any-return]

    def most(self, scale: float) -> np.ndarray:
        """The most that there may be: on average no fewer than there are."""
        return self.seen + (scale - 1) * self.once

    def powers(self, drawn: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """The sums of squares and cubes, as deviations, of what each piece adds to `most`."""
        from qoop.programs.approximate.estimators.skewness import central

        a, b = scale, 1 - scale
        u, v, both = self.own, self.shared, self.both
        sums = a * u.sums + b * v.sums
        squares = a**2 * u.squares + 2 * a * b * both.yx + b**2 * v.squares
        cubes = a**3 * u.cubes + 3 * a * a * b * both.yyx + 3 * a * b * b * both.yxx + b**3 * v.cubes
        return central(drawn, sums, squares, cubes)


def standard_error(drawn: int, pieces: int, squares: np.ndarray) -> np.ndarray:
    """Of `Incidence.most`, by the jackknife. squares: of the deviations of what pieces add to it."""
    import numpy as np

    return np.sqrt((1 - drawn / pieces) * np.maximum(squares, 0.0) * (drawn - 1) / drawn)  # type: ignore[no-any-return]
