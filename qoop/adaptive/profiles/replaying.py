"""A profile that is done to a session, in real time or faster::

with replay(session, profile, compression=10, notice=30):
    session.sql(...)
"""

from __future__ import annotations

import math
import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Protocol

from qoop.adaptive.profiles.profile import CapacityProfile, Point
from qoop.catalog.errors import QoopError, SessionClosed
from qoop.catalog.sizes import available_of

_ROUNDING = 1e-9


class Resizable(Protocol):
    """A session, as far as a replay is concerned."""

    def resize(self, slots: int | None = None, memory: int | str | None = None, *, notice: float = 0.0) -> None: ...


class Replay:
    """A profile that is being done to a session. A context manager: `start` on entry, `stop` on exit.

    `applied`: seconds since the start, and the point, of every resize that was made or announced.
    """

    def __init__(self, session: Resizable, profile: CapacityProfile, notice: float | None) -> None:
        self._session = session
        self._changes = profile.changes()
        for point in self._changes:
            available_of(*_size(point))
        self._notice = notice or 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="qoop-replay", daemon=True)
        self._error: QoopError | None = None
        self.applied: list[tuple[float, Point]] = []

    def start(self) -> Replay:
        """Give the session what the profile begins with; the rest follows by itself. Can be called once."""
        self._began = time.monotonic()
        self._apply(self._changes[0], 0.0)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave the session with the resources it now has; what was announced still comes. Raises what went wrong."""
        self._stopping.set()
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the last point of the profile, at most that many seconds; True if it has been done or announced."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return not self._thread.is_alive()

    def __enter__(self) -> Replay:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def _follow(self) -> None:
        try:
            for before, point in pairwise(self._changes):
                notice = self._notice if _falls(before, point) else 0.0
                announced = max(before.at, point.at - notice)
                if self._stopping.wait(max(0.0, announced - self._seconds())):
                    return
                self._apply(point, max(0.0, point.at - self._seconds()) if announced < point.at else 0.0)
                if announced < point.at and self._stopping.wait(max(0.0, point.at - self._seconds())):
                    return
        except SessionClosed:
            return  # nothing is left to be resized
        except QoopError as error:
            self._error = error

    def _apply(self, point: Point, notice: float) -> None:
        self._session.resize(*_size(point), notice=notice)
        self.applied.append((self._seconds(), point))

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def replay(
    session: Resizable, profile: CapacityProfile, compression: float = 1.0, notice: float | None = None
) -> Replay:
    """Do to a session what a profile says, once `start` is called or in a ``with`` block.

    All machines of the profile are one machine of the session. compression: by how much time is made to pass
    faster. notice: seconds of the profile's time, such as 30 or 120, by which fewer resources are announced; never
    announced before the change that comes before it. None: resources go without a word.

    Raises ConfigError if a session cannot have the resources of one of the points.
    """
    return Replay(session, profile.compressed(compression), (notice or 0.0) / compression)


def _size(point: Point) -> tuple[int, int | None]:
    """The size to resize to. Where there is no slot, memory makes no difference, and stays."""
    slots = math.floor(point.all_slots + _ROUNDING)
    return slots, math.floor(point.all_memory + _ROUNDING) if slots else None


def _falls(before: Point, after: Point) -> bool:
    return after.all_slots < before.all_slots or after.all_memory < before.all_memory
