"""Waits for the next reading, until the kernel reports that memory is short, or until a limit has changed.

Sources: "PSI - Pressure Stall Information" and "Control Group v2" in the documentation of Linux: a file of pressure to
which a threshold was written, and ``memory.events``, become readable out of band (POLLPRI) when there is news. No
file reports that a limit was changed, and a process may grow by a gigabyte a second, so limits are read more often than
all the rest.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path

_PAUSE = 0.05
"""Seconds between readings at least: a group at its limit reports thousands of times a second."""

_LIMITS = 0.1
"""Seconds after which limits are read again: 40 microseconds of work."""


class Alarm:
    """files: those that report, each with what has to be written to it first; one that cannot be opened is left out.
    limits: reads the limits, which compare equal as long as they are the same; None: there are none."""

    def __init__(self, files: Iterable[tuple[Path, bytes]] = (), limits: Callable[[], object] | None = None) -> None:
        self._limits = limits or (lambda: None)
        self._every = _LIMITS if limits else inf
        self._known = self._limits()
        self._stop, self._end = os.pipe()
        self._files = [opened for path, first in files if (opened := _opened(path, first)) is not None]
        self._lock, self._closed = threading.Lock(), False  # a number of a closed file may be another's
        self._poll = select.poll()
        self._poll.register(self._stop, select.POLLIN)
        for file in self._files:
            self._poll.register(file, select.POLLPRI)

    def wait(self, seconds: float) -> bool:
        """Wait that long at most. True: the next reading is due; False: this was stopped."""
        pause = min(seconds, _PAUSE)
        if select.select([self._stop], [], [], pause)[0]:
            return False
        reports = self._reports(seconds - pause)
        for file in set(reports) & set(self._files):
            try:
                os.pread(file, 4096, 0)  # else it would report the same again
            except OSError:  # the group is gone
                self._poll.unregister(file)
        return self._stop not in reports

    def _reports(self, seconds: float) -> list[int]:
        """The files that report within that time; it ends earlier if a limit has changed."""
        before, end = self._known, time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            reports = [file for file, _ in self._poll.poll(min(left, self._every) * 1e3)]
            self._known = self._limits()
            if reports or left <= self._every or self._known != before:
                return reports

    def stop(self) -> None:
        """Have `wait` return False, now or the next time."""
        with self._lock:
            if not self._closed:
                os.write(self._end, b"x")

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for file in (self._stop, self._end, *self._files):
                    os.close(file)


def _opened(path: Path, first: bytes) -> int | None:
    try:
        file = os.open(path, (os.O_RDWR if first else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no such controller here, or not permitted
        return None
    try:
        os.write(file, first) if first else os.pread(file, 4096, 0)
    except OSError:
        os.close(file)
        return None
    return file
