"""Files that other processes may read at any moment, written whole or not at all; files that outlast a power cut."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write text beside the path, in a folder made if need be, and rename it into place: a reader sees all or nothing.

    Raises OSError if that fails; what stood there is then still there, and nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=".", suffix=".tmp", delete=False, encoding="utf-8"
    ) as file:
        try:
            file.write(text)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that is there, with all that is in it, when the power fails. Raises OSError."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in a folder be there when the power fails. Raises OSError."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
