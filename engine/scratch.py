"""A temporary directory that does not outlive its process for long, however that ends.

``PARENT/qoop-spill-<random>/`` holds a file ``lock``, on which its process has a lock that the system takes back
when the process ends. Whoever makes another such directory beside it removes those whose lock can be had. By
process numbers this could not be told: they are used again, and differ between containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from qoop.catalog.errors import DiskFull

_PREFIX = "qoop-spill-"
_LOCK = "lock"


class Scratch:
    """A directory of one's own, at `path`, until `close`.

    parent: where, made if it is not there; None: where the system keeps temporary files.
    Raises DiskFull if it cannot be made.
    """

    def __init__(self, parent: Path | None = None) -> None:
        try:
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            _collect(Path(tempfile.gettempdir()) if parent is None else parent)
            self.path, self._lock = _make(parent)
        except OSError as error:
            where = parent or tempfile.gettempdir()
            raise DiskFull(f"the spill directory {where} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Remove the directory and all that is in it; the lock goes last."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _make(parent: Path | None) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _LOCK).exists():
            return path, lock
        os.close(lock)  # another process took the lock before us, and the directory for a dead one's


def _collect(parent: Path) -> None:
    """Remove the directories here whose processes have ended. Those of other users are left to them."""
    for path in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
