"""The limits of the control groups that this process is in.

Sources: "Control Group v2", "Memory Resource Controller" and "CFS Bandwidth Control" in the documentation of Linux. In
version 2 ``cpu.max`` holds microseconds of cpu time a period, or ``max``; ``memory.max`` and ``memory.high`` bytes, or
``max``. Version 1 has one hierarchy for each controller. What a group uses counts against all groups around it, so the
tightest of them holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf
from pathlib import Path

from qoop.catalog.value import value

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_NO_LIMIT = 1 << 60
"""Bytes: version 1 writes the largest multiple of a page for "no limit"."""


@value
class Group:
    """A control group of version 2. folder: of its files. read: the text of one; may raise OSError."""

    folder: Path
    read: Callable[[Path], str]

    def cpus(self) -> float:
        """The CPUs that it may use at a time; inf: no limit."""
        quota, _, period = self._text("cpu.max").partition(" ")
        return _quotient(quota, period)

    def memory(self) -> float:
        """The bytes that it may use; inf: no limit. At ``memory.high`` the kernel slows its processes down to a crawl,
        so for a query that is as much a limit as ``memory.max``."""
        return min(_bytes(self._text("memory.max")), self.memory_high())

    def memory_high(self) -> float:
        """The bytes from which on the kernel slows its processes down; inf: it does not."""
        return _bytes(self._text("memory.high"))

    def cpu_seconds(self) -> float | None:
        """The cpu time that it has used; None if that is not told."""
        microseconds = self._counts("cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def memory_used(self) -> float | None:
        """The bytes that it uses and the kernel cannot take back: without pages of files and caches of the kernel.
        None: not reported."""
        counts = self._counts("memory.stat")
        cached = sum(counts.get(name, 0) for name in ("active_file", "inactive_file", "slab_reclaimable"))
        return self._less(self._text("memory.current"), cached)

    def waiting(self) -> float | None:
        """Percent of the last ten seconds in which a process of the group waited for memory; None: not reported."""
        return waiting_percent(self.folder / "memory.pressure", self.read)

    def notices(self) -> tuple[tuple[Path, bytes], ...]:
        """The files by which the kernel reports that memory is short, each with what has to be written to it first."""
        return (self.folder / "memory.events", b""), (self.folder / "memory.pressure", _STALL)

    @staticmethod
    def _less(used: str, cached: int) -> float | None:
        return max(0, int(used) - cached) if used.isdigit() else None

    def _text(self, name: str) -> str:
        return _text(self.folder / name, self.read)

    def _counts(self, name: str) -> dict[str, int]:
        words = (line.split() for line in self._text(name).splitlines())
        return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


@value
class FirstVersionGroup(Group):
    """A control group of version 1, of the controller of memory or of that of CPUs.

    accounting: the folder with its cpu time, which may be another hierarchy.
    """

    accounting: Path

    def cpus(self) -> float:
        return _quotient(self._text("cpu.cfs_quota_us"), self._text("cpu.cfs_period_us"))

    def memory(self) -> float:
        return _bytes(self._text("memory.limit_in_bytes"))

    def memory_high(self) -> float:
        """None: ``memory.soft_limit_in_bytes`` slows nothing down. It says which groups give pages back first where
        the machine is short of memory, of which free memory tells."""
        return inf

    def cpu_seconds(self) -> float | None:
        nanoseconds = _text(self.accounting / "cpuacct.usage", self.read)
        return int(nanoseconds) / 1e9 if nanoseconds.isdigit() else None

    def memory_used(self) -> float | None:
        counts = self._counts("memory.stat")
        cached = sum(counts.get(name, 0) for name in ("total_active_file", "total_inactive_file"))
        return self._less(self._text("memory.usage_in_bytes"), cached)

    def waiting(self) -> float | None:
        return None

    def notices(self) -> tuple[tuple[Path, bytes], ...]:
        return ()


_STALL = b"some 200000 2000000"
"""200 ms of waiting for memory within 2 s. Without privileges, windows are multiples of 2 s."""


def groups(
    root: Path = ROOT, membership: Path = MEMBERSHIP, read: Callable[[Path], str] = Path.read_text
) -> tuple[Group, ...]:
    """The groups that this process is in, of each hierarchy the innermost first; none where there are none.

    read: see `Group`. In a container the group's own path may not be there, only the root that it is shown.
    """
    lines = _text(membership, Path.read_text).splitlines()
    return tuple(chain.from_iterable(_hierarchy(root, line, read) for line in lines))


def is_limited() -> bool:
    """True if a control group allows this process less than the whole machine."""
    return any(group.cpus() < (os.cpu_count() or 1) or group.memory() < physical_memory() for group in groups())


def has_limited_memory() -> bool:
    """True if a control group allows this process less memory than the machine has."""
    return any(group.memory() < physical_memory() for group in groups())


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def waiting_percent(pressure: Path, read: Callable[[Path], str]) -> float | None:
    """Percent of the last ten seconds in which some process waited, of a file of pressure; None: it cannot be read.

    Source: "PSI - Pressure Stall Information" in the documentation of Linux.
    """
    some = _text(pressure, read).partition("\n")[0]
    reported = dict(word.split("=", 1) for word in some.split() if "=" in word)
    return float(reported["avg10"]) if "avg10" in reported else None


def _hierarchy(root: Path, line: str, read: Callable[[Path], str]) -> Iterator[Group]:
    """The groups of a line of ``/proc/self/cgroup``, as in ``4:cpu,cpuacct:/path`` or ``0::/path``."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if number == "0" and not controllers:
        mounted = root if (root / "cgroup.controllers").exists() else root / "unified"
        yield from (Group(folder, read) for folder in _upwards(mounted, path) if folder.is_dir())
        return
    for controller in {"cpu", "memory"} & set(controllers.split(",")):
        mounted = _mounted(root, controllers, controller)
        accounting = mounted if (mounted / "cpuacct.usage").exists() else root / "cpuacct"
        for folder in _upwards(mounted, path):
            if folder.is_dir():
                yield FirstVersionGroup(folder, read, accounting / folder.relative_to(mounted))


def _mounted(root: Path, controllers: str, controller: str) -> Path:
    together = root / controllers
    return together if together.is_dir() else root / controller


def _upwards(mounted: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mounted.joinpath(*parts[:length])


def _text(path: Path, read: Callable[[Path], str]) -> str:
    try:
        return read(path).strip()
    except OSError:  # no such controller here, or the group is gone
        return ""


def _bytes(text: str) -> float:
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT else inf


def _quotient(quota: str, period: str) -> float:
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return inf
    return int(quota) / int(period)
