"""Plans the queries of rounds: of a session's tables, one of which is some of its pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from qoop.plan_cache import PlanCache
from qoop.session_tables import SessionTables

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.job import Planned
    from qoop.planning import QueryPlanning
    from qoop.statements.settings import Settings


class RoundPlanning:
    """Tables and plans of one growing answer, apart from those of the session: nobody else sees pieces of a table.

    planning: of given tables, as the session plans.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        settings: Settings,
        planning: Callable[[SessionTables], QueryPlanning],
        locked: bool,
    ) -> None:
        self._tables = SessionTables(PlanCache(), None, locked)
        for name, setting in settings:
            self._tables.binder.set(name, setting)
        for table in tables.values():
            self._tables.adopt(table)
        self._planning = planning(self._tables)

    def plan(self, text: str, pieces: Table) -> Planned:
        """The plan of a round, which reads these pieces. Raises BindError for a query that cannot be taken apart."""
        self._tables.adopt(pieces)
        return self._planning.plan(text)

    def close(self) -> None:
        """Let go of the tables."""
        self._tables.shut()
        self._tables.close()
