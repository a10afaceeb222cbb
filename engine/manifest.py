"""Checkpoints that outlive the process: a data file and, written last, its manifest (law 8).

``DIR/<name>.json`` is the manifest of the checkpoint whose key digests to <name>; it names the data file,
``DIR/<name>.<token>.arrow``. A data file that no manifest names is garbage: of a writer that died, or of one
that is at work now. So every process that uses the directory holds a shared lock on ``DIR/lock``, and garbage
is collected by whoever gets it alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.engine.events import Committed
from qoop.engine.segments import Segment, write_segments
from qoop.engine.task import CheckpointKey

FORMAT = "qoop-checkpoint"
VERSION = 1

_OURS = re.compile(r"(?P<name>[0-9a-f]{32})\.(?P<rest>[0-9a-f]{16}\.(arrow|json))")


@dataclass(frozen=True, slots=True)
class Saved:
    """A committed output in files: the facts, the data file and its index."""

    committed: Committed
    path: Path
    segments: tuple[Segment, ...]


class CheckpointDirectory:
    """The durable checkpoints of one directory. Thread-safe: it holds no state but the lock.

    Raises DiskFull if the directory cannot be made or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise DiskFull(f"the checkpoint directory {root} cannot be written: {error.strerror}") from error
        self._collect()

    def save(self, committed: Committed, partitions: Sequence[pa.Table]) -> Saved:
        """Write data, then the manifest; the checkpoint exists once this returns. Raises DiskFull, and leaves
        nothing behind then."""
        name, token = _name(committed.key), secrets.token_hex(8)
        before = self._data_of(name)
        data, draft = self.root / f"{name}.{token}.arrow", self.root / f"{name}.{token}.json"
        try:
            with data.open("wb", buffering=0) as stream:
                segments = write_segments(stream, partitions)
                os.fsync(stream.fileno())
            with draft.open("w") as text:
                json.dump(_to_json(committed, data.name, segments), text)
                text.flush()
                os.fsync(text.fileno())
            draft.rename(self.root / f"{name}.json")
            self._sync()
            if before is not None:
                (self.root / before).unlink(missing_ok=True)
        except OSError as error:
            for path in (data, draft):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            raise DiskFull(f"cannot write a checkpoint to {self.root}: {error.strerror or error}") from error
        return Saved(committed, data, segments)

    def find(self, key: CheckpointKey) -> Saved | None:
        """The checkpoint of that key, or None if there is none that can be believed."""
        try:
            with (self.root / f"{_name(key)}.json").open() as text:
                saved = _from_json(json.load(text), self.root)
            end = max((segment.offset + segment.length for segment in saved.segments), default=0)
            return saved if saved.committed.key == key and saved.path.stat().st_size >= end else None
        except (OSError, ValueError, KeyError, TypeError, CheckpointError):
            return None  # missing, cut short or of another version: as if it had never been written

    def remove(self, saved: Saved) -> None:
        """Forget a checkpoint that proved unreadable; first the manifest, then the data."""
        for path in (self.root / f"{_name(saved.committed.key)}.json", saved.path):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._lock)

    def _collect(self) -> None:
        """Remove garbage if no other process uses the directory; then share it."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            for path in self._garbage():
                path.unlink(missing_ok=True)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _garbage(self) -> list[Path]:
        found = [(path, match) for path in self.root.iterdir() if (match := _OURS.fullmatch(path.name))]
        named = {name: self._data_of(name) for name in {match["name"] for _, match in found}}
        return [path for path, match in found if path.name != named[match["name"]]]

    def _data_of(self, name: str) -> str | None:
        try:
            return str(json.loads((self.root / f"{name}.json").read_text())["data"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _sync(self) -> None:
        directory = os.open(self.root, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _name(key: CheckpointKey) -> str:
    text = json.dumps([key.signature, key.layout, key.part])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _to_json(committed: Committed, data: str, segments: Sequence[Segment]) -> dict[str, object]:
    facts = {name: value for name, value in asdict(committed).items() if name not in ("key", "rows", "bytes")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "key": asdict(committed.key),
        "data": data,
        "segments": [asdict(segment) for segment in segments],
        "facts": facts,
    }


def _from_json(text: dict[str, object], root: Path) -> Saved:
    if (text["format"], text["version"]) != (FORMAT, VERSION):
        raise CheckpointError(f"a manifest of format {text['format']} version {text['version']}")
    fields, segments, facts = text["key"], text["segments"], text["facts"]
    if not (isinstance(fields, dict) and isinstance(segments, list) and isinstance(facts, dict)):
        raise CheckpointError("a manifest lacks its key, segments or facts")
    index = tuple(Segment(**segment) for segment in segments)
    committed = Committed(
        CheckpointKey(**fields), tuple(segment.rows for segment in index), tuple(s.bytes for s in index), **facts
    )
    return Saved(committed, root / str(text["data"]), index)
