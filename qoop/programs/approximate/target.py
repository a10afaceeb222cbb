"""The target of a growing answer: the width and confidence of its intervals. Its options, and the gain of a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.query.options import chance, part

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog


@value
class Target:
    """error: the half-width of intervals relative to their estimates; 0: only the exact answer meets it.

    confidence: the chance that all intervals ever shown of a figure contain its true value.
    """

    error: float = 0.01
    confidence: float = 0.95

    def overridden(self, error: float | None, confidence: float | None) -> Target:
        """This target, but for the arguments that are not None. Raises ConfigError for values out of range."""
        return Target(
            self.error if error is None else part("error", error),
            self.confidence if confidence is None else chance("confidence", confidence),
        )


@value
class AnswerOptions:
    """The options of one answer. seed: of the order of the pieces; None: one of the text and of its table.

    exact_within: seconds; an answer that should be exact by then does not grow. deadline: seconds from now by which the
    answer is needed; infinite: there is none.
    busy: whether other queries have to wait; while none has, the answer grows past its target. None: it never does.
    ended_early: is called with the part of the pieces that was not read, if the answer ends for other queries.
    log: takes the messages to the program (`Cluster.program_log`).
    """

    target: Target
    seed: int | None = None
    exact_within: float = 0.0
    deadline: float = math.inf
    busy: Callable[[], bool] | None = None
    ended_early: Callable[[float], object] | None = None
    log: MessageLog | None = None


@value
class RoundStart:
    """The state of a growing answer when one of its rounds begins.

    error: the largest half-width of its intervals, relative to the estimate; infinite: some estimates have none yet.
    first: the error of the first edition with all intervals. target: the error to reach; 0: the exact answer.
    drawn, after: pieces read before the round and after it, of `pieces` in all. start: of the first round.
    """

    error: float
    first: float
    target: float
    drawn: int
    after: int
    pieces: int
    start: int

    def predicted(self, drawn: int) -> float:
        """The predicted error after a number of pieces: it falls as the square root of 1/n - 1/N does (Cochran,
        Sampling Techniques, 3rd ed., 1977, equation 2.22).

        >>> round(RoundStart(0.08, 0.08, 0.01, 64, 128, 1024, 64).predicted(256), 4)
        0.0358
        """
        return self.error * math.sqrt(_spread(drawn, self.pieces) / _spread(self.drawn, self.pieces))

    @property
    def gain(self) -> float:
        """The part of the way to the target that the round covers, for :mod:`qoop.adaptive.schedulers.quality`. A first
        edition counts as all of it.

        The way is in terms of the variance, the square of the error: from the first edition to the target.
        """
        if self.drawn == 0:
            return 1.0
        if math.isinf(self.error) or math.isinf(self.first):
            left = _spread(self.drawn, self.pieces) - _spread(self.after, self.pieces)
            return min(1.0, left / _spread(self.start, self.pieces))
        return max(0.0, self._left(self.error) - self._left(self.predicted(self.after)))

    def _left(self, error: float) -> float:
        whole = self.first**2 - self.target**2
        return min(1.0, max(0.0, error**2 - self.target**2) / whole) if whole > 0 else 0.0


def _spread(drawn: int, pieces: int) -> float:
    return 1 / drawn - 1 / pieces
