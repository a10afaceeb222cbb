"""Capacity over time, and its replay on a session.

A profile is a step function: from each point on there are so many machines of that size. It can be made by hand
(`CapacityProfile.of`), read from CSV, or generated; `on` turns one in fractions into one for a given machine, and
`compressed` lets hours pass in seconds. `replay` does to a session what a profile says::

    profile = CapacityProfile.of([(0, 2, "4GB"), (60, 1, "1GB"), (90, 0, "1GB"), (100, 2, "4GB")])
    with replay(session, profile, compression=10, notice=30):
        session.sql(...)
"""

from __future__ import annotations

import csv
import math
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Protocol

from qoop.catalog.errors import ConfigError, QoopError, SessionClosed
from qoop.config import parse_bytes, room_of

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """What there is from `at` seconds on: so many machines, each with so many slots and bytes of memory.

    In a profile of fractions slots and memory are fractions of those of a whole machine.
    """

    at: float
    slots: float
    memory: float
    machines: int = 1

    def __post_init__(self) -> None:
        numbers = (self.at, self.slots, self.memory, self.machines)
        if not all(number >= 0 and math.isfinite(number) for number in numbers):
            raise ConfigError(f"the numbers of a profile must be finite and at least 0: {self}")

    @property
    def all_slots(self) -> float:
        """Of all machines together."""
        return self.slots * self.machines

    @property
    def all_memory(self) -> float:
        """Of all machines together, in bytes."""
        return self.memory * self.machines

    def same_room(self, other: Point) -> bool:
        """True if only the times differ."""
        return replace(self, at=other.at) == other


@dataclass(frozen=True)
class CapacityProfile:
    """Points in order of time, the first at 0. Raises ConfigError if they are not that."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points or self.points[0].at != 0:
            raise ConfigError("a profile begins with a point at 0 seconds")
        for one, other in pairwise(self.points):
            if other.at <= one.at:
                raise ConfigError(
                    f"the points of a profile come in order of time, not {one.at:g} and then {other.at:g}"
                )

    @classmethod
    def of(
        cls, rows: Iterable[tuple[float, float, float | str] | tuple[float, float, float | str, int]]
    ) -> CapacityProfile:
        """From rows of (seconds, slots, memory) or (seconds, slots, memory, machines); memory may be "2GB".

        >>> CapacityProfile.of([(0, 2, "1GB"), (5, 1, 5e8)]).at(7)
        Point(at=5.0, slots=1.0, memory=500000000.0, machines=1)
        """
        return cls(tuple(_point(*row) for row in rows))

    @classmethod
    def from_csv(cls, path: str | Path) -> CapacityProfile:
        """From a file with a header and the columns seconds, slots, memory and, if there are several, machines.

        Raises ConfigError, naming the line, for one that cannot be read.
        """
        points = []
        with Path(path).open(newline="") as stream:
            reader = csv.DictReader(stream)
            if not {"seconds", "slots", "memory"} <= set(reader.fieldnames or ()):
                raise ConfigError(f"{path} needs the columns seconds, slots and memory; it has {reader.fieldnames}")
            for row in reader:
                try:
                    points.append(_point(row["seconds"], row["slots"], row["memory"], row.get("machines") or 1))
                except (TypeError, ValueError, ConfigError) as error:
                    raise ConfigError(f"line {reader.line_num} of {path}: {error}") from error
        return cls(tuple(points))

    def at(self, seconds: float) -> Point:
        """What there is at that time; before 0 what there is at 0."""
        return self.points[max(0, bisect_right(self.points, seconds, key=lambda point: point.at) - 1)]

    def events(self) -> tuple[Point, ...]:
        """The points at which something changes, the first with them."""
        changes = (other for one, other in pairwise(self.points) if not other.same_room(one))
        return (self.points[0], *changes)

    def compressed(self, factor: float) -> CapacityProfile:
        """The same in less time: all times divided by the factor, above 0."""
        if not (factor > 0 and math.isfinite(factor)):
            raise ConfigError(f"time can be compressed by a factor above 0, not {factor!r}")
        return CapacityProfile(tuple(replace(point, at=point.at / factor) for point in self.points))

    def fractions(self) -> CapacityProfile:
        """Everything as a fraction of the most there ever is, on one machine."""
        slots = max(point.all_slots for point in self.points) or 1.0
        memory = max(point.all_memory for point in self.points) or 1.0
        return CapacityProfile(
            tuple(Point(point.at, point.all_slots / slots, point.all_memory / memory) for point in self.points)
        )

    def on(self, slots: int, memory: int) -> CapacityProfile:
        """Of a profile of fractions: what they are of a machine of this size. Slots are whole and rounded down."""
        return CapacityProfile(
            tuple(
                replace(point, slots=math.floor(point.slots * slots + _ROUNDING), memory=point.memory * memory)
                for point in self.points
            )
        )


def _point(at: float | str, slots: float | str, memory: float | str, machines: int | str = 1) -> Point:
    bytes_ = parse_bytes(memory) if isinstance(memory, str) else memory
    return Point(float(at), float(slots), float(bytes_), int(machines))


class Resizable(Protocol):
    """A session, as far as a replay is concerned."""

    def resize(self, slots: int | None = None, memory: int | str | None = None, *, notice: float = 0.0) -> None: ...


class Replay:
    """A profile that is being done to a session. A context manager: `start` on entry, `stop` on exit.

    `applied`: seconds since the start, and the point, of every resize that was made or announced.
    """

    def __init__(self, session: Resizable, profile: CapacityProfile, notice: float | None) -> None:
        self._session = session
        self._events = profile.events()
        for point in self._events:
            room_of(*_size(point))
        self._notice = notice or 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="qoop-replay", daemon=True)
        self._error: QoopError | None = None
        self.applied: list[tuple[float, Point]] = []

    def start(self) -> Replay:
        """Give the session what the profile begins with; the rest follows by itself. Can be called once."""
        self._began = time.monotonic()
        self._apply(self._events[0], 0.0)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave the session with the room it now has; what was announced still comes. Raises what went wrong."""
        self._stopping.set()
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the last point of the profile, at most so many seconds; True if it has been done or announced."""
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
            for before, point in pairwise(self._events):
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
    faster. notice: seconds of the profile's time, such as 30 or 120, by which less room is announced; it is never
    announced before the change that comes before it. None: room goes without a word.

    Raises ConfigError if a session cannot have the room of one of the points.
    """
    return Replay(session, profile.compressed(compression), (notice or 0.0) / compression)


def _size(point: Point) -> tuple[int, int | None]:
    """What to resize to. Where there is no slot, memory makes no difference, and stays."""
    slots = math.floor(point.all_slots + _ROUNDING)
    return slots, math.floor(point.all_memory + _ROUNDING) if slots else None


def _falls(before: Point, after: Point) -> bool:
    return after.all_slots < before.all_slots or after.all_memory < before.all_memory
