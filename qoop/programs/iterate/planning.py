"""Plans a step: over tables of a session, and over the answer of the step before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qoop.catalog.errors import ExecutionError
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.query.job import Planned
    from qoop.query.planning import QueryPlanning
    from qoop.query.result import Result


def column_of(result: Result, name: str) -> pa.ChunkedArray:
    """A column of a step's rows, whatever the case of its name. Raises ExecutionError if there is none."""
    names = [one.lower() for one in result.columns]
    if name.lower() not in names:
        raise ExecutionError(f"the step has no column {name}; it has {', '.join(result.columns)}")
    return result.arrow().column(names.index(name.lower()))


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

    def plan(self, before: object, text: str | None = None) -> Planned:
        """The plan of the step over an answer, or over no answer. text: of the step, if it differs from the first one
        in its literals.

        Raises QueryError for a step that is not a query over these tables."""
        if before is not None:
            self._tables.register(self._former, before)
        return self._planning.plan(self._text if text is None else text)

    def close(self) -> None:
        """Release the tables."""
        self._tables.shut()
        self._tables.close()
