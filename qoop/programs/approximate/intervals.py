"""The intervals of all figures of all groups, from the pieces read so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING, Protocol

from qoop.catalog.value import value
from qoop.programs.approximate.estimators import of_values, ratio, skewness, total, variance
from qoop.programs.approximate.estimators.interim import Ends, Interim
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
"""The factor by which a predicted width may be too large: it is the maximum of many estimates."""

_AIM = 1.15
"""The margin of a round that aims at the target: a miss costs one more round."""

_LEAST_STEP = 1.25
"""An interim edition reads at least this factor more pieces than the one before."""


@value
class Intervals:
    """low, high: the bounds of each figure by its place in the answer, by group; NaN: there is no interval yet.

    worst: the largest half-width relative to its estimate, among the groups shown; None: some figure that can have an
    interval has none. heavy: the places of figures that have none because of a heavy tail.
    plain: the largest half-width if no total were skewed. needed: the pieces with which all figures have an interval;
    infinite: unknown.
    """

    low: dict[int, np.ndarray]
    high: dict[int, np.ndarray]
    worst: float | None
    heavy: tuple[int, ...] = ()
    plain: float = 0.0
    needed: float = 0.0


@value
class Shown:
    """The groups of the rows that are shown. chosen: estimates decide which groups these are.

    Estimates choose groups with overestimates more often. The intervals of R rows out of m groups miss on average no
    more often than all do, if each spends R / m of the chance of error (Benjamini and Yekutieli, False discovery
    rate-adjusted multiple confidence intervals for selected parameters, JASA 100, 2005).
    """

    groups: np.ndarray
    chosen: bool = False

    def alpha(self, alpha: float, groups: int) -> float:
        """The chance of error that the interval of each group spends. groups: the number of all groups.

        >>> import numpy as np
        >>> Shown(np.array([3, 7, 7]), chosen=True).alpha(0.05, 10), Shown(np.array([3, 7])).alpha(0.05, 10)
        (0.01, 0.05)
        """
        import numpy as np

        return alpha * max(1, len(np.unique(self.groups))) / groups if self.chosen and groups else alpha


class Sums(Protocol):
    """The sums of the observed groups, such as :class:`qoop.programs.approximate.totals.Totals`."""

    @property
    def groups(self) -> int:
        """The number of groups."""
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
        """The observed values of a measure that counts distinct values."""
        ...

    def sample(self, measure: int) -> Sample:
        """The observed values of the measure of a quantile."""
        ...


def interim_intervals(
    figures: Sequence[Figure], totals: Sums, schedule: Schedule, drawn: int, target: Target, shown: Shown | None = None
) -> Intervals:
    """The intervals of an interim edition. They have the level that is reserved for the target, if they meet it so.

    shown: the groups whose intervals count; None: all.
    """

    def found(at_target: bool | None) -> Intervals:
        alpha = schedule.alpha(target.confidence, at_target)
        return intervals(figures, totals, schedule.interim(drawn, alpha), shown)

    if not target.error:
        return found(None)
    narrow = found(True)
    if narrow.worst is not None and narrow.worst <= target.error:
        return narrow
    return replace(found(False), plain=narrow.plain)


def in_vain(found: Intervals, schedule: Schedule, drawn: int, target: Target) -> bool:
    """True if no interim edition should meet the target, by the predicted fall of errors (`RoundStart.predicted`)."""
    pieces, last = len(schedule.order), schedule.ends[-2]
    if not target.error or drawn >= last:
        return False
    return found.needed > last or _falls_to(found, drawn, last, pieces) > _DOUBT * target.error


def enough_at(found: Intervals, schedule: Schedule, drawn: int, target: Target) -> int | None:
    """The pieces after which the first interim edition should meet the target; None: only the exact edition should."""
    pieces = len(schedule.order)
    if found.worst is None and not found.needed:
        return None  # intervals to come cannot be predicted
    later = (end for end in schedule.ends[:-1] if end > drawn)
    good = (end for end in later if found.needed <= end and _falls_to(found, drawn, end, pieces) <= target.error)
    return next(good, None)


def aimed(found: Intervals, schedule: Schedule, drawn: int, number: int, target: Target) -> Schedule:
    """The same schedule, but that the next round, of this number, ends where the target should be met, if that is
    sooner. Only widths of intervals decide, not their places, as for the edition that meets the target."""
    if not schedule.aims or not target.error or not 0 < found.plain < inf or number >= len(schedule.ends) - 1:
        return schedule
    pieces = len(schedule.order)
    slope = found.plain / sqrt(Interim(drawn, pieces, 0.0).unseen)
    root = (sqrt(slope**2 + 4 * target.error / _AIM) - slope) / 2  # where `_falls_to` is the target
    enough = max(1 / (root**2 + 1 / pieces), _AIM * found.needed, _LEAST_STEP * drawn)
    return schedule.ending(number, ceil(enough)) if enough < schedule.ends[number] else schedule


def _falls_to(found: Intervals, drawn: int, end: int, pieces: int) -> float:
    """The predicted largest half-width after a number of pieces, if no total were skewed."""
    before, after = Interim(drawn, pieces, 0.0).unseen, Interim(end, pieces, 0.0).unseen
    return found.plain * sqrt(after / before) + after


def intervals(figures: Sequence[Figure], totals: Sums, interim: Interim, shown: Shown | None = None) -> Intervals:
    """The intervals of an interim edition. shown: see `interim_intervals`."""
    import numpy as np

    groups = totals.groups
    counted = np.arange(groups) if shown is None else shown.groups
    interim = interim if shown is None else replace(interim, alpha=shown.alpha(interim.alpha, groups))
    low, high, heavy = {}, {}, []
    worst, plain, needed = [0.0], [0.0], [0.0]
    for figure in figures:
        if figure.kind in UNBOUNDED:
            low[figure.place] = high[figure.place] = np.full(groups, np.nan)
            continue
        with np.errstate(all="ignore"):
            one = _ends(figure, totals, interim)
            low[figure.place], high[figure.place] = np.sort([one.low * figure.scale, one.high * figure.scale], axis=0)
            size = np.abs(one.estimate)
            half = np.maximum(one.high - one.estimate, one.estimate - one.low)
            relative = np.where(half == 0, 0.0, half / size)[counted]
            bare = np.where(one.plain == 0, 0.0, one.plain / size)[counted]
        worst.append(float(np.max(relative, initial=0.0)))
        plain.append(_largest(bare))
        needed.append(_largest(one.needed[counted]))
        heavy += [figure.place] if one.tail is not None and one.tail[counted].any() else []
    known = any(figure.kind not in UNBOUNDED for figure in figures) and len(counted) > 0
    largest = float(np.max(worst))
    found = largest if known and np.isfinite(largest) else None
    return Intervals(low, high, found, tuple(heavy), max(plain), max(needed))


def _largest(numbers: np.ndarray) -> float:
    """The largest known number."""
    import numpy as np

    return float(np.max(np.nan_to_num(numbers, nan=0.0, posinf=inf), initial=0.0))


def _ends(figure: Figure, totals: Sums, interim: Interim) -> Ends:
    if figure.kind == "distinct":
        return of_values.distinct(totals.incidence(figure.y), interim)
    if figure.kind == "quantile":
        return of_values.quantiles(totals.sample(figure.y), totals.groups, figure.level, figure.continuous, interim)
    if figure.kind == "rows":
        return _known(totals.moments(figure.y).sums * interim.sizes.scale)
    if figure.kind == "total":
        return normal_ends(total_estimates(figure, totals, interim), interim)
    return normal_ends(
        _ratio(figure, totals, interim) if figure.kind == "ratio" else _spread(figure, totals, interim), interim
    )


def _known(estimate: np.ndarray) -> Ends:
    """The ends of numbers of rows, which are certain."""
    import numpy as np

    found, nothing = np.rint(estimate), np.zeros(len(estimate))
    return Ends(found, found, found, nothing, nothing)


def normal_ends(one: Estimates, interim: Interim) -> Ends:
    """Symmetric intervals by Student's distribution, widened for skewness.

    They also include a margin for an unread stretch of unusual rows, for which equal pieces are no evidence: a filter
    may exclude only the rows of another part of the table. Its total may be 0, or twice that of other stretches."""
    import numpy as np

    t = quantile(1 - interim.alpha / 2, interim.drawn - 1)
    needed = skewness.needed(interim.drawn, one.squares, one.cubes)
    wider = skewness.wider(interim.drawn, one.squares, one.cubes, interim.z)
    half = t * one.error * wider + interim.unseen * np.abs(one.estimate)
    half = np.where((needed < interim.drawn) & one.steady & ~one.tail, half, np.nan)
    needed = np.where(one.tail, inf, needed)
    return Ends(one.estimate, one.estimate - half, one.estimate + half, t * one.error, needed, one.tail)


@value
class Estimates:
    """A figure by group: estimates, their standard errors, and sums of squares and cubes of the deviations of pieces.

    steady: there are enough pieces for an interval. tail: the tail is too heavy for one."""

    estimate: np.ndarray
    error: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    steady: np.ndarray
    tail: np.ndarray


def total_estimates(figure: Figure, totals: Sums, interim: Interim) -> Estimates:
    """Of the totals of a measure over all pieces."""
    y, both, rows = totals.moments(figure.y), totals.size_moments(figure.y), interim.sizes.drawn
    error = total.standard_error(interim, y, both)
    squares, cubes = ratio.residual_cubes(y, rows, both)
    steady = ratio.is_steady(interim.drawn, interim.pieces, rows) & (y.squares > 0)
    return Estimates(y.sums * interim.sizes.scale, error, squares, cubes, steady, is_heavy(y, interim))


def _ratio(figure: Figure, totals: Sums, interim: Interim) -> Estimates:
    assert figure.x is not None
    y, x = totals.moments(figure.y), totals.moments(figure.x)
    both = totals.pair_moments(figure.y, figure.x)
    error = ratio.standard_error(interim.drawn, interim.pieces, y, x, both)
    squares, cubes = ratio.residual_cubes(y, x, both)
    steady = ratio.is_steady(interim.drawn, interim.pieces, x) & (x.squares > 0)
    return Estimates(y.sums / x.sums, error, squares, cubes, steady, is_heavy(y, interim) | is_heavy(x, interim))


def _spread(figure: Figure, totals: Sums, interim: Interim) -> Estimates:
    import numpy as np

    y, z, x = figure.y, figure.z, figure.x
    assert z is not None and x is not None
    q, s, n = (totals.moments(one) for one in (y, z, x))
    pair = totals.pair_moments
    powers = variance.Powers(q, s, n, pair(y, z), pair(y, x), pair(z, x), totals.triple_moments(y, z, x))
    found, error = powers.estimate(figure.of_sample), variance.standard_error(interim.drawn, interim.pieces, powers)
    if figure.kind == "deviation":
        found = np.sqrt(found)
        error = error / (2 * found)
    steady = ratio.is_steady(interim.drawn, interim.pieces, n) & (found > 0) & (n.squares > 0)
    return Estimates(
        found, error, powers.squares(), powers.cubes(), steady, is_heavy(q, interim) | is_heavy(n, interim)
    )


def is_heavy(y: Moments, interim: Interim) -> np.ndarray:
    """True for groups in which few pieces have most of a measure's spread."""
    import numpy as np

    squares, _ = skewness.central(interim.drawn, y.sums, y.squares, y.cubes)
    return skewness.heavy(interim.drawn, squares, np.abs(y.peaks) - np.abs(y.sums / interim.drawn))
