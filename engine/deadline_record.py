"""The record of a job that may miss its deadline, and of what would help."""

from __future__ import annotations

from qoop.catalog.sizes import span
from qoop.catalog.value import value
from qoop.engine.task import JobId

_NAMED = 3  # jobs that a sentence names


@value
class AnotherTime:
    """A query that begins later would end within the time that it was given.

    jobs: that are to end before. wait: seconds until they should have; None: unknown. seconds: that it would take
    then, with all slots.
    """

    jobs: tuple[JobId, ...]
    wait: float | None
    seconds: float

    def __str__(self) -> str:
        more = len(self.jobs) - _NAMED
        jobs = ", ".join(self.jobs[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        have = "has" if len(self.jobs) == 1 else "have"
        when = f", in about {span(self.wait)}" if self.wait is not None else ""
        return f"begun when {jobs} {have} ended{when}, it would take about {span(self.seconds)}"


@value
class InPart:
    """An approximate answer would be in time. within: its error. seconds: until it should be there."""

    within: float
    seconds: float

    def __str__(self) -> str:
        return f"APPROXIMATE WITHIN {100 * self.within:g} PERCENT would be done in about {span(self.seconds)}"


@value
class DeadlineReported:
    """The job is likely to miss its deadline, or to meet it after all. late: seconds by which it is likely to miss
    it; below 0: it will end before. certain: it cannot be met any more. enough: slots with which it likely would be.
    another_time, in_part: what else would help; None: that would not, or it is unknown."""

    at: float
    late: float
    certain: bool
    enough: float | None = None
    another_time: AnotherTime | None = None
    in_part: InPart | None = None

    @property
    def helps(self) -> tuple[str, ...]:
        """The ways to meet it, as clauses; none if the deadline will be met."""
        if self.late <= 0 and not self.certain:
            return ()
        enough = f"{self.enough:g} slots would do" if self.enough is not None else ""
        others = (str(one) for one in (self.another_time, self.in_part) if one is not None)
        return tuple(filter(None, (enough, *others)))

    def __str__(self) -> str:
        if self.late <= 0 and not self.certain:
            return f"at {self.at:.3f} s it will meet its deadline after all, {span(-self.late)} before"
        if self.certain:
            sentence = f"is certain to miss its deadline, by {span(max(self.late, 0.0))}"
        else:
            sentence = f"will miss its deadline by {span(self.late)}"
            sentence += "; more slots would not help" if self.enough is None else ""
        return "; ".join((f"at {self.at:.3f} s it {sentence}", *self.helps))
