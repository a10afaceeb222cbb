"""A temporary directory that does not outlive its process for long, however that ends.

``PARENT/qoop-<kind>-<random>/`` holds a file ``lock``, on which its process has a lock that the system takes back
when the process ends. A process that makes another such directory next to it removes those whose lock is free.
Process numbers would not show this: they are used again, and differ between containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from qoop.catalog.errors import DiskFull
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.stores.private import make_folder

_LOCK = "lock"
_NAME = re.compile("-[a-z0-9_]{8}$")  # as `mkdtemp` gives


class Scratch:
    """A directory of one's own, at `path`, until `close`.

    parent: where, made if it is not there; None: where the system keeps temporary files.
    kind: what it is for; with a dot in front its name begins with one, so that it is not searched for tables.
    Raises DiskFull if it cannot be made.
    """

    def __init__(self, parent: Path | None = None, kind: str = "spill") -> None:
        parent = parent or Path(tempfile.gettempdir())
        try:
            make_folder(parent)
            clean(parent, kind)
            self.path, self._lock = _make(parent, _prefix(kind))
            keep_private(self._lock)
        except OSError as error:
            raise DiskFull(f"the {kind} directory {parent} cannot be written: {error.strerror or error}") from error

    @property
    def bytes(self) -> int:
        """Bytes of the files that it holds now."""
        found = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(OSError):  # it has just gone
                    found += os.stat(os.path.join(folder, name)).st_size
        return found

    def close(self) -> None:
        """Remove the directory and all that is in it; the lock goes last."""
        _remove(self.path)
        forget_private(self._lock)
        os.close(self._lock)


@contextlib.contextmanager
def drafted(path: str) -> Iterator[str]:
    """A path to write a file or a folder to, which takes the place of `path` once it is whole. After an error nothing
    of it is left; after a kill, the next call removes it. A pipe, an existing folder and a place on another machine
    cannot be replaced: they are written as they are.

    Raises DiskFull if nothing can be written next to it.
    """
    target = Path(os.path.realpath(path))
    if "://" in path or not target.parent.is_dir() or (target.exists() and not target.is_file()):
        yield path
        return
    scratch = Scratch(target.parent, ".copy")
    try:
        draft = scratch.path / target.name
        yield str(draft)
        os.replace(draft, target)
    except OSError as error:
        raise DiskFull(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        scratch.close()


def _prefix(kind: str) -> str:
    return f"{'.' * kind.startswith('.')}qoop-{kind.removeprefix('.')}-"


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:  # another process took the directory for a dead one's
            continue
        except OSError:
            path.rmdir()
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _LOCK).exists():
            return path, lock
        os.close(lock)  # another process took the lock before us, and the directory for a dead one's


def clean(parent: Path, kind: str) -> None:
    """Remove the directories of that kind here whose processes have ended. Those of other users are left to them."""
    for path in parent.glob(f"{_prefix(kind)}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            try:
                lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:  # its process was killed just before it had the lock, or after that was removed
                if _NAME.search(path.name):
                    path.rmdir()  # if it is empty
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(lock)


def _remove(path: Path) -> None:
    """Remove a directory, the lock in it last: without that, no process would remove the rest."""
    with contextlib.suppress(OSError):
        for item in path.iterdir():
            if item.name != _LOCK:
                shutil.rmtree(item, ignore_errors=True)
                item.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
