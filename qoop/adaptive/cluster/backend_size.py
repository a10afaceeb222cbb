"""The size of a cluster's backend: changed at once, or announced and changed later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.recording.ticks import ResizeRefused, Resizing
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.events import SlotsChanged

if TYPE_CHECKING:
    from qoop.adaptive.cluster.fair_shares import FairShares
    from qoop.adaptive.cluster.recording.messages import ResizeRequested
    from qoop.adaptive.cluster.recording.recorder import Recorder
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

    def take(self, message: ResizeRequested, now: float) -> None:
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
            self._recorder.note(ResizeRefused(str(error)))
            raise
        events = [_because(size.why, event) for event in self._backend.wait(0.0)]
        self._shares.stale |= self._driver.take(events, now)


@value
class AnnouncedSize:
    """The size that the backend is to have from some time on; None: what it has. why: see `ResizeRequested`."""

    slots: int | None
    memory: int | None
    at: float
    why: str = ""

    def without(self, other: AnnouncedSize) -> AnnouncedSize | None:
        """The part of it that another says nothing of; None: nothing."""
        slots = self.slots if other.slots is None else None
        memory = self.memory if other.memory is None else None
        return None if slots is None and memory is None else replace(self, slots=slots, memory=memory)


class Announcements:
    """The sizes that are announced and have not come yet. Pure: the time comes with every call.

    tell: tells the backend of a size, which is meant for now or for later. Raises ConfigError if it cannot be so.
    """

    def __init__(self, apply: Callable[[AnnouncedSize, float], object]) -> None:
        self._apply_size = apply
        self._coming: list[AnnouncedSize] = []  # the next first

    @property
    def next_at(self) -> float | None:
        """The time of the next one; None: there is none."""
        return self._coming[0].at if self._coming else None

    def resize(self, size: AnnouncedSize, now: float) -> None:
        """Have the backend be so, or hear that it will; what was announced of other things is to come still.

        Raises ConfigError if it cannot be so; all is then as before.
        """
        rest = [left for one in self._coming if (left := one.without(size)) is not None]
        coming = sorted([*rest, size] if size.at > now else rest, key=lambda one: one.at)
        self._apply_size(size if size.at <= now else _merged(coming), now)
        self._coming = coming
        if size.at <= now and coming:
            with contextlib.suppress(ConfigError):  # noted; it was not refused before, and comes when it is due
                self._apply_size(_merged(coming), now)

    def carry_out(self, now: float) -> None:
        """Resize the backend as it was announced for a time that has come."""
        while self._coming and now >= self._coming[0].at:
            size = self._coming.pop(0)  # once, even if it is refused
            with contextlib.suppress(ConfigError):  # noted
                self.resize(size, now)


def _merged(sizes: Sequence[AnnouncedSize]) -> AnnouncedSize:
    """The announcement of several sizes, the next of them first: all of it, by the time of that one."""
    slots = next((one.slots for one in sizes if one.slots is not None), None)
    memory = next((one.memory for one in sizes if one.memory is not None), None)
    return replace(sizes[0], slots=slots, memory=memory)


def _because(why: str, event: Event) -> Event:
    return replace(event, why=why) if why and isinstance(event, SlotsChanged) else event
