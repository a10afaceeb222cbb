"""The program of a repeated step: what comes next. Pure: a message in, the next orders out.

============  ======================================  =====================================
state         message                                 orders
============  ======================================  =====================================
new           `Begin`                                 `Run` the first step
running k     `StepEnded`, the loss still falls       `Run` step k + 1, then `Show` step k
running k     `StepEnded`, the loss stopped falling   `Show` step k, `End`
any           `Stop`                                  `End`, with the step before as the last
ended         any                                     none: the message came late
============  ======================================  =====================================

The steps end where one changes the loss by at most a part of its largest fall so far. Source: SLAQ (Zhang, Stafman, Or
and Freedman, SoCC 2017, section 3.1), which ranks jobs by that normalised change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.value import value


@value
class StepEnded:
    """A step has ended. loss: the loss that it reports."""

    number: int
    loss: float


@value
class Run:
    """Run a step over the answer of the one before."""

    number: int


Message = Begin | StepEnded | Stop
Order = Run | Show | End
Why = Literal["", "the loss falls no more", "the most steps were done", "it was stopped"]


@value
class Steps:
    """most: the limit of steps. until: the steps end after a fall of the loss below this part of the largest fall.

    why: the reason of the end; empty: the steps go on.

    >>> at, orders = Steps(10, 0.1).after(Begin())
    >>> at, orders = at.after(StepEnded(0, 9.0)); orders
    (Run(number=1), Show(number=0))
    >>> at, orders = at.after(StepEnded(1, 5.0)); at.largest
    4.0
    >>> at, orders = at.after(StepEnded(2, 4.8)); orders, at.why
    ((Show(number=2), End()), 'the loss falls no more')
    """

    most: int
    until: float
    state: Literal["new", "running", "ended"] = "new"
    number: int = 0
    losses: tuple[float, ...] = ()
    largest: float = 0.0
    why: Why = ""

    def after(self, message: Message) -> tuple[Steps, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Begin():
                return replace(self, state="running"), (Run(0),)
            case (("new" | "running"), Stop()):
                return replace(self, state="ended", why="it was stopped"), (End(),)
            case "running", StepEnded(number, loss) if number == self.number:
                return self._step_ended(loss)
        return self, ()

    def _step_ended(self, loss: float) -> tuple[Steps, tuple[Order, ...]]:
        fall = self.losses[-1] - loss if self.losses else 0.0
        now = replace(self, losses=(*self.losses, loss), largest=max(self.largest, fall))
        shown = Show(self.number)
        if self.losses and abs(fall) <= self.until * now.largest:
            return replace(now, state="ended", why="the loss falls no more"), (shown, End())
        if self.number + 1 == self.most:
            return replace(now, state="ended", why="the most steps were done"), (shown, End())
        return replace(now, number=self.number + 1), (Run(self.number + 1), shown)
