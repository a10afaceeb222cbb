"""A server has loaded what its long queries need before it serves: loading takes a second of all clients."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio
import gc
import sys
import pyarrow as pa
import qoop
from starlette.concurrency import run_in_threadpool
from qoop.interfaces.commands.serve_loading import load_planner

with qoop.connect(slots=2, memory="1GB", locked=True) as session:
    session.register("t", pa.table({"n": range(1000), "d": [0] * 1000}).cast(pa.schema([("n", "i8"), ("d", "date32")])))
    load_planner()
    before = set(sys.modules)
    for text in ("FROM t", "EXPLAIN ALTERNATIVES SELECT d, sum(a.n) FROM t a JOIN t b USING (d) GROUP BY d ORDER BY d"):
        session.sql(text).fetchall()
    assert len(gc.get_objects()) < 40_000 < 100_000 < gc.get_freeze_count(), "a search for cycles holds up all clients"
    asyncio.run(run_in_threadpool(int))  # as the list of queries is made
    kinds = ("planner", "pandas.core", "anyio")
    print(*sorted(name for name in set(sys.modules) - before if any(kind in name for kind in kinds)))
"""

_CYCLES = """
import gc, weakref
from qoop.interfaces.commands.serve_loading import SearchOnce

class Node:
    def __init__(self):
        self.itself = self

def outlives(collections):
    node = Node()
    dead = weakref.ref(node)
    gc.collect()
    frozen = gc.get_freeze_count()
    del node
    for _ in range(collections):
        gc.collect(1)
        gc.collect()
    return dead() is not None, frozen > 0

gc.callbacks.append(SearchOnce(seconds={seconds}))
print(*outlives(2))
"""


@pytest.mark.parametrize(("seconds", "lives"), [(3600.0, True), (0.0, False)])
def test_a_full_search_for_cycles_looks_at_what_came_since_the_last_and_after_a_while_at_all(
    seconds: float, lives: bool
) -> None:
    text = _CYCLES.replace("{seconds}", str(seconds))
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(lives), "True"]


def test_the_first_long_query_loads_no_planner() -> None:
    text = _PROGRAM.replace('"i8"', "pa.int64()").replace('"date32"', "pa.date32()")
    text = text.replace("[0] * 1000", "pa.array([0] * 1000, pa.int32())")
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
