"""Groups without an observed row.

Louis, Confidence intervals for a binomial parameter after observing no successes, The American Statistician 35 (1981):
where none of n units has a property, at most ``1 - alpha ** (1 / n)`` of all units have it (the "rule of three": at 95
% about 3 / n). To draw without replacement makes the bound smaller.
"""

from __future__ import annotations


def most(drawn: int, pieces: int, alpha: float) -> float:
    """The largest part of the pieces that any one group without an observed row may be in.

    >>> round(most(100, 1000, 0.05), 4), most(1000, 1000, 0.05)
    (0.0295, 0.0)
    """
    return 0.0 if drawn == pieces else 1 - alpha ** (1 / drawn)
