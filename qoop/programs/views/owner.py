"""The thread that refreshes the views of a session by their goals: it carries out the orders of their programs.

The thread begins with the first view that has a goal. It compares the tables of a view with its edition, and refreshes
one view at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.monitor.sleep import boot_seconds
from qoop.adaptive.program import Begin, Stop
from qoop.programs.views.freshness import Compared, Freshness, Message, Refresh, RefreshEnded, Wait

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog

_IDLE = 60.0


class Refreshed(Protocol):
    """Views that are refreshed."""

    def targets(self) -> Mapping[str, float]: ...

    def behind(self, name: str) -> float | None: ...

    def refresh_view(self, name: str, full: bool = False) -> bool: ...

    def note_error(self, name: str, error: Exception) -> None: ...


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
            for name, program in sorted(self._programs.items(), key=lambda item: item[1].next):
                if not self._stopped and program.next <= boot_seconds():
                    self._turn(name, program)
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

    def _turn(self, name: str, program: _Program) -> None:
        """Compare the tables of a view, and refresh it if that is due. Errors show in the status of the view."""
        begun, failed = time.monotonic(), False
        try:
            since = self._views.behind(name)
        except Exception as error:
            self._views.note_error(name, error)
            since = time.time()
        if not program.send(Compared(time.time(), since)) or self._stopped:
            return
        try:
            self._views.refresh_view(name)
        except Exception as error:
            self._views.note_error(name, error)
            failed = True
        program.send(RefreshEnded(time.time(), time.monotonic() - begun, failed))

    def _wait(self) -> None:
        until = min((program.next for program in self._programs.values()), default=boot_seconds() + _IDLE)
        with self._woken:
            if not self._stopped and not self._changed:
                self._woken.wait(min(max(0.001, until - boot_seconds()), _IDLE))
