"""The costs of views on this machine, recorded once: cpu seconds of their refreshes and comparisons, while days land.

Between two refreshes of a view lie from 1 to 50 days. More of them than in a run are replaced or removed later: the
refreshes after that cost much, and a run has few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import sleep

from qoop.programs.views.sharing import Due, early
from qoop.session.session import Session
from qoop.tpcds.views.load import AIM, DAYS, SETTLED, LoadOptions, cpu_seconds, world
from qoop.tpcds.views.shapes import Shape, shapes

_PERIODS = (0.5, 1.0, 2.0, 4.0)
"""Of the days between two refreshes that the goals permit."""

_CHANGED = 8
"""One day in this number is replaced or removed later."""

Refreshes = Sequence[tuple[int, int, float]]
"""Of each refresh the days that it took over, those of them in which earlier ones were replaced or removed, and cpu
seconds."""


@dataclass(frozen=True, slots=True)
class RecordedCosts:
    """refreshes, full: of each view; full: cpu seconds of a refresh from all rows. compared, unchanged: cpu seconds of
    comparisons of a table with changes, and without. again: of one that was compared just now. search: for the next
    view that is due."""

    refreshes: Sequence[Refreshes]
    full: Sequence[float]
    compared: Sequence[float]
    unchanged: Sequence[float]
    again: float
    search: float

    def typical(self) -> list[float]:
        """The median seconds of a refresh of each view."""
        return [median(seconds for *_, seconds in one) for one in self.refreshes]


class _Recording:
    """The costs so far. fresh: of each view the days since its last refresh, and those of them with changed ones."""

    def __init__(self, session: Session, views: Sequence[Shape]) -> None:
        self._kept, self._views = session.materialized, views
        self.refreshes: list[list[tuple[int, int, float]]] = [[] for _ in views]
        self.compared, self.unchanged, self.again = list[float](), list[float](), list[float]()
        self._fresh = [(0, 0)] * len(views)

    def day(self, others: set[str], period: float) -> None:
        """Compare the tables, and refresh the views that lack this many days, times their goals. others: the tables in
        which a day was replaced or removed."""
        with self._kept.comparing_once() as names:
            for place, one in enumerate(self._views):
                self._compare(one, names, self.compared)
                days, changed = self._fresh[place]
                days, changed = days + 1, changed + (one.table in others)
                if days >= period * one.goal:
                    spent = cpu_seconds(partial(self._kept.refresh_view, one.name))
                    self.refreshes[place].append((days, changed, spent))
                    days, changed = 0, 0
                self._fresh[place] = days, changed
        with self._kept.comparing_once() as names:
            for one in self._views:
                self._compare(one, names, self.unchanged)

    def _compare(self, one: Shape, names: set[str], found: list[float]) -> None:
        (self.again if one.table in names else found).append(cpu_seconds(partial(self._kept.behind, one.name)))


def record(options: LoadOptions, days: int = 240) -> RecordedCosts:
    """The costs while this many days land."""
    views = shapes(options.views)
    with world(options, changed=_CHANGED) as (session, landing, _):
        for one in views:
            session.sql(f"CREATE MATERIALIZED VIEW {one.name} AS {one.query}")
        found = _Recording(session, views)
        for day in range(days):
            others = landing.land()
            sleep(SETTLED)
            found.day(others, _PERIODS[day * len(_PERIODS) // days] * AIM * DAYS)
        full = [cpu_seconds(partial(session.sql, f"REFRESH MATERIALIZED VIEW {one.name} FULL")) for one in views]
    due = {one.name: Due(one.goal, 0.01, one.goal) for one in views}
    search = median(cpu_seconds(partial(early, due, 0.0)) for _ in range(20))
    refreshes = [one[1:] for one in found.refreshes]  # the first one binds the query
    return RecordedCosts(refreshes, full, found.compared, found.unchanged, median(found.again), search)
