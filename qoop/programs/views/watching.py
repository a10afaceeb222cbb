"""Folders of tables that Linux reports changes of, so that a comparison of a table need not stamp each of its files.

A comparison stamps the files that the system has reported since the last one (inotify): those that came, were written
to in place, replaced, renamed or removed. What it does not report are writes through a hard link in another folder, and
through a memory map while that is open. So all files of a folder are stamped again, in at most `_FULL` of the time; and
for each statement, if one had another name the last time.

Only folders of files alone are watched, of file systems of this machine: others may change elsewhere. A folder that
has other folders or links in it, or was replaced as a whole, is read in full each time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.catalog.errors import SourceError
from qoop.catalog.sources.file_stamp import Stamp, stamp_of, unsettled
from qoop.catalog.sources.files import Found, find_files
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Table

_FULL = 0.01
"""The part of the time that comparisons of all files of all folders may take."""

_MODIFIED, _ATTRIBUTES, _WRITTEN = 0x2, 0x4, 0x8  # linux/inotify.h
_MOVED_FROM, _MOVED_TO, _CREATED, _DELETED = 0x40, 0x80, 0x100, 0x200
_ENTRIES = _MODIFIED | _ATTRIBUTES | _WRITTEN | _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED
_IS_FOLDER = 0x4000_0000
_ONLY_FOLDERS = 0x0100_0000
_HEAD = struct.Struct("iIII")
_CHUNK = 1 << 16

_LOCAL = frozenset({
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1, 0x794C7630,
})  # fmt: skip
"""The file systems that report all changes: ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, overlays (linux/magic.h)."""


class _Reports:
    """The reports of the system about watched folders. Raises OSError where there are none."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, "no inotify")
        self._system = ctypes.CDLL(None, use_errno=True)
        self._file = self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._checked(self._file)

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def watch(self, folder: str) -> int:
        """Report changes of the files of a folder from now on; returns a number for it."""
        space = ctypes.create_string_buffer(256)  # of a `struct statfs`, which begins with the kind
        self._checked(self._system.statfs(os.fsencode(folder), space))
        kind = ctypes.c_long.from_buffer(space).value & 0xFFFF_FFFF
        if kind not in _LOCAL:
            raise OSError(errno.EOPNOTSUPP, "changes of this file system may be made elsewhere")
        return self._checked(self._system.inotify_add_watch(self._file, os.fsencode(folder), _ENTRIES | _ONLY_FOLDERS))

    def read(self) -> list[tuple[int, int, str]]:
        """The folder, the kind and the name of a file, of each report since the last call. A folder of -1: reports were
        lost."""
        found = list[tuple[int, int, str]]()
        while True:
            try:
                chunk = os.read(self._file, _CHUNK)
            except BlockingIOError:
                return found
            at = 0
            while at < len(chunk):
                number, kind, _, length = _HEAD.unpack_from(chunk, at)
                at += _HEAD.size
                found.append((number, kind, os.fsdecode(chunk[at : at + length].rstrip(b"\0"))))
                at += length

    def close(self) -> None:
        os.close(self._file)


@value
class _Known:
    """The files of a folder at the last comparison. folder: its device and inode. again: the time of the next
    comparison of all files. young: names that are left for the next one, see `_with`."""

    folder: tuple[int, int]
    files: Found
    again: float
    young: frozenset[str] = frozenset()


class Watching:
    """Watches the folders of tables. Thread-safe. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: _Reports | None = None
        self._numbers: dict[str, int] = {}  # of folders
        self._known: dict[str, _Known] = {}  # by folder
        self._reported: dict[int, set[str] | None] = {}  # names by number of folder; None: all are read

    def found_now(self, table: Table) -> Found | None:
        """As `found`, also the files that have changed just now; None, too, if a file has other names."""
        return self.found(table, now=True)

    def found(self, table: Table, now: bool = False) -> Found | None:
        """The files of a table as they are now; None: its place is not watched. now: see `found_now`. Raises
        SourceError."""
        source, origin = table.source, table.origin
        if origin is None or not isinstance(source, ParquetSource) or source.log or source.by_content:
            return None
        with self._lock:
            try:
                found = self._found(origin.place, origin.endings, source, now)
            except OSError:
                self._forget(origin.place)
                return None
        return None if now and found is not None and found.linked else found

    def close(self) -> None:
        """End all watches."""
        with self._lock:
            self._numbers, self._known, self._reported = {}, {}, {}
            if self._reports is not None:
                self._reports.close()
                self._reports = None

    def _found(self, place: str, endings: tuple[str, ...], source: ParquetSource, now: bool) -> Found | None:
        if not os.path.isabs(place):
            return None
        status = os.stat(place)
        folder = status.st_dev, status.st_ino
        known = self._known.get(place)
        if known is None or known.folder != folder or known.again <= self._clock():
            return self._read(place, endings, folder)
        names = self._names(self._numbers[place])
        if names is None or known.files.stamps != source.stamps:  # others have read it since
            return self._read(place, endings, folder)
        if names or known.young:
            changed = _with(known, place, endings, names, now)
            if changed is None:
                return self._read(place, endings, folder)
            self._known[place] = known = changed
        return known.files

    def _read(self, place: str, endings: tuple[str, ...], folder: tuple[int, int]) -> Found | None:
        """All files of a folder, which is watched before they are read."""
        self._forget(place)
        if self._reports is None:
            self._reports = _Reports()
        number = self._numbers[place] = self._reports.watch(place)
        for other in [one for one in self._known if self._numbers.get(one) == number and one != place]:
            self._forget(other)  # another name of the folder
        self._names(number)
        self._reported[number] = set()
        begun = self._clock()
        try:
            found = find_files(place, endings)
        except SourceError:
            self._forget(place)
            raise
        seconds = self._clock() - begun
        if found.flat:
            self._known[place] = _Known(folder, found, begun + seconds / _FULL * (len(self._known) + 1))
        return found

    def _names(self, number: int) -> set[str] | None:
        """The names reported of a folder since the last call; None: more has changed than files."""
        assert self._reports is not None
        for one, kind, name in self._reports.read():
            for each in self._reported if one < 0 else (one,):
                before = self._reported.get(each)
                if kind & ~_ENTRIES or not name or name[0] == "_":
                    self._reported[each] = None
                elif before is not None:
                    before.add(name)
        found = self._reported.get(number)
        if found:
            self._reported[number] = set()
        return found

    def _forget(self, place: str) -> None:
        """Know nothing of a folder. Its watch stays: another name of the folder has the same."""
        self._known.pop(place, None)
        self._numbers.pop(place, None)


def _with(known: _Known, place: str, endings: tuple[str, ...], names: Set[str], at_once: bool) -> _Known | None:
    """The files of a folder after those of these names have changed; None: one is now something else.

    A file that has changed just now is left for the next comparison, but not twice: to have a stamp that a further
    write changes, a refresh would wait for the next tick of the clock of files. at_once: none is left."""
    stamps: dict[str, Stamp] = dict(known.files.stamps)
    linked = known.files.linked
    now = dict[str, Stamp]()
    for name in names | known.young:
        if name[0] == "." or not name.lower().endswith(endings):
            continue
        path = os.path.join(place, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            stamps.pop(path, None)
            continue
        if not stat.S_ISREG(status.st_mode):
            return None
        now[path] = stamp_of(status)
        linked = linked or status.st_nlink > 1
    left = () if at_once else unsettled(now)[0]
    young = {path for path in left if os.path.basename(path) not in known.young}
    stamps |= {path: stamp for path, stamp in now.items() if path not in young}
    files = replace(known.files, stamps=stamps, linked=linked)
    return replace(known, files=files, young=frozenset(map(os.path.basename, young)))
