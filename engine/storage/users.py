"""The users of a directory of checkpoints and what they need, known to all processes through files and locks.

``DIR/<user>.user`` belongs to one process, which holds a lock on it that the system takes back when the process
ends, however it ends; process numbers would be used again, and differ between containers. The file is a log:
``+name`` says that a running job of the process needs the checkpoint <name>, ``-name`` that none does any more.
``DIR/lock`` is held shared by writers of its log and exclusively by removers of files, so that no file is
removed that was requested before.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from qoop.catalog.forks import forget_private, keep_private

_USER = re.compile(r"(?P<user>[0-9a-f]{16})\.user")
_LONG = 10_000  # lines of a log, from which on it is worth rewriting


class Users:
    """The users of a directory, of which this process is one. Thread-safe. Raises OSError as files do."""

    def __init__(self, root: Path) -> None:
        self.own = os.urandom(8).hex()
        self._root = root
        self._mutex = threading.Lock()  # flock belongs to the open file, which the threads share
        self._needed: set[str] = set()
        self._lines = 0
        self._rewrite = False  # the log is to be written again, since its end may be missing
        self._lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with self.alone():  # the file is not visible before it is locked
                self._log = os.open(self._path(self.own), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
                fcntl.flock(self._log, fcntl.LOCK_EX)
        except BaseException:
            os.close(self._lock)
            raise
        for file in (self._lock, self._log):
            keep_private(file)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While no process, and no other thread, removes files or says what it needs."""
        with self._mutex, self._locked(fcntl.LOCK_EX):
            yield

    def need(self, names: Iterable[str]) -> None:
        """From now on this process needs these."""
        with self._mutex:
            new = [name for name in names if name not in self._needed]
            self._append("+", new)
            self._needed.update(new)

    def unpin(self, names: Iterable[str]) -> None:
        """This process does not need these any more. If the disk is full, the others hear of it later."""
        with self._mutex:
            old = [name for name in names if name in self._needed]
            self._needed.difference_update(old)
            with contextlib.suppress(OSError):
                self._append("-", old)

    def living(self) -> set[str]:
        """The users whose processes live. Forgets the others. Only while `alone`."""
        return {user for user in self._users() if self._lifetimes(user)}

    def needed(self) -> set[str]:
        """The names that any living process needs. Only while `alone`."""
        names: set[str] = set()
        for user in self.living():
            names |= self._needed if user == self.own else _read_log(self._path(user))
        return names

    def close(self) -> None:
        """This process uses the directory no more."""
        with contextlib.suppress(OSError):
            self._path(self.own).unlink(missing_ok=True)
        for file in (self._log, self._lock):
            forget_private(file)
            os.close(file)

    def _users(self) -> list[str]:
        return [match["user"] for name in os.listdir(self._root) if (match := _USER.fullmatch(name))]

    def _lifetimes(self, user: str) -> bool:
        if user == self.own:
            return True
        try:
            log = os.open(self._path(user), os.O_RDWR)
        except OSError:
            return self._path(user).exists()  # another's, which we may not open: it counts as living
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path(user).unlink(missing_ok=True)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(log)

    def _append(self, sign: str, names: list[str]) -> None:
        if not names:
            return
        with self._locked(fcntl.LOCK_SH):
            lines = [f"{sign}{name}\n" for name in names]
            if self._rewrite or self._lines > _LONG + 4 * len(self._needed):
                os.ftruncate(self._log, 0)
                lines, self._lines = [*(f"+{name}\n" for name in sorted(self._needed)), *lines], 0
            text, self._rewrite = "".join(lines).encode(), True  # for as long as it is not all there
            if os.write(self._log, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._lines, self._rewrite = self._lines + len(lines), False

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        fcntl.flock(self._lock, kind)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _path(self, user: str) -> Path:
        return self._root / f"{user}.user"


def _read_log(path: Path) -> set[str]:
    names: set[str] = set()
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(errors="replace").splitlines():  # a damaged name has no owner
            names.add(line[1:]) if line[:1] == "+" else names.discard(line[1:])
    return names
