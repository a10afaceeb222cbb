"""Intervals of figures that do not add up: distinct counts and quantiles."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators import distinct as counts
from qoop.programs.approximate.estimators import order, ratio, skewness
from qoop.programs.approximate.estimators.interim import Ends, Interim
from qoop.programs.approximate.estimators.student import quantile

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.distinct import Incidence
    from qoop.programs.approximate.estimators.order import Sample


def distinct(found: Incidence, interim: Interim) -> Ends:
    """Intervals from the number of observed values, which is certain, to the upper estimate. Only that end may miss.

    Where every value was observed in several pieces, no value indicates those in few, and there is no interval.
    """
    import numpy as np

    scale = interim.pieces / interim.drawn
    squares, cubes = found.powers(interim.drawn, scale)
    t = quantile(1 - interim.alpha, interim.drawn - 1)
    plain = t * counts.standard_error(interim.drawn, interim.pieces, squares)
    needed = np.where(found.once > 0, skewness.needed(interim.drawn, squares, cubes), inf)
    most = found.most(scale) + plain * skewness.wider(interim.drawn, squares, cubes, interim.z)
    estimate, trusted = found.estimate(scale), needed < interim.drawn
    low, high = np.where(trusted, found.observed, np.nan), np.where(trusted, most, np.nan)
    return Ends(estimate, low, high, np.maximum(estimate - found.observed, found.most(scale) - estimate), needed)


def quantiles(found: Sample, groups: int, level: float, continuous: bool, interim: Interim) -> Ends:
    """Intervals of the quantiles of all groups."""
    import numpy as np

    ends = np.array([_quantile(*found.group(number), level, continuous, interim) for number in range(groups)])
    return Ends(*ends.reshape(groups, 5).T)


def _quantile(
    values: np.ndarray, pieces: np.ndarray, level: float, continuous: bool, interim: Interim
) -> tuple[float, float, float, float, float]:
    """The estimate, both ends, half the width, and the needed pieces of one group."""
    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    if not len(values):
        nothing = float("nan")
        return nothing, nothing, nothing, nothing, nothing
    estimate = order.quantile(values, level, continuous)
    y, x = order.below(values, pieces, estimate, interim.drawn)
    below, rows, both = Moments.of(y), Moments.of(x), PairMoments.of(y, x)
    squares, cubes = ratio.residual_cubes(below, rows, both)
    error = float(ratio.standard_error(interim.drawn, interim.pieces, below, rows, both)[0])
    needed = float(skewness.needed(interim.drawn, squares, cubes)[0])
    wider = float(skewness.wider(interim.drawn, squares, cubes, interim.z)[0])
    t = quantile(1 - interim.alpha / 2, interim.drawn - 1)
    first = order.ends(values, level - t * error * wider, level + t * error * wider)
    t = quantile(1 - interim.alpha / 2, _freedom(values, pieces, *first, interim))
    trusted = needed < interim.drawn and bool(ratio.is_steady(interim.drawn, interim.pieces, rows)[0])
    wide = t * error * wider + interim.unseen if trusted else nan
    low, high = order.ends(values, level - wide, level + wide)
    bare = order.ends(values, level - t * error, level + t * error)
    return estimate, low, high, max(estimate - bare[0], bare[1] - estimate), needed


_LEAST_FREEDOM = 4
"""The fewest degrees of freedom at which Student's quantiles are accurate enough (see `student`)."""


def _freedom(values: np.ndarray, pieces: np.ndarray, low: float, high: float, interim: Interim) -> int:
    """The degrees of freedom of an interval between two values of the observed rows.

    Where adjacent rows are alike, few pieces have values between the ends. Their distance then varies by chance, and an
    answer ends where it is small. The share of rows between the ends is known up to a relative error r, by pieces. So a
    variance that is derived from the width has 1 / 2r² degrees of freedom (Satterthwaite, An approximate distribution
    of estimates of variance components, Biometrics Bulletin 2, 1946).

    >>> import numpy as np
    >>> interim, of_one, of_all = Interim(100, 10_000, 0.05), np.arange(100), np.tile(np.arange(100), 100)
    >>> _freedom(np.arange(100.0), of_one, 40.0, 59.0, interim)  # each piece has one value
    12
    >>> _freedom(np.repeat(np.arange(100.0), 100), of_all, 40.0, 59.0, interim)  # each piece has all of them
    99
    """
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    here = (values >= low) & (values <= high)
    if not here.any():
        return interim.drawn - 1
    y, x = np.bincount(pieces[here], minlength=interim.drawn), np.bincount(pieces, minlength=interim.drawn)
    error = ratio.standard_error(interim.drawn, interim.pieces, Moments.of(y), Moments.of(x), PairMoments.of(y, x))
    relative = max(float(error[0]) / float(here.mean()), 1e-9)
    return int(min(interim.drawn - 1, max(_LEAST_FREEDOM, 0.5 / relative**2)))
