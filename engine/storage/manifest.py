"""Checkpoints that outlive the process: a data file and, written last, its manifest (law 8).

::

    DIR/<name>.json                the manifest of the checkpoint whose key digests to <name>; it names the data file
    DIR/<name>.<user>-<n>.arrow    data, written by that user; garbage unless a manifest names it
    DIR/<user>.user                one for each process here, with the names it needs (`engine/storage/users.py`)
    DIR/lock                       held while files are removed or space is taken

Several processes may use a directory at once. A process that finds a user dead removes its garbage. With a
budget, a new checkpoint replaces others that no living process needs, those worth least first; where that is not
enough, it is not written.

A manifest bears a checksum (:mod:`qoop.catalog.signed_json`), and so does every segment of the data. Both find damage,
so a checkpoint exists, for processes that are killed, before its files are made to survive a power failure, too.
Where a key is given, a manifest must bear its seal, and its segments have checksums that resist forgery: outputs of
other writers are refused. Without a key every writer to the directory is trusted; a
directory to which all can write, or that belongs to another user, is refused (`refuse_if_open`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields as fields_of
from hashlib import blake2b
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, ConfigError, DiskFull
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.stores.private import make_folder, open_private, write_private
from qoop.catalog.stores.whole_file import sync_paths
from qoop.catalog.value import value
from qoop.engine.digest import digest_from_json, digest_to_json
from qoop.engine.events import Committed
from qoop.engine.storage.segments import Segment, read_segment, write_segments
from qoop.engine.task import CheckpointKey

T = TypeVar("T")
Range = tuple[int, int]
"""From which byte on, and how many."""

FORMAT = "qoop-checkpoint"
VERSION = 4

_PART_OF_DISK = 0.1
_MOST = 100 * 10**9

_FULL = 0.9  # fraction of the budget to which eviction frees space, so that it is not needed again at once
_MANIFEST_BYTES = 1024
_OURS = re.compile(r"(?P<name>[0-9a-f]{32})\.((?P<user>[0-9a-f]{16})-\d+\.(arrow|json)|json)")


@value
class Saved:
    """A committed output in files: the facts, the data file and its index.

    ranges: if the file is a pack (`packs`), where the partitions of all its outputs lie; empty: it holds this one only.
    """

    committed: Committed
    path: Path
    segments: tuple[Segment, ...]
    ranges: tuple[Range, ...] = ()

    @property
    def is_packed(self) -> bool:
        """The file holds other outputs, too."""
        return bool(self.ranges)

    def span(self, number: int) -> Range:
        """The bytes of the file to read where one partition is requested."""
        segment = self.segments[number]
        return self.ranges[number] if self.ranges else (segment.offset, segment.length)

    @property
    def end(self) -> int:
        """The bytes that the file must have."""
        return max((offset + length for offset, length in map(self.span, range(len(self.segments)))), default=0)


@value
class Unsaved:
    """An output that is to be committed. needed: it is not removed before `unpin`."""

    committed: Committed
    partitions: tuple[pa.Table, ...]
    needed: bool = True


@value
class _Candidate:
    """A checkpoint that may be removed. worth: seconds it took to make, by byte and by second since its last use.

    age: seconds since its last use."""

    name: str
    data: str
    bytes: int
    worth: float
    age: float


def usual_budget(root: Path) -> int:
    """Bytes that a folder of checkpoints may take by default: a tenth of its file system, at most
    100 GB."""
    there = next((path for path in (root, *root.parents) if path.exists()), Path("/"))
    return min(int(shutil.disk_usage(there).total * _PART_OF_DISK), _MOST)


class CheckpointDirectory:
    """The durable checkpoints of one directory. Thread-safe.

    budget: bytes that all files together may take; None: no limit. key: manifests must bear its seal; None: a checksum.
    Raises DiskFull if the directory cannot be made or written.
    """

    far = False
    writers = 2  # a small output does not wait until the disk has a large one

    def __init__(self, root: Path, budget: int | None = None, key: bytes | None = None) -> None:
        from qoop.engine.storage.users import Users  # most processes have no folder

        self.root = root
        self._budget = budget
        self._unseen = 0  # bytes that may be written before the folder is listed again: as many may eight processes
        self._key = key
        self._numbers = count(1)
        try:
            make_folder(root)
            with contextlib.ExitStack() as stack:
                self._users = Users(root)
                stack.callback(self._users.close)
                with self._users.alone():
                    self._collect()
                stack.pop_all()
        except OSError as error:
            raise DiskFull(f"the checkpoint directory {root} cannot be written: {error.strerror}") from error

    def save(self, committed: Committed, partitions: Sequence[pa.Table], needed: bool = True) -> Saved | None:
        """Write data, then the manifest; the checkpoint exists once this returns. One that exists stays, since
        another process may be reading it, also if it came to be meanwhile.

        needed: a running job of this process needs it, so that it is not removed before `unpin`.
        None: the budget has no space for it. Raises DiskFull. On any error nothing is left behind.
        """
        present = self.find(committed.key)
        if present is not None:
            if not needed:
                self.unpin([committed.key])
            return present
        name = checkpoint_name(committed.key)
        unique = f"{name}.{self._users.own}-{next(self._numbers)}"
        data, draft = self.root / f"{unique}.arrow", self.root / f"{unique}.json"
        visible: Saved | None = None
        try:
            if self._is_gone():  # another writer may have made it again, without the lock and earlier outputs
                raise FileNotFoundError(self.root)
            if not self._take_space(data, sum(committed.bytes)):
                return None
            if needed:
                self._users.need([name])
            segments = _write_data(data, partitions, committed.bytes, strong=self._key is not None)
            write_private(draft, dump_manifest(committed, data.name, segments, self._key))
            present = self._commit(committed.key, draft) or Saved(committed, data, segments)
            if present.path == data:
                visible = present
                sync_paths(data, self.root / f"{name}.json", self.root)
        except BaseException as error:
            if visible is not None:
                self.remove(visible)
            _remove(data, draft)
            self._users.unpin([name])
            if isinstance(error, OSError):
                why = "the folder is gone" if self._is_gone() else error.strerror or error
                raise DiskFull(f"cannot write a checkpoint to {self.root}: {why}") from error
            raise
        if present.path != data:
            _remove(data, draft)
        return present

    def _is_gone(self) -> bool:
        return not (self.root / "lock").exists()

    def save_all(self, outputs: Sequence[Unsaved]) -> list[Saved | None]:
        """Commit outputs one by one: a file of this machine is no request."""
        return [self.save(one.committed, one.partitions, one.needed) for one in outputs]

    def _commit(self, key: CheckpointKey, draft: Path) -> Saved | None:
        """Make a draft the manifest, unless there is one of that key by now that can be believed."""
        name = checkpoint_name(key)
        manifest = self.root / f"{name}.json"
        with self._users.alone():
            present = read_manifest(manifest, self._key)
            if present is not None and present.committed.key == key:
                return present
            before = self._data_of(name)
            draft.rename(manifest)
        if before is not None:
            _remove(self.root / before)
        return None

    def find(self, key: CheckpointKey) -> Saved | None:
        """The checkpoint of that key, or None if there is none that can be believed. It is not removed before
        `unpin`. Raises CheckpointError if the directory cannot be read, or has no space to record that it is needed.
        """
        name = checkpoint_name(key)
        try:
            if not (self.root / f"{name}.json").exists():
                return None
            self._users.need([name])
        except OSError as error:
            raise CheckpointError(f"the checkpoints in {self.root} cannot be used: {error.strerror}") from error
        saved = read_manifest(self.root / f"{name}.json", self._key)
        if saved is None or saved.committed.key != key:
            self._users.unpin([name])
            return None
        with contextlib.suppress(OSError):
            os.utime(self.root / f"{name}.json")  # its last use
        return saved

    def find_all(self, keys: Sequence[CheckpointKey]) -> list[Saved]:
        """Those of the keys that are there and can be believed; as `find`."""
        return [saved for key in keys if (saved := self.find(key)) is not None]

    def fetch(self, requested: Sequence[tuple[Saved, int | None]]) -> None:
        """Everything is here already."""

    def read(self, saved: Saved, number: int, folder: Path | None = None) -> pa.Table:
        """The rows of one partition, copied to that folder if they are many. Raises CheckpointError, DiskFull."""
        return read_segment(saved.path, saved.segments[number], folder)

    def unpin(self, keys: Sequence[CheckpointKey]) -> None:
        """No job of this process needs these any more; they stay until their space is needed."""
        self._users.unpin([checkpoint_name(key) for key in keys])

    def remove(self, saved: Saved) -> None:
        """Forget a checkpoint that proved unreadable; first the manifest, unless it was made again, then the data."""
        name = checkpoint_name(saved.committed.key)
        with self._users.alone():
            if self._data_of(name) == saved.path.name:
                _remove(self.root / f"{name}.json")
            _remove(saved.path)
        self._users.unpin([name])

    def set_aside(self, saved: Saved, folder: Path) -> None:
        """Move a checkpoint that is not to be used any more to a folder, for people. It goes if it cannot be moved."""
        with contextlib.suppress(OSError):
            for path in (self.root / f"{checkpoint_name(saved.committed.key)}.json", saved.path):
                shutil.move(path, folder / path.name)
        self.remove(saved)

    def trim(self, seconds: float, bytes_: float) -> int:
        """Remove checkpoints whose last use is longer ago, then those of the least worth until `bytes_` are left.

        It removes none that a living process needs. Returns the bytes that were freed."""
        with self._users.alone():
            self._collect()
            before = sum(size for _, size in self._sizes())
            old = [one for one in self._candidates() if one.age > seconds]
            self._drop(old)
            left = sum(size for _, size in self._sizes())
            if left > bytes_:
                self._evict(int(left - bytes_))
            return before - sum(size for _, size in self._sizes())

    def close(self) -> None:
        """Let go of the directory."""
        self._users.close()

    # Removing, while no other process does

    def _collect(self) -> None:
        """Remove what dead users left unfinished, and data that no manifest names.

        A manifest is read only if there are several files that it may name: each process begins with this.
        """
        living = self._users.living()
        found = [(path, match) for path in self.root.iterdir() if (match := _OURS.fullmatch(path.name))]
        files = Counter(match["name"] for _, match in found)
        manifests = {match["name"] for _, match in found if match["user"] is None}
        for path, match in found:
            name = match["name"]
            if match["user"] is None or match["user"] in living or (name in manifests and files[name] == 2):
                continue
            if path.name != self._data_of(name):
                path.unlink(missing_ok=True)

    def _take_space(self, data: Path, bytes_: int) -> bool:
        """Make the data file, of the size it will have at least. False if there is no space for it."""
        if self._budget is None:
            write_private(data, b"")
            return True
        with self._users.alone():
            requested = bytes_ + _MANIFEST_BYTES
            if requested <= self._unseen:  # far from full when it was looked at
                self._unseen -= requested
                write_private(data, b"")
                return True
            used = sum(size for _, size in self._sizes())
            self._unseen = self._budget // 16 if used < self._budget // 2 else 0
            if used + requested > self._budget:
                self._collect()
                used = sum(size for _, size in self._sizes())
                used -= self._evict(used + requested - int(_FULL * self._budget))
            if used + requested > self._budget:
                return False
            with open_private(data, "w") as file:
                file.truncate(bytes_)
            return True

    def _evict(self, bytes_: int) -> int:
        """Remove at least that many bytes if it can be; how many were."""
        gone = 0
        for one in sorted(self._candidates(), key=lambda item: item.worth):
            if gone >= bytes_:
                break
            self._drop([one])
            gone += one.bytes
        return gone

    def _drop(self, unneeded: Iterable[_Candidate]) -> None:
        for one in unneeded:
            (self.root / f"{one.name}.json").unlink(missing_ok=True)
            (self.root / one.data).unlink(missing_ok=True)

    def _candidates(self) -> Iterator[_Candidate]:
        needed, now = self._users.needed(), time.time()
        for path in self.root.glob("*.json"):
            match = _OURS.fullmatch(path.name)
            if match is None or match["user"] is not None or match["name"] in needed:
                continue
            saved = read_manifest(path, self._key)
            with contextlib.suppress(OSError):
                age = max(1.0, now - path.stat().st_mtime)
                size = path.stat().st_size + (saved.path.stat().st_size if saved is not None else 0)
                seconds = saved.committed.seconds if saved is not None else 0.0  # it is of no use to us
                name = saved.path.name if saved is not None else self._data_of(match["name"]) or path.name
                yield _Candidate(match["name"], name, size, seconds / max(1, size) / age, age)

    def _sizes(self) -> Iterator[tuple[str, int]]:
        with os.scandir(self.root) as entries:
            for entry in entries:
                if _OURS.fullmatch(entry.name):
                    with contextlib.suppress(OSError):
                        yield entry.name, entry.stat().st_size

    def _data_of(self, name: str) -> str | None:
        try:
            data = str(json.loads((self.root / f"{name}.json").read_text())["data"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return data if _is_data_of(data, name) else None


def read_manifest(path: Path, key: bytes | None = None) -> Saved | None:
    """The checkpoint whose manifest this is, or None: missing, damaged, of another version, or without the seal of the
    key counts as if it had never been written."""
    try:
        saved = _load(path, key)
        end = max((segment.offset + segment.length for segment in saved.segments), default=0)
        return saved if saved.path.stat().st_size >= end else None
    except (OSError, ValueError, CheckpointError):
        return None


def manifests(root: Path, key: bytes | None = None) -> Iterator[Saved]:
    """All checkpoints in a directory that can be believed, in order of name."""
    for path in sorted(root.glob("*.json")):
        match = _OURS.fullmatch(path.name)
        if match is not None and match["user"] is None and (saved := read_manifest(path, key)) is not None:
            yield saved


def refuse_if_open(root: Path) -> None:
    """Raise ConfigError if the directory is there, and everybody can write to it or it belongs to another user."""
    try:
        stat = root.stat()
    except OSError:
        return  # its maker says what is wrong
    if stat.st_mode & 0o002:
        why = "everybody can write to it: chmod o-w it"
    elif os.geteuid() not in (0, stat.st_uid) and stat.st_uid != 0:
        why = "it belongs to another user: name a folder of your own"
    else:
        return
    raise ConfigError(
        f"what lies in the folder of checkpoints {root} cannot be believed: {why}, or set QOOP_KEY_FILE to a file with "
        "a key, and only what is sealed with it is believed"
    )


def _write_data(path: Path, partitions: Sequence[pa.Table], sizes: Sequence[int], strong: bool) -> tuple[Segment, ...]:
    with path.open("r+b", buffering=0) as stream:
        segments = write_segments(stream, partitions, sizes, strong=strong)
        stream.truncate()
    return segments


def _is_data_of(data: str, name: str) -> bool:
    match = _OURS.fullmatch(data)
    return match is not None and match["name"] == name


def _remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def checkpoint_name(key: CheckpointKey) -> str:
    """The name of the files of a checkpoint, without their endings."""
    text = json.dumps([key.signature, key.layout, key.part])
    return blake2b(text.encode(), digest_size=16).hexdigest()


_FACTS = ("seconds", "cpu_seconds", "peak_memory", "width", "finished")


def dump_manifest(committed: Committed, data: str, segments: Sequence[Segment], key: bytes | None = None) -> bytes:
    """The text of a manifest. data: the name of the data file. key: to seal it with."""
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "key": _fields(committed.key),
        "data": data,
        "segments": list(map(_fields, segments)),
        "facts": facts_to_json(committed),
        "digest": None if committed.digest is None else digest_to_json(committed.digest),
    }
    return sealed(fields, key).encode()


def _fields(what: CheckpointKey | Segment) -> dict[str, object]:
    """The fields by name. `asdict` copies each, which takes half of the time of a manifest."""
    return {item.name: getattr(what, item.name) for item in fields_of(what)}


def facts_to_json(committed: Committed) -> dict[str, Any]:
    """The facts that a manifest has of an output besides its key and its rows."""
    return {name: getattr(committed, name) for name in _FACTS}


def load_manifest(text: bytes, key: bytes | None = None) -> tuple[Committed, str, tuple[Segment, ...]]:
    """The arguments of `dump_manifest`. Raises CheckpointError if it is damaged, of another version or not sealed with
    the key."""
    try:
        return _from_json(opened(text, key))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"a manifest that is damaged: {error!r}") from error


def _load(path: Path, key: bytes | None) -> Saved:
    committed, data, segments = load_manifest(path.read_bytes(), key)
    if not _is_data_of(data, path.stem):
        raise CheckpointError(f"a manifest names {data}, which is no data file of its own")
    return Saved(committed, path.parent / data, segments)


def _from_json(text: dict[str, Any]) -> tuple[Committed, str, tuple[Segment, ...]]:
    if (text["format"], text["version"]) != (FORMAT, VERSION):
        raise CheckpointError(f"a manifest of format {text['format']} version {text['version']}")
    fields, segments, facts, digest = text["key"], text["segments"], text["facts"], text["digest"]
    if not (isinstance(fields, dict) and isinstance(segments, list) and isinstance(facts, dict)):
        raise CheckpointError("a manifest lacks its key, segments or facts")
    index = tuple(_checked(Segment(**segment)) for segment in segments)
    return committed_from_json(_checked(CheckpointKey(**fields)), index, facts, digest), str(text["data"]), index


def committed_from_json(
    key: CheckpointKey, index: tuple[Segment, ...], facts: dict[str, Any], digest: object
) -> Committed:
    """The output that a manifest names. Raises TypeError, KeyError or ValueError if that is none."""
    return Committed(
        key,
        tuple(segment.rows for segment in index),
        tuple(segment.bytes for segment in index),
        **{name: _fact(name, facts[name]) for name in _FACTS},
        digest=digest_from_json(digest) if isinstance(digest, dict) else None,
    )


def _checked(what: T) -> T:
    """The dataclass, whose fields are whole numbers from 0 on, or texts. Raises TypeError."""
    for item in fields_of(what):  # type: ignore[arg-type]
        value = getattr(what, item.name)
        right = type(value) is int and value >= 0 if item.type == "int" else isinstance(value, str)
        if not right:
            raise TypeError(f"{item.name} is {value!r}")
    return what


def _fact(name: str, value: Any) -> Any:
    """The fact, if it is of its type. Raises TypeError."""
    if name == "finished":
        right = isinstance(value, bool)
    else:
        whole = name in ("width", "peak_memory")
        right = type(value) is int or (type(value) is float and not whole and isfinite(value))
    if not right or value < 0:
        raise TypeError(f"{name} is {value!r}")
    return value
