"""The goal of a growing answer: how narrow its intervals are to be, and how sure."""

from __future__ import annotations

from qoop.catalog.value import value
from qoop.options import chance, part


@value
class Goal:
    """error: the half-width of intervals relative to their estimates; 0: only the exact answer will do.

    confidence: the chance that all intervals ever shown of a figure hold its true value.
    """

    error: float = 0.01
    confidence: float = 0.95

    def given(self, error: float | None, confidence: float | None) -> Goal:
        """This goal but for what is given. Raises ConfigError for one that makes no sense."""
        return Goal(
            self.error if error is None else part("error", error),
            self.confidence if confidence is None else chance("confidence", confidence),
        )
