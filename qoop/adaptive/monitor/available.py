"""The resources that this process may use of its machine, as the machine and control groups say."""

from __future__ import annotations

import math
import os
from pathlib import Path

from qoop.adaptive.monitor.cgroup import groups, usable_cpus

_FIRST_VERSION = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of cgroups, which holds the memory where the second does not."""


def available_memory() -> int:
    """Bytes this process may use: physical memory, or less where a cgroup says so."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    first_version = _cgroup_limit(_FIRST_VERSION)
    limits = [physical, *(group.memory() for group in groups()), *([first_version] if first_version else [])]
    return int(min(limits))


def available_slots() -> int:
    """CPUs this process may run on, or less where a cgroup says so; of an allowed part of one the whole counts."""
    allowed = min((group.cpus() for group in groups()), default=math.inf)
    return len(usable_cpus()) if allowed == math.inf else max(1, min(len(usable_cpus()), math.ceil(allowed)))


def _cgroup_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:  # no such controller here: no limit
        return None
    return int(text) if text.isdigit() else None  # "max"
