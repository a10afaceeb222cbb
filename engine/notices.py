"""The records of a job that its user should see without the whole history: outputs found or not saved, a machine that
slept, a deadline that is in danger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from qoop.catalog.sizes import counted, size, span
from qoop.catalog.value import value
from qoop.engine.task import LEAST_SECONDS, JobId

_NAMED = 3  # jobs that a sentence names


def named(jobs: Sequence[JobId]) -> str:
    """The names of jobs in a sentence.

    >>> named(("job1", "job2", "job3", "job4"))
    'job1, job2, job3 and 1 more'
    """
    more = len(jobs) - _NAMED
    return ", ".join(jobs[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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
        have = "has" if len(self.jobs) == 1 else "have"
        when = f", in about {span(self.wait)}" if self.wait is not None else ""
        return f"begun when {named(self.jobs)} {have} ended{when}, it would take about {span(self.seconds)}"


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


@value
class Continued:
    """A plan begins with outputs that were there before the job. found: how many, of all outputs of the plan. left:
    those that must still be made. seconds: what the found ones took, on the slots that there are. makers: the jobs of
    this session that made them."""

    at: float
    found: int
    outputs: int
    left: int
    seconds: float
    makers: tuple[JobId, ...] = ()

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.notice}"

    @property
    def notice(self) -> str:
        saved = f", about {span(self.seconds)} saved" if self.seconds >= LEAST_SECONDS else ""
        if self.left == 0:
            return f"continued: the answer was there{saved}{self._origin}"
        found = f"{self.found} of {counted(self.outputs, 'output')} found"
        return f"continued: {found}, {self.left} to make{saved}{self._origin}"

    @property
    def _origin(self) -> str:
        """The jobs that made what was found, as the end of a sentence."""
        if not self.makers:
            return ""
        it, reads = ("it", "it reads") if self.found == 1 else ("them", "they read")
        return f"; {named(self.makers)} made {it}, and nothing that {reads} has changed since"


@value
class NotContinued:
    """A run of the same text did not end, and the job has found none of its outputs. why: as a clause."""

    at: float
    why: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.notice}"

    @property
    def notice(self) -> str:
        return f"not continued: {self.why}"


@value
class NotSaved:
    """The first output of the job that is not written where it would outlive the process. why: as a clause."""

    at: float
    bytes: int
    why: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.notice}"

    @property
    def notice(self) -> str:
        return not_saved(self.bytes, self.why)


@value
class Slept:
    """The machine slept, as a laptop does whose lid is closed. seconds: in which no task went on."""

    at: float
    seconds: float

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.notice}"

    @property
    def notice(self) -> str:
        return f"the machine slept for {timedelta(seconds=round(self.seconds))}"


Notice = Continued | NotContinued | NotSaved | Slept
"""Records that a user should see without the history: each has a `notice`, a sentence without the time."""


def not_saved(bytes_: int, why: str) -> str:
    """A sentence about an output that does not outlive the process. why: as a clause, with advice.

    >>> not_saved(2 * 10**9, "the disk is full: free space").partition(". ")[0]
    'an output of 2 GB is not on disk, since the disk is full: free space'
    """
    lost = "If the query is killed, it starts again from what is on disk, at the worst from zero"
    return f"an output of {size(bytes_)} is not on disk, since {why}. {lost}"
