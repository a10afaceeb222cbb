"""The resources of a session: what its user has asked for; else, if the machine is watched, what that has to
give; else what the session was opened with."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from qoop.adaptive.monitor.available import Size
from qoop.adaptive.monitor.judging import Change
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import available_of
from qoop.engine.memory import Used

if TYPE_CHECKING:
    from qoop.adaptive.monitor.watch import Readable, Watch

_log = logging.getLogger("qoop.session")

Auto = Literal["auto"]
AUTO: Auto = "auto"


class Sized(Protocol):
    """The receiver of resources: a cluster."""

    def resize(
        self, slots: int | None = None, memory: int | None = None, notice: float = 0.0, why: str = ""
    ) -> None: ...


class Sizing:
    """opened: what the session was opened with. most: what it may come to have while the machine is watched; None:
    what it was opened with. May be used from several threads.

    used: by the child processes of this one. machine: makes what is read while the machine is watched; None: this
    machine.
    """

    def __init__(
        self,
        sized: Sized,
        opened: Size,
        most: Size | None = None,
        used: Callable[[], Used] = Used,
        machine: Callable[[], Readable] | None = None,
    ) -> None:
        self._sized = sized
        self._opened = opened
        self._most = most or opened
        self._used, self._machine = used, machine
        self._watch: Watch | None = None
        self._set_by_user: set[str] = set()  # for which of the two the user's word holds
        self._lock = threading.RLock()

    @property
    def held_back(self) -> str:
        """A clause that says why the machine leaves the session less than it was opened with, or slows it down; empty
        if it does not."""
        watch = self._watch
        if watch is None:
            return ""
        why = {"slots": watch.judge.slots_why, "memory": watch.judge.memory_why}
        held = [text for name, text in why.items() if text and name not in self._set_by_user]
        return "; ".join([*held, *filter(None, [watch.judge.throttle_why])])

    def resize(self, slots: int | Auto | None, memory: int | str | None, notice: float) -> None:
        """As `Session.resize`, which says what the words mean."""
        options = {"slots": slots, "memory": memory}
        set_by_user = {name for name, value in options.items() if value is not None and value != AUTO}
        back = {name for name, value in options.items() if value == AUTO}
        size = available_of(None if slots == AUTO else slots, None if memory == AUTO else memory)
        with self._lock:
            free = self._watch.judge.now if self._watch is not None else self._opened
            self._sized.resize(
                free.slots if "slots" in back else size[0], free.memory if "memory" in back else size[1], notice
            )
            self._set_by_user = self._set_by_user - back | set_by_user

    def watch(self) -> None:
        """Let the resources follow the machine. Raises ConfigError where the system tells nothing of itself."""
        from qoop.adaptive.monitor.machine import Machine  # few sessions watch
        from qoop.adaptive.monitor.watch import Watch

        with self._lock:
            if self._watch is None:
                if self._machine is None and not Machine.readable():
                    raise ConfigError("the machine cannot be watched: this system has no /proc that tells of it")
                machine = self._machine() if self._machine is not None else Machine(children=self._used)
                self._watch = Watch(machine, self._opened, self._act, self._most).start()

    def unwatch(self) -> None:
        """Watch no more, and have all the resources again that the user has not decided on."""
        watch = self.end()
        if watch is None:
            return
        with self._lock:
            self._act(Change(self._opened.slots, self._opened.memory, "the machine is watched no more"))

    def end(self) -> Watch | None:
        """Watch no more, and leave the resources as they are."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        return watch

    def _act(self, change: Change) -> None:
        """Do what the watch says, as far as the user has not decided otherwise."""
        with self._lock:
            slots = None if "slots" in self._set_by_user else change.slots
            memory = None if "memory" in self._set_by_user else change.memory
            _log.info("%s", change.why)
            if slots is None and memory is None:
                return
            self._sized.resize(slots, memory, 0.0, change.why)
