"""Loads what a server's first long query needs, before it serves: a second of Python that holds up all clients.

These 130,000 objects never become garbage. Python's search for cycles leaves them out, which would hold the lock of
the interpreter for 0.06 s.
"""

from __future__ import annotations

import gc
from importlib import import_module

_MODULES = (
    "anyio._backends._asyncio", "pandas", "pyarrow.parquet", "sqlglot.dialects.duckdb",
    "qoop.adaptive.cluster.granting.preemption", "qoop.catalog.statistics.earlier_version",
    "qoop.catalog.statistics.parquet_chunks", "qoop.catalog.statistics.pilot", "qoop.engine.processes.isolated_kernel",
    "qoop.planner.estimate.doubts", "qoop.planner.estimate.join_errors", "qoop.planner.estimate.reestimate",
    "qoop.planner.lock", "qoop.planner.options", "qoop.planner.plan_json", "qoop.planner.planner",
    "qoop.planner.search.decisions", "qoop.planner.search.reuse", "qoop.planner.sql.reading",
    "qoop.query.drawing.analysis", "qoop.query.drawing.explaining", "qoop.query.preparation", "qoop.query.quick_plans",
    "qoop.query.statements.listings", "qoop.query.writing", "qoop.session.explanations",
)  # fmt: skip
"""Modules that a session loads when a query needs them. Arrow loads pandas with its first date. HTTP loads anyio's loop
with the first request for the list of queries: that held up all others for 0.07 s, and next to bombs for 0.2 to 0.6."""

FIRST_TEXTS = ("SELECT 1 AS one", "SELECT median(x) AS m FROM (VALUES (1), (2)) AS t(x)")
"""Queries that begin before a server serves, one here and one in a child process. The first of a kind opens DuckDB:
over HTTP ``SELECT 1`` took 45 ms of CPU (3 for the next one), and takes 10."""


def load_planner() -> None:
    """Load the modules."""
    for module in _MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()
