"""A thread that looks at something again and again while there is work, and is gone once there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from qoop.catalog.priority import not_behind

_LINGER = 1.0  # seconds without work after which the thread ends


class WhileWorking:
    """Calls `check` while there is work. It returns the seconds until the next call.

    name: of the thread. first: seconds before the first call.
    """

    def __init__(self, check: Callable[[], float], name: str, first: float) -> None:
        self._check = check
        self._name = name
        self._first = first
        self._work = 0  # how many work
        self._idle = False  # the thread waits for work
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within it there is work."""
        with self._changed:
            self._work += 1
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                with suppress(RuntimeError):  # at the end of the interpreter Python lets no thread begin
                    not_behind(thread.start)
                    self._thread = thread
            if self._idle:
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._work -= 1

    def close(self) -> None:
        """Look no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        pause = self._first
        while self._waits_for_work(pause):
            pause = self._check()

    def _waits_for_work(self, pause: float) -> bool:
        """True if there is work after a pause; if there is none for long, the thread is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, pause)
            self._idle = True
            self._changed.wait_for(lambda: self._closed or self._work > 0, _LINGER)
            self._idle = False
            if self._closed or not self._work:
                self._thread = None
                return False
            return True
