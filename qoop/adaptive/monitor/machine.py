"""Reading this machine: cpu time, memory and control groups, as the kernel reports them.

Source: proc(5) for ``/proc/stat`` (clock ticks by kind and CPU) and ``/proc/meminfo``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import chain
from math import inf
from pathlib import Path

from qoop.adaptive.monitor.alarm import Alarm
from qoop.adaptive.monitor.cgroup import ROOT, groups, waiting_percent
from qoop.adaptive.monitor.held_files import HeldFiles
from qoop.adaptive.monitor.reading import Pool, Reading, Throttle
from qoop.catalog.priority import usable_cpus
from qoop.catalog.value import value
from qoop.engine.memory import Used

_SHORT = 20.0
"""Percent of the last ten seconds in which some program waited for memory, from which on there is too little."""

_AT_HIGH = 0.97
"""The part of ``memory.high`` in use from which on the kernel slows a group down: some pages of files count, too."""

_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ, _STEAL = 0, 1, 2, 5, 6, 7
_KILO = 1024


@value
class _Clock:
    """Counters at one moment, in seconds. own: of this process and its children; nice: of these, those that busy does
    not count. busy: of the CPUs that this process may use. groups: as in `Machine`."""

    at: float
    own: float
    nice: float
    busy: float
    groups: tuple[float | None, ...]


class Machine:
    """This machine. Every `read` tells of the time since the one before, the first since it was made.

    proc, cgroups: where the kernel tells of itself. own_seconds: of the CPUs that this process has used. own_memory:
    bytes that it alone has. now: a clock, in seconds. children: what its child processes use.
    """

    def __init__(
        self,
        proc: Path = Path("/proc"),
        cgroups: Path = ROOT,
        own_seconds: Callable[[], float] = time.process_time,
        own_memory: Callable[[], float] | None = None,
        now: Callable[[], float] = time.monotonic,
        children: Callable[[], Used] = Used,
    ) -> None:
        self._proc = proc
        self._read = HeldFiles().text
        self._groups = groups(cgroups, proc / "self" / "cgroup", self._read)
        self._own_seconds = own_seconds
        self._own_memory = own_memory or (lambda: own_bytes(proc, self._read))
        self._children = children
        self._now = now
        self._before = self._clock(children())

    @staticmethod
    def readable() -> bool:
        """True if this system tells what others do: Linux."""
        return Path("/proc/stat").exists() and Path("/proc/meminfo").exists()

    def alarm(self) -> Alarm:
        """Rings when the kernel reports that memory is short in a group of this process, or a group's limit changes."""
        limited = [group for group in self._groups if group.memory() < inf]
        limits = (lambda: [group.memory() for group in limited]) if limited else None
        return Alarm(tuple(chain.from_iterable(group.notices() for group in self._groups)), limits)

    def read(self) -> Reading:
        """The state of the machine now."""
        children = self._children()
        before, self._before = self._before, self._clock(children)
        cpus, memory = self._cpus(before, self._before), self._memory(children)
        return Reading(self._before.at, cpus, memory, self._squeezed(), self._throttle())

    def _clock(self, children: Used) -> _Clock:
        seconds = tuple(group.cpu_seconds() if group.cpus() < inf else None for group in self._groups)
        at, own = self._now(), self._own_seconds() + children.seconds  # own seconds are part of the busy ones
        nice = 0.0 if _counts_nice() else children.nice_seconds
        return _Clock(at, own, nice, _busy(self._proc / "stat", self._read), seconds)

    def _cpus(self, before: _Clock, now: _Clock) -> tuple[Pool, ...]:
        passed, own = max(1e-3, now.at - before.at), now.own - before.own
        counted = own - (now.nice - before.nice)
        pools = [Pool(len(usable_cpus()), max(0.0, (now.busy - before.busy - counted) / passed))]
        for group, was, seconds in zip(self._groups, before.groups, now.groups, strict=True):
            if group.cpus() < inf:
                others = 0.0 if was is None or seconds is None else (seconds - was - own) / passed
                pools.append(Pool(group.cpus(), max(0.0, others), group=True))
        return tuple(pools)

    def _memory(self, children: Used) -> tuple[Pool, ...]:
        reported, own = _meminfo(self._proc / "meminfo", self._read), self._own_memory() + children.memory
        pools = [Pool(reported["MemTotal"], max(0.0, reported["MemTotal"] - reported["MemAvailable"] - own))]
        for group in self._groups:
            limit, used = group.memory(), group.memory_used()
            if limit < reported["MemTotal"]:
                pools.append(Pool(limit, max(0.0, (used or 0.0) - own), group=True))
        return tuple(pools)

    def _throttle(self) -> Throttle | None:
        """Of the group that is the most above its ``memory.high``."""
        limited = ((high, group) for group in self._groups if (high := group.memory_high()) < inf)
        found = (Throttle(high, group.memory_used() or 0.0) for high, group in limited)
        at_high = [one for one in found if one.used >= _AT_HIGH * one.high]
        return max(at_high, key=lambda one: one.used / one.high, default=None)

    def _squeezed(self) -> bool:
        """True if memory is short for this process: in its group, if it has one that reports it. What the machine
        reports includes other groups that are at their limits."""
        waiting = next((known for group in self._groups if (known := group.waiting()) is not None), None)
        if waiting is None and not any(group.memory() < inf for group in self._groups):
            waiting = waiting_percent(self._proc / "pressure" / "memory", self._read)
        return waiting is not None and waiting >= _SHORT


def _busy(stat: Path, read: Callable[[Path], str] = Path.read_text) -> float:
    """Seconds that the CPUs of this process have worked, for whomever. Programs that give way to all others (nice)
    take nothing from this one, unless it does so, too."""
    kinds = [_USER, _SYSTEM, _IRQ, _SOFTIRQ, _STEAL, *([_NICE] if _counts_nice() else [])]
    ours = {f"cpu{number}" for number in usable_cpus()}
    lines = (line.split() for line in read(stat).splitlines() if line.startswith("cpu"))
    ticks = sum(int(words[1 + kind]) for words in lines if words[0] in ours for kind in kinds)
    return ticks / os.sysconf("SC_CLK_TCK")


def _counts_nice() -> bool:
    return os.nice(0) > 0


def _meminfo(path: Path, read: Callable[[Path], str]) -> dict[str, int]:
    words = (line.split() for line in read(path).splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) * _KILO for pair in words if len(pair) > 1}


def own_bytes(proc: Path, read: Callable[[Path], str] = Path.read_text) -> float:
    """Bytes of memory that only this process uses, and that no file holds."""
    lines = read(proc / "self" / "status").splitlines()
    reported = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return next(reported, 0) * _KILO
