"""The places that a locked session may COPY to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from qoop.catalog.errors import Forbidden
from qoop.catalog.opening import within

_NAMES_OF_FILES = ("filename_pattern", "file_extension")
"""Options that give names to files, which may lead through links."""


def allowed(path: str, options: str, folders: Sequence[Path]) -> Path:
    """The one of the folders that a file lies in, wherever links and ``..`` lead. Raises Forbidden if there is none."""
    there = f"it may copy to files in {', '.join(map(str, folders))}" if folders else "it may copy to no folder"
    if any(name in options.lower() for name in _NAMES_OF_FILES):
        raise Forbidden(f"COPY names files by {' and '.join(_NAMES_OF_FILES)} in no locked session; {there}")
    found = next((folder for folder in folders if within(path, [folder])), None)
    if found is None or os.path.isdir(path):
        raise Forbidden(f"COPY TO {path!r} is refused: the session is locked, and {there}")
    return found
