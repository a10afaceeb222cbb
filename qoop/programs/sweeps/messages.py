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
class Share:
    """The sweep has this many slots from now on."""

    slots: int


@value
class Due:
    """The time limit is reached."""


@value
class RunStep:
    """Run a step of a trial over the answer of the step before."""

    trial: int
    number: int


@value
class Predict:
    """Predict the chance that a trial reaches a level within a number of further steps."""

    trial: int
    number: int
    level: float
    ahead: int


Message = Begin | TrialStepEnded | TrialFailed | Predicted | Share | Due | Stop
Order = RunStep | Predict | Show | End
