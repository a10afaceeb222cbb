"""The total over all pieces.

Cochran, Sampling Techniques, 3rd ed. (1977), section 2.6, equation 2.22: the variance of the total of a simple random
sample without replacement, whose units are the pieces (section 9A.1, single-stage cluster sampling).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def standard_error(drawn: int, pieces: int, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Of estimated totals. sums, squares: of the pieces' own totals, over those drawn.

    >>> import numpy as np
    >>> piece_totals = np.array([1.0, 3.0, 5.0, 7.0])
    >>> float(standard_error(4, 16, piece_totals.sum()[None], (piece_totals**2).sum()[None])[0].round(3))
    17.889
    """
    variance = spread(drawn, sums, squares)
    return pieces * ((1 - drawn / pieces) * variance / drawn) ** 0.5


def spread(drawn: int, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The variance between pieces."""
    import numpy as np

    return np.maximum(squares - sums**2 / drawn, 0.0) / (drawn - 1)
