"""Statements of materialized views, and the rows of SHOW MATERIALIZED VIEWS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.programs.views.views import MaterializedViews, ViewStatus
from qoop.query.drawing.formats import EXPLANATION
from qoop.query.statements import materialized as m

if TYPE_CHECKING:
    from qoop.catalog.table import Columns

_COLUMNS: Columns = (
    ("name", "VARCHAR"), ("as_of", "TIMESTAMP"), ("lag", "DOUBLE"), ("target_lag", "DOUBLE"),
    ("refresh_mode", "VARCHAR"), ("incremental", "BOOLEAN"), ("why_full", "VARCHAR"), ("rows", "BIGINT"),
    ("rows_read", "BIGINT"), ("seconds", "DOUBLE"), ("files", "BIGINT"), ("error", "VARCHAR"), ("overdue", "DOUBLE"),
    ("max_error", "DOUBLE"), ("sampled", "BOOLEAN"), ("sampling_error", "DOUBLE"),
)  # fmt: skip
_TYPES = (
    pa.string(), pa.timestamp("us"), pa.float64(), pa.float64(), pa.string(), pa.bool_(), pa.string(), pa.int64(),
    pa.int64(), pa.float64(), pa.int64(), pa.string(), pa.float64(),
    pa.float64(), pa.bool_(), pa.float64(),
)  # fmt: skip


def execute(views: MaterializedViews, statement: m.OfMaterialized) -> tuple[pa.Table, Columns] | int | None:
    """The rows of the answer, or their number; None: there are none. Raises as `Session.sql` does."""
    match statement:
        case m.CreateMaterialized():
            views.create(statement)
        case m.RefreshMaterialized():
            return views.refresh(statement)
        case m.AlterMaterialized():
            views.alter(statement)
        case m.DropMaterialized():
            views.drop(statement)
        case m.ExplainMaterialized(inner):
            columns = tuple((name, "VARCHAR") for name in EXPLANATION)
            return pa.table({"c0": ["materialized_view"], "c1": [views.explained(inner)]}), columns
        case m.ShowMaterialized():
            return _shown(views.statuses())
    return None


def _shown(statuses: Sequence[ViewStatus]) -> tuple[pa.Table, Columns]:
    rows = [[getattr(one, name) for name, _ in _COLUMNS] for one in statuses]
    for row in rows:
        row[1] = datetime.fromtimestamp(row[1], UTC).replace(tzinfo=None)
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    arrays = (pa.array(column, type_) for column, type_ in zip(columns, _TYPES, strict=True))
    return pa.table({f"c{place}": array for place, array in enumerate(arrays)}), _COLUMNS
