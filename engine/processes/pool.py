"""The child processes of a session: a few wait for a call, so that a call waits for none."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from functools import partial

from qoop.catalog.errors import OutOfMemory, SessionClosed
from qoop.catalog.priority import not_behind
from qoop.engine.memory import Used, anonymous_memory
from qoop.engine.processes.nursery import Nursery
from qoop.engine.processes.process import ChildProcess

_WARM = 2  # processes that wait, of each niceness
_MOST = 6  # that wait after their calls: more come at once than are needed on the whole
_SMALL = 32 << 20  # bytes up to which a call does not give way: little would come free
_OF_PROCESS = 8 << 20  # bytes that a process without work has, besides those that it shares with its nursery
_WORTH_A_START = 15.0  # seconds of work; to start the first process takes half a second of a CPU
_OF_MODULES = 256 << 20  # bytes that this process has before it has worked, if it is a server and nothing else


class ProcessPool:
    """Child processes, forked ahead once one was needed. Thread-safe.

    memory: returns the bytes that they and this process may have together. What a program has besides its server when
    the pool is made does not count. release: frees what this process keeps and does not use. niceness: of calls
    that are not urgent, from now on.
    """

    def __init__(
        self, memory: Callable[[], float] = lambda: math.inf, release: Callable[[], object] = lambda: None
    ) -> None:
        self._memory, self._release = memory, release
        self.niceness = 0
        self._of_program = max(0, anonymous_memory() - _OF_MODULES)
        self._modules: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._nurseries: list[Nursery] = []  # the one that forks, and its standby
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        self._closed = False
        self._ended_seconds = self._ended_nice = 0.0  # of the CPUs, that processes have used which ended
        self._expected = 0.0  # seconds of work that would have run in processes

    def used(self) -> Used:
        """The use of all its processes."""
        with self._lock:
            living = [*self._idle, *self._busy]
            nursery = self._nurseries[0].memory() if self._nurseries else 0  # its standby shares it
            seconds = self._ended_seconds + sum(process.cpu_seconds() for process in living)
            memory = nursery + sum(process.memory() for process in living)
            return Used(seconds, memory, self._ended_nice + sum(process.nice_seconds for process in living))

    def preload(self, module: str) -> None:
        """Have the processes load a module before the first call: it holds functions that they are to run."""
        with self._lock:
            self._modules = (*self._modules, module)

    def warm(self) -> None:
        """Have processes that wait for a call."""
        with self._lock:
            while not self._closed and len(self._alike(0)) < _WARM:
                self._idle.append(self._forked())

    def pays(self, seconds: float) -> bool:
        """True if work of that many seconds is to run in a process: there are some, or enough such work has come that
        the start of the first ones is a small part of it."""
        self._expected += seconds
        return bool(self._nurseries) or self._expected >= _WORTH_A_START

    @contextlib.contextmanager
    def process(self, urgent: bool = True) -> Iterator[ChildProcess]:
        """A process for one call, or several, of this caller. Another takes its place if it is killed.

        urgent: its calls compete with this process for a CPU. Those of others have the niceness, and so has their
        process from then on.
        """
        niceness = 0 if urgent else self.niceness
        with self._lock:
            process = self._waiting(niceness) or self._forked()
            self._busy.add(process)
            if not self._alike(0) and not self._closed:  # on a full machine one takes longer to come than to work
                self._idle.append(self._forked())
        process.niceness = niceness
        try:
            yield process
        finally:
            with self._lock:
                self._busy.discard(process)
                ends = self._put_back(process)
            if ends is not None:
                ends.kill()
            self.warm()

    def _put_back(self, process: ChildProcess) -> ChildProcess | None:
        """Have a process wait for its next call. Returns the one that is to end: where enough wait, one that has not
        worked yet, or else this one. Under the lock."""
        alike = self._alike(process.niceness)
        if not process.fit or self._closed:
            ends: ChildProcess | None = process
        elif len(self._idle) < _MOST or len(alike) < _WARM:
            ends = None
        else:
            ends = next((one for one in alike if not one.id), process)
        self._idle = [one for one in (*self._idle, process) if one is not ends]
        if ends is not None:
            self._ended_seconds += ends.cpu_seconds()
            self._ended_nice += ends.nice_seconds
        return ends

    def _check_memory(self, process: ChildProcess) -> None:
        """Raise OutOfMemory if all have too much, and the call of this process has the most. What is planned for each
        call may be less than they take, and more than is there: binding has no plan, and this process grows."""
        others = [other.size for other in list(self._busy) if other.gives_way]  # a trusted call may have more
        if process.size < _SMALL or max(others, default=0) > process.size:
            return
        total, most = self._total(), self._memory()
        if total > most:
            self._release()
            total = self._total()
        if total > most:
            raise OutOfMemory(
                f"the query has {process.size / 1e6:,.0f} MB, the most of all that run: together they have "
                f"{total / 1e6:,.0f} MB of {most / 1e6:,.0f}"
            )

    def _total(self) -> int:
        return anonymous_memory() - self._of_program + self.size()

    def size(self) -> int:
        """Bytes of all processes, as last read."""
        busy = list(self._busy)
        shared = sum(nursery.memory() for nursery in self._nurseries[:1])
        return shared + sum(one.size for one in busy) + _OF_PROCESS * (len(busy) + len(self._idle))

    def close(self) -> None:
        """End all processes. Calls that run raise ExecutionError."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            nurseries, self._nurseries = self._nurseries, []
        for process in idle:
            process.kill()
        for nursery in nurseries:
            nursery.close()

    def _alike(self, niceness: int) -> list[ChildProcess]:
        """The processes of a niceness that wait for a call."""
        return [process for process in self._idle if process.niceness == niceness]

    def _waiting(self, niceness: int) -> ChildProcess | None:
        """A process that waits for a call, and has the niceness, or else less; those that were killed meanwhile, as
        with their nursery, are dropped. Urgent calls have those that have worked: a first call takes 10 to 17 ms more
        of the processor. Others leave them these."""
        while fit := [process for process in self._idle if process.niceness <= niceness]:
            process = max(reversed(fit), key=lambda one: (one.niceness, bool(one.id) == (niceness == 0)))
            self._idle.remove(process)
            if process.is_alive():
                return process
            process.kill()
        return None

    def _forked(self) -> ChildProcess:
        """A new process, of a nursery that is alive. Those that were killed give way to others."""
        for nursery in list(self._nurseries):
            if not nursery.is_alive():
                self._nurseries.remove(nursery)
                nursery.close()
        with contextlib.suppress(OSError, IndexError):  # it is killed just now, or there is none yet
            return self._child(self._nurseries[0])
        if self._closed:
            raise SessionClosed("the session was closed")
        self._nurseries.append(not_behind(partial(Nursery.started, self._modules)))
        return self._child(self._nurseries[-1])

    def _child(self, nursery: Nursery) -> ChildProcess:
        process = ChildProcess(*nursery.fork(), self._check_memory)
        if len(self._nurseries) == 1:
            with contextlib.suppress(OSError):  # as above
                self._nurseries.append(nursery.standby())
        return process
