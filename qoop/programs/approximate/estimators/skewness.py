"""A rule for when an interval of the normal kind covers what it says: enough pieces were drawn.

Cochran (1977), section 2.15, equation 2.63: more than ``25 G1²`` units, with G1 Fisher's skewness of what was drawn.
Of a group that is in few pieces this asks for about 25 pieces that have it; of sums with so heavy a tail that they
have no skewness it asks for ever more, and then the answer grows until it is exact.

Where the tail is so heavy that there is no variance, the greatest of the squares keeps a part of their sum that does
not vanish as n grows (O'Brien, A limit theorem for sample maxima and heavy branches, Journal of Applied Probability 17,
1980); of normal ones it is about 2 ln(n) / n. Of more than twice that nothing is trusted.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


_MARGIN = 5.0
"""Of a normal sample the standard error of skewness is √(6 / n). Of skewed ones it is some times that, and the more
of the tail was missed, the narrower are intervals and the sooner do answers end: 3 are too few
(`tests/programs/approximate/interval_coverage.py`)."""


def needed(drawn: int, squares: np.ndarray, cubes: np.ndarray) -> np.ndarray:
    """The number of pieces of which more must be drawn. squares, cubes: sums of powers of the deviations from the mean.

    >>> import numpy as np
    >>> deviations = np.array([-1.0, -1.0, -1.0, 3.0])
    >>> needed(4, (deviations**2).sum()[None], (deviations**3).sum()[None]).round(1)
    array([33.3])
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = (cubes / drawn) / (squares / drawn) ** 1.5
    return np.where(squares <= 0, 0.0, 25 * skewness**2)


def wider(drawn: int, squares: np.ndarray, cubes: np.ndarray, z: float) -> np.ndarray:
    """The factor by which Student's interval is to be wider, as totals are skewed. z: the quantile of the interval.

    The term in the squared skewness of the Edgeworth expansion of Student's statistic (Hall, The Bootstrap and
    Edgeworth Expansion, 1992, chapter 2, q2 of the studentized mean), without that in the kurtosis. Skewness is taken
    to be what was seen and `_MARGIN` standard errors more.

    >>> import numpy as np
    >>> deviations = np.array([-1.0, 1.0] * 32)
    >>> round(float(wider(64, (deviations**2).sum()[None], (deviations**3).sum()[None], 1.96)[0]), 4)
    1.0396
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(squares > 0, np.abs(cubes / drawn) / (squares / drawn) ** 1.5, 0.0)
    most = seen + _MARGIN * (6 / drawn) ** 0.5
    return 1 + most**2 * (z**4 + 2 * z**2 - 3) / 18 / drawn  # type: ignore[no-any-return]


def heavy(drawn: int, squares: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    """True where one piece has so much of the sum of the squares that there may be no variance. squares: as for
    `needed`. peaks: the greatest deviation, or what is no less.

    >>> import numpy as np
    >>> deviations = np.array([-1.0] * 99 + [99.0])
    >>> heavy(100, (deviations**2).sum()[None], np.array([99.0]))
    array([ True])
    """
    return (squares > 0) & (peaks**2 > squares * 4 * log(drawn) / drawn)


def central(drawn: int, sums: np.ndarray, squares: np.ndarray, cubes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the squares and cubes of deviations from the mean.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 6.0])
    >>> [float(one[0]) for one in central(3, x.sum()[None], (x**2).sum()[None], (x**3).sum()[None])]
    [14.0, 18.0]
    """
    mean = sums / drawn
    second = squares - drawn * mean**2
    return second, cubes - 3 * mean * squares + 2 * drawn * mean**3
