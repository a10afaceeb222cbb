"""Objects that a forked process may not share with its parent.

A forked child has copies of its parent's objects, but only the thread that forked. So a wait for another thread never
ends, and a lock that another thread had is never released. The destructor of a DuckDB joins threads that do not exist,
and crashes. A file that both processes have open keeps its lock until both have closed it.

Objects that depend on threads check their `CreatorProcess` first. The others are made again in the child, by
`os.register_at_fork`, here and where they are defined.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from qoop.catalog.errors import SessionClosed


class CreatorProcess:
    """The process that created an object."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """True in that process, False in its forked children."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise SessionClosed in a forked child of that process."""
        if not self.is_here:
            raise SessionClosed(
                f"this session belongs to process {self._process}, from which process {os.getpid()} was forked: "
                "open another session here, with qoop.connect()"
            )


def survive_fork(connection: object) -> None:
    """Exempt a DuckDB from destruction in forked children."""
    _connections.add(connection)


def keep_private(file: int) -> None:
    """Detach forked children from this open file and its locks, until `forget_private`."""
    _files.add(file)


def forget_private(file: int) -> None:
    """Withdraw `keep_private`, before the file is closed."""
    _files.discard(file)


_connections: weakref.WeakSet[object] = weakref.WeakSet()
_files: set[int] = set()


def _leave_parent() -> None:
    for connection in _connections:
        _leave_to_parent(connection)
    atexit.register(_leave_default)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for file in _files:  # not closed: the parent's objects would later close another file of the same number
        os.dup2(nothing, file, inheritable=False)
    os.close(nothing)


def _leave_default() -> None:
    """Exempt the default DuckDB of its package. Version 1.5 opens it at import, 2.0 at the first use.

    No call tells if it is open, and to fetch it takes 28 ms: too long for each child, most of which end without
    destroying objects."""
    if "duckdb" in sys.modules:
        _leave_to_parent(sys.modules["duckdb"].default_connection())


def _leave_to_parent(connection: object) -> None:
    import ctypes  # loaded before the fork

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _load() -> None:
    """Load what the child needs before the fork: an import in the child may wait for a lock of the parent."""
    import ctypes  # noqa: F401 — for its effect


os.register_at_fork(before=_load, after_in_child=_leave_parent)
