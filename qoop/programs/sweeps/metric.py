"""The metric of a step: a column of its only row, or a query over its rows that runs in the same job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qoop.catalog.errors import ExecutionError
from qoop.programs.iterate.planning import column_of
from qoop.query.result import Result
from qoop.query.statements.statement import query_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEP, _METRIC = "qoop_step", "qoop_metric"


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
