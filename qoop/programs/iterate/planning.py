"""Plans a step: over tables of a session, and over the answer of the step before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.greedy import LONG_SECONDS
from qoop.catalog.arrow_input import changed_types
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.catalog.table import Table, table_version
from qoop.engine.history import Decided
from qoop.planner.whole_query import OWN_PLAN
from qoop.query.duckdb_plans import whole_seconds
from qoop.query.result import Result
from qoop.query.statements.normal_text import normal_text

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.catalog.catalog import Catalog
    from qoop.planner.sql.bind import Bound
    from qoop.query.job import Job, Planned
    from qoop.query.planning import QueryPlanning
    from qoop.query.tables import SessionTables

_COMPARED_FROM = 10.0
"""Seconds of one thread from which each step is compared with other plans. A search takes up to a second."""


def column_of(result: Result, name: str) -> pa.ChunkedArray:
    """A column of a step's rows, whatever the case of its name. Raises ExecutionError if there is none."""
    names = [one.lower() for one in result.columns]
    if name.lower() not in names:
        raise ExecutionError(f"the step has no column {name}; it has {', '.join(result.columns)}")
    return result.arrow().column(names.index(name.lower()))


def read_former(text: str, former: str, first: object, tables: SessionTables) -> Table | None:
    """The table of a name that a first step reads; None if the step reads none. first: as for `table_of`.

    Raises ConfigError where the name is taken or there are no rows for it; SourceError."""
    if former.lower() not in normal_text(text).words:
        return None
    if tables.names.has(former):
        raise ConfigError(f"there is a table {former} already: pass another name as former")
    if first is None:
        raise ConfigError(f"the step reads {former}: pass start, what the first step reads there")
    return table_of(former, first, tables.catalog)


def table_of(name: str, rows: object, catalog: Catalog) -> Table:
    """Rows as a table of a name: an answer with the types that DuckDB gave it, or data as for `Session.register`."""
    if not isinstance(rows, Result):
        return catalog.opened(name, rows)
    return _of_answer(name, rows, catalog)


def _of_answer(name: str, answer: Result, catalog: Catalog) -> Table:
    table = catalog.opened(name, answer.lossless())
    types = changed_types(zip(answer.unique_columns, answer.types, strict=True))
    if not types:
        return table
    columns = tuple((name, types.get(name, type_)) for name, type_ in table.columns)
    return replace(table, columns=columns, version=table_version(table.source, columns))


class StepPlanning:
    """Tables and plans of one repeated step, apart from those of the session, which has no table of a step.

    text: as the session reads it (`SessionTables.as_read`). former: the name of the table with the answer of the step
    before. planning: plans over other tables as the session does.
    """

    def __init__(
        self,
        text: str,
        former: str,
        tables: SessionTables,
        planning: Callable[[SessionTables], QueryPlanning],
    ) -> None:
        self._text, self._former = text, former
        self._tables = tables.only(text)
        self._planning = planning(self._tables)
        self._seconds: float | None = None  # that the next step should take by DuckDB's plan; None: plans are compared
        self._is_compared = False
        self._bounds: dict[str, Bound] = {}  # of the last step by each text

    def plan(self, before: Result | Table | None, text: str | None = None, slots: float = inf) -> Planned:
        """The plan of the step over an answer, the table of a first step, or neither.

        text: of the step, if it differs from the first one in its
        literals. slots: the most that a step which runs by DuckDB's plan again can use.

        Raises QueryError for a step that is not a query over these tables."""
        if before is not None:
            before = before if isinstance(before, Table) else table_of(self._former, before, self._tables.catalog)
            self._tables.create(before)
        text = self._text if text is None else text
        if self._seconds is None:
            return self._planning.plan(text)
        planned = self._planning.repeated(text, self._bounds.get(text), self._seconds, slots)
        self._bounds[text] = planned.bound
        return planned

    def ended(self, job: Job) -> None:
        """A step has ended. The next ones run as it did if that was by DuckDB's plan, and if a comparison with others
        takes much of their time, or has been made."""
        history = job.history()
        by_duckdb = len(job.plans) == 1 and job.plan.root.opaque == OWN_PLAN
        seconds = whole_seconds(job.plans, history) if by_duckdb else None
        self._is_compared |= any(isinstance(one, Decided) for one in history)
        most = _COMPARED_FROM if self._is_compared else LONG_SECONDS
        self._seconds = seconds if seconds is not None and seconds < most else None

    def close(self) -> None:
        """Release the tables."""
        self._tables.shut()
        self._tables.close()
