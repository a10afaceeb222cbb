"""The total of a join over the keys of a universe sample.

Vengerov, Menck, Zait and Chakkappen, Join size estimation subject to filter conditions (VLDB 2015), section 3.2: each
key is in the sample with probability p, all of its rows or none, and keys hang on nothing of each other. So the total
that is seen, divided by p, has the variance ``(1/p - 1)`` times the sum over all keys of the square of a key's own.

To add up squares by key takes as long as the join. Totals of buckets do as well: keys fall into N buckets by chance, so
that on average the variance between buckets is the sum of the squares over N, and Cochran's variance of a total of n of
them (:mod:`qoop.growing.estimators.total`) is, with p = n / N, what stands above; `tests/growing/test_universe.py`
compares the two. Skewed keys make buckets uneven, which the rules of :mod:`qoop.growing.estimators.skewness` see as
they see it of pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def variance(part: float, totals: np.ndarray) -> float:
    """Of an estimated total. part: of the keys that is drawn. totals: of all keys.

    >>> import numpy as np
    >>> variance(0.25, np.array([3.0, 4.0]))
    75.0
    """
    return float((1 / part - 1) * (totals**2).sum())
