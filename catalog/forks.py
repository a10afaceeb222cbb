"""Objects that a forked process may not share with its parent.

A forked child has copies of its parent's objects and not one of its threads. So what waits for a thread waits for ever,
a lock that another thread had is never free, a DuckDB that is destroyed joins threads that are not there and crashes,
and a file that both have open keeps its lock for as long as one of them lives. Objects that live by threads ask their
`Home` first; the rest is made again in the child, by `os.register_at_fork`, here and where it is defined.
"""

from __future__ import annotations

import os
import sys
import weakref

from qoop.catalog.errors import SessionClosed


class Home:
    """The process that something was made in."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """True in that process, False in one forked from it."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise SessionClosed in a process that was forked from that one."""
        if not self.is_here:
            raise SessionClosed(
                f"this session is that of process {self._process}, from which process {os.getpid()} was forked: "
                "open another one here, with qoop.connect()"
            )


def stays(connection: object) -> None:
    """A forked child is never to destroy this DuckDB."""
    _connections.add(connection)


def keep_private(file: int) -> None:
    """A forked child is not to keep this open file, nor the locks on it. Until `forget_private`."""
    _files.add(file)


def forget_private(file: int) -> None:
    """The file is about to be closed."""
    _files.discard(file)


_connections: weakref.WeakSet[object] = weakref.WeakSet()
_files: set[int] = set()


def _leave_parent() -> None:
    connections = list(_connections)
    if "duckdb" in sys.modules:
        connections.append(sys.modules["duckdb"].default_connection())  # importing it made one
    import ctypes  # loaded before the fork

    for connection in connections:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for file in _files:  # not closed: another file would get its number, and be closed in its stead
        os.dup2(nothing, file, inheritable=False)
    os.close(nothing)


def _load() -> None:
    """Load what the child needs while nothing in this process can hold it up: few processes fork."""
    import ctypes  # noqa: F401 — for its effect


os.register_at_fork(before=_load, after_in_child=_leave_parent)
