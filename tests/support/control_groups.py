"""Real control groups for a test, of either version."""

from __future__ import annotations

from pathlib import Path

from waits import until

GB = 10**9


class RealGroups:
    """Groups of the kernel, of memory and of CPUs: one in version 2. Raises OSError where they cannot be made."""

    def __init__(self, name: str) -> None:
        root = Path("/sys/fs/cgroup")
        self.first = (root / "memory").is_dir()
        self.memory = (root / "memory" if self.first else root) / name
        self.cpu = (root / "cpu" if self.first else root) / name
        self.folders = list(dict.fromkeys((self.memory, self.cpu)))
        for folder in self.folders:
            folder.mkdir()
        self.limit(2 * GB)
        self.quota(1.5)

    def limit(self, size: int) -> int:
        """Limit the memory; returns the bytes of the limit, which is of whole pages."""
        file = self.memory / ("memory.limit_in_bytes" if self.first else "memory.max")
        file.write_text(str(size))
        return int(file.read_text())

    def quota(self, cpus: float) -> None:
        """Limit the CPUs."""
        name, text = ("cpu.cfs_quota_us", "{}") if self.first else ("cpu.max", "{} 100000")
        (self.cpu / name).write_text(text.format(int(cpus * 100_000)))

    def remove(self) -> None:
        """Remove them once their processes are gone."""
        for folder in self.folders:
            until(lambda folder=folder: not (folder / "cgroup.procs").read_text())  # type: ignore[misc]
            folder.rmdir()
