"""As few sets as cover all that any of them does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

MOST_COMBINATIONS = 5_000
"""Groups of sets that are looked at, at most, for one smaller than the greedy one."""


def smallest_cover(
    sets: Sequence[frozenset[int]], greedy: Sequence[int], regret: Sequence[float], most: int = MOST_COMBINATIONS
) -> tuple[int, ...]:
    """The places of the fewest sets that cover what all of them do, as far as looking at `most` groups tells.

    greedy: a cover that will do where none is smaller. regret: of groups of one size the one with the least is taken.

    >>> six = [frozenset("abcd"), frozenset("abe"), frozenset("cdf")]
    >>> smallest_cover(six, [0, 1, 2], [0.0, 0.0, 0.0])
    (1, 2)
    """
    items = sorted(frozenset().union(*sets))
    bits = {item: 1 << place for place, item in enumerate(items)}
    masks = [sum(bits[item] for item in one) for one in sets]
    places = _undominated(masks, regret)
    for size in range(1, len(greedy)):
        most -= comb(len(places), size)
        if most < 0:
            break
        found = [group for group in combinations(places, size) if _union(masks, group) == (1 << len(items)) - 1]
        if found:
            return min(found, key=lambda group: (sum(regret[place] for place in group), group))
    return tuple(greedy)


def _undominated(masks: Sequence[int], regret: Sequence[float]) -> list[int]:
    """Places of the sets that no other one holds; of equal ones the one with the least regret."""
    best: dict[int, int] = {}
    for place in sorted(range(len(masks)), key=lambda i: (regret[i], i)):
        best.setdefault(masks[place], place)
    return sorted(
        place for mask, place in best.items() if not any(mask != other and mask & ~other == 0 for other in best)
    )


def _union(masks: Sequence[int], group: Sequence[int]) -> int:
    union = 0
    for place in group:
        union |= masks[place]
    return union
