"""The pieces that each round reads, and the part of the confidence that each look takes.

The order of the pieces is drawn once, by a seed. The first round reads `FIRST` pieces or one in 64, each later one as
many as all before it, so that there are few looks. What may go wrong at all looks together is divided among them
equally (Bonferroni), so the chance that any interval ever shown misses its truth is at most what was asked for,
whatever makes one stop: no look depends on what was seen. See also Pocock, Group sequential methods, Biometrika 64
(1977), whose constant for six looks is a twentieth smaller.
"""

from __future__ import annotations

from random import Random

from qoop.catalog.value import value

FIRST = 64
"""Pieces of the first round at least. Of fewer the spread is not known well enough: `tpcds/bench/coverage.py` finds
that of 16 or 32 too many intervals miss where the totals of pieces are skewed, whatever the rule of skewness says."""

_ONE_IN = 64


@value
class Schedule:
    """order: all pieces. ends: how many of them have been read after each round."""

    order: tuple[int, ...]
    ends: tuple[int, ...]

    def pieces_of(self, number: int, rest: bool = False) -> tuple[int, ...]:
        """The pieces that a round reads; rounds count from 0. rest: all that the rounds before have left."""
        end = len(self.order) if rest else self.ends[number]
        return self.order[self.ends[number - 1] if number else 0 : end]

    def alpha(self, confidence: float) -> float:
        """The part of what may go wrong that one look may take. The last look is exact, and takes none."""
        return (1 - confidence) / max(1, len(self.ends) - 1)


def schedule(pieces: int, seed: int) -> Schedule:
    """The rounds for a number of pieces.

    >>> schedule(1030, 1).ends, schedule(120, 1).ends, len(set(schedule(300, 1).order))
    ((64, 128, 256, 512, 1030), (120,), 300)
    """
    order = list(range(pieces))
    Random(seed).shuffle(order)
    ends, end = [], max(FIRST, pieces // _ONE_IN)
    while end <= pieces // 2:
        ends.append(end)
        end *= 2
    return Schedule(tuple(order), (*ends, pieces))
