"""The loop of a child process: it reads a call, runs it within its limit of memory, and writes the result.

Both ways carry JSON, and bytes that the caller reads as Arrow. A call is the length of its text and the text: the
module and the name of a function, its arguments, and the bytes of memory that it may take.

One frame is a character, a length and that many bytes: ``P`` the number of the process, ``B`` bytes of an answer, ``R``
its result in JSON, ``E`` an error in JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator
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
    """The way of bytes from a call to its caller."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, data: bytes | memoryview) -> None:
        """Hand over some bytes; waits while the caller reads none."""
        self.frame(b"B", data)

    def frame(self, kind: bytes, data: bytes | memoryview) -> None:
        """Write one frame."""
        self._stream.write(HEADER.pack(kind, len(data)))
        self._stream.write(data)
        self._stream.flush()


def serve(connection: socket.socket) -> None:
    """Run calls until the parent closes the connection."""
    with contextlib.suppress(OSError), connection.makefile("rwb") as stream:  # the parent is gone
        reply, base = Reply(stream), data_size()  # type: ignore[arg-type]
        reply.frame(b"P", str(os.getpid()).encode())
        while header := stream.read(8):
            module, name, arguments, memory = json.loads(stream.read(int.from_bytes(header)))
            try:
                function = getattr(importlib.import_module(module), name)
                with _limited(base + memory + _RESERVED):
                    result = function(reply, *arguments)
                reply.frame(b"R", json.dumps(result).encode())
            except Exception as error:
                reply.frame(b"E", json.dumps(_described(error)).encode())


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
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _described(error: Exception) -> dict[str, Any]:
    """An error as JSON: its class, its message, and its plain attributes."""
    plain = {name: one for name, one in vars(error).items() if isinstance(one, _PLAIN)}
    return {"module": type(error).__module__, "class": type(error).__name__, "message": str(error), "facts": plain}
