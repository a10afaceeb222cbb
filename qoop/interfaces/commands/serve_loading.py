"""Loads what a server's first long query needs, before it serves: a second of Python that holds up all clients.

These 130,000 objects never become garbage. Python's search for cycles leaves them out, which would hold the lock of
the interpreter for 0.06 s.

So does what queries leave: a server remembers texts, plans and answers, and finds next to no cycles among them. After
4,000 queries a search through 40,000 objects took 27 ms of a CPU, and next to bombs one held all others up for 0.16 s.
"""

from __future__ import annotations

import gc
import time
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

_FULL = 2
"""The generation of a search through all objects."""

FIRST_TEXTS = ("SELECT 1 AS one", "SELECT median(x) AS m FROM (VALUES (1), (2)) AS t(x)")
"""Queries that begin before a server serves, one here and one in a child process. The first of a kind opens DuckDB:
over HTTP ``SELECT 1`` took 45 ms of CPU (3 for the next one), and takes 10."""


def load_planner() -> None:
    """Load the modules. From now on Python searches each object that lives on once, and all of them once an hour."""
    for module in _MODULES:
        import_module(module)
    gc.callbacks.append(SearchOnce())
    gc.collect()


class SearchOnce:
    """A callback of `gc` for a process with many objects that live on: a full search for cycles leaves out what an
    earlier one has looked at. Cycles among these stay until the next search through all, after `seconds`."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif time.monotonic() > self._last + self._seconds:
            self._last = time.monotonic()
            gc.unfreeze()
