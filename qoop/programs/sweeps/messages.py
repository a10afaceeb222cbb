"""Messages to a sweep, and its orders."""

from __future__ import annotations

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.value import value


@value
class TrialStepEnded:
    """A step of a trial has ended. score: higher is better. seconds: of a slot. at: seconds since the sweep began."""

    trial: int
    number: int
    score: float
    seconds: float
    at: float


@value
class TrialFailed:
    """A trial has no further steps, since one failed. why: the error."""

    trial: int
    why: str
    at: float


@value
class Predicted:
    """The answer to `Predict`. p: the chance of the level within the steps ahead; negative: there is no prediction.
    steps: the expected number until then, weighted by the chance of each."""

    trial: int
    number: int
    p: float
    steps: float


@value
class Compared:
    """Trials of a race were compared by the pieces read so far. scores, halves: the estimate of each and half the width
    of its interval. chances: to be better than the leader, or of the target. beaten: those that cannot be the best."""

    number: int
    trials: tuple[int, ...]
    scores: tuple[float, ...]
    halves: tuple[float, ...]
    chances: tuple[float, ...]
    beaten: tuple[int, ...]
    seconds: float
    at: float


@value
class WholeEnded:
    """One query over whole tables gave the scores of all trials that are left in a race."""

    trials: tuple[int, ...]
    scores: tuple[float, ...]
    seconds: float
    at: float


@value
class Abandoned:
    """A query for several trials of a race failed: each runs its own."""

    why: str
    at: float


@value
class Share:
    """The sweep has this many slots from now on."""

    slots: int


@value
class Due:
    """The time limit is reached."""


@value
class RunStep:
    """Run a step of a trial over the answer of the step before. early: over some pieces of a table."""

    trial: int
    number: int
    early: bool = False


@value
class Predict:
    """Predict the chance that a trial reaches a level within a number of further steps."""

    trial: int
    number: int
    level: float
    ahead: int


@value
class ReadPieces:
    """Read the pieces of a round, for these trials of a race."""

    number: int
    trials: tuple[int, ...]


@value
class RunWhole:
    """Compute the metrics of these trials of a race in one query over whole tables."""

    trials: tuple[int, ...]


Message = (
    Begin | TrialStepEnded | TrialFailed | Predicted | Compared | WholeEnded | Abandoned | Share | Due | Stop
)  # fmt: skip
Order = RunStep | Predict | ReadPieces | RunWhole | Show | End
