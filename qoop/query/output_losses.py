"""The work that is lost with a process, and the plans to prefer because of it.

Outputs that survive a process are those of finished tasks, so the longer the tasks of a plan are, the more is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

from qoop.catalog.value import value
from qoop.planner.finish import NOTHING, Done
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

BETWEEN_LOSSES = 60.0
"""Assumed seconds between losses of processes. The true rate is unknown; a folder of checkpoints says that losses are
expected."""

KEEPING_SECONDS = 0.1
"""Seconds that keeping the outputs of one more stage costs."""

WORTH_LOSING = sqrt(2.0 * KEEPING_SECONDS * BETWEEN_LOSSES)
"""Seconds of work that may be lost with a process: the optimal interval between checkpoints (Young, "A First Order
Approximation to the Optimum Checkpoint Interval", 1974)."""

SURVIVING = 1.5
"""The factor by which stages may exceed DuckDB's plan, for queries that take longer than `WORTH_LOSING`."""


def part_lost(seconds: float) -> float:
    """The factor by which work grows, if tasks of that many seconds are lost with processes from time to time.

    >>> part_lost(30.0)
    1.25
    """
    return 1.0 + 0.5 * seconds / BETWEEN_LOSSES


GOES_ON_PART = 0.5
"""A plan that has begun goes on where the rest of its tasks take at most this part of a life."""

LONGEST_PART = 0.9
"""The part of a life up to which the loss of a longer and longer task grows; a task that is longer still may never
end."""


@value
class OutputLosses:
    """The losses that a session plans for. survive: outputs are to survive a process, of the session's or of a node.

    life: seconds that its process is expected to last, and those after it; infinite: not known.
    """

    survive: bool
    life: float = inf

    @property
    def lives_are_short(self) -> bool:
        """True if the end of the process is expected, so that long tasks may never end."""
        return self.survive and self.life < inf

    def seconds(self, one: Candidate, share: Resources, done: Done = NOTHING) -> float:
        """The seconds until the rest of a plan is done by processes that last one `life` each. Each of them loses its
        running tasks."""
        seconds = one.finish.seconds(share, done)
        if not self.lives_are_short:
            return seconds
        tasks, left = one.finish.on(share)[0].seconds, one.finish.needed(done)
        work = sum(number * length for number, length in zip(left, tasks, strict=True))
        made = sum(number * length * self._made_again(length) for number, length in zip(left, tasks, strict=True))
        return seconds * made / work if work else seconds

    def ends(self, one: Candidate, share: Resources, done: Done) -> bool:
        """True if each task that a plan has yet to do ends well within a life."""
        tasks, left = one.finish.on(share)[0].seconds, one.finish.needed(done)
        longest = max((length for number, length in zip(left, tasks, strict=True) if number), default=0.0)
        return longest <= GOES_ON_PART * self.life

    def _made_again(self, seconds: float) -> float:
        """How often a task of that length is begun until it ends in a life."""
        return 1.0 / (1.0 - min(LONGEST_PART, seconds / self.life))

    def with_losses(self, seconds: float) -> float:
        """The seconds that one task takes, with the work that is lost with its process."""
        return seconds * part_lost(seconds) if self.survive else seconds

    def tolerance(self, seconds: float, unfinished: bool) -> float:
        """The factor by which stages may exceed DuckDB's plan, for a query to begin with them.

        seconds: those of DuckDB's plan. unfinished: a run of the query did not end, so it may take longer.
        """
        return SURVIVING if self.survive and (seconds > WORTH_LOSING or unfinished) else 1.0

    def among(self, candidates: Sequence[Candidate], share: Resources) -> Sequence[Candidate]:
        """The candidates with their seconds including losses. Plans with tasks of more than
        `WORTH_LOSING` are left out if there are others."""
        if not self.survive:
            return candidates
        if self.lives_are_short:
            return [one.slower(self.seconds(one, share) / one.finish.seconds(share)) for one in candidates]
        longest = [one.longest_task(share) for one in candidates]
        most = max(WORTH_LOSING, min(longest, default=0.0))
        pairs = zip(candidates, longest, strict=True)
        return [one.slower(part_lost(seconds)) for one, seconds in pairs if seconds <= most]
