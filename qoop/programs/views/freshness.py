"""The program of a view with a lag goal: when to refresh it. Pure: a message in, the next orders out.

============  ================================  ==============================================================
state         message                           orders
============  ================================  ==============================================================
new           `Begin`                           `Wait` until now: the tables are compared at once
waiting       `Compared`, nothing has changed       `Wait` a tenth of the goal
waiting       `Compared`, a change is not due yet   `Wait` until it is due, at most a tenth of the goal
waiting       `Compared`, a change is due           `Refresh`
refreshing    `RefreshEnded`                    `Wait` a tenth of the goal; after a failure as long as the goal
any           `Stop`                            `End`
ended         any                               none: the message came late
============  ================================  ==============================================================

A refresh begins as late as the goal permits: then it takes over more changes at once. Before the goal it leaves one
and a half times the seconds of the last refresh, and the time between two comparisons.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from qoop.adaptive.program import Begin, End, Stop
from qoop.catalog.value import value

_COMPARISONS = 10
"""Comparisons of the tables of a view within its goal."""

_SAFETY = 1.5


@value
class Compared:
    """The tables were compared with the edition. at: the present time. since: the time of the oldest change; None:
    there is none."""

    at: float
    since: float | None


@value
class RefreshEnded:
    """A refresh has ended. seconds: that it took."""

    at: float
    seconds: float
    failed: bool = False


@value
class Refresh:
    """Make an edition."""


@value
class Wait:
    """Compare the tables again at this time."""

    until: float


Message = Begin | Compared | RefreshEnded | Stop
Order = Refresh | Wait | End


@value
class Freshness:
    """goal: seconds that the view may be behind. seconds: of the last refresh. since: the oldest change so far.

    >>> at, orders = Freshness(10.0).after(Begin()); orders
    (Wait(until=0.0),)
    >>> at, orders = at.after(Compared(100.0, 99.0)); orders
    (Wait(until=101.0),)
    >>> at, orders = at.after(Compared(108.5, 99.0)); orders
    (Refresh(),)
    >>> at.after(RefreshEnded(109.0, 0.5))[1]
    (Wait(until=110.0),)
    """

    goal: float
    state: Literal["new", "waiting", "refreshing", "ended"] = "new"
    seconds: float = 0.0
    since: float | None = None

    def after(self, message: Message) -> tuple[Freshness, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Begin():
                return replace(self, state="waiting"), (Wait(0.0),)
            case (("new" | "waiting" | "refreshing"), Stop()):
                return replace(self, state="ended"), (End(),)
            case "waiting", Compared(at, None):
                return replace(self, since=None), (Wait(at + self.goal / _COMPARISONS),)
            case "waiting", Compared(at, float(since)):
                return self._changed(at, since)
            case "refreshing", RefreshEnded(at, seconds, failed):
                wait = self.goal if failed else self.goal / _COMPARISONS
                seconds = max(self.seconds, seconds) if failed else seconds
                return replace(self, state="waiting", seconds=seconds, since=None), (Wait(at + wait),)
        return self, ()

    def _changed(self, at: float, since: float) -> tuple[Freshness, tuple[Order, ...]]:
        """A file may have a time in the future, and clocks are set back: no change is newer than its comparison."""
        since = min(since, at, at if self.since is None else self.since)
        due = since + self.goal * (1 - 1 / _COMPARISONS) - _SAFETY * self.seconds
        if at >= due:
            return replace(self, state="refreshing", since=since), (Refresh(),)
        return replace(self, since=since), (Wait(min(due, at + self.goal / _COMPARISONS)),)
