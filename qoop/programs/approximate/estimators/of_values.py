"""Intervals of figures that do not add up: distinct counts and quantiles."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators import distinct as counts
from qoop.programs.approximate.estimators import order, ratio, skewness
from qoop.programs.approximate.estimators.look import Ends, Look
from qoop.programs.approximate.estimators.student import quantile

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.distinct import Incidence
    from qoop.programs.approximate.estimators.order import Sample


def distinct(found: Incidence, look: Look) -> Ends:
    """From the values seen, which are surely there, to the most that there may be: only the upper end may miss.

    Where every value was seen in several pieces nothing tells of those in few, and there is no interval.
    """
    import numpy as np

    scale = look.pieces / look.drawn
    squares, cubes = found.powers(look.drawn, scale)
    t = quantile(1 - look.alpha, look.drawn - 1)
    plain = t * counts.standard_error(look.drawn, look.pieces, squares)
    needed = np.where(found.once > 0, skewness.needed(look.drawn, squares, cubes), inf)
    most = found.most(scale) + plain * skewness.wider(look.drawn, squares, cubes, look.z)
    estimate, trusted = found.estimate(scale), needed < look.drawn
    low, high = np.where(trusted, found.seen, np.nan), np.where(trusted, most, np.nan)
    return Ends(estimate, low, high, np.maximum(estimate - found.seen, found.most(scale) - estimate), needed)


def quantiles(found: Sample, groups: int, level: float, continuous: bool, look: Look) -> Ends:
    """Of all groups."""
    import numpy as np

    ends = np.array([_quantile(*found.group(number), level, continuous, look) for number in range(groups)])
    return Ends(*ends.reshape(groups, 5).T)


def _quantile(
    values: np.ndarray, pieces: np.ndarray, level: float, continuous: bool, look: Look
) -> tuple[float, float, float, float, float]:
    """Estimate, ends, half of the width, and pieces needed, of one group."""
    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    if not len(values):
        nothing = float("nan")
        return nothing, nothing, nothing, nothing, nothing
    estimate = order.quantile(values, level, continuous)
    y, x = order.below(values, pieces, estimate, look.drawn)
    below, rows, both = Moments.of(y), Moments.of(x), PairMoments.of(y, x)
    squares, cubes = ratio.residual_cubes(below, rows, both)
    error = float(ratio.standard_error(look.drawn, look.pieces, below, rows, both)[0])
    needed = float(skewness.needed(look.drawn, squares, cubes)[0])
    wider = float(skewness.wider(look.drawn, squares, cubes, look.z)[0])
    t = quantile(1 - look.alpha / 2, look.drawn - 1)
    first = order.ends(values, level - t * error * wider, level + t * error * wider)
    t = quantile(1 - look.alpha / 2, _freedom(values, pieces, *first, look))
    trusted = needed < look.drawn and bool(ratio.is_steady(look.drawn, look.pieces, rows)[0])
    wide = t * error * wider + look.unseen if trusted else nan
    low, high = order.ends(values, level - wide, level + wide)
    bare = order.ends(values, level - t * error, level + t * error)
    return estimate, low, high, max(estimate - bare[0], bare[1] - estimate), needed


_LEAST_FREEDOM = 4
"""Student's quantiles are near enough from there on (see `student`)."""


def _freedom(values: np.ndarray, pieces: np.ndarray, low: float, high: float, look: Look) -> int:
    """The degrees of freedom of an interval between two values of the rows seen.

    Where rows that lie together are alike, few pieces have values between the ends, and how far these are from each
    other is a matter of luck; an answer ends where they are near. The share of the rows between them is known up to a
    relative error r, by pieces. So a variance that is told from the width has 1 / 2r² degrees of freedom
    (Satterthwaite, An approximate distribution of estimates of variance components, Biometrics Bulletin 2, 1946).

    >>> import numpy as np
    >>> look, of_one, of_all = Look(100, 10_000, 0.05), np.arange(100), np.tile(np.arange(100), 100)
    >>> _freedom(np.arange(100.0), of_one, 40.0, 59.0, look)  # each piece has one value
    12
    >>> _freedom(np.repeat(np.arange(100.0), 100), of_all, 40.0, 59.0, look)  # each piece has all of them
    99
    """
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    here = (values >= low) & (values <= high)
    if not here.any():
        return look.drawn - 1
    y, x = np.bincount(pieces[here], minlength=look.drawn), np.bincount(pieces, minlength=look.drawn)
    error = ratio.standard_error(look.drawn, look.pieces, Moments.of(y), Moments.of(x), PairMoments.of(y, x))
    relative = max(float(error[0]) / float(here.mean()), 1e-9)
    return int(min(look.drawn - 1, max(_LEAST_FREEDOM, 0.5 / relative**2)))
