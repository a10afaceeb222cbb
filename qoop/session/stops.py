"""The reasons for which a process has to end soon: a signal, the end of its time, a notice of the cloud."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from qoop.adaptive.monitor.notices import NoticeSource
from qoop.adaptive.monitor.sleep import boot_seconds
from qoop.query.streams import EndedBySignal

_SIGNALS = [signal.SIGTERM, signal.SIGUSR1]
_CHECK_SECONDS = 5.0
"""Seconds between two checks for a notice: what the clouds recommend."""


class Stops:
    """The announced ends of the process, on the clock since the boot: a jump of the time of day changes none, and the
    time in which the machine sleeps counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, float] = {}

    def announce(self, why: str, seconds: float) -> None:
        """The process ends in these seconds. A second announcement for the same reason does not prolong it."""
        end = boot_seconds() + seconds
        with self._lock:
            self._ends[why] = min(end, self._ends.get(why, end))

    def withdraw(self, why: str) -> None:
        """That end will not come."""
        with self._lock:
            self._ends.pop(why, None)

    @property
    def first(self) -> tuple[str, float] | None:
        """The reason of the first end, and the seconds until it; None: no end is announced."""
        with self._lock:
            ends = list(self._ends.items())
        if not ends:
            return None
        why, end = min(ends, key=lambda item: item[1])
        return why, end - boot_seconds()


@contextmanager
def stopped_by_signals(stops: Stops, seconds: float) -> Iterator[None]:
    """Within the block SIGTERM and SIGUSR1 announce the end in these seconds; a second SIGTERM ends the process at
    once. Other threads than the main one leave signals alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def announce(number: int, frame: object) -> None:
        if number == signal.SIGTERM:
            signal.signal(signal.SIGTERM, end)
        stops.announce(signal.Signals(number).name, seconds)

    def end(number: int, frame: object) -> None:
        raise EndedBySignal(number)

    before = {number: signal.signal(number, announce) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_by_notices(stops: Stops, source: NoticeSource | None, every: float = _CHECK_SECONDS) -> Iterator[None]:
    """Within the block notices of the source announce an end, until they are withdrawn."""
    if source is None:
        yield
        return
    ended = threading.Event()

    def check() -> None:
        announced, delay = "", 0.0
        while not ended.wait(delay):
            delay, notice = every, source.check()
            if notice is not None and notice.why != announced:
                announced = notice.why
                stops.announce(announced, notice.seconds)
            elif notice is None and announced:
                stops.withdraw(announced)
                announced = ""

    thread = threading.Thread(target=check, name="qoop-notices", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(every)
