"""The plans of the 99 TPC-DS queries for this machine and for a larger scale, and data on which they are run.

Plans are made from the statistics of scale 1: as they are, for the shares of this machine; and scaled to 500, for
those of a cluster of 600 containers. They are run on far fewer rows, with few tasks a stage, so that every exchange
and partial aggregate of a large plan takes part although so little data would not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from run_plan import Runner

from qoop.planner.plan import Plan
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Alternatives, Candidate, cluster_grid, local_grid
from qoop.session.session import Session
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import at_scale

GRIDS = ("local", "cluster")
SCALE = 500.0
TASKS = 3
"""Tasks and partitions of a stage at most, when a plan is run here."""


def alternatives(session: Session, number: int, grid: str) -> Alternatives:
    """The pool and the kept plans of a query, on the ``local`` grid or that of the ``cluster``."""
    prepared = session.prepare(text(number))
    shares = local_grid(session.available)
    if grid == "cluster":
        prepared, shares = at_scale(prepared, SCALE), cluster_grid()
    return keep(pool(prepared.planning(), shares))


def candidates(session: Session, number: int) -> Iterator[tuple[str, Candidate]]:
    """All plans of a query, kept or not, with the grid they are for."""
    for grid in GRIDS:
        for one in alternatives(session, number, grid).pool.candidates:
            yield grid, one


@contextmanager
def running(folder: Path, plans: Iterable[Plan]) -> Iterator[Runner]:
    """A runner over a folder of Parquet files, for these plans: it holds only the columns that they read."""
    wanted: dict[str, set[str]] = {}
    for plan in plans:
        for item in (item for stage in plan.stages for item in stage.table_inputs):
            wanted.setdefault(item.table, set()).update(item.columns)
    with Runner({name: _rows(folder, name, columns) for name, columns in wanted.items()}) as runner:
        yield runner


def _rows(folder: Path, table: str, columns: set[str]) -> pa.Table:
    path = folder / f"{table}.parquet"
    source = pq.ParquetDataset(path if path.exists() else folder / table)
    return source.read(columns=sorted(columns) or source.schema.names[:1])
