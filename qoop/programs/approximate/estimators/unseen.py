"""Groups of which nothing was seen.

Louis, Confidence intervals for a binomial parameter after observing no successes, The American Statistician 35 (1981):
where none of n units has it, at most ``1 - alpha ** (1 / n)`` of all units do (the "rule of three", as for 95 % that is
about 3 / n). Drawing without replacement makes it less.
"""

from __future__ import annotations


def most(drawn: int, pieces: int, alpha: float) -> float:
    """The largest part of the pieces that a group may be in, of which nothing was seen; for any one such group.

    >>> round(most(100, 1000, 0.05), 4), most(1000, 1000, 0.05)
    (0.0295, 0.0)
    """
    return 0.0 if drawn == pieces else 1 - alpha ** (1 / drawn)
