"""Control groups that a benchmark or a test makes for its processes, with limits that it changes.

Sources: cgroups(7), "Control Group v2" and "Memory Resource Controller" in the documentation of Linux. Version 1 has a
folder for each controller; version 2 has one for all. Version 1 refuses a limit below the memory in use; version 2
takes it, and kills what does not fit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qoop.adaptive.monitor.cgroup import ROOT, FirstVersionGroup, Group
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import size

Controller = Literal["cpu", "memory"]
PERIOD = 100_000
"""Microseconds after which a group that has used up its cpu time may run again, by default."""
_PASSES = 2
_ENDS = 5.0  # seconds that killed processes may take to be gone


class ControlGroup:
    """A new group, without limits. Raises ConfigError where none can be made.

    name: no other group has it. root: where the kernel shows its groups.
    """

    def __init__(self, name: str, controllers: Sequence[Controller] = ("cpu", "memory"), root: Path = ROOT) -> None:
        self.first_version = any((root / controller).is_dir() for controller in ("cpu", "memory"))
        above = {controller: root / controller if self.first_version else root for controller in controllers}
        self._folders = {controller: folder / name for controller, folder in above.items()}
        made: list[Path] = []
        try:
            if not self.first_version and not _passed_on(root).issuperset(controllers):
                (root / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))
            for folder in self.folders:
                folder.mkdir()
                made.append(folder)
        except OSError as error:
            for folder in made:
                folder.rmdir()
            raise ConfigError(f"no control group can be made here: {error}") from error

    @property
    def folders(self) -> list[Path]:
        """Of its files."""
        return list(dict.fromkeys(self._folders.values()))

    def limit_memory(self, size: int) -> int:
        """Returns the bytes of the limit, which is of whole pages. Raises OSError if version 1 refuses it."""
        file = self._folders["memory"] / ("memory.limit_in_bytes" if self.first_version else "memory.max")
        file.write_text(str(size))
        if not self.first_version:
            with contextlib.suppress(OSError):  # a kernel without swap
                (self._folders["memory"] / "memory.swap.max").write_text("0")
        return int(file.read_text())

    def limit_cpus(self, cpus: float, period: int = PERIOD) -> None:
        """Let its processes together use that many CPUs. period: microseconds. Raises OSError."""
        folder, quota = self._folders["cpu"], round(cpus * period)
        if self.first_version:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {period}")

    def memory_in_use(self) -> float:
        """Bytes that the kernel cannot take back."""
        folder = self._folders["memory"]
        read = Path.read_text
        group = FirstVersionGroup(folder, read, folder) if self.first_version else Group(folder, read)
        return group.memory_used() or 0.0

    def file_pages(self) -> int:
        """Bytes of files that the kernel keeps in memory for its processes."""
        return self._count("memory.stat", "cache" if self.first_version else "file")

    def kills(self) -> int:
        """The processes that the kernel has killed for want of memory."""
        return self._count("memory.oom_control" if self.first_version else "memory.events", "oom_kill")

    def _count(self, file: str, name: str) -> int:
        counts = dict(line.split() for line in (self._folders["memory"] / file).read_text().splitlines())
        return int(counts[name])

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command, begun within the group."""
        enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in self.folders)
        return ["sh", "-c", f'{enter}exec "$0" "$@"', *command]

    def take(self, root: int) -> None:
        """A process and all below it belong to the group from now on, and so do those that they will begin.

        Raises ConfigError if psutil is not installed."""
        for _ in range(_PASSES):  # a process may have begun another before it was taken
            for one in _below(root):
                for folder in self.folders:
                    with contextlib.suppress(ProcessLookupError):  # it has just ended
                        (folder / "cgroup.procs").write_text(str(one.pid))

    def close(self) -> None:
        """Remove the group. Its processes have been killed. Raises ConfigError if some do not end."""
        deadline = time.monotonic() + _ENDS
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise ConfigError(f"processes of {folder} do not end: {error}") from error
                    time.sleep(0.05)


def _passed_on(root: Path) -> set[str]:
    """The controllers that groups below the root have in version 2."""
    file = root / "cgroup.subtree_control"
    return set(file.read_text().split()) if file.exists() else set()


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


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The limits of a control group. memory: bytes."""

    memory: int
    cpus: float

    def __str__(self) -> str:
        return f"{size(self.memory)} and {self.cpus:.2g} CPUs"


@dataclass
class Course:
    """The sizes that a process had, each with the monotonic time from which on it held."""

    sizes: list[tuple[float, GroupSize]] = field(default_factory=list)

    def put(self, limits: GroupSize) -> None:
        """This holds from now on."""
        self.sizes.append((time.monotonic(), limits))

    def between(self, begin: float, end: float) -> Iterator[tuple[float, GroupSize]]:
        """The seconds at each size between two times.

        >>> course = Course([(0.0, GroupSize(1, 1.0)), (5.0, GroupSize(2, 1.0)), (9.0, GroupSize(3, 1.0))])
        >>> [(seconds, limits.memory) for seconds, limits in course.between(3.0, 8.0)]
        [(2.0, 1), (3.0, 2)]
        """
        ends = [at for at, _ in self.sizes[1:]] + [float("inf")]
        for (at, limits), until in zip(self.sizes, ends, strict=True):
            seconds = min(end, until) - max(begin, at)
            if seconds > 0:
                yield seconds, limits
