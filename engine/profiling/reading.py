"""Reads the profile of a query off the connection that it has run on.

Measured on DuckDB 1.5.5 and 2.0.0: profiling costs 5 to 11 % of short queries, so that it is for EXPLAIN ANALYZE alone.
Its peaks belong to the connection, so that each attempt gets a separate one. Of a query that a file's footer answers
neither version tells anything. 1.5.5 counts of Parquet files only the bytes of footers; there Linux says what the
thread has read, which is all if DuckDB works in no other. And where it spills, 1.5.5 tells a peak of up to twice the
limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from qoop.engine.task import OperatorProfile, TaskProfile

_COUNTS_READS = not duckdb.__version__.startswith("1.")
_ON = "PRAGMA enable_profiling = 'no_output'"
_LONGEST, _FILES = 100, 2
_REPORTED = (
    "Table", "Function", "Join Type", "Conditions", "Filters", "Expression", "Groups", "Aggregates", "Order By", "Top",
)  # fmt: skip


class Profiler:
    """Profiles the queries of a connection from now on. limit: bytes that DuckDB may hold; 0: not known. alone: it has
    no threads besides the caller's."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, limit: float, alone: bool) -> None:
        connection.execute(_ON)
        self._connection = connection
        self._limit = limit
        self._alone = alone
        self._begun = _read_by_thread()

    def profile(self, operators: bool) -> TaskProfile | None:
        """The profile of the last query, whose rows have been read; None: DuckDB reports none. operators: with
        these, too."""
        reported = json.loads(self._connection.get_profiling_information(format="json"))
        if reported.keys() == {"result"}:  # error, empty, disabled
            return None
        system, query = reported.get("system", reported), reported.get("query", reported)
        peak = int(system.get("peak_buffer_memory", system.get("system_peak_buffer_memory", 0)))
        return TaskProfile(
            min(peak, int(self._limit)) if self._limit > 0 else peak,
            int(system.get("peak_temp_dir_size", system.get("system_peak_temp_dir_size", 0))),
            self._read(reported),
            float(query["cpu_time"]),
            tuple(_operators(reported.get("operator") or reported["children"], 0)) if operators else (),
        )

    def _read(self, reported: Mapping[str, Any]) -> int | None:
        if _COUNTS_READS:
            return int(reported["io"]["total_bytes_read"])
        now = _read_by_thread()
        return now - self._begun if self._alone and now is not None and self._begun is not None else None


def _read_by_thread() -> int | None:
    """Bytes that this thread has read so far; None where the system does not tell."""
    try:
        lines = Path("/proc/thread-self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar:")), None)


def _operators(found: list[Mapping[str, Any]], depth: int) -> Iterator[OperatorProfile]:
    for one in found:
        name = str(one.get("type") or one.get("operator_type"))
        below = one.get("children", [])
        if name == "RESULT_COLLECTOR":
            yield from _operators(below, depth)
            continue
        seconds = float(one.get("timing", one.get("operator_timing", 0.0)))
        rows = int(one.get("intermediate_rows", one.get("operator_cardinality", 0)))
        yield OperatorProfile(depth, name, _detail(one.get("extra_info", {})), seconds, rows)
        yield from _operators(below, depth + 1)


def _detail(reported: Mapping[str, Any]) -> str:
    """The tables, keys and conditions of an operator, in a line."""
    texts = [", ".join(one) if isinstance(one, list) else str(one) for name in _REPORTED if (one := reported.get(name))]
    files = reported.get("Filename(s)")
    if files:
        names = [Path(name).name for name in (files if isinstance(files, list) else str(files).split(", "))]
        texts.append(", ".join(names[:_FILES]) + (" …" if len(names) > _FILES else ""))
    line = " ".join("; ".join(texts).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
