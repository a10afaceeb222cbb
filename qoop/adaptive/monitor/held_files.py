"""Small files of the kernel that stay open between readings.

Above ``memory.high`` the kernel pauses a thread for up to 2 s whenever it takes a page for it, and an open of a file
takes some. A read from a file that was read before takes none: its buffer stays.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

_SIZE = 1 << 16
"""Bytes of a read."""


class HeldFiles:
    """The files that were read. They are closed when this is collected. Not thread-safe."""

    def __init__(self) -> None:
        self._opened: dict[Path, int] = {}
        weakref.finalize(self, _close_all, self._opened)

    def text(self, path: Path) -> str:
        """The text of a file, as it is now. Raises OSError."""
        file = self._opened.get(path)
        if file is None:
            file = self._opened[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = part = os.pread(file, _SIZE, 0)
            while len(part) == _SIZE:
                part = os.pread(file, _SIZE, len(found))
                found += part
        except OSError:  # its control group is gone; another may come in its place
            os.close(self._opened.pop(path))
            raise
        return found.decode()


def _close_all(opened: dict[Path, int]) -> None:
    for file in opened.values():
        os.close(file)
    opened.clear()
