"""Freed memory that DuckDB, Arrow and the C library keep goes back to the system."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pyarrow as pa
import pytest
from waits import until

from qoop.catalog.opening import open_duckdb
from qoop.engine.backends.release_memory import GROWTH, MemoryReleaser
from qoop.engine.memory import FreedMemory, anonymous_memory
from qoop.engine.storage.partition import cut

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
FREED = 60_000_000


@pytest.fixture
def worked() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that has freed some 100 MB, and keeps them."""
    with closing(open_duckdb(threads=1)) as connection:
        groups = "SELECT i % 3_000_000 AS g, count(*) AS n FROM range(3_000_000) t(i) GROUP BY g"
        assert connection.execute(f"SELECT sum(n) FROM ({groups})").fetchall() == [(3_000_000,)]
        yield connection


def test_what_duckdb_has_freed_goes_back(worked: duckdb.DuckDBPyConnection) -> None:
    before = anonymous_memory()
    with closing(MemoryReleaser(memory=1)) as releaser:
        releaser.release(share=1.0)
        assert anonymous_memory() < before - FREED
    assert worked.execute("SELECT 1").fetchall() == [(1,)]


def test_it_goes_back_in_the_midst_of_work_and_only_then(worked: duckdb.DuckDBPyConnection) -> None:
    before = anonymous_memory()
    with closing(MemoryReleaser(memory=1)) as releaser:
        time.sleep(0.1)
        assert anonymous_memory() > before - FREED
        with releaser.watched():
            until(lambda: anonymous_memory() <= before - FREED)


def test_who_has_memory_left_keeps_it(worked: duckdb.DuckDBPyConnection) -> None:
    before = anonymous_memory()
    with closing(MemoryReleaser(memory=1 << 40)) as releaser, releaser.watched():
        time.sleep(0.1)
        releaser.release(share=0.6)
        assert anonymous_memory() > before - FREED


def test_children_count(worked: duckdb.DuckDBPyConnection) -> None:
    before = anonymous_memory()
    with closing(MemoryReleaser(memory=1 << 40)) as releaser:
        releaser.of_children = lambda: 1 << 40
        assert releaser.release(share=0.6) >= 1 << 40
        assert anonymous_memory() < before - FREED


def test_short_tasks_give_back_what_has_come_or_was_freed_and_not_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held, given = [0.0], []
    monkeypatch.setattr(FreedMemory, "give_back", lambda _: given.append(held[0]))
    with closing(MemoryReleaser(memory=1 << 40)) as releaser:
        releaser.of_children = lambda: int(held[0] * (1 << 40))
        for held[0], freed in ((0.7, 0), (0.7, 0), (0.74, 0), (0.76, 0), (0.62, 0), (0.66, 0), (0.68, 0), (0.68, 0.06)):
            releaser.release(0.6, GROWTH, int(freed * (1 << 40)))
    assert given == [0.7, 0.76, 0.68, 0.68]


def test_rows_that_are_cut_are_not_in_memory_that_only_one_thread_can_give_back() -> None:
    numbers = pa.array([i % 3 for i in range(100_000)], pa.uint8())
    batch = pa.RecordBatch.from_arrays([pa.array(range(100_000)), numbers], ["i", "number"])
    before = pa.total_allocated_bytes()
    pieces = cut(batch, 3)
    assert [piece.num_rows for _, piece in pieces] == [33_334, 33_333, 33_333]
    assert pieces[1][1].column(0).to_pylist()[:3] == [1, 4, 7]
    if pa.default_memory_pool().backend_name != "system":
        assert pa.total_allocated_bytes() == before
