"""The rule for trust in a normal interval: enough pieces were drawn.

Cochran (1977), section 2.15, equation 2.63: more than ``25 G1²`` units, with G1 Fisher's skewness of what was drawn.
For a group that is in few pieces, the rule requires about 25 pieces that have it. For sums whose tail is so heavy that
their skewness does not exist, the required number rises with n, and the answer grows until it is exact.

Where the tail is so heavy that the variance does not exist, the greatest square keeps a part of the sum of squares that
does not vanish as n grows (O'Brien, A limit theorem for sample maxima and heavy branches, Journal of Applied
Probability 17, 1980). In normal samples it is about 2 ln(n) / n. Above twice that, no interval is trusted.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


_MARGIN = 5.0
"""Standard errors that are added to the observed skewness. In a normal sample one is √(6 / n); in skewed samples it is
several times that. The more of the tail is missed, the narrower are intervals and the sooner answers end: 3 are too few
(`tests/programs/approximate/interval_coverage.py`)."""


def needed(drawn: int, squares: np.ndarray, cubes: np.ndarray) -> np.ndarray:
    """The number of pieces to exceed. squares, cubes: sums of powers of the deviations from the mean.

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
    """The factor that widens Student's interval where totals are skewed. z: the quantile of the interval.

    The term in the squared skewness of the Edgeworth expansion of Student's statistic (Hall, The Bootstrap and
    Edgeworth Expansion, 1992, chapter 2, q2 of the studentized mean), without that in the kurtosis. The skewness
    is the observed one plus `_MARGIN` standard errors.

    >>> import numpy as np
    >>> deviations = np.array([-1.0, 1.0] * 32)
    >>> round(float(wider(64, (deviations**2).sum()[None], (deviations**3).sum()[None], 1.96)[0]), 4)
    1.0396
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(squares > 0, np.abs(cubes / drawn) / (squares / drawn) ** 1.5, 0.0)
    most = observed + _MARGIN * (6 / drawn) ** 0.5
    return 1 + most**2 * (z**4 + 2 * z**2 - 3) / 18 / drawn  # type: ignore[no-any-return]


def heavy(drawn: int, squares: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    """True where one piece has so large a part of the sum of squares that the variance may not exist. squares: as for
    `needed`. peaks: the greatest deviation, or an upper bound of it.

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
