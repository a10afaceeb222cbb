"""A part of a processor for a group of processes: nodes of one machine are then as quick as separate machines.

The kernel's control groups (Linux, `cgroups(7)`) let all processes of a group together run for a part of each period.
A process that is in the group begins others in the group. Both versions of the file system are used: version 1 has a
folder for the processors alone, version 2 one for everything.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError

_ROOT = Path("/sys/fs/cgroup")
_PERIOD = 20_000
"""Microseconds after which a group may run again: far less than a node may take to say that it lives."""
_PASSES = 2
_ENDS = 5.0  # seconds that processes which were killed may take to be gone


class CpuQuota:
    """A group of processes that have `processors` together. Raises ConfigError where no group can be made.

    name: of the group; nothing else on the machine may have it. root: where groups are made.
    """

    def __init__(self, name: str, processors: float, root: Path = _ROOT) -> None:
        if not 0 < processors <= (os.cpu_count() or 1):
            raise ConfigError(f"a node can have up to {os.cpu_count()} processors, not {processors:g}")
        quota = round(processors * _PERIOD)
        first = (root / "cpu").is_dir()
        if first:
            limits = {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
        else:
            limits = {"cpu.max": f"{quota} {_PERIOD}"}
        self._above = root / "cpu" if first else root
        self._folder = self._above / name
        try:
            if not first:
                (root / "cgroup.subtree_control").write_text("+cpu")
            self._folder.mkdir()
            self._limit(limits)
        except OSError as error:
            raise ConfigError(f"nodes cannot be given a part of a processor here: {error}") from error

    def _limit(self, limits: Mapping[str, str]) -> None:
        try:
            for file, limit in limits.items():
                (self._folder / file).write_text(limit)
        except OSError:
            self._folder.rmdir()
            raise

    def take(self, root: int) -> None:
        """A process and all below it belong to the group from now on, and so do those that they will begin.

        Raises ConfigError if psutil is not installed."""
        for _ in range(_PASSES):  # a process may have begun another before it was taken
            for one in _below(root):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    (self._folder / "cgroup.procs").write_text(str(one.pid))

    def close(self) -> None:
        """Put the group away. Its processes have been killed. Raises ConfigError if some do not end."""
        deadline = time.monotonic() + _ENDS
        while True:
            try:
                return self._folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConfigError(f"processes of a node that was killed do not end: {error}") from error
            time.sleep(0.05)


def _below(root: int) -> Sequence[Any]:
    """A process and all below it that live, as psutil has them. Raises ConfigError if that is not installed."""
    try:
        import psutil
    except ImportError as error:
        raise ConfigError("the processes of nodes are found by psutil: pip install psutil") from error

    try:
        above = psutil.Process(root)
        return [above, *above.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
