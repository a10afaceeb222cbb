"""The limits of the control group (version 2) that this process is in, and of those around it.

Source: "Control Group v2" in the documentation of Linux: ``cpu.max`` holds microseconds of cpu time a period, or
``max``; ``memory.max`` bytes, or ``max``; what a group uses counts against all groups around it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import inf
from pathlib import Path

from qoop.catalog.value import value

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


@value
class Group:
    """A control group. folder: of its files."""

    folder: Path

    def cpus(self) -> float:
        """The CPUs that it may use at a time; inf: no limit."""
        quota, _, period = self._text("cpu.max").partition(" ")
        if not (quota.isdigit() and period.isdigit() and int(period)):
            return inf
        return int(quota) / int(period)

    def memory(self) -> float:
        """The bytes that it may use; inf: no limit."""
        text = self._text("memory.max")
        return int(text) if text.isdigit() else inf

    def cpu_seconds(self) -> float | None:
        """The cpu time that it has used; None if that is not told."""
        microseconds = self._counts("cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def memory_used(self) -> float | None:
        """The bytes that it uses, without the files in memory that are unused; None: not reported."""
        text = self._text("memory.current")
        if not text.isdigit():
            return None
        return max(0, int(text) - self._counts("memory.stat").get("inactive_file", 0))

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text().strip()
        except OSError:  # no such controller here
            return ""

    def _counts(self, name: str) -> dict[str, int]:
        words = (line.split() for line in self._text(name).splitlines())
        return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def groups(root: Path = ROOT, membership: Path = MEMBERSHIP) -> tuple[Group, ...]:
    """The group that this process is in, then those around it; none where there is no version 2.

    In a container the group's own path may not be there, only the root that it is shown.
    """
    path = _path(membership)
    if path is None:
        return ()
    mounted = root if (root / "cgroup.controllers").exists() else root / "unified"
    return tuple(Group(folder) for folder in _upwards(mounted, path) if folder.is_dir())


def usable_cpus() -> frozenset[int]:
    """The numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _path(membership: Path) -> str | None:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
        return None
    return next((line[3:].strip("/") for line in lines if line.startswith("0::")), None)


def _upwards(mounted: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mounted.joinpath(*parts[:length])
