"""The resources that this process may use of its machine, as the machine and control groups say."""

from __future__ import annotations

import math
import os

from qoop.adaptive.monitor.cgroup import groups, physical_memory
from qoop.catalog.priority import usable_cpus
from qoop.catalog.value import value

_PEAK, _FIXED = 1.15, 150_000_000
"""DuckDB's limit misses some of its allocations: a process may take that many times its memory, and these bytes."""
_PART = 0.8
"""The part of the memory that a session takes by default where that is less."""


@value
class Size:
    """The size of a session. slots: tasks at a time. memory: bytes."""

    slots: int
    memory: int


def safe_memory(limit: float) -> int:
    """Bytes that a session may be given so that its process stays below a limit.

    >>> safe_memory(1_000_000_000), safe_memory(16_000_000_000)
    (739130434, 12800000000)
    """
    return max(0, int(min(_PART * limit, (limit - _FIXED) / _PEAK)))


def whole_machine() -> Size:
    """The size of a session that no control group limits."""
    return Size(os.cpu_count() or 1, safe_memory(physical_memory()))


def available_memory() -> int:
    """Bytes this process may use: physical memory, or less where a cgroup says so."""
    return int(min([physical_memory(), *(group.memory() for group in groups())]))


def available_slots() -> int:
    """CPUs this process may run on, or less where a cgroup says so; of an allowed part of one the whole counts."""
    allowed = min((group.cpus() for group in groups()), default=math.inf)
    return len(usable_cpus()) if allowed == math.inf else max(1, min(len(usable_cpus()), math.ceil(allowed)))
