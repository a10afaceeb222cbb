"""Files that other processes may read at any moment, written whole or not at all; files that outlast a power cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qoop.catalog.stores.private import make_folder, open_private, write_all

_SYNCED = 4  # files at once
_PREFIX, _SUFFIX = ".qoop-", ".tmp"
_cleaned_folders: set[str] = set()  # folders without drafts of processes that have ended


def write_whole(path: Path, text: str) -> None:
    """Write text next to the path, and rename it into place: a reader sees all or nothing. Makes the folder.

    Raises OSError if that fails; the old file then remains, without a draft next to it. Drafts of a killed process are
    removed when another process first writes to the folder.
    """
    data = text.encode()
    make_folder(path.parent)
    if str(path.parent) not in _cleaned_folders:
        _cleaned_folders.add(str(path.parent))
        _collect(path.parent)
    with _draft(path.parent, data) as draft:
        os.replace(draft, path)


@contextlib.contextmanager
def _draft(folder: Path, data: bytes) -> Iterator[Path]:
    """A file with the data, removed unless it is renamed, and locked while its process lives."""
    path = folder / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
    with open_private(path, "x") as file:
        try:
            with contextlib.suppress(BlockingIOError):  # it is being removed as abandoned: the renaming fails
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_all(file, data)
            yield path
        finally:
            path.unlink(missing_ok=True)


def _collect(folder: Path) -> None:
    """Remove the drafts whose processes have ended."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError), path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


def move_new(draft: Path, path: Path) -> None:
    """Move a file to a path that does not exist; of several processes one does. Raises FileExistsError, OSError."""
    try:
        os.link(draft, path)
        draft.unlink()
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: an empty file reserves the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        os.replace(draft, path)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that survives a power failure. Raises OSError."""
    with open_private(path, "w") as file:
        write_all(file, data)
        os.fsync(file.fileno())


def sync_paths(*paths: Path) -> None:
    """Make files, and the names in folders, survive a power failure. Raises OSError."""
    for path in paths:
        _sync(path)


def sync_together(*paths: Path) -> None:
    """The same at once: a file system may write several files to the disk with one flush of it. Raises OSError."""
    if len(paths) < 2:
        sync_paths(*paths)
    else:
        with ThreadPoolExecutor(_SYNCED) as threads:
            list(threads.map(_sync, paths))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
