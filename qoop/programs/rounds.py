"""The program of a growing answer: what comes next. Pure: a message in, the next steps out.

============  ==========================================  ==================================================
state         message                                     steps
============  ==========================================  ==================================================
new           `Begin`                                     `Read` the first round
reading k     `RoundEnded`, not good enough               `Read` round k + 1, then `Show` edition k
reading k     `RoundEnded`, no later one is worth it      `Read` all the rest, then `Show` edition k
reading k     `RoundEnded`, good enough                   `Show` edition k, `Pause`
reading k     `RoundEnded` of the rest                    `Show` the exact edition, `End`
reading k     `Finish`                                    none; `Read` all the rest once round k has ended
paused        `Finish`                                    `Read` all the rest
any           `Stop`                                      `End`, with the edition before as the last
ended         any                                         none: the message came late
============  ==========================================  ==================================================

The next round begins before the edition is shown, so it runs while the edition is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.value import value


@value
class RoundEnded:
    """A round has ended. worst: the largest half-width of an interval relative to its estimate; None: some estimates
    have no interval yet. may_end: False: an answer that is good enough continues to grow, for now. in_vain: True: no
    interim edition is expected to be good enough, or worth its time."""

    number: int
    worst: float | None
    may_end: bool = True
    in_vain: bool = False


@value
class Finish:
    """The exact answer is requested."""


@value
class Read:
    """Read the pieces of a round. rest: all that are left, so that the answer is exact."""

    number: int
    rest: bool = False


@value
class Pause:
    """The target is met: nothing runs unless the exact answer is requested."""


Message = Begin | RoundEnded | Finish | Stop
Step = Read | Show | Pause | End


@value
class Rounds:
    """rounds: their number. error: the largest half-width that is good enough; 0: only the exact answer is.

    >>> at, steps = Rounds(3, 0.05).after(Begin())
    >>> at, steps = at.after(RoundEnded(0, 0.2)); steps
    (Read(number=1, rest=False), Show(number=0))
    >>> at, steps = at.after(RoundEnded(1, 0.04)); steps
    (Show(number=1), Pause())
    >>> at, steps = at.after(Finish()); steps
    (Read(number=2, rest=True),)
    >>> at.after(RoundEnded(2, 0.0))[1]
    (Show(number=2), End())
    >>> Rounds(9, 0.05, "reading").after(RoundEnded(0, 0.9, in_vain=True))[1]
    (Read(number=1, rest=True), Show(number=0))
    """

    rounds: int
    error: float
    state: Literal["new", "reading", "paused", "ended"] = "new"
    number: int = 0
    rest: bool = False
    finishing: bool = False

    def after(self, message: Message) -> tuple[Rounds, tuple[Step, ...]]:
        """The next state, and the steps to carry out."""
        match self.state, message:
            case "new", Begin():
                return self._reading(0, ())
            case (("new" | "reading" | "paused"), Stop()):
                return replace(self, state="ended"), (End(),)
            case "reading", RoundEnded(number, worst, may_end, in_vain) if number == self.number:
                return self._round_ended(worst if may_end else None, in_vain)
            case (("new" | "reading"), Finish()):
                return replace(self, finishing=True), ()
            case "paused", Finish():
                return replace(self, finishing=True)._reading(self.number + 1, ())
        return self, ()

    def _round_ended(self, worst: float | None, in_vain: bool) -> tuple[Rounds, tuple[Step, ...]]:
        shown = Show(self.number)
        if self.rest:
            return replace(self, state="ended"), (shown, End())
        if not self.finishing and self.error > 0 and worst is not None and worst <= self.error:
            return replace(self, state="paused"), (shown, Pause())
        return self._reading(self.number + 1, (shown,), in_vain)

    def _reading(self, number: int, then: tuple[Step, ...], in_vain: bool = False) -> tuple[Rounds, tuple[Step, ...]]:
        rest = number == self.rounds - 1 or (number > 0 and (self.finishing or in_vain))
        return replace(self, state="reading", number=number, rest=rest), (Read(number, rest), *then)
