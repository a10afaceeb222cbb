"""The file of users, read again while the server runs: after SIGHUP, and when the file has changed."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TypeAlias

from qoop.catalog.errors import ConfigError
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.users import Users

_log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_Version: TypeAlias = tuple[int, int, int] | None
"""The inode, the time and the size of a file; None: there is none."""


class Reloading(AbstractContextManager["Reloading"]):
    """Reads the file again in a thread of its own. use: takes the users. A file with a fault changes nothing, and the
    log has the fault."""

    def __init__(self, path: Path, use: Callable[[Users], object], poll_seconds: float = _POLL_SECONDS) -> None:
        self._path, self._use, self._poll_seconds = path, use, poll_seconds
        self._version = _version(path)
        self._wake, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, name="qoop-users", daemon=True)

    def __enter__(self) -> Reloading:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()

    def at_hangup(self) -> None:
        """Read the file at SIGHUP, too; for the main thread of a command."""
        signal.signal(signal.SIGHUP, self._hangup)

    def _hangup(self, _number: int, _frame: FrameType | None) -> None:
        self._version = None
        self._wake.set()

    def _watch(self) -> None:
        while not self._over:
            self._wake.wait(self._poll_seconds)
            self._wake.clear()
            if not self._over and (version := _version(self._path)) != self._version:
                self._version = version
                self._read()

    def _read(self) -> None:
        try:
            users = read_users(self._path)
            self._use(users)
        except ConfigError as error:
            _log.error("the users stay as they were: %s", error)
        except Exception:
            _log.exception("the users stay as they were")
        else:
            _log.info("read %s again: %d users", self._path, len(users))


def _version(path: Path) -> _Version:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
