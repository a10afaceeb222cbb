"""The trials of a race that are beaten, by the differences of their estimates over the same pieces of a table.

All trials read the same pieces, so most of what differs from piece to piece cancels in the difference of two trials
(blocking: Moore and Lee, Efficient algorithms for minimizing cross validation error, ICML 1994). A trial is beaten once
the interval of its difference to the leader excludes 0 (racing: Maron and Moore, NIPS 1993). The chance of error is
divided among the looks and the other trials, so it does not matter that estimates choose the leader.

Standard errors are those of the jackknife over pieces (Shao and Tu, The Jackknife and Bootstrap, 1995), which holds for
any smooth function of sums. The margins are those of growing answers, for skewed and for unread pieces.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.programs.approximate.estimators import skewness
from qoop.programs.approximate.estimators.student import quantile

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.interim import Interim


@value
class Comparison:
    """The estimates of trials, and which are beaten. half: half the width of each estimate's own interval; infinite:
    there is none yet. chances: that a trial is better than the leader, or reaches the level."""

    estimates: np.ndarray
    half: np.ndarray
    chances: np.ndarray
    beaten: np.ndarray


def comparison(replicates: np.ndarray, interim: Interim, level: float | None) -> Comparison:
    """Compare trials, of which the higher is better.

    replicates: a row with the estimates, and for each piece a row with those without it; a column for each trial.
    interim: with the chance of error that one comparison may spend. level: the score to reach.

    >>> import numpy as np
    >>> from qoop.programs.approximate.estimators.interim import Interim
    >>> pieces = np.array([[one + 0.1 * (one % 3) + trial for trial in (0.0, 0.0, 2.0)] for one in range(64)])
    >>> without = (pieces.sum(axis=0) - pieces) / 63
    >>> comparison(np.vstack([pieces.mean(axis=0), without]), Interim(64, 1024, 0.01), None).beaten.tolist()
    [True, True, False]
    """
    import numpy as np

    estimates, drawn = replicates[0], interim.drawn
    values = drawn * estimates - (drawn - 1) * replicates[1:]
    own_error, own_half = _errors(values, interim)
    nothing = np.zeros(len(estimates), bool)
    if np.isnan(estimates).all():
        return Comparison(estimates, own_half, np.full(len(estimates), 0.5), nothing)
    leader = int(np.nanargmax(estimates))
    behind = estimates[leader] - estimates
    error, half = _errors(values[:, [leader]] - values, interim)
    distance, spread = (-behind, error) if level is None else (estimates - level, own_error)
    return Comparison(estimates, own_half, _chances(distance, spread), behind > half)


def _errors(values: np.ndarray, interim: Interim) -> tuple[np.ndarray, np.ndarray]:
    """The standard errors of means of pseudo-values, and half the width of their intervals; infinite: none."""
    import numpy as np

    drawn = interim.drawn
    deviations = values - values.mean(axis=0)
    squares, cubes = (deviations**2).sum(axis=0), (deviations**3).sum(axis=0)
    error = np.sqrt(squares / drawn / (drawn - 1) * (1 - drawn / interim.pieces))
    wider = skewness.wider(drawn, squares, cubes, interim.z)
    half = quantile(1 - interim.alpha / 2, drawn - 1) * error * wider + interim.unseen * np.abs(values).mean(axis=0)
    heavy = skewness.heavy(drawn, squares, np.abs(deviations).max(axis=0))
    trusted = (skewness.needed(drawn, squares, cubes) < drawn) & ~heavy & np.isfinite(half)
    return error, np.where(trusted, half, np.inf)


def _chances(distance: np.ndarray, error: np.ndarray) -> np.ndarray:
    import numpy as np

    normal = NormalDist()
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.nan_to_num(distance / error, nan=0.0)
    return np.array([normal.cdf(one) for one in steps])
