"""The lags of a view over time, from its last refreshes. Nothing is read for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from qoop.catalog.value import value

_LAST = 200
"""Refreshes of a view that are kept."""


@value
class Freshened:
    """A refresh that took over changes. at: seconds since 1970. lag: the age of the oldest change then. goal: at that
    time, or None."""

    at: float
    lag: float
    goal: float | None


@value
class LagHistory:
    """A view for a chart. behind_since: the time of the oldest change that is in no edition; None: there was none when
    the tables were compared last. sampling_error: of the edition, see `ViewStatus`."""

    name: str
    goal: float | None
    incremental: bool
    error: str
    refreshes: Sequence[Freshened]
    behind_since: float | None
    sampling_error: float = 0.0


class Refreshes:
    """The last refreshes of one view. Adding and reading are safe in several threads."""

    def __init__(self) -> None:
        self._last: deque[Freshened] = deque(maxlen=_LAST)

    def add(self, at: float, since: float, goal: float | None) -> None:
        """A refresh took over changes. since: the time of the oldest."""
        self._last.append(Freshened(at, max(0.0, at - since), goal))

    def all(self) -> tuple[Freshened, ...]:
        """The refreshes, in order of time."""
        return tuple(self._last)

    def overdue(self) -> float:
        """The part of the refreshes with a goal that came after it.

        >>> one = Refreshes()
        >>> for lag in (3.0, 9.0, 12.0): one.add(100.0, 100.0 - lag, 10.0)
        >>> one.overdue()
        0.3333333333333333
        """
        goals = [one for one in self.all() if one.goal is not None]
        return sum(one.lag > one.goal for one in goals if one.goal is not None) / max(1, len(goals))
