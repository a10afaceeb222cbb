"""The peak of the anonymous memory of this process, which `--memory` promises to bound."""

from __future__ import annotations

import threading
from types import TracebackType

from qoop.engine.memory import anonymous_memory


def anonymous_bytes() -> int | None:
    """Anonymous memory of this process now (heap, not mapped files); None where the system does not tell."""
    return anonymous_memory() or None


class PeakMemory:
    """Within the block a thread looks a hundred times a second; `peak` is the most it saw in bytes, or None.

    One object may be entered several times; the peak is that of all blocks.
    """

    def __init__(self) -> None:
        self.peak: int | None = None

    def __enter__(self) -> PeakMemory:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="qoop-peak-memory", daemon=True)
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._sample()

    def _sample(self) -> None:
        now = anonymous_bytes()
        if now is not None:
            self.peak = max(now, self.peak or 0)
