"""The status of a growing answer: the seconds until it meets its target and until it is exact, and the deadline.

The rounds so far give the seconds of a piece. The widths of intervals give the pieces that the target needs, since
errors fall as √(1/n - 1/N) does (see `qoop.programs.approximate.intervals.enough_at`).
"""

from __future__ import annotations

from typing import Literal

from qoop.catalog.value import value
from qoop.planner.explain import seconds_text


@value
class AnswerStatus:
    """share: the part of the pieces read for the last edition. error: of that edition; None: it has none yet.
    goal: the error of the target; 0: the target is the exact answer.

    to_goal: seconds until an edition should meet the target; 0: one has; None: unknown. to_exact: seconds until the
    exact answer, if it were requested now; None: unknown. deadline: seconds until the answer is needed, below 0: since
    then; None: there is no deadline.
    """

    share: float
    error: float | None
    goal: float
    to_goal: float | None
    to_exact: float | None
    deadline: float | None = None

    @property
    def in_time(self) -> Literal["exact", "goal", "neither"] | None:
        """The best answer that should exist by the deadline; None: there is no deadline, or it is unknown.

        >>> AnswerStatus(0.1, 0.04, 0.01, 2.0, 20.0, 5.0).in_time, AnswerStatus(0.1, 0.04, 0.01, 2.0, 20.0).in_time
        ('goal', None)
        """
        if self.deadline is None or self.to_goal is None or self.to_exact is None:
            return None
        if self.to_exact <= self.deadline:
            return "exact"
        return "goal" if self.to_goal <= self.deadline and self.to_goal < self.to_exact else "neither"

    def __str__(self) -> str:
        """
        >>> print(AnswerStatus(0.125, 0.031, 0.01, 2.3, 20.0, 5.0))
        12.5% read, within 3.10%; within 1.00% in 2.3 s, exact in 20 s; needed in 5.0 s: within 1.00% is in time
        """
        far = "no interval yet" if self.error is None else f"within {self.error:.2%}" if self.error else "exact"
        steps = [] if self.to_goal is None or not self.goal else [f"within {self.goal:.2%} {_soon(self.to_goal)}"]
        steps += [] if self.to_exact is None else [f"exact {_soon(self.to_exact)}"]
        return "; ".join([f"{self.share:.1%} read, {far}", *([", ".join(steps)] if steps else []), *self._needed()])

    def _needed(self) -> list[str]:
        if self.deadline is None:
            return []
        verdict = {
            "exact": ": the exact answer is in time", "goal": f": within {self.goal:.2%} is in time",
            "neither": ": neither is in time" if self.goal else ": it is late", None: "",
        }[self.in_time]  # fmt: skip
        when = f"needed {_soon(self.deadline)}" if self.deadline > 0 else f"late by {seconds_text(-self.deadline)}"
        return [f"{when}{verdict if self.deadline > 0 else ''}"]


def _soon(seconds: float) -> str:
    return f"in {seconds_text(seconds)}" if seconds else "now"


Times = tuple[float | None, float | None]
"""Seconds until the target, and until the exact answer; None: unknown, or it will not come."""


@value
class Pace:
    """each: seconds of a piece. left: seconds until the running round ends."""

    each: float
    left: float

    @classmethod
    def of(cls, spent: float, read: int, elapsed: float, left: float | None, reads: int) -> Pace | None:
        """The pace by the seconds of earlier rounds and of the running one; None: unknown. spent: seconds of earlier
        rounds, for `read` pieces. elapsed, left: of the running one, for `reads` pieces; left: None: unknown.

        >>> Pace.of(2.0, 64, 1.0, 1.0, 64), Pace.of(2.0, 64, 0.0, None, 128), Pace.of(0.0, 0, 0.0, None, 64)
        (Pace(each=0.03125, left=1.0), Pace(each=0.03125, left=4.0), None)
        """
        if left is not None:
            return cls((spent + elapsed + left) / (read + reads), left)
        return cls(spent / read, spent / read * reads) if read else None

    def until(self, pieces: int) -> float:
        """Seconds until a number of pieces are read after the running round."""
        return self.left + self.each * pieces
