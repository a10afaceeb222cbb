"""The size of a cluster's backend: changed at once, or announced and changed later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.announcements import AnnouncedSize, Announcements
from qoop.adaptive.cluster.ticks import Refused, Resizing
from qoop.catalog.errors import ConfigError
from qoop.engine.events import SlotsChanged

if TYPE_CHECKING:
    from qoop.adaptive.cluster.fair_shares import FairShares
    from qoop.adaptive.cluster.messages import ResizeAsked
    from qoop.adaptive.cluster.recorder import Recorder
    from qoop.engine.backends.base import Backend
    from qoop.engine.driver import Driver
    from qoop.engine.events import Event


class BackendSize:
    """Resizes the backend, and has the jobs hear of it before anything else is granted."""

    def __init__(self, backend: Backend, driver: Driver, recorder: Recorder, shares: FairShares) -> None:
        self._backend = backend
        self._driver = driver
        self._recorder = recorder
        self._shares = shares
        self._announcements = Announcements(self._apply)

    @property
    def next_at(self) -> float | None:
        """The time of the next announced size; None: there is none."""
        return self._announcements.next_at

    def take(self, message: ResizeAsked, now: float) -> None:
        """Do what a message says; its promise has the ConfigError if the backend cannot have that size."""
        size = AnnouncedSize(message.slots, message.memory, now + message.notice, message.why)
        try:
            self._announcements.resize(size, now)
        except ConfigError as error:
            message.done.set_exception(error)
        else:
            message.done.set_result(None)

    def carry_out(self, now: float) -> None:
        """Resize the backend as it was announced for a time that has come."""
        self._announcements.carry_out(now)

    def _apply(self, size: AnnouncedSize, now: float) -> None:
        """Resize the backend, or announce a later size to it. Raises ConfigError if it cannot have that size."""
        self._recorder.note(Resizing(size.slots, size.memory, size.at))
        try:
            if size.at > now:
                self._backend.announce(size.slots, size.memory, size.at)
            else:
                self._backend.resize(size.slots, size.memory)
        except ConfigError as error:
            self._recorder.note(Refused(str(error)))
            raise
        events = [_because(size.why, event) for event in self._backend.wait(0.0)]
        self._shares.stale |= self._driver.take(events, now)


def _because(why: str, event: Event) -> Event:
    return replace(event, why=why) if why and isinstance(event, SlotsChanged) else event
