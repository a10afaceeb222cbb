"""Statements of materialized views, and the rows of SHOW MATERIALIZED VIEWS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.programs.views.planning import ViewSession
from qoop.programs.views.views import MaterializedViews, ViewStatus
from qoop.query.drawing.formats import EXPLANATION
from qoop.query.result import Result
from qoop.query.statements import materialized as m
from qoop.query.tables import weakly
from qoop.session.execution import Execution, counted, done

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.session.session import Session

_COLUMNS: Columns = (
    ("name", "VARCHAR"), ("as_of", "TIMESTAMP"), ("lag", "DOUBLE"), ("target_lag", "DOUBLE"),
    ("refresh_mode", "VARCHAR"), ("incremental", "BOOLEAN"), ("why_full", "VARCHAR"), ("rows", "BIGINT"),
    ("rows_read", "BIGINT"), ("seconds", "DOUBLE"), ("files", "BIGINT"), ("error", "VARCHAR"),
)  # fmt: skip
_TYPES = (
    pa.string(), pa.timestamp("us"), pa.float64(), pa.float64(), pa.string(), pa.bool_(), pa.string(), pa.int64(),
    pa.int64(), pa.float64(), pa.int64(), pa.string(),
)  # fmt: skip


def views_of(session: Session) -> MaterializedViews:
    """The materialized views of a session, made for it."""
    tables, planning, config = session._tables, session.planning, session.config
    start = partial(weakly(session.start), resume=config.reuse)
    return MaterializedViews(ViewSession(tables, planning, start, config.tables))


def execute(run: Execution, statement: m.OfMaterialized) -> Result:
    """As `Execution.execute`."""
    views = run.session._materialized
    run.texts.changed()
    match statement:
        case m.CreateMaterialized():
            views.create(statement)
        case m.RefreshMaterialized():
            return counted(views.refresh(statement))
        case m.AlterMaterialized():
            views.alter(statement)
        case m.DropMaterialized():
            views.drop(statement)
        case m.ExplainMaterialized(inner):
            columns = tuple((name, "VARCHAR") for name in EXPLANATION)
            return Result(pa.table({"c0": ["materialized_view"], "c1": [views.explained(inner)]}), columns)
        case m.ShowMaterialized():
            return _shown(views.statuses())
    return done()


def _shown(statuses: Sequence[ViewStatus]) -> Result:
    rows = [[getattr(one, name) for name, _ in _COLUMNS] for one in statuses]
    for row in rows:
        row[1] = datetime.fromtimestamp(row[1], UTC).replace(tzinfo=None)
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    arrays = (pa.array(column, type_) for column, type_ in zip(columns, _TYPES, strict=True))
    return Result(pa.table({f"c{place}": array for place, array in enumerate(arrays)}), _COLUMNS)
