"""Gives a session what the machine has to give, from its own thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from qoop.adaptive.monitor.alarm import Alarm
from qoop.adaptive.monitor.available import Size
from qoop.adaptive.monitor.judging import Change, Judge, cpus_there
from qoop.adaptive.monitor.reading import Reading
from qoop.catalog.errors import SessionClosed

_log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between readings at most: the kernel does not report a limit that was changed."""

LEAST_MEMORY = 256 * 2**20
"""Bytes that are never taken from a session that was given more: what a kernel and its output need."""


class Readable(Protocol):
    """The source of readings: :class:`qoop.adaptive.monitor.machine.Machine`, or a test."""

    def alarm(self) -> Alarm:
        """Waits for the next reading."""
        ...

    def read(self) -> Reading:
        """The state of the machine now."""
        ...


class Watch:
    """Reads a machine again and again, and says what is to change.

    opened: what the session was opened with. most: what it may come to have; None: what it was opened with.
    act: does a change; is called in the thread of the watch.
    every: seconds between readings.
    """

    def __init__(
        self,
        machine: Readable,
        opened: Size,
        act: Callable[[Change], object],
        most: Size | None = None,
        every: float = EVERY,
        less_after: float = 2.0,
        more_after: float = 5.0,
    ) -> None:
        self._machine = machine
        self._act = act
        self._every = every
        self._judge = Judge.of(opened, Size(1, LEAST_MEMORY), cpus_there(machine.read()), most, less_after, more_after)
        self._alarm = machine.alarm()
        self._thread = threading.Thread(target=self._loop, name="qoop-watch", daemon=True)

    @property
    def judge(self) -> Judge:
        """The last conclusion."""
        return self._judge

    def start(self) -> Watch:
        """Begin; can be called once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End; what was changed stays so."""
        self._alarm.stop()
        if self._thread.ident is None:  # it never began
            self._alarm.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def _loop(self) -> None:
        try:
            while self._alarm.wait(self._every):
                self._check()
        except SessionClosed:
            return
        except Exception:  # the session goes on with the resources it has
            _log.warning("the machine is watched no more", exc_info=True)
        finally:
            self._alarm.close()

    def _check(self) -> None:
        before, self._judge = self._judge, self._judge.after(self._machine.read())
        change = before.change_to(self._judge)
        if change is not None:
            self._act(change)
