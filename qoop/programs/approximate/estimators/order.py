"""Quantiles of the rows, such as the median.

Woodruff, Confidence intervals for medians and other position measures, Journal of the American Statistical Association
47 (1952); Särndal, Swensson and Wretman, Model Assisted Survey Sampling (1992), section 5.11. The part of the rows
up to the observed quantile is a ratio of totals, with the interval of any ratio. The ends of the quantile's interval
are the quantiles of the observed rows at both ends of that interval.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np


@value
class Sample:
    """The values of the observed rows, by group. values: ascending in each group. pieces: the piece of each, from 0.

    starts: the start of each group, and the end of the last.
    """

    values: np.ndarray
    pieces: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, groups: int, group: np.ndarray, piece: np.ndarray, found: np.ndarray) -> Sample:
        """The sample of values in any order, with the group and the piece of each.

        >>> import numpy as np
        >>> found = Sample.of(2, np.array([1, 0, 1]), np.array([7, 7, 9]), np.array([5.0, 6.0, 4.0]))
        >>> found.values.tolist(), found.pieces.tolist(), found.starts.tolist()
        ([6.0, 4.0, 5.0], [0, 1, 0], [0, 1, 3])
        """
        import numpy as np

        order = np.lexsort((found, group))
        codes = np.unique(piece, return_inverse=True)[1]
        return cls(found[order], codes[order], np.searchsorted(group[order], np.arange(groups + 1)))

    def group(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The values of a group, and their pieces."""
        here = slice(self.starts[number], self.starts[number + 1])
        return self.values[here], self.pieces[here]


def quantile(values: np.ndarray, level: float, continuous: bool) -> float:
    """The quantile of ascending values, as DuckDB computes it.

    >>> import numpy as np
    >>> quantile(np.array([1.0, 2.0, 4.0, 8.0]), 0.5, True), quantile(np.array([1.0, 2.0, 4.0, 8.0]), 0.5, False)
    (3.0, 2.0)
    """
    place = level * (len(values) - 1)
    if not continuous:
        return float(values[max(0, ceil(level * len(values)) - 1)])
    low, high = float(values[floor(place)]), float(values[ceil(place)])
    return low + (high - low) * (place - floor(place))


def quantiles(sample: Sample, groups: int, level: float, continuous: bool) -> np.ndarray:
    """The quantiles of all groups; NaN for a group without a value."""
    import numpy as np

    found = (sample.group(number)[0] for number in range(groups))
    return np.array([quantile(one, level, continuous) if len(one) else np.nan for one in found], float)


def below(values: np.ndarray, pieces: np.ndarray, at: float, drawn: int) -> tuple[np.ndarray, np.ndarray]:
    """By piece, the number of values up to a value, and the number of all values."""
    import numpy as np

    return np.bincount(pieces[values <= at], minlength=drawn), np.bincount(pieces, minlength=drawn)


def ends(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """The values that enclose the quantiles of the levels from low to high; NaN where the observed rows do not suffice.

    >>> import numpy as np
    >>> ends(np.arange(101.0), 0.405, 0.6), ends(np.arange(101.0), -0.1, 0.2)
    ((40.0, 60.0), (nan, nan))
    """
    last = len(values) - 1
    if not (low > 0 and high < 1):
        return float("nan"), float("nan")
    return float(values[floor(low * last)]), float(values[ceil(high * last)])
