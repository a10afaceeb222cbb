"""Plans of the queries of a view, over pinned tables: an edition never mixes two states of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.table import Table, has_files, table_version
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES
from qoop.programs.file_rows import FileRows
from qoop.programs.parts import Part
from qoop.programs.shared_duckdb import SharedDuckDB
from qoop.programs.views.below.groups import groups_table
from qoop.programs.views.small_leaves import SmallLeaves
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from qoop.adaptive.program_log import MessageLog
    from qoop.catalog.table import Columns
    from qoop.planner.sql.bind import Bound
    from qoop.programs.views.tree import Leaf
    from qoop.query.job import Starts
    from qoop.query.planning import QueryPlanning
    from qoop.query.result import Result
    from qoop.query.statements.settings import Settings


_LEAVES_MEMORY = "1GB"


@value
class ViewSession:
    """The parts of a session that views use.

    start: starts a job. folder: of created tables; None: they live in memory. log: a new log of a program's messages;
    it returns None if the session has no trace. slots: that other tenants leave to views now. busy: their jobs run now.
    sharing: the option `view_sharing`. leaves, merging: the DuckDBs of all views.
    """

    tables: SessionTables
    planning: QueryPlanning
    start: Starts
    folder: Path | None
    log: Callable[[], MessageLog | None]
    slots: Callable[[], float]
    busy: Callable[[], bool]
    sharing: str
    file_rows: FileRows = field(default_factory=FileRows)
    leaves: SharedDuckDB = field(default_factory=partial(SharedDuckDB, files=True, memory_limit=_LEAVES_MEMORY))
    merging: SharedDuckDB = field(default_factory=SharedDuckDB)

    def bind(self, text: str, before: Bound | None = None) -> tuple[Bound, Mapping[str, Table]]:
        """A query over the present tables, and these by lower-case name. before: see `SessionTables.bind_again`.

        Raises QueryError, CatalogError."""
        bound, tables = self.tables.bind_again(self.tables.as_read(text), before)
        return bound, {name.lower(): table for name, table in tables.items()}


class ViewPlanning:
    """Tables and plans of one view, apart from those of the session."""

    def __init__(self, settings: Settings, session: ViewSession) -> None:
        self.settings = settings
        self._session = session
        self._taken: dict[str, Table] = {}
        self._begin()

    def _begin(self) -> None:
        self._tables = SessionTables.apart((), self.settings, locked=False)
        self._planning = self._session.planning.apart(self._tables)

    def take(self, tables: Mapping[str, Table]) -> None:
        """Plan over these tables from now on."""
        for name, table in tables.items():
            if name not in self._taken or self._taken[name].version != table.version:
                made = self._taken[name] = replace(table, origin=None)  # a table without an origin is not read again
                self._tables.adopt(made)

    def run(self, text: str) -> Result:
        """The rows of a query, by a job. Raises QueryError, and the errors of jobs."""
        return self._session.start(self._planning.plan(text)).result()

    def part(self, text: str) -> Part:
        """The same as a part."""
        found = self.run(text)
        return Part(found.lossless(), tuple(zip(found.unique_columns, found.types, strict=True)))

    def bind(self, text: str) -> tuple[Bound, Mapping[str, Table]]:
        """A query over these tables, and those that it reads by lower-case name. Raises QueryError."""
        bound, tables = self._tables.bind(self._tables.as_read(text))
        return bound, {name.lower(): table for name, table in tables.items()}

    @cached_property
    def small_leaves(self) -> SmallLeaves:
        """Computes leaves without a job."""
        return SmallLeaves(self.settings, self._session.leaves, self._session.file_rows)

    def merging_connection(self) -> duckdb.DuckDBPyConnection:
        """A connection to the DuckDB that merges partial groups."""
        return self._session.merging.connection(self.settings)

    def columns(self, text: str) -> Columns:
        """Names and types of the columns of a query."""
        return self._tables.describe(text)

    def take_leaf(self, table: Table, leaf: Leaf) -> Table:
        """Have these files of a table as `PIECES` from now on; returns it."""
        assert has_files(table.source)
        source = table.source.only({path for path, _ in leaf})
        made = Table(PIECES, table.columns, table_version(source, table.columns), source, source.rows)
        self._tables.adopt(made)
        return made

    def take_pieces(self, pieces: Table) -> None:
        """Have this table as `PIECES` from now on."""
        self._tables.adopt(pieces)

    def joined(self, text: str, types: Columns, rows: pa.Table, others: Mapping[str, Table]) -> pa.Table:
        """The rows of a query over groups and other tables, by name. types, rows: see `groups_table`."""
        groups = groups_table(types, rows)
        found = self.small_leaves.joined(text, groups, rows, others)
        if found is None:
            self._tables.adopt(groups)
            found = self.part(text).rows
            self._tables.adopt(groups_table(types, None))  # the memory is free
        return found

    def rest(self) -> None:
        """Release plans, and the DuckDB that binds texts, some megabytes: small refreshes need neither."""
        self._end()
        self._begin()
        for table in self._taken.values():
            self._tables.adopt(table)

    def close(self) -> None:
        """Release the tables."""
        if "small_leaves" in self.__dict__:
            self.small_leaves.close()
        self._end()

    def _end(self) -> None:
        self._tables.shut()
        self._tables.close()
