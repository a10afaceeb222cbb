"""The intervals of all figures of all groups, from what was read so far."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Protocol

from qoop.catalog.value import value
from qoop.growing.estimators import ratio, skewness, total, variance
from qoop.growing.estimators.student import quantile
from qoop.growing.growth import UNBOUNDED

if TYPE_CHECKING:
    import numpy as np

    from qoop.growing.goal import Goal
    from qoop.growing.growth import Figure
    from qoop.growing.schedule import Schedule
    from qoop.growing.totals import Moments, PairMoments


@value
class Look:
    """A look at the answer, after so much was read. alpha: the part of what may go wrong that belongs to this look."""

    drawn: int
    pieces: int
    alpha: float

    @property
    def is_whole(self) -> bool:
        """True if all was read."""
        return self.drawn == self.pieces

    def widened(self, error: np.ndarray, squares: np.ndarray, cubes: np.ndarray) -> np.ndarray:
        """Standard errors, more where totals are skewed. squares, cubes: of the deviations."""
        z = NormalDist().inv_cdf(1 - self.alpha / 2)
        return error * skewness.wider(self.drawn, squares, cubes, z)  # type: ignore[no-any-return]


@value
class Intervals:
    """low, high: of each figure by its place in the answer, NaN where there is none yet.

    worst: the largest half-width relative to its estimate; None: not all figures that can have an interval have one.
    heavy: places of figures that have none because of a heavy tail.
    """

    low: dict[int, np.ndarray]
    high: dict[int, np.ndarray]
    worst: float | None
    heavy: tuple[int, ...] = ()

    def columns(self) -> dict[str, np.ndarray]:
        """As columns ``l0``, ``h0`` …"""
        lows = {f"l{place}": found for place, found in self.low.items()}
        return {**lows, **{f"h{place}": found for place, found in self.high.items()}}


class Sums(Protocol):
    """The sums of the groups seen, such as :class:`qoop.growing.totals.Totals`."""

    @property
    def groups(self) -> int:
        """Number of groups."""
        ...

    def moments(self, measure: int) -> Moments:
        """The moments of a measure."""
        ...

    def pair_moments(self, y: int, x: int) -> PairMoments:
        """The moments of a pair of measures."""
        ...

    def triple_moments(self, y: int, z: int, x: int) -> np.ndarray:
        """The sums of the products of three measures."""
        ...


def at_look(figures: Sequence[Figure], totals: Sums, schedule: Schedule, drawn: int, goal: Goal) -> Intervals:
    """The intervals at a look that is not the last; those of the level that is kept for the goal if they meet it."""

    def found(at_goal: bool | None) -> Intervals:
        return intervals(figures, totals, Look(drawn, len(schedule.order), schedule.alpha(goal.confidence, at_goal)))

    if not goal.error:
        return found(None)
    narrow = found(True)
    return narrow if narrow.worst is not None and narrow.worst <= goal.error else found(False)


def intervals(figures: Sequence[Figure], totals: Sums, look: Look) -> Intervals:
    """The intervals at a look that is not the last."""
    import numpy as np

    low, high, worst, heavy = {}, {}, [0.0], []
    t = quantile(1 - look.alpha / 2, look.drawn - 1)
    for figure in figures:
        if figure.kind in UNBOUNDED:
            low[figure.place] = high[figure.place] = np.full(totals.groups, np.nan)
            continue
        with np.errstate(all="ignore"):
            estimate, error, trusted, tail = (
                _total(figure, totals, look) if figure.kind == "total"
                else _ratio(figure, totals, look) if figure.kind == "ratio"
                else _spread(figure, totals, look)
            )  # fmt: skip
            half = np.where(trusted & ~tail, t * error * abs(figure.scale), np.nan)
            estimate = estimate * figure.scale
            low[figure.place], high[figure.place] = estimate - half, estimate + half
            relative = np.where(half == 0, 0.0, half / np.abs(estimate))
        worst.append(float(np.max(relative, initial=0.0)))
        heavy += [figure.place] if tail.any() else []
    known = any(figure.kind not in UNBOUNDED for figure in figures) and totals.groups > 0
    largest = float(np.max(worst))
    return Intervals(low, high, largest if known and np.isfinite(largest) else None, tuple(heavy))


_Found = tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]
"""Estimates, standard errors, where these may be trusted, and where a tail is too heavy."""


def _total(figure: Figure, totals: Sums, look: Look) -> _Found:
    y = totals.moments(figure.y)
    error = total.standard_error(look.drawn, look.pieces, y.sums, y.squares)
    squares, cubes = skewness.central(look.drawn, y.sums, y.squares, y.cubes)
    trusted = skewness.enough(look.drawn, squares, cubes) & (y.squares > 0)
    return y.sums * (look.pieces / look.drawn), look.widened(error, squares, cubes), trusted, _is_heavy(y, look)


def _ratio(figure: Figure, totals: Sums, look: Look) -> _Found:
    assert figure.x is not None
    y, x = totals.moments(figure.y), totals.moments(figure.x)
    both = totals.pair_moments(figure.y, figure.x)
    error = ratio.standard_error(look.drawn, look.pieces, y, x, both)
    squares, cubes = ratio.residual_cubes(y, x, both)
    trusted = skewness.enough(look.drawn, squares, cubes) & ratio.is_steady(look.drawn, look.pieces, x)
    error = look.widened(error, squares, cubes)
    return y.sums / x.sums, error, trusted & (x.squares > 0), _is_heavy(y, look) | _is_heavy(x, look)


def _spread(figure: Figure, totals: Sums, look: Look) -> _Found:
    import numpy as np

    y, z, x = figure.y, figure.z, figure.x
    assert z is not None and x is not None
    q, s, n = (totals.moments(one) for one in (y, z, x))
    pair = totals.pair_moments
    powers = variance.Powers(q, s, n, pair(y, z), pair(y, x), pair(z, x), totals.triple_moments(y, z, x))
    found, error = powers.estimate(figure.of_sample), variance.standard_error(look.drawn, look.pieces, powers)
    steady = ratio.is_steady(look.drawn, look.pieces, n)
    trusted = skewness.enough(look.drawn, powers.squares(), powers.cubes()) & steady
    error = look.widened(error, powers.squares(), powers.cubes())
    if figure.kind == "deviation":
        found = np.sqrt(found)
        error = error / (2 * found)
    return found, error, trusted & (found > 0) & (n.squares > 0), _is_heavy(q, look) | _is_heavy(n, look)


def _is_heavy(y: Moments, look: Look) -> np.ndarray:
    import numpy as np

    squares, _ = skewness.central(look.drawn, y.sums, y.squares, y.cubes)
    return skewness.heavy(look.drawn, squares, np.abs(y.peaks) - np.abs(y.sums / look.drawn))
