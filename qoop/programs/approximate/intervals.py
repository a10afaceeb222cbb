"""The intervals of all figures of all groups, from what was read so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING, Protocol

from qoop.catalog.value import value
from qoop.programs.approximate.estimators import of_values, ratio, skewness, total, variance
from qoop.programs.approximate.estimators.look import Ends, Look
from qoop.programs.approximate.estimators.student import quantile
from qoop.programs.approximate.growth import UNBOUNDED

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.distinct import Incidence
    from qoop.programs.approximate.estimators.moments import Moments, PairMoments
    from qoop.programs.approximate.estimators.order import Sample
    from qoop.programs.approximate.growth import Figure
    from qoop.programs.approximate.schedule import Schedule
    from qoop.programs.approximate.target import Target


_DOUBT = 1.25
"""The width that is foretold may be that much too large: it is the largest of many guesses."""

_AIM = 1.15
"""A look that is to meet the target aims at that much less than its width: if it misses, it takes one round more."""

_LEAST_STEP = 1.25
"""A look comes after that many times the pieces of the look before at least."""


@value
class Intervals:
    """low, high: of each figure by its place in the answer, NaN where there is none yet, by group.

    worst: of the groups shown the largest half-width relative to its estimate; None: not all figures that can have an
    interval have one. heavy: places of figures that have none because of a heavy tail.
    plain: the largest half-width were no total skewed. needed: the pieces of which all figures have one; infinite:
    nobody knows.
    """

    low: dict[int, np.ndarray]
    high: dict[int, np.ndarray]
    worst: float | None
    heavy: tuple[int, ...] = ()
    plain: float = 0.0
    needed: float = 0.0


@value
class Shown:
    """The groups of the rows that are shown. chosen: which ones these are hangs on estimates.

    Rows that are chosen by estimates are rather those of which too much was drawn. On average no more of the intervals
    of R rows out of m groups miss than of all, if each has R / m of what may go wrong (Benjamini and Yekutieli, False
    discovery rate-adjusted multiple confidence intervals for selected parameters, JASA 100, 2005).
    """

    groups: np.ndarray
    chosen: bool = False

    def alpha(self, alpha: float, groups: int) -> float:
        """The part of what may go wrong that the interval of each takes. groups: number of all.

        >>> import numpy as np
        >>> Shown(np.array([3, 7, 7]), chosen=True).alpha(0.05, 10), Shown(np.array([3, 7])).alpha(0.05, 10)
        (0.01, 0.05)
        """
        import numpy as np

        return alpha * max(1, len(np.unique(self.groups))) / groups if self.chosen and groups else alpha


class Sums(Protocol):
    """The sums of the groups seen, such as :class:`qoop.programs.approximate.totals.Totals`."""

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

    def size_moments(self, measure: int) -> PairMoments:
        """The moments of a measure and of the rows of its pieces."""
        ...

    def triple_moments(self, y: int, z: int, x: int) -> np.ndarray:
        """The sums of the products of three measures."""
        ...

    def incidence(self, measure: int) -> Incidence:
        """The values seen of a measure that counts distinct ones."""
        ...

    def sample(self, measure: int) -> Sample:
        """The values seen of a measure of which there is a quantile."""
        ...


def at_look(
    figures: Sequence[Figure], totals: Sums, schedule: Schedule, drawn: int, target: Target, shown: Shown | None = None
) -> Intervals:
    """The intervals at a look that is not the last; those of the level that is kept for the target if they meet it.

    shown: the groups of which they are to be narrow; None: all.
    """

    def found(at_goal: bool | None) -> Intervals:
        alpha = schedule.alpha(target.confidence, at_goal)
        return intervals(figures, totals, schedule.look(drawn, alpha), shown)

    if not target.error:
        return found(None)
    narrow = found(True)
    if narrow.worst is not None and narrow.worst <= target.error:
        return narrow
    return replace(found(False), plain=narrow.plain)


def in_vain(found: Intervals, schedule: Schedule, drawn: int, target: Target) -> bool:
    """True if no look before the last is believed to meet the target, as errors fall (`RoundStart.predicted`)."""
    pieces, last = len(schedule.order), schedule.ends[-2]
    if not target.error or drawn >= last:
        return False
    return found.needed > last or _falls_to(found, drawn, last, pieces) > _DOUBT * target.error


def enough_at(found: Intervals, schedule: Schedule, drawn: int, target: Target) -> int | None:
    """The pieces after which the first look should meet the target, as errors fall; None: only the last one should."""
    pieces = len(schedule.order)
    if found.worst is None and not found.needed:
        return None  # nothing tells of intervals to come
    later = (end for end in schedule.ends[:-1] if end > drawn)
    good = (end for end in later if found.needed <= end and _falls_to(found, drawn, end, pieces) <= target.error)
    return next(good, None)


def aimed(found: Intervals, schedule: Schedule, drawn: int, number: int, target: Target) -> Schedule:
    """The same schedule, but that round `number`, the next, ends where the target should be met, if that is before its
    own end. How wide intervals are decides, not where they lie, as for the look that meets the target."""
    if not schedule.aims or not target.error or not 0 < found.plain < inf or number >= len(schedule.ends) - 1:
        return schedule
    pieces = len(schedule.order)
    slope = found.plain / sqrt(Look(drawn, pieces, 0.0).unseen)
    root = (sqrt(slope**2 + 4 * target.error / _AIM) - slope) / 2  # where `_falls_to` is the target
    enough = max(1 / (root**2 + 1 / pieces), _AIM * found.needed, _LEAST_STEP * drawn)
    return schedule.ending(number, ceil(enough)) if enough < schedule.ends[number] else schedule


def _falls_to(found: Intervals, drawn: int, end: int, pieces: int) -> float:
    """The largest half-width once that many pieces are read, were no total skewed."""
    before, after = Look(drawn, pieces, 0.0).unseen, Look(end, pieces, 0.0).unseen
    return found.plain * sqrt(after / before) + after


def intervals(figures: Sequence[Figure], totals: Sums, look: Look, shown: Shown | None = None) -> Intervals:
    """The intervals at a look that is not the last. shown: see `at_look`."""
    import numpy as np

    groups = totals.groups
    told = np.arange(groups) if shown is None else shown.groups
    look = look if shown is None else replace(look, alpha=shown.alpha(look.alpha, groups))
    low, high, heavy = {}, {}, []
    worst, plain, needed = [0.0], [0.0], [0.0]
    for figure in figures:
        if figure.kind in UNBOUNDED:
            low[figure.place] = high[figure.place] = np.full(groups, np.nan)
            continue
        with np.errstate(all="ignore"):
            one = _ends(figure, totals, look)
            low[figure.place], high[figure.place] = np.sort([one.low * figure.scale, one.high * figure.scale], axis=0)
            size = np.abs(one.estimate)
            half = np.maximum(one.high - one.estimate, one.estimate - one.low)
            relative = np.where(half == 0, 0.0, half / size)[told]
            bare = np.where(one.plain == 0, 0.0, one.plain / size)[told]
        worst.append(float(np.max(relative, initial=0.0)))
        plain.append(_largest(bare))
        needed.append(_largest(one.needed[told]))
        heavy += [figure.place] if one.tail is not None and one.tail[told].any() else []
    known = any(figure.kind not in UNBOUNDED for figure in figures) and len(told) > 0
    largest = float(np.max(worst))
    found = largest if known and np.isfinite(largest) else None
    return Intervals(low, high, found, tuple(heavy), max(plain), max(needed))


def _largest(numbers: np.ndarray) -> float:
    """The largest of those that are known."""
    import numpy as np

    return float(np.max(np.nan_to_num(numbers, nan=0.0, posinf=inf), initial=0.0))


def _ends(figure: Figure, totals: Sums, look: Look) -> Ends:
    if figure.kind == "distinct":
        return of_values.distinct(totals.incidence(figure.y), look)
    if figure.kind == "quantile":
        return of_values.quantiles(totals.sample(figure.y), totals.groups, figure.level, figure.continuous, look)
    if figure.kind == "rows":
        return _known(totals.moments(figure.y).sums * look.sizes.scale)
    if figure.kind == "total":
        return _normal(_total(figure, totals, look), look)
    return _normal(_ratio(figure, totals, look) if figure.kind == "ratio" else _spread(figure, totals, look), look)


def _known(estimate: np.ndarray) -> Ends:
    """Of numbers of rows that are certain."""
    import numpy as np

    found, nothing = np.rint(estimate), np.zeros(len(estimate))
    return Ends(found, found, found, nothing, nothing)


def _normal(one: _Found, look: Look) -> Ends:
    """Intervals that reach as far to both sides, by Student's distribution, as wide as skewness makes them.

    To that comes what a stretch of rows may do that is unlike all that was read: pieces that are all alike tell nothing
    of it, such as of a filter that leaves out what another part of the table begins with. There may be nothing in it,
    or twice as much as elsewhere."""
    import numpy as np

    t = quantile(1 - look.alpha / 2, look.drawn - 1)
    needed = skewness.needed(look.drawn, one.squares, one.cubes)
    wider = skewness.wider(look.drawn, one.squares, one.cubes, look.z)
    half = t * one.error * wider + look.unseen * np.abs(one.estimate)
    half = np.where((needed < look.drawn) & one.steady & ~one.tail, half, np.nan)
    needed = np.where(one.tail, inf, needed)
    return Ends(one.estimate, one.estimate - half, one.estimate + half, t * one.error, needed, one.tail)


@value
class _Found:
    """Of a figure, by group: estimates, their standard errors, the sums of the squares and cubes of the deviations of
    pieces, where there is enough to go by at all, and where a tail is too heavy."""

    estimate: np.ndarray
    error: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    steady: np.ndarray
    tail: np.ndarray


def _total(figure: Figure, totals: Sums, look: Look) -> _Found:
    y, both, rows = totals.moments(figure.y), totals.size_moments(figure.y), look.sizes.drawn
    error = total.standard_error(look, y, both)
    squares, cubes = ratio.residual_cubes(y, rows, both)
    steady = ratio.is_steady(look.drawn, look.pieces, rows) & (y.squares > 0)
    return _Found(y.sums * look.sizes.scale, error, squares, cubes, steady, _is_heavy(y, look))


def _ratio(figure: Figure, totals: Sums, look: Look) -> _Found:
    assert figure.x is not None
    y, x = totals.moments(figure.y), totals.moments(figure.x)
    both = totals.pair_moments(figure.y, figure.x)
    error = ratio.standard_error(look.drawn, look.pieces, y, x, both)
    squares, cubes = ratio.residual_cubes(y, x, both)
    steady = ratio.is_steady(look.drawn, look.pieces, x) & (x.squares > 0)
    return _Found(y.sums / x.sums, error, squares, cubes, steady, _is_heavy(y, look) | _is_heavy(x, look))


def _spread(figure: Figure, totals: Sums, look: Look) -> _Found:
    import numpy as np

    y, z, x = figure.y, figure.z, figure.x
    assert z is not None and x is not None
    q, s, n = (totals.moments(one) for one in (y, z, x))
    pair = totals.pair_moments
    powers = variance.Powers(q, s, n, pair(y, z), pair(y, x), pair(z, x), totals.triple_moments(y, z, x))
    found, error = powers.estimate(figure.of_sample), variance.standard_error(look.drawn, look.pieces, powers)
    if figure.kind == "deviation":
        found = np.sqrt(found)
        error = error / (2 * found)
    steady = ratio.is_steady(look.drawn, look.pieces, n) & (found > 0) & (n.squares > 0)
    return _Found(found, error, powers.squares(), powers.cubes(), steady, _is_heavy(q, look) | _is_heavy(n, look))


def _is_heavy(y: Moments, look: Look) -> np.ndarray:
    import numpy as np

    squares, _ = skewness.central(look.drawn, y.sums, y.squares, y.cubes)
    return skewness.heavy(look.drawn, squares, np.abs(y.peaks) - np.abs(y.sums / look.drawn))
