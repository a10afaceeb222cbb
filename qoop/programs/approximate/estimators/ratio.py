"""The ratio of two totals, y / x. An average is the ratio of a sum and a number of rows.

Cochran (1977), section 6.4, equation 6.13, of the residuals ``y - ratio * x`` of the pieces. The bias is negligible
where the standard error of the mean of x is below a tenth of it (section 6.8, after equation 6.34).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators.moments import spread

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


def standard_error(drawn: int, pieces: int, y: Moments, x: Moments, both: PairMoments) -> np.ndarray:
    """The standard error of estimated ratios; NaN where x is 0.

    >>> import numpy as np
    >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> y, both = Moments.of(2 * x), PairMoments.of(2 * x, x)  # y is just twice x
    >>> standard_error(3, 30, y, Moments.of(x), both)
    array([0.])
    """
    import numpy as np

    ratio = y.sums / x.sums
    squares = np.maximum(y.squares - 2 * ratio * both.yx + ratio**2 * x.squares, 0.0)
    return ((1 - drawn / pieces) * squares / (drawn - 1) / drawn) ** 0.5 / np.abs(x.sums / drawn)  # type: ignore[no-any-return]


def is_steady(drawn: int, pieces: int, x: Moments) -> np.ndarray:
    """True where the bias is negligible."""
    import numpy as np

    error = ((1 - drawn / pieces) * spread(drawn, x.sums, x.squares) / drawn) ** 0.5
    return error < 0.1 * np.abs(x.sums / drawn)


def residual_cubes(y: Moments, x: Moments, both: PairMoments) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the squares and of the cubes of the residuals, whose mean is 0."""
    r = y.sums / x.sums
    squares = y.squares - 2 * r * both.yx + r**2 * x.squares
    return squares, y.cubes - 3 * r * both.yyx + 3 * r**2 * both.yxx - r**3 * x.cubes
