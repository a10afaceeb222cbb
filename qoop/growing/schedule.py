"""The pieces that each round reads, and the part of the confidence that each look takes.

The order of the pieces is drawn once, by a seed. The first round reads `FIRST` pieces or one in 64, of row groups
`FIRST_GROUPS` or `FIRST_OF_SEVERAL`, or one in 16; each later one as many as all before it: looks are few.
What may go wrong at all looks together is spent on them (alpha spending: Lan and DeMets, Discrete sequential boundaries
for clinical trials, Biometrika 70, 1983), so the chance that any interval ever shown misses its truth is at most what
was asked for (Bonferroni), whatever makes one stop.

Without a goal each look takes the same part. With one, most is kept for the look that meets it. Which look that is
hangs on the widths alone, so that an interval of a fixed level holds there as well as anywhere (Chow and Robbins, On
the asymptotic theory of fixed-width sequential confidence intervals, Annals of Mathematical Statistics 36, 1965): a
look first asks whether the goal would be met if it took all that is kept. If not it takes a small part, and the rest
stays.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from qoop.catalog.value import value
from qoop.growing.universe import BUCKETS

FIRST = 64
"""Pieces of the first round at least. Of fewer the spread is not known well enough: `tpcds/bench/coverage.py` finds
that of 16 or 32 too many intervals miss where the totals of pieces are skewed, whatever the rule of skewness says."""

FIRST_GROUPS = 16
"""The same of row groups, of which tables have few: there intervals are wider for what so few do not tell."""

FIRST_OF_SEVERAL = 32
"""The same where there are several groups and a goal, but no more than one row group in six. Of 16 row groups the rule
of skewness trusts no interval of some group, nearly always: that look cannot meet a goal, and takes its time."""

_ONE_IN = 64
_GROUPS_ONE_IN = 16
_SEVERAL_ONE_IN = 6

_LAST_STEP = 1.25
"""The last look is at half of the pieces, if these are that many times those of the look before."""

ON_THE_WAY = 0.1
"""The part of what may go wrong that belongs to the looks before the goal is met."""


@value
class Schedule:
    """order: all pieces. ends: how many of them have been read after each round.

    aims: whether a round may end sooner, where the goal should be met. Of row groups, of which intervals are wider, as
    many hold at such looks as at others (`tpcds/bench/coverage.py`); of small pieces that are sorted fewer do.
    """

    order: tuple[int, ...]
    ends: tuple[int, ...]
    aims: bool = False

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

        at_goal: whether the answer ends at this look; None: there is no goal, so that each look takes the same.
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


def schedule(pieces: int, seed: int, in_row_groups: bool = False, several: bool = False) -> Schedule:
    """The rounds for a number of pieces. in_row_groups: the pieces are row groups. several: there are several groups,
    of which all are to meet a goal.

    >>> schedule(1030, 1).ends, schedule(120, 1).ends, len(set(schedule(300, 1).order))
    ((64, 128, 256, 512, 1030), (120,), 300)
    >>> schedule(190, 1, in_row_groups=True).ends
    (16, 32, 64, 95, 190)
    >>> [schedule(count, 1, in_row_groups=True, several=True).ends for count in (66, 190, 1900)]
    [(16, 32, 66), (31, 62, 95, 190), (118, 236, 472, 944, 1900)]
    """
    order = list(range(pieces))
    Random(seed).shuffle(order)
    ends, end = [], _first_of_groups(pieces, several) if in_row_groups else max(FIRST, pieces // _ONE_IN)
    half = pieces // 2
    while end <= half:
        ends.append(end)
        end *= 2
    if ends and ends[-1] * _LAST_STEP <= half:
        ends.append(half)
    return Schedule(tuple(order), (*ends, pieces), aims=in_row_groups)


def _first_of_groups(groups: int, several: bool) -> int:
    first = min(FIRST_OF_SEVERAL, groups // _SEVERAL_ONE_IN) if several else FIRST_GROUPS
    return max(FIRST_GROUPS, first, groups // _GROUPS_ONE_IN)
