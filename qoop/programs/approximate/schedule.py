"""The pieces that each round reads, and the chance of error that each interim edition spends.

The order of the pieces is drawn once, by a seed. The first round reads `FIRST` pieces or one in 64, of row groups
`FIRST_GROUPS` or `FIRST_OF_SEVERAL`, or one in 16. Each later round reads as many as all before it, so interim editions
are few. They share the chance of error (alpha spending: Lan and DeMets, Discrete sequential boundaries for clinical
trials, Biometrika 70, 1983). So the chance that any interval ever shown misses the true value is at most one minus the
requested confidence (Bonferroni), for any reason to stop.

Without a target each interim edition spends the same part. With one, most is reserved for the edition that meets the
target. Only widths decide which edition that is, so an interval of a fixed level holds there as well as elsewhere (Chow
and Robbins, On the asymptotic theory of fixed-width sequential confidence intervals, Annals of Mathematical Statistics
36, 1965). Each edition is first computed as if it spent the whole reserve. If it then misses the target, it spends a
small part, and the reserve stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2
from random import Random

from qoop.catalog.value import value
from qoop.programs.approximate.estimators.interim import Interim, Sizes
from qoop.programs.approximate.estimators.moments import Moments
from qoop.programs.approximate.universe import BUCKETS

FIRST = 64
"""The fewest pieces of the first round. The spread of fewer is too uncertain: with 16 or 32, too many intervals miss
where totals of pieces are skewed, despite the rule of skewness (`interval_coverage.py` in tests)."""

FIRST_GROUPS = 16
"""The same for row groups, of which tables have few. Intervals are wider to make up for it."""

FIRST_OF_SEVERAL = 32
"""The same with several groups and a target, up to one row group in six. With 16 row groups the rule of skewness nearly
always rejects the interval of some group, so that edition would take time and could not meet a target."""

_ONE_IN = 64
_GROUPS_ONE_IN = 16
_SEVERAL_ONE_IN = 6

_LAST_STEP = 1.25
"""The last interim edition is at half of the pieces, if these are at least this factor more than those of the one
before."""

ON_THE_WAY = 0.1
"""The part of the chance of error for the interim editions before the target is met."""


@value
class Schedule:
    """order: all pieces. ends: the number of pieces read after each round. sizes: the rows of each piece, in any unit;
    empty: all pieces have the same.

    aims: whether a round may end sooner, where the target should be met. With row groups, whose intervals are wider, as
    many hold at such editions as at others (`interval_coverage.py` in tests); with small sorted pieces fewer do.
    """

    order: tuple[int, ...]
    ends: tuple[int, ...]
    aims: bool = False
    sizes: tuple[float, ...] = ()

    def interim(self, drawn: int, alpha: float = 0.0) -> Interim:
        """The interim analysis after a number of pieces. alpha: the part of the chance of error that it spends.

        >>> Schedule((1, 0), (1, 2), sizes=(30, 10)).interim(1).share
        0.25
        """
        import numpy as np

        if not self.sizes:
            return Interim(drawn, len(self.order), alpha)
        read = np.array([self.sizes[piece] for piece in self.order[:drawn]], float)
        return Interim(drawn, len(self.order), alpha, Sizes(sum(self.sizes), Moments.of(read)))

    def pieces_of(self, number: int, rest: bool = False) -> tuple[int, ...]:
        """The pieces that a round reads; rounds count from 0. rest: all pieces that earlier rounds did not read."""
        end = len(self.order) if rest else self.ends[number]
        return self.order[self.ends[number - 1] if number else 0 : end]

    def ending(self, number: int, end: int) -> Schedule:
        """The same schedule, but that a round ends after this number of pieces.

        >>> schedule(190, 1, in_row_groups=True, several=True).ending(1, 40).ends
        (31, 40, 95, 190)
        """
        return replace(self, ends=(*self.ends[:number], end, *self.ends[number + 1 :]))

    def alpha(self, confidence: float, at_target: bool | None = None) -> float:
        """The chance of error that one interim edition may spend. The last edition is exact, and spends none.

        at_target: whether the answer ends at this edition; None: there is no target, and all spend the same.
        """
        chance, editions = 1 - confidence, max(1, len(self.ends) - 1)
        if at_target is None or editions == 1:
            return chance / editions
        return chance * (1 - ON_THE_WAY) if at_target else chance * ON_THE_WAY / (editions - 1)


def buckets_in_order() -> Schedule:
    """The rounds for buckets of a key. Their order is random already, since their hash function is drawn.

    >>> buckets_in_order().ends
    (64, 128, 256, 512, 1024)
    """
    return replace(schedule(BUCKETS, 0), order=tuple(range(BUCKETS)))


def schedule(
    pieces: int, seed: int, in_row_groups: bool = False, several: bool = False, sizes: Sequence[float] = ()
) -> Schedule:
    """The rounds for a number of pieces. in_row_groups: the pieces are row groups. several: several groups must meet a
    target. sizes: see `Schedule`.

    >>> schedule(1030, 1).ends, schedule(120, 1).ends, len(set(schedule(300, 1).order))
    ((64, 128, 256, 512, 1030), (120,), 300)
    >>> schedule(190, 1, in_row_groups=True).ends
    (16, 32, 64, 95, 190)
    >>> [schedule(count, 1, in_row_groups=True, several=True).ends for count in (66, 190, 1900)]
    [(16, 32, 66), (31, 62, 95, 190), (118, 236, 472, 944, 1900)]
    """
    ends, end = [], _first_of_groups(pieces, several) if in_row_groups else max(FIRST, pieces // _ONE_IN)
    half = pieces // 2
    while end <= half:
        ends.append(end)
        end *= 2
    if ends and ends[-1] * _LAST_STEP <= half:
        ends.append(half)
    return Schedule(_in_strata(pieces, seed), (*ends, pieces), in_row_groups, tuple(sizes))


def _in_strata(pieces: int, seed: int) -> tuple[int, ...]:
    """A random order of pieces whose first pieces spread evenly over the table: of the first 2, 4, 8 …, one is from
    each half, quarter, eighth … of it.

    So a stretch of unusual rows is sampled, if it is no shorter than a stratum. At each place of the order all pieces
    are equally likely. It is van der Corput's sequence, scrambled (Owen, Randomly permuted (t,m,s)-nets and
    (t,s)-sequences, 1995) and rotated by a random part of a circle. The formulas are those of pieces drawn without
    strata (Cochran, section 5.6): errors are no larger, and much smaller where rows are sorted.

    >>> sorted(_in_strata(300, 1)) == list(range(300)), sorted(piece // 75 for piece in _in_strata(300, 1)[:4])
    (True, [0, 1, 2, 3])
    """
    draw, cells = Random(seed), [0]
    for _ in range(ceil(log2(pieces)) if pieces > 1 else 0):
        first = [2 * cell + draw.getrandbits(1) for cell in cells]
        cells = first + [cell ^ 1 for cell in first]
    count, turn = len(cells), draw.random() * len(cells)
    return tuple(dict.fromkeys(int((cell + turn) % count * pieces / count) for cell in cells))


def _first_of_groups(groups: int, several: bool) -> int:
    first = min(FIRST_OF_SEVERAL, groups // _SEVERAL_ONE_IN) if several else FIRST_GROUPS
    return max(FIRST_GROUPS, first, groups // _GROUPS_ONE_IN)
