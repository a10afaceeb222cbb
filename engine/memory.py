"""The memory of this process: what it uses, what its children use, and what it has freed."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import duckdb
import pyarrow as pa

from qoop.catalog.opening import open_duckdb
from qoop.catalog.value import value

_PAGE = resource.getpagesize()


@value
class Used:
    """The use of some processes. seconds: of the CPUs, so far. memory: anonymous bytes that are resident.
    nice_seconds: of their seconds and those of this process, what had a niceness."""

    seconds: float = 0.0
    memory: int = 0
    nice_seconds: float = 0.0


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


_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFiles:
    """The use of another process, from files that stay open: each look is one call of the system, which
    lets go of the interpreter's lock once, and not three times. Thread-safe. Raises OSError for no process."""

    def __init__(self, process: int) -> None:
        self._lock = threading.Lock()
        self._files: list[int] = []
        try:
            for name in ("statm", "stat"):
                self._files.append(os.open(f"/proc/{process}/{name}", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def memory(self) -> int:
        """As `anonymous_memory`; 0 once it has ended."""
        found = self._read(0, 200).split()
        return (int(found[1]) - int(found[2])) * _PAGE if found else 0

    def cpu_seconds(self) -> float | None:
        """Seconds of the processor that it has used; None once it has ended."""
        found = self._read(1, 1000).rpartition(b")")[2].split()
        return (int(found[11]) + int(found[12])) / _TICKS if found else None

    def close(self) -> None:
        """Look no more."""
        with self._lock:
            while self._files:
                os.close(self._files.pop())

    def _read(self, place: int, size: int) -> bytes:
        with self._lock, suppress(OSError, IndexError):  # it has ended, or is looked at no more
            return os.pread(self._files[place], size, 0)
        return b""


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
