"""The steps of trials as the session reads them, each with its metric.

The texts are over tables alone: views and macros are written out as they are when the sweep begins. The metric of a
step is a column of its only row, or a query over its rows that runs in the same job.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError, ExecutionError, QueryError
from qoop.programs.iterate.planning import column_of, read_former, table_of
from qoop.query.result import Result
from qoop.query.statements.normal_text import is_steady, normal_text
from qoop.query.statements.parameters import with_values
from qoop.query.statements.statement import query_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoop.catalog.table import Table
    from qoop.programs.sweeps.space import Setting
    from qoop.query.tables import SessionTables

_STEP, _METRIC = "qoop_step", "qoop_metric"
PREPARED = "prepared"
"""The table with the rows of `prepare`."""


class SweepTexts:
    """The texts of a sweep.

    former: the table that first steps read; None: each trial is one query. prepared: the rows of `prepare`, if any.
    metric: a column, or a query as the session reads it.
    """

    def __init__(
        self, step: str, metric: str, former: str, tables: SessionTables, setting: Setting, first: object, rows: object
    ) -> None:
        """setting: of a trial. first: see `Session.sweep`, start. rows: those of `prepare`; None: there are none.

        Raises ConfigError, QueryError, SourceError."""
        text = query_text(with_values(step, setting))
        self._step, self._former, self._tables = step, former, tables
        self.former = read_former(text, former, first, tables)
        self.prepared = None if rows is None else _prepared([text, metric], rows, tables)
        self.metric = metric
        if not metric.isidentifier():
            self.metric = tables.definitions.expanded(query_text(metric))

    def written(self, setting: Setting) -> str:
        """The step of a setting. Raises QueryError for parameters that are missing, or too many."""
        return query_text(with_values(self._step, setting))

    def read(self, text: str) -> str:
        """A step as the session reads it. Raises QueryError."""
        with self._tables.knowing([one for one in (self.former, self.prepared) if one is not None]):
            return self._tables.as_read(text)

    def read_all(self, settings: Sequence[Setting]) -> list[str | QueryError]:
        """The steps of some settings, or why one cannot be read. Raises as `written`; QueryError if none can be
        read."""
        written = [self.written(setting) for setting in settings]
        with self._tables.comparing_once():
            found = [self._read_or_error(text) for text in written]
        if isinstance(found[0], QueryError) and not any(isinstance(one, str) for one in found):
            raise found[0]
        return found

    def _read_or_error(self, text: str) -> str | QueryError:
        try:
            return self.read(text)
        except QueryError as error:
            return error

    def measured(self, text: str) -> str:
        """A step that computes its metric, too."""
        return with_metric(text, self.metric, self._former)

    def check_steady(self, text: str) -> None:
        """Raise ConfigError unless a step and its metric mean the same in a later process."""
        if not (is_steady(text) and is_steady(self.metric)):
            raise ConfigError("a step that depends on chance, time or order cannot be continued: leave name out")


def _prepared(texts: Sequence[str], rows: object, tables: SessionTables) -> Table:
    """The table with the rows of `prepare`, which one of the texts reads. Raises ConfigError."""
    if tables.names.has(PREPARED):
        raise ConfigError(f"there is a table {PREPARED} already: drop or rename it, or leave prepare out")
    if not any(PREPARED in normal_text(text).words for text in texts):
        raise ConfigError(f"neither the step nor the metric reads {PREPARED}, the rows of prepare")
    return table_of(PREPARED, rows, tables.catalog)


def with_metric(text: str, metric: str, former: str) -> str:
    """The text of a step that computes its metric, too. metric: a column, or a query that reads the rows as `former`.

    >>> with_metric("SELECT 1 AS n", "n", "former")
    'SELECT 1 AS n'
    """
    if metric.isidentifier():
        return text
    of_rows = f"WITH {former} AS (FROM {_STEP}) SELECT list(found) FROM ({query_text(metric)}\n) AS metric(found)"
    return f"WITH {_STEP} AS MATERIALIZED ({text}\n) SELECT *, ({of_rows}) AS {_METRIC} FROM {_STEP}"


def parted(result: Result, metric: str) -> tuple[Result, float]:
    """The rows of a step, and its metric. Raises ExecutionError unless that is one finite number."""
    if metric.isidentifier():
        return result, _one(column_of(result, metric).to_pylist())
    if not len(result):
        raise ExecutionError("the step has no rows, so there is no metric")
    columns = tuple(zip(result.columns, result.types, strict=True))
    found = column_of(result, _METRIC)[0].as_py()
    rows = Result(result.lossless().select(range(len(columns) - 1)), columns[:-1], result.settings)
    return rows, _one(found or [])


def _one(found: Sequence[object]) -> float:
    if len(found) != 1:
        raise ExecutionError(f"the metric must be one row, and has {len(found)}")
    [number] = found
    try:
        converted = math.nan if number is None else float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        converted = math.nan
    if not math.isfinite(converted):
        raise ExecutionError(f"the metric is no number: {number}")
    return converted
