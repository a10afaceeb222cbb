"""The program of a growing answer: what comes next. Pure: a message in, the next steps out.

============  =====================================  ==============================================
state         message                                steps
============  =====================================  ==============================================
new           `Begin`                                `Read` the first round
reading k     `RoundEnded`, not good enough          `Read` round k + 1, then `Show` edition k
reading k     `RoundEnded`, good enough or the last  `Show` edition k as the last, `End`
reading k     `Stop`                                 `End`, with the edition before as the last
ended         anything                               none: it was late
============  =====================================  ==============================================

The next round begins before the edition is shown, so that it runs while somebody looks.
"""

from __future__ import annotations

from typing import Literal

from qoop.catalog.value import value


@value
class Begin:
    """Begin."""


@value
class RoundEnded:
    """A round has ended. worst: the largest half-width of an interval relative to its estimate; None: there are
    estimates that have no interval yet."""

    number: int
    worst: float | None


@value
class Stop:
    """Somebody has seen enough."""


@value
class Read:
    """Read the pieces of a round."""

    number: int


@value
class Show:
    """Show the edition after a round."""

    number: int
    last: bool


@value
class End:
    """Nothing more will come. Whatever still runs is not needed."""


Message = Begin | RoundEnded | Stop
Step = Read | Show | End


@value
class Rounds:
    """rounds: how many there are. error: the worst half-width that is good enough; None: only the exact answer is.

    >>> at, steps = Rounds(3, 0.05).after(Begin())
    >>> at, steps = at.after(RoundEnded(0, 0.2)); steps
    (Read(number=1), Show(number=0, last=False))
    >>> at, steps = at.after(RoundEnded(1, 0.04)); steps
    (Show(number=1, last=True), End())
    >>> at.after(RoundEnded(2, 0.0))[1]
    ()
    """

    rounds: int
    error: float | None
    state: Literal["new", "reading", "ended"] = "new"
    number: int = 0

    def after(self, message: Message) -> tuple[Rounds, tuple[Step, ...]]:
        """The next state, and what is to be done."""
        match self.state, message:
            case "new", Begin():
                return self._to("reading"), (Read(0),)
            case (("new" | "reading"), Stop()):
                return self._to("ended"), (End(),)
            case "reading", RoundEnded(number, worst) if number == self.number:
                return self._round_ended(worst)
        return self, ()

    def _round_ended(self, worst: float | None) -> tuple[Rounds, tuple[Step, ...]]:
        good = self.error is not None and worst is not None and worst <= self.error
        if good or self.number == self.rounds - 1:
            return self._to("ended"), (Show(self.number, True), End())
        return self._to("reading", self.number + 1), (Read(self.number + 1), Show(self.number, False))

    def _to(self, state: Literal["reading", "ended"], number: int | None = None) -> Rounds:
        return Rounds(self.rounds, self.error, state, self.number if number is None else number)
