"""Small files of a store become larger ones while the query runs, by a separate thread.

No task waits for it: outputs are durable before they are merged, readers take the files present, and a merge that fails
or is given up leaves everything as it was. After Riffle (Zhang et al., EuroSys 2018) files of a stage are grouped as
they come, by their number (N-way) or once a partition of them all is as large as is worth a request (block size). When
the stage is done, what is left over is merged too, unless nearly all of it is in large files already (best effort).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qoop.catalog.priority import not_behind
from qoop.engine.events import Committed
from qoop.engine.storage.manifest import Saved
from qoop.engine.task import Content

FILES = 16
"""The number of files that are merged at once."""

OUTPUTS = 256
"""The largest number of outputs in a pack. They may be lost together."""

BLOCK = 1 << 20
"""Bytes of a partition in one file above which a request less is not worth a copy: 30 ms at 35 MB/s."""

BYTES = 64 << 20
"""A pack that waited to be written together takes no more bytes than that."""

ENOUGH = 0.95
"""The part of a stage's outputs in large files at which the rest stays as it is."""

_READ = 0.1  # of the reads that merged files would make cheaper, how many are expected: most stages are never read
_STAGES = 1000
_REQUESTS = 4  # that a merge takes, with the removal of its sources
_COPIED = 100e6  # bytes a second

Files = Sequence[Sequence[Saved]]


class Abandoned(Exception):
    """The store is closed while files are merged."""


def is_small(committed: Committed) -> bool:
    """True if many such outputs are worth a file together."""
    return sum(committed.bytes) <= BLOCK * max(1, len(committed.bytes)) and sum(committed.bytes) <= BYTES // 2


def pays(files: Files, latency: float) -> bool:
    """True if the requests that readers save should take longer than merging does. latency: seconds of a request."""
    bytes_ = sum(sum(one.committed.bytes) for outputs in files for one in outputs)
    partitions = len(files[0][0].segments)
    return _READ * (len(files) - 1) * partitions * latency > _REQUESTS * latency + bytes_ / _COPIED


@dataclass
class _Stage:
    """The files of one stage. large: outputs in files that are not merged again; small: the files to be merged."""

    known: int = 0
    large: int = 0
    small: list[Sequence[Saved]] = field(default_factory=list)

    def is_ripe(self) -> bool:
        """They are enough files, or make one that is as large as is useful."""
        outputs = sum(map(len, self.small))
        return len(self.small) >= FILES or outputs >= OUTPUTS or sum(map(_block, self.small)) >= BLOCK

    def take(self) -> Files:
        """The files to merge, as many as a pack may hold; the others stay."""
        taken: list[Sequence[Saved]] = []
        while self.small and sum(map(len, taken)) + len(self.small[0]) <= OUTPUTS:
            taken.append(self.small.pop(0))
        self.large += sum(map(len, taken))
        return taken


class Merger:
    """The files that may be merged, and the thread that merges them. Thread-safe.

    work: merges files; is given what it calls from time to time, which raises `Abandoned`. It may raise OSError: the
    files stay as they are then. latency: seconds that a request takes, as far as is known.
    """

    def __init__(self, work: Callable[[Files, Callable[[], None]], object], latency: Callable[[], float]) -> None:
        self._work = work
        self._latency = latency
        self._lock = threading.Condition()
        self._stages: dict[Content, _Stage] = {}
        self._queue: deque[Files] = deque()
        self._busy = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self.failures: list[OSError] = []
        """The errors of the last few merges that failed."""

    def add(self, outputs: Sequence[Saved]) -> None:
        """These were committed, in one file."""
        committed = outputs[0].committed
        with self._lock:
            stage = self._stages.setdefault(committed.key.content, _Stage())
            stage.known += len(outputs)
            if len(outputs) > OUTPUTS // 2 or _block(outputs) >= BLOCK:
                stage.large += len(outputs)
            else:
                stage.small.append(outputs)
            if stage.is_ripe():
                self._issue(stage)
            if committed.width and stage.known >= committed.width:
                if stage.large < ENOUGH * stage.known:
                    self._issue(stage)
                del self._stages[committed.key.content]
            elif len(self._stages) > _STAGES:  # the oldest gets no more outputs
                del self._stages[next(iter(self._stages))]

    def wait(self) -> None:
        """Wait until all merges that began, or are about to, are done."""
        with self._lock:
            while self._busy or self._queue:
                self._lock.wait()

    def close(self) -> None:
        """Begin no more merges, and give up the one that runs unless it is being written already."""
        with self._lock:
            self._closing = True
            self._queue.clear()
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _issue(self, stage: _Stage) -> None:
        files = stage.take()
        if len(files) < 2 or self._closing or not pays(files, self._latency()):
            return
        self._queue.append(files)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="qoop-merger", daemon=True)
            not_behind(self._thread.start)
        self._lock.notify_all()

    def _run(self) -> None:
        while (files := self._next()) is not None:
            try:
                self._work(files, self._go_on)
            except Abandoned:
                pass
            except OSError as error:
                self.failures = [*self.failures[-4:], error]
            with self._lock:
                self._busy = False
                self._lock.notify_all()

    def _next(self) -> Files | None:
        with self._lock:
            while not self._queue and not self._closing:
                self._lock.wait()
            if self._closing:
                return None
            self._busy = True
            return self._queue.popleft()

    def _go_on(self) -> None:
        if self._closing:
            raise Abandoned


def _block(outputs: Sequence[Saved]) -> float:
    """The mean bytes of a partition of them all."""
    return sum(sum(one.committed.bytes) for one in outputs) / max(1, len(outputs[0].segments))
