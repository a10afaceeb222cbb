"""Files that other processes may read at any moment: written whole or not at all."""

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
