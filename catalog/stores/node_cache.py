"""A cache of pieces of objects in a store, as files on this machine that its processes share.

A file appears whole, by renaming, and is never written again. So its readers need no lock, and can finish reading a
file that was removed meanwhile. When the bytes of all files exceed a budget, the least recently used files are removed.
Each process counts the bytes it adds, and lists the folder again after a fraction of the budget. A reader verifies the
checksum of a file, and `drop`s a damaged one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from qoop.catalog.paths import cache_directory
from qoop.catalog.sizes import parse_bytes
from qoop.catalog.stores.private import make_folder, open_private

BUDGET = 4_000_000_000
"""The default budget in bytes."""

_FULL = 0.9  # fraction of the budget down to which space is freed
_RECOUNT = 1 / 16  # fraction of the budget that is added before the folder is listed again
_TOUCH = 30.0  # seconds within which another use is not recorded
_DRAFT = ".draft"
_STALE = 3600.0  # seconds after which a draft counts as abandoned


class NodeCache:
    """A folder of at most `budget` bytes; concurrent processes may exceed it for a while. Thread-safe."""

    def __init__(self, root: Path, budget: int) -> None:
        self.root = root
        self.budget = budget
        self._lock = threading.Lock()
        self._added = budget  # the first addition lists the folder

    def find(self, name: str) -> Path | None:
        """The file of that name, which counts as used now."""
        path = self.root / name
        try:
            if time.time() - path.stat().st_mtime > _TOUCH:
                os.utime(path)
        except OSError:
            return None
        return path

    def add(
        self, name: str, write: Callable[[BinaryIO], object], use: Callable[[Path], object] = lambda _: None
    ) -> Path:
        """Write an unbuffered file, and keep it under a name. use: called with the file while it cannot be removed.

        Raises OSError, and what `write` and `use` raise; nothing is kept then."""
        make_folder(self.root)
        draft = self.root / f"{os.urandom(8).hex()}{_DRAFT}"
        try:
            with open_private(draft, "x+") as stream:
                write(stream)
                size = os.fstat(stream.fileno()).st_size
            use(draft)
            draft.rename(self.root / name)
        finally:
            draft.unlink(missing_ok=True)
        self._count(size, name)
        return self.root / name

    def add_bytes(self, name: str, data: memoryview) -> Path:
        """Keep bytes under a name."""

        def write(stream: BinaryIO) -> None:
            left = data
            while left.nbytes:  # an unbuffered file may write only a part
                left = left[stream.write(left) :]

        return self.add(name, write)

    def drop(self, name: str) -> None:
        """Remove a file."""
        (self.root / name).unlink(missing_ok=True)

    def bytes(self) -> int:
        """The size of all files."""
        return sum(size for _, size, _ in self._files())

    def _count(self, size: int, keep: str) -> None:
        with self._lock:
            self._added += size
            if self._added <= self.budget * _RECOUNT:
                return
            self._added = 0
            files = sorted(self._files())
            used = sum(size for _, size, _ in files)
            if used <= self.budget:
                self._added = max(0, int(used - self.budget * (1 - _RECOUNT)))  # recount when it may be full
                return
            for _, size, path in files:
                if used <= self.budget * _FULL:
                    break
                if path.name != keep:
                    path.unlink(missing_ok=True)
                    used -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """The time of each file's last use, its bytes and its path. Removes abandoned drafts."""
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    stat = entry.stat()
                    if not entry.name.endswith(_DRAFT):
                        found.append((stat.st_mtime, stat.st_size, Path(entry.path)))
                    elif time.time() - stat.st_mtime > _STALE:
                        os.unlink(entry.path)
        return found


def node_cache() -> NodeCache:
    """The cache of this machine: in the folder that `QOOP_CACHE_DIR` names, with as many bytes as
    `QOOP_CACHE_BUDGET` says (4 GB by default)."""
    root = cache_directory() / "parts"
    budget = os.environ.get("QOOP_CACHE_BUDGET") or BUDGET
    with _opening:
        if (root, budget) not in _open:
            _open[root, budget] = NodeCache(root, parse_bytes(budget))
        return _open[root, budget]


_open: dict[tuple[Path, int | str], NodeCache] = {}
_opening = threading.Lock()


def _forked() -> None:
    """A thread of the parent may have had the lock."""
    global _opening
    _opening = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_forked)
