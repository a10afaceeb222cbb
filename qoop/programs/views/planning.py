"""Plans of the queries of a view, over pinned tables: an edition never mixes two states of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.table import FilesSource, Table, table_version
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog
    from qoop.catalog.table import Columns
    from qoop.planner.sql.bind import Bound
    from qoop.programs.views.tree import Leaf
    from qoop.query.job import Planned, Starts
    from qoop.query.planning import QueryPlanning
    from qoop.query.statements.settings import Settings


@value
class ViewSession:
    """The parts of a session that views use.

    start: starts a job. folder: of created tables; None: they live in memory. log: a new log of a program's messages;
    it returns None if the session has no trace.
    """

    tables: SessionTables
    planning: QueryPlanning
    start: Starts
    folder: Path | None
    log: Callable[[], MessageLog | None]

    def bind(self, text: str, before: Bound | None = None) -> tuple[Bound, Mapping[str, Table]]:
        """A query over the present tables, and these by lower-case name. before: see `SessionTables.bind_again`.

        Raises QueryError, CatalogError."""
        bound, tables = self.tables.bind_again(self.tables.as_read(text), before)
        return bound, {name.lower(): table for name, table in tables.items()}


class ViewPlanning:
    """Tables and plans of one view, apart from those of the session.

    planning: plans over other tables as the session does.
    """

    def __init__(self, settings: Settings, planning: Callable[[SessionTables], QueryPlanning]) -> None:
        self.settings = settings
        self._tables = SessionTables.apart((), settings, locked=False)
        self._planning = planning(self._tables)
        self._versions: dict[str, str] = {}

    def take(self, tables: Mapping[str, Table]) -> None:
        """Plan over these tables from now on."""
        for name, table in tables.items():
            if self._versions.get(name) != table.version:
                self._tables.adopt(replace(table, origin=None))  # a table without an origin is not read again
                self._versions[name] = table.version

    def plan(self, text: str) -> Planned:
        """The plan of a query. Raises QueryError."""
        return self._planning.plan(text)

    def columns(self, text: str) -> Columns:
        """Names and types of the columns of a query."""
        return self._tables.describe(text)

    def take_leaf(self, table: Table, leaf: Leaf) -> Table:
        """Have these files of a table as `PIECES` from now on; returns it."""
        assert isinstance(table.source, FilesSource)
        source = table.source.only({path for path, _ in leaf})
        made = Table(PIECES, table.columns, table_version(source, table.columns), source, source.rows)
        self._tables.adopt(made)
        return made

    def close(self) -> None:
        """Release the tables."""
        self._tables.shut()
        self._tables.close()
