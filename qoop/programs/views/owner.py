"""The thread that refreshes the views of a session by their goals: it carries out the orders of their programs.

The thread begins with the first view that has a goal. It compares the tables of views with their editions, and
refreshes one view at a time. Views whose comparisons are due at about the same time take part in one round, which
compares each table once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.monitor.sleep import boot_seconds
from qoop.adaptive.program import Begin, Stop
from qoop.catalog.errors import TableChanged
from qoop.programs.views.freshness import Compared, Freshness, Message, Refresh, RefreshEnded, Wait

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog

_IDLE = 60.0

_EARLY = 0.05
"""The part of its goal by which a view is compared early, to take part in a round."""

_ROUND_SECONDS = 1.0
"""A round that lasts longer ends: the views that are left compare the tables again."""


class Refreshed(Protocol):
    """Views that are refreshed."""

    def targets(self) -> Mapping[str, float]: ...

    def behind(self, name: str) -> float | None: ...

    def refresh_view(self, name: str, full: bool = False) -> bool: ...

    def note_error(self, name: str, error: Exception) -> None: ...

    def comparing_once(self) -> AbstractContextManager[set[str]]: ...


class _Program:
    """The program of one view. next: the time of the next comparison, on the clock since the boot: the time of day, in
    which the program reckons, may be set back."""

    def __init__(self, goal: float, log: MessageLog | None) -> None:
        self.state = Freshness(goal)
        self.next = 0.0
        self._log = log
        self.send(Begin())

    def send(self, message: Message) -> bool:
        """Take a message; True: a refresh is due."""
        if self._log is not None:
            self._log(self.state, message)
        self.state, orders = self.state.after(message)
        at = message.at if isinstance(message, Compared | RefreshEnded) else 0.0
        waits = [order.until - at for order in orders if isinstance(order, Wait)]
        self.next = boot_seconds() + waits[0] if waits else self.next
        return any(isinstance(order, Refresh) for order in orders)


class Owner:
    """Refreshes views by their goals. log: a new log of a program's messages."""

    def __init__(self, views: Refreshed, log: Callable[[], MessageLog | None]) -> None:
        self._views, self._log = views, log
        self._programs: dict[str, _Program] = {}
        self._woken = threading.Condition()
        self._stopped = False
        self._changed = False  # views or goals, since they were last followed
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Views or their goals have changed."""
        if self._thread is None and not self._views.targets():
            return
        with self._woken:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="qoop-views", daemon=True)
                self._thread.start()
            self._changed = True
            self._woken.notify()

    def stop(self) -> None:
        """Begin no further refresh."""
        with self._woken:
            self._stopped = True
            self._woken.notify()

    def close(self) -> None:
        """Wait for the end of the thread."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            self._follow_goals()
            self._round()
            self._wait()
        for program in self._programs.values():
            program.send(Stop())

    def _follow_goals(self) -> None:
        """Begin and end programs as views and goals come and go."""
        self._changed = False
        targets = self._views.targets()
        for name in [name for name, one in self._programs.items() if targets.get(name) != one.state.goal]:
            self._programs.pop(name).send(Stop())
        for name, goal in targets.items():
            if name not in self._programs:
                self._programs[name] = _Program(goal, self._log())

    def _round(self) -> None:
        """Serve the views that are due, in order, and with them those that are due soon."""
        programs = sorted(self._programs.items(), key=lambda item: item[1].next)
        begun = boot_seconds()
        if not programs or programs[0][1].next > begun:
            return
        with self._views.comparing_once() as compared:
            for name, program in programs:
                if self._stopped or boot_seconds() > begun + _ROUND_SECONDS:
                    return
                if program.next <= begun + _EARLY * program.state.goal:
                    self._turn(name, program, compared)

    def _turn(self, name: str, program: _Program, compared: set[str]) -> None:
        """Compare the tables of a view, and refresh it if that is due. Errors show in the status of the view."""
        begun = time.monotonic()
        try:
            since = self._views.behind(name)
        except Exception as error:
            self._views.note_error(name, error)
            since = time.time()
        if not program.send(Compared(time.time(), since)) or self._stopped:
            return
        failed = self._failure(name)
        if isinstance(failed, TableChanged):  # since the round compared it
            compared.clear()
            failed = self._failure(name)
        if failed is not None:
            self._views.note_error(name, failed)
        program.send(RefreshEnded(time.time(), time.monotonic() - begun, failed is not None))

    def _failure(self, name: str) -> Exception | None:
        """Refresh a view; returns the error of a refresh that failed."""
        try:
            self._views.refresh_view(name)
        except Exception as error:
            return error
        return None

    def _wait(self) -> None:
        until = min((program.next for program in self._programs.values()), default=boot_seconds() + _IDLE)
        with self._woken:
            if not self._stopped and not self._changed:
                self._woken.wait(min(max(0.001, until - boot_seconds()), _IDLE))
