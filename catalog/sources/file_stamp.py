"""Detects files that changed since they were registered, without reading them.

The *stamp* of a file is its size, times and inode. Every write moves ctime, and no program can set ctime back: equal
stamps mean equal bytes, unless two writes fall within one tick of the clock. So a stamp that is to be kept waits for
the next tick first (`settled`).

Some files are identified by their content instead. Text and DuckDB files are read when they are registered anyway.
Files registered as ``file://…`` lie in folders whose stamps differ from machine to machine. There the stamp only saves
the reading: while it stays equal, the digest is not computed again.

Writes through a memory map change the times only when the system writes the page back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import compress
from operator import ne

from qoop.catalog.errors import SourceError, TableChanged
from qoop.catalog.value import value

Stamp = tuple[int, ...]
StampReader = Callable[[str], Stamp]
Digest = Callable[[str], str]

# The longest tick of a file clock: 10 ms on Linux, 16 on Windows …
_TICK_NS = 20_000_000
# … and where a file system keeps whole seconds, or every second one.
_COARSE_TICK_NS = 2_000_000_000
_TRIES = 5
_CHUNK = 1 << 20

_digests: dict[tuple[str, str], tuple[Stamp, str]] = {}


@value
class File:
    """A file as it was when it was registered. digest: its part of the version of the table."""

    path: str
    digest: str
    stamp: Stamp


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn every failure to read a file into a SourceError that names it and the reason."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error


def file_stamp(path: str) -> Stamp:
    """Size, times and inode. No device: a shared folder has another one on every machine. Raises OSError."""
    return stamp_of(os.stat(path))


def stamp_of(stat: os.stat_result) -> Stamp:
    """The stamp in the status of a file."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def settled(
    paths: Sequence[str], read_stamp: StampReader = file_stamp, now_read: Mapping[str, Stamp] | None = None
) -> list[Stamp]:
    """The stamps of files, read so late that a further write must change them.

    now_read: the present stamps by path, if these were read just now.

    Raises SourceError for a file that cannot be read, TableChanged for files that are written continuously.
    """
    stamps = dict(now_read or zip(paths, _stamps(paths, read_stamp), strict=True))
    young = list(stamps)
    for _ in range(_TRIES):
        young, wait = unsettled({path: stamps[path] for path in young})
        if not young:
            return [stamps[path] for path in paths]
        time.sleep(wait / 1e9)
        now = dict(zip(young, _stamps(young, read_stamp), strict=True))
        young = [path for path in young if now[path] != stamps[path]]
        stamps |= now
    if not young:
        return [stamps[path] for path in paths]
    raise TableChanged(f"{young[0]} keeps changing: it is still being written")


def _stamps(paths: Sequence[str], read_stamp: StampReader) -> list[Stamp]:
    try:
        return [read_stamp(path) for path in paths]
    except OSError as error:
        raise SourceError(f"cannot read {error.filename}: {error.strerror or error}") from error


def unsettled(stamps: Mapping[str, Stamp]) -> tuple[list[str], int]:
    """The files that changed within a tick of now, and the nanoseconds until a write must leave other times."""
    now = time.time_ns()
    past = now - _COARSE_TICK_NS
    recent = [path for path, stamp in stamps.items() if stamp[2] > past or stamp[-2] > past]
    waits = {path: wait for path in recent if (wait := _until_settled(_changed_at(stamps[path]), now)) > 0}
    return list(waits), max(waits.values(), default=0)


def _changed_at(stamp: Stamp) -> int:
    """The time of the last change of a file; of a DuckDB file and its log, the later."""
    return max(stamp[2::4])


def _until_settled(changed: int, now: int) -> int:
    """Nanoseconds until a write must leave other times. Where the clock is behind the file's: one tick."""
    tick = _TICK_NS if changed % 1_000_000_000 else _COARSE_TICK_NS
    return min(tick, changed + tick - now)


def content_file(path: str, kind: str, digest: Digest, read_stamp: StampReader = file_stamp) -> File:
    """A file identified by a digest of its content, computed only if the stamp has changed since the last time.

    kind: the digest function, as a key of the cache. Raises SourceError, TableChanged.
    """
    for _ in range(_TRIES):
        [before] = settled([path], read_stamp)
        known = _digests.get((path, kind))
        if known is not None and known[0] == before:
            return File(path, known[1], before)
        with reading(path):
            found = digest(path)
            if read_stamp(path) == before:
                _digests[path, kind] = (before, found)
                return File(path, found, before)
    raise TableChanged(f"{path} keeps changing: it is still being written")


def unchanged(files: Sequence[File], read_stamp: StampReader = file_stamp) -> bool:
    """True if files have the stamps of their registration. Raises SourceError for one that is gone."""
    return _stamps([file.path for file in files], read_stamp) == [file.stamp for file in files]


def check_unchanged(files: Sequence[File]) -> None:
    """Raise TableChanged if a stamp differs from that of the registration, SourceError if a file is gone."""
    for file, stamp in zip(files, _stamps([file.path for file in files], file_stamp), strict=True):
        if stamp != file.stamp:
            raise TableChanged(_changed(file.path))


def check_content(file: File, kind: str, digest: Digest, read_stamp: StampReader = file_stamp) -> None:
    """Raise TableChanged if the content differs from that of the registration, SourceError if the file is gone."""
    with reading(file.path):
        if read_stamp(file.path) == file.stamp:
            return
    if content_file(file.path, kind, digest, read_stamp).digest != file.digest:
        raise TableChanged(_changed(file.path))


def _changed(path: str) -> str:
    return f"{path} changed after it was registered, or while it was read; another query reads what it holds then"


def content_digest(path: str) -> str:
    """Digest of all bytes of a file."""
    state = blake2b(digest_size=16)
    with reading(path), open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def different(some: Mapping[str, object], others: Mapping[str, object]) -> frozenset[str]:
    """The keys of a mapping that others lack, or for which they have another value.

    >>> sorted(different({"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"}))
    ['a', 'c']
    """
    return frozenset(compress(some, map(ne, some.values(), map(others.get, some))))  # a refresh does it for each file
