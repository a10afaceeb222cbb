"""Plans a step: over tables of a session, and over the answer of the step before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.greedy import LONG_SECONDS
from qoop.catalog.arrow_input import changed_types
from qoop.catalog.errors import ExecutionError
from qoop.catalog.table import Table, table_version
from qoop.engine.history import Decided
from qoop.planner.whole_query import OWN_PLAN
from qoop.query.duckdb_plans import whole_seconds
from qoop.query.result import Result
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.catalog.catalog import Catalog
    from qoop.planner.sql.bind import Bound
    from qoop.query.job import Job, Planned
    from qoop.query.planning import QueryPlanning

_COMPARED_FROM = 10.0
"""Seconds of one thread from which each step is compared with other plans. A search takes up to a second."""


def column_of(result: Result, name: str) -> pa.ChunkedArray:
    """A column of a step's rows, whatever the case of its name. Raises ExecutionError if there is none."""
    names = [one.lower() for one in result.columns]
    if name.lower() not in names:
        raise ExecutionError(f"the step has no column {name}; it has {', '.join(result.columns)}")
    return result.arrow().column(names.index(name.lower()))


def table_of(name: str, answer: Result, catalog: Catalog) -> Table:
    """An answer as a table of a name, with the types that DuckDB gave it."""
    table = catalog.opened(name, answer.lossless())
    types = changed_types(zip(answer.unique_columns, answer.types, strict=True))
    if not types:
        return table
    columns = tuple((name, types.get(name, type_)) for name, type_ in table.columns)
    return replace(table, columns=columns, version=table_version(table.source, columns))


class StepPlanning:
    """Tables and plans of one repeated step, apart from those of the session, which has no table of a step.

    former: the name of the table with the answer of the step before. planning: plans over other tables as the session
    does.
    """

    def __init__(
        self,
        text: str,
        former: str,
        tables: SessionTables,
        planning: Callable[[SessionTables], QueryPlanning],
    ) -> None:
        self._text, self._former = text, former
        self._tables = SessionTables.apart(tables.named(text).values(), tables.binder.settings, tables.locked)
        self._planning = planning(self._tables)
        self._seconds: float | None = None  # that the next step should take by DuckDB's plan; None: plans are compared
        self._is_compared = False
        self._bounds: dict[str, Bound] = {}  # of the last step by each text

    def plan(self, before: object, text: str | None = None, slots: float = inf) -> Planned:
        """The plan of the step over an answer, or over no answer.

        before: a Result, or data as for `register`. text: of the step, if it differs from the first one in its
        literals. slots: the most that a step which runs by DuckDB's plan again can use.

        Raises QueryError for a step that is not a query over these tables."""
        if isinstance(before, Result):
            self._tables.create(table_of(self._former, before, self._tables.catalog))
        elif before is not None:
            self._tables.register(self._former, before)
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
