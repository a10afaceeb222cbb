"""The limits of a machine that is resized: CPUs by affinity, memory by a control group."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.tpcds.control_groups import ControlGroup
from qoop.tpcds.spot.course import OutOfMemory, Size

_PASSES = 2  # a thread may have begun another before it was bound


class Limits:
    """The limits of all processes of an adapter. Raises ConfigError if no control group can be made."""

    def __init__(self) -> None:
        self._group = ControlGroup(f"qoop-spot-{os.getpid()}", ("memory",))
        self._cpus = sorted(os.sched_getaffinity(0))
        self._kills = 0

    def inside(self, command: Sequence[str]) -> Sequence[str]:
        """The command, begun within the group."""
        return self._group.inside(command)

    def set(self, size: Size, processes: Iterable[int]) -> None:
        """Bind this process and others to the CPUs, and limit the memory of the group.

        Raises OutOfMemory if more is in use and the kernel refuses the limit, as version 1 does.
        """
        cpus = self._cpus[: size.cpus]
        os.sched_setaffinity(0, cpus)  # children inherit it
        for _ in range(_PASSES):
            for process in processes:
                for thread in _threads(process):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(thread, cpus)
        try:
            self._group.limit_memory(size.memory)
        except OSError as error:
            raise OutOfMemory(f"it uses {self._group.memory_in_use() / 1e6:.0f} MB") from error

    def killed(self) -> bool:
        """True if the kernel has killed a process for want of memory since the last call."""
        before, self._kills = self._kills, self._group.kills()
        return self._kills > before

    def close(self) -> None:
        """Remove the group, whose processes have ended. Raises ConfigError if some have not."""
        self._group.close()


def refused() -> str:
    """The reason why no machine can be resized here; empty: it can."""
    try:
        ControlGroup(f"qoop-spot-try-{os.getpid()}", ("memory",)).close()
    except ConfigError as error:
        return str(error)
    return ""


def _threads(process: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(Path("/proc") / str(process) / "task")]
    except FileNotFoundError:  # it has ended
        return []
