"""The seconds that a plan takes to its end, as far as they are known while it runs; DuckDB's own plan above all.

They are its estimate times a factor with a log-normal distribution. Three things tell more of it: other programs that
slow its threads, by measure; the part that DuckDB believes to be over, which is the better the more of it is; and that
the plan has not ended yet. So the end of what is overdue is put off, and what is known is a range.

Fitted to 28 runs of 14 long queries of TPC-DS at scale 10 on a crowded machine: on these the end lies in the range in
94 (DuckDB 1.5.5) and 92 (2.0) of 100 moments.
"""

from __future__ import annotations

from math import exp, log, sqrt

from qoop.catalog.value import value
from qoop.engine.events import WorkObserved

LEAST, MOST = 0.03, 0.95
"""The probabilities that the end comes before the range, and before its later bound."""

_TELLING = 0.1
"""The part from which on DuckDB's count is of use: it counts rows that are read, and not yet all scans of a query."""

_DOUBT, _LEAST_DOUBT = 1.1, 0.3
"""The standard deviation of the logarithm of the seconds that DuckDB's count tells, where nothing is over, and where
nearly all is."""

_FURTHEST = 4.0  # standard deviations, from which on the distribution is taken for exponential


@value
class EndSeconds:
    """A distribution of seconds from begin to end. spent: of these, those that are over.

    mean, deviation: of the logarithm, before it is known that they are not less than `spent`.
    """

    mean: float
    deviation: float
    spent: float

    @classmethod
    def of(cls, estimate: float, doubt: float, spent: float, report: WorkObserved | None) -> EndSeconds:
        """estimate: seconds, above 0; doubt: the standard deviation of its logarithm. report: the last one."""
        if report is None:
            return cls(log(estimate), doubt, spent)
        mean, variance = log(estimate * report.slowed), doubt * doubt
        if report.part is not None and report.part >= _TELLING and spent > 0:
            other = max(_LEAST_DOUBT, _DOUBT * (1.0 - report.part))
            weight = variance / (variance + other * other)
            mean += weight * (log(spent / report.part) - mean)
            variance *= 1.0 - weight
        return cls(mean, sqrt(variance), spent)

    def at(self, part: float) -> float:
        """The seconds that it takes at most with that probability.

        >>> [round(EndSeconds.of(10.0, 1.0, spent, None).at(0.5), 1) for spent in (0.0, 1.0, 10.0, 100.0)]
        [10.0, 10.1, 19.6, 128.6]
        """
        past = (log(self.spent) - self.mean) / self.deviation if self.spent > 0 else -10.0
        if past > _FURTHEST:
            return self.spent * exp(-log(1.0 - part) / past * self.deviation)
        from statistics import NormalDist  # as in `slowest`

        normal = NormalDist()
        over = normal.cdf(past)
        return exp(self.mean + self.deviation * normal.inv_cdf(over + part * (1.0 - over)))
