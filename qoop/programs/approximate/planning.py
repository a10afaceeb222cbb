"""The rounds of a query that grows, and the plans of their queries: one table is replaced by some of its pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES
from qoop.programs.approximate.universe import Buckets
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.catalog.sources.pieces import Cut
    from qoop.catalog.table import Table
    from qoop.programs.approximate.growth import Growth
    from qoop.programs.approximate.schedule import Schedule
    from qoop.programs.approximate.universe import Ways
    from qoop.query.job import Planned
    from qoop.query.planning import QueryPlanning
    from qoop.query.statements.settings import Settings


@value
class SessionQueries:
    """The queries of a session: the tables that they read and their planning. on_nodes: tasks run on nodes, which
    cannot read tables in the memory of this process."""

    tables: SessionTables
    planning: QueryPlanning
    on_nodes: bool


@value
class RoundPlan:
    """The rounds of a query that grows. cut: pieces or buckets. ways: the costs of both, where there is a choice."""

    growth: Growth
    cut: Cut | Buckets
    schedule: Schedule
    ways: Ways | None = None


class RoundPlanning:
    """Tables and plans of one growing answer, apart from those of the session, which has no table of pieces.

    planning: plans over other tables as the session does.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        settings: Settings,
        planning: Callable[[SessionTables], QueryPlanning],
        locked: bool,
    ) -> None:
        self._tables = SessionTables.apart(tables.values(), settings, locked)
        self.settings = settings
        self._planning = planning(self._tables)
        self._ahead: tuple[str, Sequence[int], Planned] | None = None

    def plan(self, text: str, cut: Cut | Buckets, chosen: Sequence[int], rest: bool = False) -> Planned:
        """The plan of a round over pieces or buckets. rest: it does not separate pieces. Raises BindError for a query
        that cannot be split into stages."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (text, chosen):
            return ahead[2]
        if not isinstance(cut, Buckets):
            self._tables.adopt(replace(cut.of(chosen, numbered=not rest), name=PIECES))
        return self.plan_whole(cut.text(text, chosen))

    def plan_ahead(self, text: str, cut: Cut | Buckets, chosen: Sequence[int]) -> Planned:
        """The plan of the next round, which `plan` then returns."""
        planned = self.plan(text, cut, chosen)
        self._ahead = text, chosen, planned
        return planned

    def plan_whole(self, text: str) -> Planned:
        """The plan of a query over whole tables."""
        return self._planning.plan(text)

    def columns(self, text: str) -> tuple[tuple[str, str], ...]:
        """Names and types of the columns of a query over whole tables."""
        return self._tables.describe(text)

    def close(self) -> None:
        """Release the tables."""
        self._tables.shut()
        self._tables.close()
