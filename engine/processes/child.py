"""The loop of a child process: it reads a call, runs it within its limit of memory, and writes the result.

Both ways carry frames: a character, a length and that many bytes.

::

    to    C  JSON   a call: module and name of a function, its arguments, the bytes of memory that it may take
    it    M  JSON   a message to the call that runs: a number, and what the call's listener gets
    from  P  text   the number of the process
    it    B  bytes  of an answer, which the caller reads as Arrow
          A  JSON   the answer to a message: its number, and the result; null if the call has no listener, or has ended
          R  JSON   the result of the call
          E  JSON   its error

A thread reads what comes, so that a message is answered while the call computes.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import queue
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

HEADER = struct.Struct(">cQ")
PARTITION = struct.Struct(">I60x")
"""Before the rows of a task, which stay aligned: the number of their partition."""
_PR_SET_PDEATHSIG = 1
_RESERVED = (512 if duckdb.__version__.startswith("2.") else 256) << 20
"""Bytes that DuckDB maps and does not use: the parent counts those that are used, and ends what has too many."""
_PLAIN = (str, int, float, bool, type(None))


class Reply:
    """The way of bytes from a call to its caller. listener: answers messages to the call, in another thread than the
    call's; None: nothing does. limit: bytes of memory that this process may have during the call.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.listener: Callable[[Any], object] | None = None
        self.limit = 0
        self._stream = stream
        self._writing = threading.Lock()
        self._answering = threading.Lock()  # while the listener is at it

    def send(self, data: bytes | memoryview) -> None:
        """Hand over some bytes; waits while the caller reads none."""
        self.frame(b"B", data)

    def frame(self, kind: bytes, data: bytes | memoryview) -> None:
        """Write one frame."""
        with self._writing:
            self._stream.write(HEADER.pack(kind, len(data)))
            self._stream.write(data)
            self._stream.flush()

    def answer(self, number: int, message: Any) -> None:
        """Answer a message."""
        with self._answering:
            result = None if self.listener is None else self.listener(message)
        self.frame(b"A", json.dumps((number, result)).encode())

    def allow(self, memory: int) -> None:
        """Let the call have this number of bytes on top of its limit."""
        limit_data(self.limit + memory)

    @contextlib.contextmanager
    def answers(self, listener: Callable[[Any], object]) -> Iterator[None]:
        """Messages are answered by a function meanwhile."""
        self.listener = listener
        try:
            yield
        finally:
            with self._answering:
                self.listener = None


def serve(connection: socket.socket) -> None:
    """Run calls until the parent closes the connection."""
    calls: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with contextlib.suppress(OSError), connection.makefile("wb") as output:  # the parent is gone
        reply = Reply(output)
        reader = threading.Thread(target=_read, args=(connection.makefile("rb"), reply, calls), daemon=True)
        reader.start()
        base = data_size()
        reply.frame(b"P", str(os.getpid()).encode())
        while (call := calls.get()) is not None:
            module, name, arguments, memory = json.loads(call)
            try:
                function = getattr(importlib.import_module(module), name)
                reply.limit = base + memory + _RESERVED
                with _limited(reply.limit):
                    result = function(reply, *arguments)
                reply.frame(b"R", json.dumps(result).encode())
            except Exception as error:
                reply.frame(b"E", json.dumps(_described(error)).encode())


def _read(stream: BinaryIO, reply: Reply, calls: queue.SimpleQueue[bytes | None]) -> None:
    """Pass on calls, and answer messages to the one that runs, until the parent closes the connection."""
    try:
        while header := stream.read(HEADER.size):
            kind, size = HEADER.unpack(header)
            data = stream.read(size)
            if kind == b"C":
                calls.put(data)
            else:
                reply.answer(*json.loads(data))
    except OSError:
        pass  # it is gone
    finally:
        calls.put(None)


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when the one that made it ends, and choose it first where memory is short."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prefer_to_end(1000)
    if os.getppid() != parent:
        os._exit(1)


def prefer_to_end(score: int) -> None:
    """Have the system choose this process before others where memory is short; 1000: as one of the first."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(score), encoding="ascii")


def data_size() -> int:
    """Bytes of memory that this process may write to and shares with no file, as RLIMIT_DATA counts them."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmData")).split()[1]) << 10
    return 0


@contextlib.contextmanager
def _limited(memory: int) -> Iterator[None]:
    """Let allocations beyond this fail, so that DuckDB raises an error and the process goes on."""
    before = limit_data(memory)
    try:
        yield
    finally:
        limit_data(before)


def limit_data(memory: int) -> int:
    """Set the limit of `data_size`; returns the one before."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    return before


def _described(error: Exception) -> dict[str, Any]:
    """An error as JSON: its class, its message, and its plain attributes."""
    plain = {name: one for name, one in vars(error).items() if isinstance(one, _PLAIN)}
    return {"module": type(error).__module__, "class": type(error).__name__, "message": str(error), "facts": plain}
