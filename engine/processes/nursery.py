"""The nursery: a process that has loaded all that its children need, and forks one when its parent asks for it.

A fork takes some 10 ms and shares the memory of the modules; a start of Python takes 0.4 s. A process with threads,
such as a server, had better not fork; the nursery has none.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys

from qoop.engine.memory import anonymous_memory
from qoop.engine.processes.child import end_with_parent, prefer_to_end, serve

_MODULES = ("duckdb", "pyarrow", "qoop.engine.kernel", "qoop.engine.processes.task_in_process")


NO_SIGNAL = 0
_BEFORE_PARENT = 900
"""Of 1000: where memory is short, the system ends the children first, then the nursery, then the parent."""


class Nursery:
    """The nursery as its parent sees it. Not thread-safe.

    modules: that its children have loaded, on top of those of the engine.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), *_MODULES, *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at a terminal is for the parent
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )

    def memory(self) -> int:
        """Bytes of its memory that no file backs."""
        return anonymous_memory(self._process.pid)

    def fork(self) -> tuple[socket.socket, socket.socket]:
        """A new child, which may take some time to come: a connection to it, and one by which a byte comes when it has
        ended: the number of its signal, or `NO_SIGNAL`. Raises OSError if the nursery has ended."""
        (ours, theirs), (ended, ending) = socket.socketpair(), socket.socketpair()
        with theirs, ending:
            try:
                socket.send_fds(self._control, [b"f"], [theirs.fileno(), ending.fileno()])
            except OSError:
                ours.close()
                ended.close()
                raise
        return ours, ended

    def close(self) -> None:
        """End the nursery and all its children."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def main(control: socket.socket) -> None:
    """Fork a child for each connection that comes, until the parent is gone."""
    endings: dict[int, socket.socket] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _report(endings))
    nursery = os.getpid()
    prefer_to_end(_BEFORE_PARENT)
    while True:
        data, files, _, _ = socket.recv_fds(control, 1, 2)
        if not data:
            return
        connection, ending = (socket.socket(fileno=file) for file in files)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # it may end before its number is known
        child = os.fork()
        if child == 0:
            for one in (control, ending, *endings.values()):
                one.close()
            end_with_parent(nursery)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            serve(connection)
            os._exit(0)
        endings[child] = ending
        connection.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _report(endings: dict[int, socket.socket]) -> None:
    """Report the children that have ended, each by its own connection."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = ended[1]
            with endings.pop(ended[0]) as ending, contextlib.suppress(OSError):  # its parent waits no more
                ending.send(bytes([os.WTERMSIG(code) if os.WIFSIGNALED(code) else NO_SIGNAL]))


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    main(socket.socket(fileno=int(sys.argv[1])))
