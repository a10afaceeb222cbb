"""The kernels of a machine that wait for tasks: the one that was used last is the first to be used again.

Each has its DuckDB, with footers, pages of files and views that it has seen. If kernels took turns at queries that come
one after the other, all of them would read and keep the same, and each query might meet the one that has not. They
belong to no thread: workers come and go with the attempts on top of the slots, and one that opened a kernel of its own
for each would spend 15 ms of a CPU on it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from qoop.engine.functions.measured import Ledger
from qoop.engine.kernel import Kernel
from qoop.engine.native.copies import NativeCopies


class WarmKernels:
    """Kernels that wait, and those in use. Thread-safe.

    folder: where each has a folder for what DuckDB spills. most: kernels that may wait, besides those in use: long
    tasks hold some, and short ones on top of the slots would open one each. copies: of tables, which they may read.
    """

    def __init__(self, folder: Path, most: int, copies: NativeCopies | None = None) -> None:
        self._folder = folder
        self.copies = copies
        self._most = most
        self._ledger = Ledger()
        self._numbers = count()
        self._generation = 0  # of the kernels that may wait
        self._waiting: list[Kernel] = []
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # while one is opened ahead: the first task waits for that one

    def open_ahead(self) -> None:
        """Open the first kernel, unless one waits."""
        with self._opening, contextlib.suppress(Exception):  # the first task tries again, and reports what it meets
            if not self._waiting:
                self._wait(self._opened(), self._generation)

    @contextlib.contextmanager
    def taken(self) -> Iterator[Kernel]:
        """A kernel for one task: one that waits, or a new one. Raises what opening one does."""
        with self._opening, self._lock:
            generation = self._generation
            kernel = self._waiting.pop() if self._waiting else None
        try:
            kernel = kernel or self._opened()
            yield kernel
        finally:
            if kernel is not None:
                self._wait(kernel, generation)

    def limit(self, most: int) -> None:
        """Let this number of kernels wait, and close those beyond."""
        with self._lock:
            self._most = most
            beyond = max(0, len(self._waiting) - most)
            surplus, self._waiting = self._waiting[:beyond], self._waiting[beyond:]
        _close(surplus)

    def replace(self) -> None:
        """Close the kernels that wait, and those in use after their tasks."""
        with self._lock:
            self._generation += 1
            surplus, self._waiting = self._waiting, []
        _close(surplus)

    def _opened(self) -> Kernel:
        return Kernel(self._folder / f"kernel-{next(self._numbers)}", self._ledger, self.copies)

    def _wait(self, kernel: Kernel, generation: int) -> None:
        with self._lock:
            fits = generation == self._generation and len(self._waiting) < self._most
            if fits:
                self._waiting.append(kernel)
        if not fits:
            kernel.close()


def _close(kernels: list[Kernel]) -> None:
    for kernel in kernels:
        kernel.close()
