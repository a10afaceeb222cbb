"""Tells whether files still hold the same bytes, without reading them.

The size, times and inode of a file are its *look*. Every write moves ctime, and no program can set that
back, so equal looks mean equal bytes, if the clock has moved on since the last write: two writes within one tick of it
leave equal times. So a look that is to be kept waits for the next tick first (`settled`).

Some files are known by what they hold instead: text and DuckDB files, which are read to be registered, and files
registered as ``file://…``, for folders whose looks differ from machine to machine. Their look only saves
the reading: while it stays the same, the digest is not computed again.

Writes through a memory map change the times only when the system writes the page back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from qoop.catalog.errors import SourceError, TableChanged
from qoop.catalog.value import value

Seen = tuple[int, ...]
Look = Callable[[str], Seen]
Digest = Callable[[str], str]

# No clock of files ticks slower than this (10 ms on Linux, 16 on Windows) …
_TICK_NS = 20_000_000
# … but where a file system keeps whole seconds, or every second one.
_COARSE_TICK_NS = 2_000_000_000
_TRIES = 5
_CHUNK = 1 << 20

_digests: dict[tuple[str, str], tuple[Seen, str]] = {}


@value
class File:
    """A file as it was when it was registered. digest: its part of the version of the table."""

    path: str
    digest: str
    seen: Seen


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn every failure to read a file into a SourceError that names it and the reason."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error


def look(path: str) -> Seen:
    """Size, times and inode. No device: a shared folder has another one on every machine. Raises OSError."""
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def settled(paths: Sequence[str], look: Look = look) -> list[Seen]:
    """The looks of files, taken so late that no further write can leave the same ones.

    Raises SourceError for a file that cannot be read, TableChanged if they are written to all the time.
    """
    seen = _looks(paths, look)
    for _ in range(_TRIES):
        wait = max(map(_until_settled, seen), default=0)
        if wait <= 0:
            return seen
        time.sleep(wait / 1e9)
        before, seen = seen, _looks(paths, look)
        if seen == before:
            return seen
    changing = next(path for path, old, new in zip(paths, before, seen, strict=True) if old != new)
    raise TableChanged(f"{changing} changes all the time: it is still being written")


def _looks(paths: Sequence[str], look: Look) -> list[Seen]:
    try:
        return [look(path) for path in paths]
    except OSError as error:
        raise SourceError(f"cannot read {error.filename}: {error.strerror or error}") from error


def _until_settled(seen: Seen) -> int:
    """Nanoseconds until a write must leave other times. Where the clock is behind the file's: one tick."""
    changed = max(seen[2::4])  # of a DuckDB file and its log, the later
    tick = _TICK_NS if changed % 1_000_000_000 else _COARSE_TICK_NS
    return min(tick, changed + tick - time.time_ns())


def content_file(path: str, kind: str, digest: Digest, look: Look = look) -> File:
    """A file known by the digest of its bytes, which is computed only if the file was touched since the last time.

    kind: what the digest says. Raises SourceError, TableChanged.
    """
    for _ in range(_TRIES):
        [before] = settled([path], look)
        known = _digests.get((path, kind))
        if known is not None and known[0] == before:
            return File(path, known[1], before)
        with reading(path):
            found = digest(path)
            if look(path) == before:
                _digests[path, kind] = (before, found)
                return File(path, found, before)
    raise TableChanged(f"{path} changes all the time: it is still being written")


def looks_same(files: Sequence[File], look: Look = look) -> bool:
    """True if files look as they did when they were registered. Raises SourceError for one that is gone."""
    return _looks([file.path for file in files], look) == [file.seen for file in files]


def check_looks(files: Sequence[File]) -> None:
    """Raise TableChanged if a file does not look as it did when it was registered, SourceError if one is gone."""
    for file, seen in zip(files, _looks([file.path for file in files], look), strict=True):
        if seen != file.seen:
            raise TableChanged(_changed(file.path))


def check_content(file: File, kind: str, digest: Digest, look: Look = look) -> None:
    """Raise TableChanged if the file holds something else than when it was registered, SourceError if it is gone."""
    with reading(file.path):
        if look(file.path) == file.seen:
            return
    if content_file(file.path, kind, digest, look).digest != file.digest:
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
