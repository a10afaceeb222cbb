"""The table of groups below joins."""

from __future__ import annotations

import pyarrow as pa

from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Columns, Table
from qoop.programs.views.below.cut import GROUPS, HEAD


def groups_table(types: Columns, rows: pa.Table | None) -> Table:
    """A table for a query that joins groups. rows: with `HEAD` before the columns of the groups; None: there are
    none. types: of the groups."""
    columns = ((HEAD, "INTEGER"), *types)
    if rows is None:
        rows = pa.table({name: pa.nulls(0) for name, _ in columns})
    source = ArrowSource.of(rows)
    return Table(GROUPS, columns, source.id, source, rows.num_rows)
