"""The variance of the rows, from the totals over pieces of their squares, of their values and of their number.

It is ``q / n - (s / n)²``, a smooth function of three totals. So its variance is that of the total of a linear form of
them: Taylor linearisation (Wolter, Introduction to Variance Estimation, 2nd ed., 2007, chapter 6; Särndal, Swensson
and Wretman, Model Assisted Survey Sampling, 1992, section 5.5), with the variance of totals by Cochran as for a ratio.
The form of a piece is ``q - 2 m s + (m² - v) n``, with m the mean and v the variance of all rows; they add up to 0.
A standard deviation is the root: its error is that of the variance divided by twice the deviation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


LOST = 100 * 2.0**-52
"""The part of the squares, for each row, that the variance must exceed: a sum of n squares may err by n roundings, and
a difference of sums has no more digits than they leave."""


@value
class Powers:
    """The moments of squares q, values s and numbers n of the rows of pieces, by group. qsn: the sums of their
    products."""

    q: Moments
    s: Moments
    n: Moments
    qs: PairMoments
    qn: PairMoments
    sn: PairMoments
    qsn: np.ndarray

    def estimate(self, of_sample: bool) -> np.ndarray:
        """The variance of the rows; NaN where rounding may change it. of_sample: divided by one less than their number.

        >>> import numpy as np
        >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
        >>> q, s, n = np.array([5.0, 25.0]), np.array([3.0, 7.0]), np.array([2.0, 2.0])  # 1, 2 and 3, 4
        >>> m, p = Moments.of, PairMoments.of
        >>> float(Powers(m(q), m(s), m(n), p(q, s), p(q, n), p(s, n), (q * s * n).sum()[None]).estimate(False)[0])
        1.25
        """
        import numpy as np

        rows = self.n.sums
        spread = self.q.sums - self.s.sums**2 / rows
        spread = np.where(spread > self.q.sums * rows * LOST, spread, np.nan)
        return spread / (rows - 1 if of_sample else rows)  # type: ignore[no-any-return]

    def _form(self) -> tuple[np.ndarray, np.ndarray]:
        """The factors of s and n in the linear form."""
        mean = self.s.sums / self.n.sums
        return -2 * mean, 2 * mean**2 - self.q.sums / self.n.sums

    def squares(self) -> np.ndarray:
        """The sum of the squares of the linear form."""
        import numpy as np

        a, b = self._form()
        own = self.q.squares + a**2 * self.s.squares + b**2 * self.n.squares
        return np.maximum(own + 2 * (a * self.qs.yx + b * self.qn.yx + a * b * self.sn.yx), 0.0)  # type: ignore[no-any-return]

    def cubes(self) -> np.ndarray:
        """The sum of the cubes of the linear form."""
        a, b = self._form()
        own = self.q.cubes + a**3 * self.s.cubes + b**3 * self.n.cubes
        once = a * self.qs.yyx + b * self.qn.yyx + a**2 * b * self.sn.yyx
        twice = a**2 * self.qs.yxx + b**2 * self.qn.yxx + a * b**2 * self.sn.yxx
        return own + 3 * (once + twice) + 6 * a * b * self.qsn  # type: ignore[no-any-return]


def standard_error(drawn: int, pieces: int, powers: Powers) -> np.ndarray:
    """The standard error of estimated variances; NaN without rows."""
    import numpy as np

    return ((1 - drawn / pieces) * powers.squares() / (drawn - 1) / drawn) ** 0.5 / np.abs(powers.n.sums / drawn)
