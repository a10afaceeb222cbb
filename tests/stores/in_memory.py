"""A store in the memory of the process, so that the disk has no say in what a benchmark of requests measures."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from qoop.catalog.stores.objects import Object, ObjectChanged


class InMemory:
    """Objects as bytes. Thread-safe. later: seconds by which its clock is ahead of the process's."""

    url = "memory://store"

    def __init__(self) -> None:
        self.later = 0.0
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Object, bytes]] = {}
        self._tags = count(1)

    def create(self, name: str, data: bytes) -> None:
        with self._lock:
            if name in self._found:
                raise FileExistsError(name)
            self._put(name, data)

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        with self._lock:
            if expected_tag is not None and (name not in self._found or self._found[name][0].tag != expected_tag):
                raise FileExistsError(f"{name} has changed")
            self._put(name, data)

    def upload(self, name: str, path: Path) -> None:
        data = path.read_bytes()
        with self._lock:
            self._put(name, data)

    def read(self, name: str) -> tuple[Object, bytes]:
        with self._lock:
            if name not in self._found:
                raise FileNotFoundError(name)
            return self._found[name]

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        about, data = self.read(name)
        if expected_tag is not None and about.tag != expected_tag:
            raise ObjectChanged(f"{name} has changed")
        if any(offset + length > len(data) for offset, length in spans):
            raise OSError(f"{name} is cut short: {len(data)} bytes")
        return [memoryview(data)[offset : offset + length] for offset, length in spans]

    def about(self, name: str) -> Object:
        return self.read(name)[0]

    def list(self, folder: str = "") -> list[Object]:
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        with self._lock:
            return sorted(
                (about for name, (about, _) in self._found.items() if name.startswith(prefix)),
                key=lambda item: item.name,
            )

    def delete(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._found.pop(name, None)

    def _put(self, name: str, data: bytes) -> None:
        self._found[name] = (Object(name, len(data), time.time() + self.later, str(next(self._tags))), data)
