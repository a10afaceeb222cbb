"""The total over all pieces, whose rows footers tell.

Pieces are not of one size, and a total grows with the rows of its piece. So a total is estimated as the ratio of what
was read to the rows that were read, times the rows of all: the ratio estimator of a total, Cochran, Sampling
Techniques, 3rd ed. (1977), sections 6.4 and 9A.4 (clusters of unequal sizes, ratio to size), equation 6.13. The number
of rows itself has no error so. Where all pieces are of one size this is the mean of pieces times their number, with
the variance of equation 2.22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators import ratio

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.look import Look
    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


def standard_error(look: Look, y: Moments, both: PairMoments) -> np.ndarray:
    """Of estimated totals. y: of the totals of the pieces read. both: of these and of the rows of pieces.

    >>> import numpy as np
    >>> from qoop.programs.approximate.estimators.look import Look
    >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
    >>> totals = np.array([1.0, 3.0, 5.0, 7.0])
    >>> found = standard_error(Look(4, 16, 0.05), Moments.of(totals), PairMoments.of(totals, np.ones(4)))
    >>> float(found[0].round(3))
    17.889
    """
    rows = look.sizes.drawn
    return look.sizes.whole * ratio.standard_error(look.drawn, look.pieces, y, rows, both)
