"""The program of a view with a lag goal: when to refresh it. Pure: a message in, the next orders out.

===================  ======================================  ====================================================
state                message                                 orders
===================  ======================================  ====================================================
new                  `Begin`                                 `Wait` until now: the tables are compared at once
waiting              `TablesCompared`, nothing has changed   `Wait` a tenth of the goal
waiting              `TablesCompared`, a change is not due   `Wait` until it is due, at most a tenth of the goal
waiting              `TablesCompared`, a change is due       `Refresh`, of a sample if the share says so
waiting              `TablesCompared`, nothing has changed,  `Refresh`, exact, if the share is for exact ones
                     but a sample is in the edition
refreshing           `RefreshEnded`                          `Wait` a tenth of the goal; after a failure the goal
waiting, refreshing  `Allotted`                              none: refreshes that begin later have this share
any                  `Stop`                                  `End`
ended                any                                     none: the message came late
===================  ======================================  ====================================================

A refresh begins as late as the goal permits: then it takes over more changes at once. Before the goal it leaves one
and a half times the seconds of the last refresh and of those that have to end before, and the time between two
comparisons. Where views lack time, each has
a share of it (`sharing.py`): refreshes then begin no sooner after each other than the share pays for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from qoop.adaptive.program import Begin, End, Stop
from qoop.catalog.value import value

COMPARISONS = 10
"""Comparisons of the tables of a view within its goal."""

_LEAST = 1e-3
"""Of the slots of a share: refreshes of a view without any are a thousand times their seconds apart."""

SAFETY = 1.5
"""Seconds before the goal that are left for a refresh, over those of the last one."""


@value
class TablesCompared:
    """The tables were compared with the edition. at: the present time. since: the time of the oldest change; None:
    there is none. ahead: seconds of the refreshes of other views whose goals end sooner."""

    at: float
    since: float | None
    ahead: float = 0.0


@value
class Allotted:
    """The share of a view. slots: the part of a thread's time; infinite: whatever it needs. one_in: its refreshes read
    this part of the row groups of new files, as one in a number; 1: all."""

    slots: float = math.inf
    one_in: int = 1


@value
class RefreshEnded:
    """A refresh has ended. seconds: that it took. sampled: new files were read in part."""

    at: float
    seconds: float
    failed: bool = False
    sampled: bool = False


@value
class Refresh:
    """Make an edition. one_in: see `Allotted`."""

    one_in: int = 1


@value
class Wait:
    """Compare the tables again at this time."""

    until: float


Message = Begin | TablesCompared | Allotted | RefreshEnded | Stop
Order = Refresh | Wait | End


@value
class Freshness:
    """goal: seconds that the view may be behind. seconds: of the last refresh. since: the oldest change so far.

    share: of this view. ended: the time when the last refresh ended. sampled: a sample is in the edition.

    >>> at, orders = Freshness(10.0).after(Begin()); orders
    (Wait(until=0.0),)
    >>> at, orders = at.after(TablesCompared(100.0, 99.0)); orders
    (Wait(until=101.0),)
    >>> at, orders = at.after(TablesCompared(108.5, 99.0)); orders
    (Refresh(one_in=1),)
    >>> at.after(RefreshEnded(109.0, 0.5))[1]
    (Wait(until=110.0),)
    """

    goal: float
    state: Literal["new", "waiting", "refreshing", "ended"] = "new"
    seconds: float = 0.0
    since: float | None = None
    share: Allotted = Allotted()
    ended: float = 0.0
    sampled: bool = False

    def after(self, message: Message) -> tuple[Freshness, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Begin():
                return replace(self, state="waiting"), (Wait(0.0),)
            case (("new" | "waiting" | "refreshing"), Stop()):
                return replace(self, state="ended"), (End(),)
            case (("waiting" | "refreshing"), Allotted()):
                return replace(self, share=message), ()
            case "waiting", TablesCompared(at, None):
                return self._unchanged(at)
            case "waiting", TablesCompared(at, float(since), ahead):
                return self._changed(at, since, ahead)
            case "refreshing", RefreshEnded(at, seconds, failed, sampled):
                wait = self.goal if failed else self.goal / COMPARISONS
                seconds = max(self.seconds, seconds) if failed else seconds
                sampled = self.sampled if failed else sampled
                made = replace(self, state="waiting", seconds=seconds, since=None, ended=at, sampled=sampled)
                return made, (Wait(at + wait),)
        return self, ()

    def _unchanged(self, at: float) -> tuple[Freshness, tuple[Order, ...]]:
        if self.sampled and self.share.one_in == 1 and at >= self._paid(at):
            return replace(self, state="refreshing", since=None), (Refresh(),)
        return replace(self, since=None), (Wait(at + self.goal / COMPARISONS),)

    def _changed(self, at: float, since: float, ahead: float) -> tuple[Freshness, tuple[Order, ...]]:
        """A file may have a time in the future, and clocks are set back: no change is newer than its comparison."""
        since = min(since, at, at if self.since is None else self.since)
        late = since + self.goal * (1 - 1 / COMPARISONS) - SAFETY * (self.seconds + ahead)
        due = max(late, self._paid(at))
        if at >= due:
            return replace(self, state="refreshing", since=since), (Refresh(self.share.one_in),)
        return replace(self, since=since), (Wait(min(due, at + self.goal / COMPARISONS)),)

    def _paid(self, at: float) -> float:
        """The time from which the share pays for another refresh like the last one."""
        return min(self.ended, at) + max(0.0, self.seconds * (1 / max(self.share.slots, _LEAST) - 1))
