"""Files and folders that only their owner can read, whatever the umask says: all that qoop writes without a request.

Files that a user names, as in COPY or for reports, have the usual modes. An existing folder keeps its mode.
"""

from __future__ import annotations

import fcntl
import os
from io import FileIO
from pathlib import Path

_FILE = 0o600
_FOLDER = 0o700


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents. Raises OSError."""
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(_FOLDER, exist_ok=True)


def open_private(path: str | Path, mode: str) -> FileIO:
    """Open a file for writing, unbuffered: nothing is written twice if the process is forked meanwhile. Raises OSError.

    mode: as for `open`, without "b"; such as "x" or "a".
    """
    return FileIO(path, mode, opener=_open)


def write_private(path: Path, data: bytes) -> None:
    """Write a file. Raises OSError."""
    with open_private(path, "w") as file:
        write_all(file, data)


def lock_now(file: int) -> bool:
    """Lock an open file, alone and until it is closed; False: another one has it locked. Raises OSError."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private(path: Path) -> None:
    """Make an existing file private. Raises OSError."""
    path.chmod(_FILE)


def write_all(file: FileIO, data: bytes | memoryview) -> None:
    """Write all of the data: a call to an unbuffered file may write only a part. Raises OSError."""
    view = memoryview(data)
    while view.nbytes:
        view = view[file.write(view) :]


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, _FILE)
