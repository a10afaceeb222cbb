"""A store whose requests are counted by kind and delayed, as if it were far away.

It stands before another store and counts what a bucket of S3 would be asked: ranges that lie close together are one
request (obstore joins them below a gap of 1 MB), a list is one for each 1,000 objects, a removal one for each 1,000
names, and an upload of more than 5 MB one for each 5 MB and two more.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from unittest.mock import patch

from in_memory import InMemory

from qoop.catalog.stores.objects import Object, Objects
from qoop.engine.storage import retention

_GAP = 1 << 20
_UPLOAD = 5 << 20
_PAGE = 1000


class Distant:
    """A store behind a delay. Thread-safe. latency: seconds of a request; `counts` says how many there were by kind."""

    def __init__(self, near: Objects, latency: float, counts: Counter[str]) -> None:
        self.url = near.url
        self._near = near
        self._latency = latency
        self._counts = counts
        self._lock = threading.Lock()

    def create(self, name: str, data: bytes) -> None:
        self._ask("put")
        self._near.create(name, data)

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        self._ask("put")
        self._near.replace(name, data, expected_tag)

    def upload(self, name: str, path: Path) -> None:
        size = path.stat().st_size
        if size > _UPLOAD:
            self._ask("put", ceil(size / _UPLOAD) + 2, rounds=3)
        else:
            self._ask("put")
        self._near.upload(name, path)

    def read(self, name: str) -> tuple[Object, bytes]:
        self._ask("get")
        return self._near.read(name)

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        if spans:
            self._ask("get", _joined(spans))
        return self._near.ranges(name, spans, expected_tag)

    def about(self, name: str) -> Object:
        self._ask("head")
        return self._near.about(name)

    def list(self, folder: str = "") -> list[Object]:
        found = self._near.list(folder)
        pages = max(1, ceil(len(found) / _PAGE))
        self._ask("list", pages, rounds=pages)
        return found

    def delete(self, names: Iterable[str]) -> None:
        names = [*names]
        if names:
            self._ask("delete", ceil(len(names) / _PAGE))
        self._near.delete(names)

    def _ask(self, kind: str, times: int = 1, rounds: int = 1) -> None:
        """Count requests, which take as long as `rounds` of them one after the other."""
        with self._lock:
            self._counts[kind] += times
        time.sleep(self._latency * rounds)


def _joined(spans: Sequence[tuple[int, int]]) -> int:
    """The number of requests that these ranges are."""
    requests, end = 0, -_GAP - 1
    for offset, length in sorted(spans):
        requests += offset - end > _GAP
        end = max(end, offset + length)
    return requests


@contextmanager
def distant(latency: float) -> Iterator[Counter[str]]:
    """All stores that are opened meanwhile are one, that far away. Yields the requests by kind, as they are counted."""
    counts: Counter[str] = Counter()
    store = Distant(InMemory(), latency, counts)
    with patch.object(retention, "open_objects", lambda place: store):
        yield counts
