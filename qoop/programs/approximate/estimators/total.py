"""The total over all pieces, whose rows are known from footers.

Pieces differ in size, and a total grows with the rows of its piece. So the estimate is the total read over the rows
read, times all rows: the ratio estimator of a total, Cochran, Sampling Techniques, 3rd ed. (1977), sections 6.4 and
9A.4 (clusters of unequal sizes, ratio to size), equation 6.13. The number of rows itself then has no error. Where all
pieces have one size, this is the mean of pieces times their number, with the variance of equation 2.22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators import ratio

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.interim import Interim
    from qoop.programs.approximate.estimators.moments import Moments, PairMoments


def standard_error(interim: Interim, y: Moments, both: PairMoments) -> np.ndarray:
    """The standard error of estimated totals. y: moments of the totals of pieces. both: of these and of their rows.

    >>> import numpy as np
    >>> from qoop.programs.approximate.estimators.interim import Interim
    >>> from qoop.programs.approximate.estimators.moments import Moments, PairMoments
    >>> totals = np.array([1.0, 3.0, 5.0, 7.0])
    >>> found = standard_error(Interim(4, 16, 0.05), Moments.of(totals), PairMoments.of(totals, np.ones(4)))
    >>> float(found[0].round(3))
    17.889
    """
    rows = interim.sizes.drawn
    return interim.sizes.whole * ratio.standard_error(interim.drawn, interim.pieces, y, rows, both)
