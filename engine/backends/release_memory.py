"""Memory that was freed goes back to the system while a process is crowded.

The allocators mostly keep memory that is freed, to have it at hand: DuckDB's (jemalloc), the C library's, Arrow's
(mimalloc). At 250 MB, query 4 of TPC-DS at scale 10 took 514 MB where DuckDB said that it had 29 MB, Arrow none and the
outputs held were 31 MB. So each of them gives back what it does not need:

- DuckDB's allocator is one for the whole process, and is emptied when any instance of DuckDB is given a limit of
  memory. One is kept here for that alone. It takes 12 ms to give back 150 MB and 0.3 ms if there is nothing.
- The C library's gives back all pages that hold nothing.
- Arrow's can give back only what the calling thread has freed. Therefore whatever is large and short-lived,
  and freed by other threads than made it, is made with the C library's: see `POOL` of `storage/partition`.

The child processes of this process count as well: they share its limit. A server that kept what two sorts had freed,
0.6 of its memory, left its children the rest of it.

Not always, since getting memory again costs page faults: that added 10 to 40 % CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from qoop.engine.backends.while_working import WhileWorking
from qoop.engine.memory import FreedMemory, anonymous_memory

_PAUSE, _LONGEST = 0.02, 0.2  # seconds between looks while there is work: longer where much more may come
_FASTEST = 4e9  # bytes a second that a process takes at most
_CROWDED = 0.8  # of the memory: above it, what is free goes back in the midst of work
GROWTH = 0.05
"""The part of the memory that must have come since the last time. Next to ten bombs a server holds more than 0.6 of its
memory most of the time. Its short answers gave back nothing, 21 times a second, each in 3 ms under the locks of
allocators."""


class MemoryReleaser:
    """Looks at this process while there is work, and gives back what is free if it holds much.

    memory: bytes that it should hold at most, with its children; may be changed. of_children: bytes that these have.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.of_children: Callable[[], int] = lambda: 0
        self._after = 0  # bytes held after it was last given back
        self._giving = threading.Lock()
        self._freed = FreedMemory()
        self._thread = WhileWorking(self._check, "qoop-release", first=_PAUSE)

    def watched(self) -> AbstractContextManager[None]:
        """Within it there is work."""
        return self._thread.watched()

    def release(self, share: float, growth: float = 0.0, freed: int = 0) -> int:
        """Give back what is free if the process holds more than a share of its memory, and, with `growth`, that
        fraction of the whole more than it needs: what it held after the last time, less the bytes freed since then.
        Returns the bytes that it holds then."""
        held = self._held()
        self._after = min(self._after, held) - freed
        if held > max(share * self.memory, self._after + growth * self.memory if growth else 0.0):
            with self._giving:
                self._freed.give_back()
                held = self._after = self._held()
        return held

    def _held(self) -> int:
        return anonymous_memory() + self.of_children()

    def close(self) -> None:
        """Look no more."""
        self._thread.close()
        with self._giving:
            self._freed.close()

    def _check(self) -> float:
        """Returns the seconds until the next look."""
        spare = _CROWDED * self.memory - self.release(_CROWDED, GROWTH)
        return min(_LONGEST, max(_PAUSE, spare / _FASTEST))
