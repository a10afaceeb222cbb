"""The errors of a task in our own words: DuckDB's, Arrow's and the system's errors as QoopErrors.

Every error of a task carries `stage` (id), `part` and `sql` (the fragment), for the caller to show.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from qoop.catalog.errors import (
    CheckpointError,
    DiskFull,
    ExecutionError,
    OutOfMemory,
    QoopError,
    SourceError,
)
from qoop.engine.task import TaskSpec

# DuckDB reports a spill that ran out of disk as want of memory, with this in the text.
_SPILL_FULL = ("max_temp_directory_size", "failed to offload")
_DISK_WORDS = (
    "no space left", "disk quota", "permission denied", "read-only file system", "file too large",
    "could not write", "failed to create directory", "cannot create directory",
)  # fmt: skip
# What DuckDB says when a file does not hold what it should. Damage inside Parquet pages also comes as a plain
# duckdb.Error, which nothing else does.
_FILE_WORDS = ('file "', "csv error", "malformed json", "parquet", "unique file handle conflict")

# What DuckDB advises then are settings that are the session's to decide.
_ADVICE = re.compile(r"\n\s*(?:This limit was set by|Possible solutions|file = \S.*\n\s*delimiter = )")

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_AMOUNT = rf"([\d.]+) ({'|'.join(_UNITS)})"
_ALLOCATION = re.compile(rf"failed to allocate data of size {_AMOUNT} \({_AMOUNT}/")

# Where DuckDB underlines a text: that of a stage is the planner's, which the user has not seen.
_LINE = re.compile(r"\s*\n\s*LINE \d+: ")


class Stopped(Exception):
    """The attempt was stopped; not an error, and never shown."""


def to_failure(error: BaseException, spec: TaskSpec) -> tuple[QoopError, bool]:
    """Return the error as one of ours, and whether another attempt may succeed where this one failed.

    The history of a job keeps it: it tells where it was raised, but no longer holds the rows that were at hand there.
    """
    for one in _chain(error):
        traceback.clear_frames(one.__traceback__)
    found, retryable = _classify(error, spec)
    if found is not error:
        found.__cause__ = error
    found.stage, found.part, found.sql = spec.stage.id, spec.attempt.task.part, spec.stage.sql
    return found, retryable


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _classify(error: BaseException, spec: TaskSpec) -> tuple[QoopError, bool]:
    message = str(error)
    lower = message.lower()
    message = _ADVICE.split(message, maxsplit=1)[0].rstrip()
    where = describe(spec)
    if isinstance(error, CheckpointError):
        return error, True
    if isinstance(error, QoopError):
        return error, False
    if isinstance(error, duckdb.OutOfMemoryException) and not any(word in lower for word in _SPILL_FULL):
        full = OutOfMemory(f"{where} ran out of memory; it was given {_size(spec.resources.memory)}\n{message}")
        full.single = _single_value(message)
        return full, True
    if isinstance(error, (MemoryError, pa.ArrowMemoryError)):
        return OutOfMemory(f"{where} ran out of memory: {message or 'no memory left in the process'}"), True
    if isinstance(error, duckdb.OutOfMemoryException) or _is_disk(error, lower):
        return DiskFull(f"{where} could not spill to disk: {message}"), False
    if isinstance(error, OSError):
        return ExecutionError(f"{where} failed: {message}"), False
    if spec.stage.table_inputs and _is_source(error, lower):
        names = ", ".join(sorted({item.table for item in spec.stage.table_inputs}))
        return SourceError(f"{where} could not read {names}: {message}"), False
    if isinstance(error, duckdb.InterruptException):
        return ExecutionError(f"{where} was interrupted from outside"), True
    if isinstance(error, duckdb.Error):
        text = message if spec.stage.whole else _LINE.split(message, maxsplit=1)[0]
        return ExecutionError(f"{where} failed: {text}"), False
    return ExecutionError(f"{where} failed with {type(error).__name__}: {message}"), False


def _single_value(message: str) -> float:
    """The bytes of the allocation that DuckDB names, if it had little else in use: a value, and no table of rows.

    >>> _single_value("failed to allocate data of size 2.0 GiB (40.0 KiB/953.6 MiB used)")
    2147483648.0
    >>> _single_value("failed to allocate data of size 2.0 GiB (700.0 MiB/953.6 MiB used)")
    0.0
    """
    found = _ALLOCATION.search(message)
    if found is None:
        return 0.0
    size, used = (float(number) * _UNITS[unit] for number, unit in (found.group(1, 2), found.group(3, 4)))
    return size if used < size / 16 else 0.0


def _is_disk(error: BaseException, lower: str) -> bool:
    return isinstance(error, duckdb.IOException) and any(word in lower for word in _DISK_WORDS)


def _is_source(error: BaseException, lower: str) -> bool:
    if isinstance(error, duckdb.IOException) or type(error) is duckdb.Error:
        return True
    said, _, _echo = lower.partition("\n\nline 1: ")  # DuckDB repeats the SQL, in which files have their names
    return isinstance(error, duckdb.Error) and any(word in said for word in _FILE_WORDS)


def describe(spec: TaskSpec) -> str:
    """Words for people that say which task it is."""
    stage, part = spec.stage, spec.attempt.task.part
    label = f" ({stage.label})" if stage.label else ""
    return f"Stage {stage.id}{label}, task {part + 1} of {stage.width},"


def is_fatal(error: BaseException) -> bool:
    """True if the DuckDB instance that raised it refuses all further work."""
    return isinstance(error, (duckdb.FatalException, duckdb.InternalException))


def _size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
