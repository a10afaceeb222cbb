"""Predicted losses of a repeated step, by a curve through the losses so far.

Source: SLAQ (Zhang, Stafman, Or and Freedman, SoCC 2017, section 3.3): first-order methods converge as
``1 / (a k² + b k + c) + d``, quasi-Newton methods as ``mu^(k - b) + c``; of the losses the last ones count most, by
weights that fall exponentially with age. The asymptote d, or mu, is found on a grid that is refined; for each of them
the other parameters are a linear problem of least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from qoop.catalog.value import value

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["sublinear", "superlinear"]

FEWEST = 4
"""The fewest losses that a curve is drawn through."""

_WINDOW, _FADING, _REFINED, _GRID = 40, 0.9, 4, 48


def step_gain(fall: float, largest: float) -> float:
    """A predicted fall of the loss as a part of the largest fall of any step; 1 before the first fall.

    That is the unit of gains for :mod:`qoop.adaptive.schedulers.quality` (SLAQ, section 3.1), since the last loss is
    unknown.

    >>> step_gain(1.0, 4.0), step_gain(1.0, 0.0), step_gain(-1.0, 4.0)
    (0.25, 1.0, 0.0)
    """
    return min(1.0, max(0.0, fall / largest)) if largest > 0 else 1.0


@value
class Curve:
    """A loss by number of the step. kind: its form. parameters: a, b, c and d of a sublinear one in step numbers from
    `origin`; factor, mu and d of a superlinear one. error: the weighted sum of its squared errors."""

    kind: Kind
    parameters: tuple[float, ...]
    origin: int
    error: float

    def at(self, step: float) -> float:
        """The loss of a step; steps count from 0."""
        k = step - self.origin
        if self.kind == "sublinear":
            a, b, c, d, scale = self.parameters
            return scale / max(1e-300, a * k * k + b * k + c) + d
        factor, mu, d = self.parameters
        return float(factor * mu**k + d)

    def fall(self, step: int, steps: int = 1) -> float:
        """The fall of the loss over a number of steps after a step; at least 0."""
        return max(0.0, self.at(step) - self.at(step + steps))


def fitted(losses: Sequence[float], kind: Kind | None = None) -> Curve | None:
    """The curve through losses, of a kind or of the one that fits best; None for fewer than `FEWEST`.

    >>> losses = [1 / (0.02 * k * k + 0.1 * k + 1) + 0.3 for k in range(1, 21)]
    >>> round(fitted(losses, "sublinear").at(29), 5)
    0.34545
    """
    import numpy as np

    if len(losses) < FEWEST:
        return None
    y = np.array(losses[-_WINDOW:], float)
    origin = len(losses) - len(y)
    scale = max(float(y.max() - y.min()), 1e-300)
    z, least = (y - y.min()) / scale, float(y.min())
    weights = _FADING ** np.arange(len(z))[::-1]
    fits: dict[Kind, Callable[..., Curve]] = {"sublinear": _sublinear, "superlinear": _superlinear}
    found = [fits[one](z, weights, origin, scale, least) for one in ([kind] if kind else fits)]
    return min(found, key=lambda curve: curve.error)


def _refined(low: float, high: float, error: Callable[[np.ndarray], np.ndarray]) -> float:
    """The best value of a logarithmic grid from low to high, which is refined around its best points."""
    import numpy as np

    for _ in range(_REFINED):
        grid = np.geomspace(low, high, _GRID)
        best = int(np.argmin(error(grid)))
        low, high = float(grid[max(0, best - 1)]), float(grid[min(_GRID - 1, best + 1)])
    return float((low * high) ** 0.5)


def _sublinear(z: np.ndarray, weights: np.ndarray, origin: int, scale: float, least: float) -> Curve:
    import numpy as np

    k = np.arange(len(z), dtype=float)
    powers = np.stack([k * k, k, np.ones_like(k)], 1)

    def solved(depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For asymptotes at these depths below the least loss: parameters and squares of errors in z."""
        above = z[None, :] + depths[:, None]
        w = weights * above**4  # by the delta method, as the target is a reciprocal
        best, errors = np.zeros((len(depths), 3)), np.full(len(depths), np.inf)
        for chosen in _SUBSETS:
            x = powers[:, chosen]
            left = np.einsum("gn,ni,nj->gij", w, x, x) + 1e-12 * np.eye(len(chosen))
            found = np.linalg.solve(left, np.einsum("gn,ni->gi", w / above, x)[..., None])[..., 0]
            curve = found @ x.T
            with np.errstate(all="ignore"):
                error = (weights * (1 / curve - above) ** 2).sum(1)
            better = (found >= 0).all(1) & (curve > 0).all(1) & (error < errors)
            best[better] = 0.0
            best[np.ix_(better, chosen)] = found[better]
            errors[better] = error[better]
        return best, errors

    depth = _refined(1e-4, 2.0, lambda depths: solved(depths)[1])
    (parameters,), (error,) = solved(np.array([depth]))
    if not np.isfinite(error):  # no falling curve: as flat as the last losses
        level = float(np.average(z, weights=weights))
        return Curve("sublinear", (0.0, 0.0, 1e300, least + scale * level, 1.0), origin, _squares(z - level, weights))
    a, b, c = map(float, parameters)
    return Curve("sublinear", (a, b, c, least - scale * depth, scale), origin, float(error))


_SUBSETS = [list(chosen) for size in (1, 2, 3) for chosen in combinations(range(3), size) if size > 1 or chosen == (2,)]
"""The parameters that are not 0: least squares without negative parameters are among the solutions of all subsets."""


def _superlinear(z: np.ndarray, weights: np.ndarray, origin: int, scale: float, least: float) -> Curve:
    import numpy as np

    k = np.arange(len(z), dtype=float)
    total, level = weights.sum(), (weights @ z) / weights.sum()

    def solved(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For mu = 1 - rate: factor, asymptote, squares of errors."""
        x = (1 - rates)[:, None] ** k[None, :]
        mean = x @ weights / total
        spread = ((x - mean[:, None]) ** 2) @ weights
        with np.errstate(all="ignore"):
            factor = np.maximum(0.0, ((x - mean[:, None]) * (z - level)) @ weights / spread)
        factor = np.nan_to_num(factor)
        d = level - factor * mean
        return factor, d, ((factor[:, None] * x + d[:, None] - z) ** 2) @ weights

    rate = _refined(1e-3, 0.999, lambda rates: solved(rates)[2])
    (factor,), (d,), (error,) = solved(np.array([rate]))
    return Curve("superlinear", (scale * float(factor), 1 - rate, least + scale * float(d)), origin, float(error))


def _squares(off: np.ndarray, weights: np.ndarray) -> float:
    return float((off**2) @ weights)
