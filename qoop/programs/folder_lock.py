"""The lock of a folder: one process at a time makes the editions of a view there, or the steps of a sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qoop.catalog.errors import DiskFull
from qoop.catalog.stores.private import lock_now, make_folder


@contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Yields True if this process has the folder for itself within the block. Raises DiskFull."""
    try:
        make_folder(folder)
        file = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DiskFull(f"{folder} cannot be written: {error.strerror or error}") from error
    try:
        yield lock_now(file)
    finally:
        os.close(file)
