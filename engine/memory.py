"""The memory of this process: what it uses, what its children use, and what it has freed."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import cache

import duckdb
import pyarrow as pa

from qoop.catalog.opening import open_duckdb
from qoop.catalog.value import value

_PAGE = resource.getpagesize()


@value
class Used:
    """The use of some processes. seconds: of the CPUs, so far. memory: anonymous bytes that are resident."""

    seconds: float = 0.0
    memory: int = 0


def anonymous_memory(process: int | None = None) -> int:
    """Resident bytes that no file backs, of this process or another; 0 where the system does not tell."""
    try:
        path = f"/proc/{'self' if process is None else process}/statm"
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a third of the time that `open` takes
    except OSError:
        return 0
    try:
        _, resident, backed, *_ = os.read(file, 200).split()
    except OSError:  # the process has just ended
        return 0
    finally:
        os.close(file)
    return (int(resident) - int(backed)) * _PAGE


_LEAST_LIMIT = "SET memory_limit = '16MB'"


class FreedMemory:
    """Memory that was freed, and that allocators of this process keep (see `engine.backends.release_memory`)."""

    def __init__(self) -> None:
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._closed = False

    def give_back(self) -> None:
        """Give it to the system, as far as this thread can."""
        pa.default_memory_pool().release_unused()
        if self._instance is None and not self._closed:
            self._instance = open_duckdb(files=False, threads=1)
        if self._instance is not None:
            self._instance.execute(_LEAST_LIMIT)
        malloc_trim = _malloc_trim()
        if malloc_trim is not None:
            malloc_trim(0)

    def close(self) -> None:
        """Empty DuckDB's allocator no more."""
        self._closed = True
        if self._instance is not None:
            self._instance.close()
            self._instance = None


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim  # glibc only
    except (AttributeError, OSError, TypeError):
        return None
