"""The pieces that each round reads, and the part of the confidence that each look takes.

The order of the pieces is drawn once, by a seed. The first round reads `FIRST` pieces or one in 64, of row groups
`FIRST_GROUPS` or `FIRST_OF_SEVERAL`, or one in 16; each later one as many as all before it: looks are few.
What may go wrong at all looks together is spent on them (alpha spending: Lan and DeMets, Discrete sequential boundaries
for clinical trials, Biometrika 70, 1983), so the chance that any interval ever shown misses its truth is at most what
was asked for (Bonferroni), whatever makes one stop.

Without a target each look takes the same part. With one, most is kept for the look that meets it. Which look that is
hangs on the widths alone, so that an interval of a fixed level holds there as well as anywhere (Chow and Robbins, On
the asymptotic theory of fixed-width sequential confidence intervals, Annals of Mathematical Statistics 36, 1965): a
look first asks whether the target would be met if it took all that is kept. If not it takes a small part, and the rest
stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2
from random import Random

from qoop.catalog.value import value
from qoop.programs.approximate.estimators.look import Look, Sizes
from qoop.programs.approximate.estimators.moments import Moments
from qoop.programs.approximate.universe import BUCKETS

FIRST = 64
"""Pieces of the first round at least. Of fewer the spread is not known well enough: of 16 or 32 too many intervals
miss where totals of pieces are skewed, whatever the rule of skewness says (`interval_coverage.py` in tests)."""

FIRST_GROUPS = 16
"""The same of row groups, of which tables have few: there intervals are wider for what so few do not tell."""

FIRST_OF_SEVERAL = 32
"""The same where there are several groups and a target, but no more than one row group in six. Of 16 row groups the
rule of skewness trusts no interval of some group, nearly always: that look cannot meet a target, and takes its time."""

_ONE_IN = 64
_GROUPS_ONE_IN = 16
_SEVERAL_ONE_IN = 6

_LAST_STEP = 1.25
"""The last look is at half of the pieces, if these are that many times those of the look before."""

ON_THE_WAY = 0.1
"""The part of what may go wrong that belongs to the looks before the target is met."""


@value
class Schedule:
    """order: all pieces. ends: how many of them have been read after each round. sizes: the rows of each piece, in any
    unit; empty: all pieces have as many.

    aims: whether a round may end sooner, where the target should be met. Of row groups, of which intervals are wider,
    as many hold at such looks as at others (`interval_coverage.py` in tests); of small sorted pieces fewer do.
    """

    order: tuple[int, ...]
    ends: tuple[int, ...]
    aims: bool = False
    sizes: tuple[float, ...] = ()

    def look(self, drawn: int, alpha: float = 0.0) -> Look:
        """The look after that many pieces. alpha: the part of what may go wrong that it takes.

        >>> Schedule((1, 0), (1, 2), sizes=(30, 10)).look(1).share
        0.25
        """
        import numpy as np

        if not self.sizes:
            return Look(drawn, len(self.order), alpha)
        read = np.array([self.sizes[piece] for piece in self.order[:drawn]], float)
        return Look(drawn, len(self.order), alpha, Sizes(sum(self.sizes), Moments.of(read)))

    def pieces_of(self, number: int, rest: bool = False) -> tuple[int, ...]:
        """The pieces that a round reads; rounds count from 0. rest: all that the rounds before have left."""
        end = len(self.order) if rest else self.ends[number]
        return self.order[self.ends[number - 1] if number else 0 : end]

    def ending(self, number: int, end: int) -> Schedule:
        """The same, with a round that ends after that many pieces.

        >>> schedule(190, 1, in_row_groups=True, several=True).ending(1, 40).ends
        (31, 40, 95, 190)
        """
        return replace(self, ends=(*self.ends[:number], end, *self.ends[number + 1 :]))

    def alpha(self, confidence: float, at_goal: bool | None = None) -> float:
        """The part of what may go wrong that one look may take. The last look is exact, and takes none.

        at_goal: whether the answer ends at this look; None: there is no target, so that each look takes the same.
        """
        wrong, looks = 1 - confidence, max(1, len(self.ends) - 1)
        if at_goal is None or looks == 1:
            return wrong / looks
        return wrong * (1 - ON_THE_WAY) if at_goal else wrong * ON_THE_WAY / (looks - 1)


def buckets_in_order() -> Schedule:
    """The rounds for buckets of a key, which are in random order as they are: their hash function is drawn.

    >>> buckets_in_order().ends
    (64, 128, 256, 512, 1024)
    """
    return replace(schedule(BUCKETS, 0), order=tuple(range(BUCKETS)))


def schedule(
    pieces: int, seed: int, in_row_groups: bool = False, several: bool = False, sizes: Sequence[float] = ()
) -> Schedule:
    """The rounds for a number of pieces. in_row_groups: the pieces are row groups. several: there are several groups,
    of which all are to meet a target. sizes: see `Schedule`.

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
    """A random order of pieces whose beginnings are spread evenly over the table: the first 2, 4, 8 … are one from each
    half, quarter, eighth … of it.

    A stretch of rows that are unlike all others is seen so, if it is no shorter than a stratum. Each piece is as likely
    as any other at each place of the order. Van der Corput's sequence, scrambled (Owen, Randomly permuted (t,m,s)-nets
    and (t,s)-sequences, 1995) and turned by a random part of a circle. Errors are no larger than those of pieces drawn
    without strata, whose formulas are used (Cochran, section 5.6), and much smaller where rows are sorted.

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
