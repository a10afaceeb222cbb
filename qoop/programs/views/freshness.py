"""The program of a view with a lag goal: when to refresh it. Pure: a message in, the next orders out.

===================  ======================================  ====================================================
state                message                                 orders
===================  ======================================  ====================================================
new                  `Begin`                                 `Wait` until now: the tables are compared at once
waiting              `TablesCompared`, nothing has changed   `Wait` a tenth of the goal, or longer, see below
waiting              `TablesCompared`, a change is not due   `Wait` until it is due, at most as long
waiting              `TablesCompared`, a change is due       `Refresh`, of a sample if the share says so
waiting              `TablesCompared`, nothing has changed,  `Refresh`, exact, if the share is for exact ones
                     but a sample is in the edition
refreshing           `RefreshEnded`                          `Wait` as long; after a failure the goal
waiting, refreshing  `Allotted`                              none: refreshes that begin later have this share
any                  `Stop`                                  `End`
ended                any                                     none: the message came late
===================  ======================================  ====================================================

A refresh begins as late as the goal permits: then it takes over more changes at once. Before the goal it leaves one
and a half times the seconds of a refresh, and a tenth of the goal; and more, if those whose goals end later would be
late. Where views lack time, each may have a share of it (`sharing.py`): refreshes then begin no sooner after each other
than the share pays for.

Where changes come at known intervals, it begins once the last one is there that could come in time: to wait longer
would take over no more.

Comparisons are a tenth of the goal apart. Where they would take over a hundredth of the time, they are rarer; but a
change that came just after one is found before its refresh is due.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from qoop.adaptive.program import Begin, End, Stop
from qoop.catalog.value import value

COMPARISONS = 10
"""Comparisons of the tables of a view within its goal."""

IN_TIME = 1 - 1 / COMPARISONS
"""The part of a goal by which a refresh ends."""

EXPECTED = 0.1
"""The part of the time between two changes by which the next one may be late."""

SETTLED = 0.025
"""Seconds until a file that has come counts: until then a further write might leave its stamp as it is."""

_EARLIEST = 0.4
"""The part of a goal before which no refresh begins."""

_NEW = 0.3
"""The weight of a new measurement in a running mean."""

_LEAST = 1e-3
"""Of the slots of a share: refreshes of a view without any are a thousand times their seconds apart."""

COST = 0.01
"""The part of the time that comparisons for a view take at most, if its goal permits that."""

SAFETY = 1.5
"""Seconds before the goal that are left for a refresh, over those of the last one."""


def expected_within(gap: float) -> float:
    """Seconds after its expected time by which a change is found. gap: seconds between changes."""
    return max(EXPECTED * gap, SETTLED)


@value
class TablesCompared:
    """The tables were compared with the edition. at: the present time. since: the time of the oldest change; None:
    there is none. early: seconds by which a refresh has to begin sooner, for those of views whose goals end later.
    cost: seconds that comparisons take. age: seconds since the comparison, where it was for another view. last: the
    time of the newest change. gap: seconds between changes; 0: not known."""

    at: float
    since: float | None
    early: float = 0.0
    cost: float = 0.0
    age: float = 0.0
    last: float = 0.0
    gap: float = 0.0


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
    """goal: seconds that the view may be behind. seconds: of a refresh, as a running mean. since: the oldest change so
    far.

    share: of this view. ended: the time when the last refresh ended. sampled: a sample is in the edition. early, cost:
    of the last comparison. read: its time. coming: of the next change as expected then; 0: not known.

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
    early: float = 0.0
    cost: float = 0.0
    read: float = 0.0
    coming: float = 0.0

    def after(self, message: Message) -> tuple[Freshness, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Begin():
                return replace(self, state="waiting"), (Wait(0.0),)
            case (("new" | "waiting" | "refreshing"), Stop()):
                return replace(self, state="ended"), (End(),)
            case (("waiting" | "refreshing"), Allotted()):
                return replace(self, share=message), ()
            case "waiting", TablesCompared(at, since, early, cost, age):
                coming = message.last + message.gap if message.gap else 0.0
                now = replace(self, early=early, cost=cost, read=at - age, coming=coming)
                return now._unchanged(at) if since is None else now._changed(at, since, message)
            case "refreshing", RefreshEnded():
                return self._ended(message)
        return self, ()

    def _ended(self, end: RefreshEnded) -> tuple[Freshness, tuple[Order, ...]]:
        if end.failed:
            seconds, sampled = max(self.seconds, end.seconds), self.sampled
        else:
            seconds, sampled = self._mean(end.seconds), end.sampled
        made = replace(self, state="waiting", seconds=seconds, since=None, ended=end.at, sampled=sampled)
        return made, (Wait(end.at + self.goal if end.failed else made._next(end.at)),)

    def _mean(self, seconds: float) -> float:
        return self.seconds + (seconds - self.seconds) * (_NEW if self.seconds else 1.0)

    def _unchanged(self, at: float) -> tuple[Freshness, tuple[Order, ...]]:
        if self.sampled and self.share.one_in == 1 and at >= self._paid(at):
            return replace(self, state="refreshing", since=None), (Refresh(),)
        return replace(self, since=None), (Wait(self._next(at)),)

    def _changed(self, at: float, since: float, found: TablesCompared) -> tuple[Freshness, tuple[Order, ...]]:
        """A file may have a time in the future, and clocks are set back: no change is newer than its comparison."""
        since = min(since, at, at if self.since is None else self.since)
        due = max(self._ripe(since, min(found.last, at), found.gap), self._paid(at))
        if at >= due:
            return replace(self, state="refreshing", since=since), (Refresh(self.share.one_in),)
        return replace(self, since=since), (Wait(min(due, at + max(self.goal / COMPARISONS, self.cost / COST))),)

    def _latest(self, since: float) -> float:
        """The time by which a refresh has to begin that takes over a change of that time."""
        return since + self.goal * IN_TIME - SAFETY * self.seconds - self.early

    def _ripe(self, since: float, last: float, gap: float) -> float:
        """The time of the last change, or soon after, that is expected before the refresh has to begin: to wait longer
        would take over no more. last, gap: see `TablesCompared`."""
        latest = self._latest(since)
        if not gap:
            return latest
        coming = max(0, int((latest - last - SETTLED) / gap))
        ripe = last + coming * gap + expected_within(gap) if coming else last
        return min(latest, max(ripe, since + _EARLIEST * self.goal))

    def _next(self, at: float) -> float:
        """The time of the next comparison, where no change is known: if one came just after the last comparison, its
        refresh is not due sooner."""
        surely = self.read + IN_TIME * self.goal - SAFETY * self.seconds
        latest = min(surely, self._latest(max(self.read, self.coming)))
        return at + max(self.goal / COMPARISONS, min(latest - at, self.cost / COST))

    def _paid(self, at: float) -> float:
        """The time from which the share pays for another refresh like the last one."""
        return min(self.ended, at) + max(0.0, self.seconds * (1 / max(self.share.slots, _LEAST) - 1))
