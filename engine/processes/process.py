"""A child process as its parent sees it: one call at a time, within limits, and its end."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import duckdb

from qoop.catalog import errors
from qoop.catalog.errors import ExecutionError, OutOfMemory, ProcessEnded
from qoop.catalog.priority import BEHIND, all_go_behind
from qoop.engine.memory import ProcessFiles
from qoop.engine.processes.child import HEADER
from qoop.engine.processes.nursery import NO_SIGNAL

_INTERVAL = 0.02  # seconds between two checks of a call
_REPORTED = 10.0  # seconds that the nursery may take to report the end of a process
_SLACK = 32 << 20  # bytes beyond the limit at which the process is killed: its allocations fail before, as a rule


class Limits(NamedTuple):
    """The limits of a call. memory: bytes on top of what the idle process has. check: called some 50 times a second;
    raises what ends the call. urgent: seconds of the processor, after which the process goes behind all that are.
    gives_way: the call fails if all processes have too much memory together, and it has the most of those that do."""

    memory: int
    check: Callable[[], object] = lambda: None
    urgent: float = math.inf
    gives_way: bool = False


class ChildProcess:
    """One child process. Only `interrupt`, `taken`, `used_seconds`, `request` and `allow` may be used from other
    threads than the rest.

    id: of the process; 0 until its first call. niceness: of its calls, which may only rise. known: what its caller has
    sent it before, and it still has. size: bytes that its call has taken, as last read. gives_way: see `Limits`.
    check_all: raises OutOfMemory for a call that has to give way.
    """

    def __init__(
        self,
        connection: socket.socket,
        ending: socket.socket,
        check_all: Callable[[ChildProcess], None] = lambda process: None,
    ) -> None:
        self._socket, self._ending, self._check_all = connection, ending, check_all
        self.size = 0
        self.gives_way = False
        self.id = 0  # until the first frame
        self._handle: int | None = None
        self._files: ProcessFiles | None = None
        self._lock = threading.Lock()  # of the handle: a closed number may become another file's
        self._seconds = 0.0  # of the processor, as last read
        self.niceness = self._had = 0
        self._nice_from = math.inf  # seconds of the processor, when it got a niceness
        self._base = 0  # bytes that it has without work
        self._urgent = True
        self._seconds_before = 0.0  # of the processor, at the begin of the call
        self.known: object = None
        self._ended_well = True
        self._interrupted = False
        self._requesting = threading.Lock()  # of what follows
        self._calling = False  # the call has been sent, and has not ended
        self._numbers = itertools.count(1)
        self._requests: dict[int, Callable[[Any], object]] = {}  # what takes the answer, by number of the message
        self._added = 0  # bytes that the call may take on top of its limits

    @property
    def fit(self) -> bool:
        """It has ended its last call, and can take another."""
        return self._ended_well and self._urgent and not self._interrupted

    @property
    def used_seconds(self) -> float:
        """CPU seconds that its call has used, as last read."""
        return max(0.0, self._seconds - self._seconds_before)

    @property
    def nice_seconds(self) -> float:
        """CPU seconds that it has used with a niceness, as last read."""
        return max(0.0, self._seconds - self._nice_from)

    def call(
        self,
        function: Callable[..., Any],
        arguments: Sequence[object],
        limits: Limits,
        receive: Callable[[bytearray], object] = lambda data: None,
    ) -> Any:
        """The result of `function(reply, *arguments)` in the child, a function of a module. receive: gets what
        `reply.send` does. Arguments and result are values of JSON.

        Raises the errors of the call and of the check; OutOfMemory if it needs more than it may have; ProcessEnded.
        After all but the first it is killed, and so it is after a call that was not urgent to its end.
        """
        self._ended_well = False
        self._added = 0
        self.gives_way = limits.gives_way
        try:
            self._begin(limits)
            self._seconds_before = self.cpu_seconds()
            self._let_others_go_first(self.niceness)
            request = json.dumps((function.__module__, function.__name__, arguments, limits.memory)).encode()
            self._send(HEADER.pack(b"C", len(request)) + request, limits)
            self._calling = True
            while True:
                kind, data = self._frame(limits)
                if kind == b"A":
                    self._answered(*json.loads(data))
                    continue
                if kind == b"R":
                    self._ended_well = self._is_small()
                    return json.loads(data)
                if kind == b"E":
                    described = json.loads(data)
                    self._ended_well = self._is_small() and not _is_full(described)
                    raise _error(described)
                receive(data)
        finally:
            self._end_requests()
            if not self.fit:
                self.kill()

    def request(self, message: object, take: Callable[[Any], object]) -> None:
        """Send a message to the call that runs. take: gets the result of its listener, a value of JSON, in the thread
        of the call; None if it has no listener, or does not run."""
        with self._requesting:
            number = next(self._numbers)
            frame = json.dumps((number, message)).encode()
            if self._calling:
                with contextlib.suppress(OSError):  # it has ended, which ends the call
                    self._socket.sendall(HEADER.pack(b"M", len(frame)) + frame)
                self._requests[number] = take
                return
        take(None)

    def allow(self, memory: int) -> None:
        """Let the call that runs have this number of bytes on top of its limit."""
        self._added = memory

    def _answered(self, number: int, result: Any) -> None:
        with self._requesting:
            take = self._requests.pop(number, None)
        if take is not None:
            take(result)

    def _end_requests(self) -> None:
        with self._requesting:
            self._calling = False
            waiting, self._requests = list(self._requests.values()), {}
        for take in waiting:
            take(None)

    def is_alive(self) -> bool:
        """False once it, or its nursery, is known to have ended."""
        try:
            self._ending.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def cpu_seconds(self) -> float:
        """Seconds of the processor that it has used, or had when it was killed; 0: unknown."""
        if self._files is not None and (seconds := self._files.cpu_seconds()) is not None:
            self._seconds = seconds
        return self._seconds

    def memory(self) -> int:
        """Bytes of its memory that no file backs; 0 before its first call, and once it has ended."""
        return self._files.memory() if self._files is not None else 0

    def taken(self) -> int:
        """Bytes that its call has taken so far."""
        return max(0, self.memory() - self._base)

    def interrupt(self) -> None:
        """Kill the process if it has begun, so that its call raises ProcessEnded. It allocates next to nothing: above
        ``memory.high`` the kernel pauses a thread for up to 2 s whenever it needs a new page."""
        self._interrupted = True
        with self._lock:
            if self._handle is not None:  # of this process, even if another has its number by now
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._ended_well = False
        self.cpu_seconds()
        self.interrupt()
        self._socket.close()
        self._ending.close()
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
        if self._files is not None:
            self._files.close()

    def _begin(self, limits: Limits) -> None:
        """Wait until the process has begun."""
        if not self.id:
            _, data = self._frame(limits)
            self.id = int(data)
            try:
                self._handle = os.pidfd_open(self.id)
                self._files = ProcessFiles(self.id)
            except OSError as error:
                raise self._ended() from error
            self._base = self.memory()

    def _send(self, data: bytes, limits: Limits) -> None:
        view = memoryview(data)
        self._socket.settimeout(_INTERVAL)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except TimeoutError:
                limits.check()
            except OSError as error:
                raise self._ended() from error

    def _frame(self, limits: Limits) -> tuple[bytes, bytearray]:
        kind, size = HEADER.unpack(self._bytes(HEADER.size, limits))
        return kind, self._bytes(size, limits)

    def _bytes(self, size: int, limits: Limits) -> bytearray:
        data, begun = bytearray(size), time.monotonic()
        view = memoryview(data)
        self._socket.settimeout(_INTERVAL)
        while view:
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                count = -1
            except OSError as error:
                raise self._ended() from error
            if count == 0:
                raise self._ended()
            if count > 0:
                view = view[count:]
            if count < 0 or time.monotonic() - begun > _INTERVAL:
                begun = time.monotonic()
                self._check(limits)
        return data

    def _check(self, limits: Limits) -> None:
        limits.check()
        self.size = self.taken()
        if self.size > limits.memory + self._added + _SLACK:
            raise OutOfMemory(f"the query needs more than {(limits.memory + self._added) / 1e6:,.0f} MB")
        if self.gives_way:
            self._check_all(self)
        used = self.cpu_seconds() - self._seconds_before  # also read once it is behind: so it is known to be long
        if self._urgent and used > limits.urgent:
            self._urgent = False  # so it takes no other call
            self._let_others_go_first(BEHIND)

    def _let_others_go_first(self, niceness: int) -> None:
        if niceness > self._had:
            self._had = niceness
            self._nice_from = min(self._nice_from, self._seconds)
            all_go_behind(self.id, niceness)

    def _ended(self) -> ProcessEnded:
        """The error of a process that has ended. If no report comes, its nursery was killed, and it was with it."""
        self._ending.settimeout(_REPORTED)
        try:
            report = self._ending.recv(1)
        except OSError:
            report = bytes([NO_SIGNAL])
        by = report[0] if report else signal.SIGKILL
        why = "the system needed its memory" if by == signal.SIGKILL else f"DuckDB crashed (signal {by})"
        error = ProcessEnded(f"the process of the query has ended: {why}")
        error.was_killed = by == signal.SIGKILL
        return error

    def _is_small(self) -> bool:
        return self.memory() < self._base + _SLACK


def _is_full(described: dict[str, Any]) -> bool:
    """True if DuckDB ran into the limit of the process: it keeps addresses that count, though it uses them no more."""
    return described["class"] == "OutOfMemoryException" or "llocat" in described["message"]


def _error(described: dict[str, Any]) -> Exception:
    """The error of a call, of its own class where that is ours or DuckDB's."""
    places = {"qoop.catalog.errors": errors, duckdb.OutOfMemoryException.__module__: duckdb}
    kind = getattr(places.get(described["module"]), described["class"], None)
    if described["class"] == "MemoryError":
        return MemoryError(described["message"])
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return ExecutionError(f"{described['class']}: {described['message']}")
    error = kind(described["message"])
    vars(error).update(described["facts"])
    return error
