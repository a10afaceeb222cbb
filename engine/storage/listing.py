"""The objects of a store of checkpoints, known by their names, and its manifests (`engine/storage/shared_store.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from qoop.catalog.errors import CheckpointError
from qoop.catalog.stores.objects import Object, Objects
from qoop.engine.storage.manifest import Saved, load_manifest
from qoop.engine.task import CheckpointKey

_OURS = re.compile(
    r"(?P<part>[0-9a-f]{32}/(\d+|pack-[0-9a-f]{16}-\d+))\."
    r"(?:(?P<kind>json|gone)|(?P<user>[0-9a-f]{16})-\d+-(?P<ms>\d+)\.arrow)"
)


@dataclass(slots=True)
class Part:
    """The objects in the store for one part of an output, or for a pack of some."""

    manifest: Object | None = None
    gone: Object | None = None
    data: list[Object] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.data) + (self.manifest.size if self.manifest else 0)

    @property
    def is_there(self) -> bool:
        """It has a manifest, and no process removes it."""
        return self.manifest is not None and self.gone is None

    def worth(self, now: float) -> float:
        """Seconds it took to make, by byte and by second since it was written."""
        assert self.manifest is not None
        seconds = max((int(match(item.name)["ms"]) for item in self.data), default=0) / 1000
        return seconds / max(1, self.bytes) / max(1.0, now - self.manifest.modified)

    def holds(self, saved: Saved) -> bool:
        """The data of an output are all there."""
        return any(item.name == saved.path.as_posix() and item.size >= saved.end for item in self.data)


class Manifests:
    """The manifests of single outputs. Raises OSError as the store does. key: they must bear its seal."""

    def __init__(self, objects: Objects, key: bytes | None) -> None:
        self._objects = objects
        self._key = key

    def exists(self, name: str) -> bool:
        """True if the store has an object of that name."""
        try:
            self._objects.about(name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> Saved | None:
        """The content of the manifest; None if there is none, or it cannot be believed."""
        return self.read_tagged(name)[1]

    def read_tagged(self, name: str) -> tuple[str | None, Saved | None]:
        """The tag of the manifest, if there is one, and what it says, if it can be believed."""
        try:
            visited, text = self._objects.read(f"{name}.json")
        except FileNotFoundError:
            return None, None
        try:
            committed, data, segments = load_manifest(text, self._key)
        except CheckpointError:
            return visited.tag, None
        path = Path(name).parent / data
        return visited.tag, Saved(committed, path, segments) if is_data_of(path.as_posix(), name) else None


def match(name: str) -> re.Match[str]:
    """The facts that the name of an object of ours tells."""
    found = _OURS.fullmatch(name)
    assert found is not None  # other objects were left out
    return found


def is_data_of(path: str, name: str) -> bool:
    """True if data at that path belong to that part."""
    found = _OURS.fullmatch(path)
    return found is not None and found["part"] == name and found["user"] is not None


def is_pack(name: str) -> bool:
    """True if a part is a pack of several.

    >>> is_pack("0123456789abcdef0123456789abcdef/7")
    False
    """
    return "/pack-" in name


def parts_of(objects: Iterable[Object]) -> dict[str, Part]:
    """The objects by the part that they belong to."""
    parts: dict[str, Part] = {}
    for item in objects:
        found = _OURS.fullmatch(item.name)
        if found is None:
            continue
        part = parts.setdefault(found["part"], Part())
        if found["kind"] == "json":
            part.manifest = item
        elif found["kind"] == "gone":
            part.gone = item
        else:
            part.data.append(item)
    return parts


def packs_in(parts: Mapping[str, Part]) -> dict[str, Object]:
    """The manifests of the packs."""
    return {name: part.manifest for name, part in parts.items() if part.manifest and part.is_there and is_pack(name)}


def name_of(key: CheckpointKey) -> str:
    """The name of an output in the store."""
    return f"{folder_of(key)}/{key.part}"


def folder_of(key: CheckpointKey) -> str:
    """The folder of all parts of a stage."""
    return blake2b(repr((key.signature, key.layout)).encode(), digest_size=16).hexdigest()


def base(name: str) -> str:
    """The name without its folder."""
    return name.rpartition("/")[2]
