"""The nursery: a process that has loaded all that its children need, and forks one when its parent asks for it. Modules
may have a function `prepare` for what is to be done before.

A fork takes some 10 ms and shares the memory of the modules; a start of Python takes 0.4 s. A process with threads,
such as a server, had better not fork; the nursery has none.

A nursery that is killed takes its children with it. A standby, which it has forked before, takes its place at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from qoop.catalog.opening import open_for_children
from qoop.engine.memory import anonymous_memory
from qoop.engine.processes.child import end_with_parent, prefer_to_end, serve

_MODULES = ("duckdb", "pyarrow", "qoop.engine.kernel", "qoop.engine.processes.task_in_process")

NO_SIGNAL = 0
_BEFORE_PARENT = 900
"""Of 1000: where memory is short, the system ends the children first, then the nursery, then the parent."""
_DUCKDBS = 3
"""A child has one that reads and binds texts, one that runs them, and one that frees memory."""
_CHILD, _STANDBY = b"c", b"s"


class Nursery:
    """The nursery as its parent sees it. Not thread-safe.

    control: the connection to it. process: it, if this process has started it; None: another nursery has forked it.
    """

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._control, self._process = control, process
        self._id = 0 if process is None else process.pid

    @classmethod
    def started(cls, modules: tuple[str, ...]) -> Nursery:
        """A new nursery. modules: that its children have loaded, on top of those of the engine."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), *_MODULES, *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C at a terminal is for the parent. In a session of its own, Linux would give it
                # half of the CPUs, and the priority of what goes behind would count among its children alone
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )
        return cls(ours, process)

    def standby(self) -> Nursery:
        """Another nursery, forked by this one, that lives on if this one is killed. They share the memory of modules.
        Raises OSError if this one has ended."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._send(_STANDBY, [theirs], [ours])
        return Nursery(ours)

    def memory(self) -> int:
        """Bytes of its memory that no file backs."""
        return anonymous_memory(self._id) if self.is_alive() and self._id else 0

    def is_alive(self) -> bool:
        """False once it has ended."""
        try:
            data = self._control.recv(16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            self._id = int(data)
        return bool(data)

    def fork(self) -> tuple[socket.socket, socket.socket]:
        """A new child, which may take some time to come: a connection to it, and one by which a byte comes when it has
        ended: the number of its signal, or `NO_SIGNAL`. Raises OSError if the nursery has ended."""
        (ours, theirs), (ended, ending) = socket.socketpair(), socket.socketpair()
        with theirs, ending:
            self._send(_CHILD, [theirs, ending], [ours, ended])
        return ours, ended

    def close(self) -> None:
        """End the nursery and all its children."""
        self._control.close()  # which ends it, unless it loads modules
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _send(self, what: bytes, theirs: Sequence[socket.socket], ours: Sequence[socket.socket]) -> None:
        try:
            socket.send_fds(self._control, [what], [one.fileno() for one in theirs])
        except OSError:
            for one in ours:
                one.close()
            raise


def main(control: socket.socket) -> None:
    """Fork a child or a standby for each connection that comes, until the parent is gone."""
    endings: dict[int, socket.socket] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _report(endings))
    prefer_to_end(_BEFORE_PARENT)
    while True:
        try:
            what, files, _, _ = socket.recv_fds(control, 1, 2)
        except ConnectionResetError:  # the parent has left the number of this one unread
            return
        if not what:
            return
        connection, *ending = (socket.socket(fileno=file) for file in files)
        nursery = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # it may end before its number is known
        child = os.fork()
        if child == 0:
            for one in (control, *endings.values()):
                one.close()
            if what == _STANDBY:
                endings.clear()
                control, child = connection, os.getpid()
                with contextlib.suppress(OSError):  # the parent is gone
                    control.send(str(child).encode())
            else:
                ending[0].close()
                _serve(connection, nursery)
        elif ending:
            endings[child] = ending[0]
        if control is not connection:
            connection.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _serve(connection: socket.socket, nursery: int) -> NoReturn:
    """Be a child: run calls until the parent or the nursery is gone."""
    end_with_parent(nursery)
    os.setpgid(0, 0)  # its threads go behind others as a group
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    serve(connection)
    os._exit(0)


def _report(endings: dict[int, socket.socket]) -> None:
    """Report the children that have ended, each by its own connection."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = ended[1]
            ending = endings.pop(ended[0], None)
            if ending is not None:  # a child; the end of a standby is seen by its connection
                with ending, contextlib.suppress(OSError):  # its parent waits no more
                    ending.send(bytes([os.WTERMSIG(code) if os.WIFSIGNALED(code) else NO_SIGNAL]))


if __name__ == "__main__":
    modules = [importlib.import_module(module) for module in sys.argv[2:]]
    for module in modules:
        if hasattr(module, "prepare"):
            module.prepare()
    open_for_children(_DUCKDBS)
    main(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # a standby is a fork: libraries would wait for threads that it does not have
