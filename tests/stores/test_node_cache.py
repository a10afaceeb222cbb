"""The files that stand on a machine for what lies in a store."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from qoop.catalog.stores.node_cache import NodeCache


def test_what_is_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 100_000)
    for number in range(9):
        cache.add_bytes(f"file-{number}", memoryview(bytes(10_000)))
        os.utime(tmp_path / "cache" / f"file-{number}", (time.time() - 1000 + number,) * 2)
    assert cache.find("file-0") is not None  # it is used again
    for number in range(9, 30):
        cache.add_bytes(f"file-{number}", memoryview(bytes(10_000)))
        assert cache.bytes() <= 107_000
    assert cache.find("file-1") is None and cache.find("file-29") is not None


def test_what_another_process_adds_counts(tmp_path: Path) -> None:
    caches = [NodeCache(tmp_path, 100_000) for _ in range(3)]
    for number in range(60):
        caches[number % 3].add_bytes(f"file-{number}", memoryview(bytes(5_000)))
    assert caches[0].bytes() <= 100_000 + 3 * 7_000


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 100_000)

    def fails(stream: object) -> None:
        stream.write(b"some")  # type: ignore[attr-defined]
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        cache.add("file", fails)
    assert cache.find("file") is None and list(tmp_path.iterdir()) == []
