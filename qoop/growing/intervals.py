"""The intervals of all figures of all groups, from what was read so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from qoop.catalog.value import value
from qoop.growing.estimators import ratio, skewness, total
from qoop.growing.estimators.student import quantile

if TYPE_CHECKING:
    import numpy as np

    from qoop.growing.growth import Figure
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


@value
class Intervals:
    """low, high: of each figure by its place in the answer, NaN where there is none yet.

    worst: the largest half-width relative to its estimate; None: not all figures that can have an interval have one.
    """

    low: dict[int, np.ndarray]
    high: dict[int, np.ndarray]
    worst: float | None

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


def intervals(figures: Sequence[Figure], totals: Sums, look: Look) -> Intervals:
    """The intervals at a look that is not the last."""
    import numpy as np

    low, high, worst = {}, {}, [0.0]
    t = quantile(1 - look.alpha / 2, look.drawn - 1)
    for figure in figures:
        if figure.kind == "extreme":
            low[figure.place] = high[figure.place] = np.full(totals.groups, np.nan)
            continue
        with np.errstate(all="ignore"):
            estimate, error, trusted = (
                _total(figure, totals, look) if figure.kind == "total" else _ratio(figure, totals, look)
            )
            half = np.where(trusted, t * error * abs(figure.scale), np.nan)
            estimate = estimate * figure.scale
            low[figure.place], high[figure.place] = estimate - half, estimate + half
            relative = np.where(half == 0, 0.0, half / np.abs(estimate))
        worst.append(float(np.max(relative, initial=0.0)))
    known = any(figure.kind != "extreme" for figure in figures) and totals.groups > 0
    largest = float(np.max(worst))
    return Intervals(low, high, largest if known and np.isfinite(largest) else None)


def _total(figure: Figure, totals: Sums, look: Look) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, standard errors, and where these may be trusted."""
    y = totals.moments(figure.y)
    error = total.standard_error(look.drawn, look.pieces, y.sums, y.squares)
    trusted = skewness.enough(look.drawn, *skewness.central(look.drawn, y.sums, y.squares, y.cubes))
    return y.sums * (look.pieces / look.drawn), error, trusted & (y.squares > 0)


def _ratio(figure: Figure, totals: Sums, look: Look) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert figure.x is not None
    y, x = totals.moments(figure.y), totals.moments(figure.x)
    both = totals.pair_moments(figure.y, figure.x)
    error = ratio.standard_error(look.drawn, look.pieces, y, x, both)
    trusted = skewness.enough(look.drawn, *ratio.residual_cubes(y, x, both)) & ratio.is_steady(
        look.drawn, look.pieces, x
    )
    return y.sums / x.sums, error, trusted & (x.squares > 0)
