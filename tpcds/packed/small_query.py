"""A small query whose outputs go to a distant store: what packing costs where it saves nothing."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qoop.session import connect
from qoop.tpcds.packed.distant import distant

_TEXT = """
    SELECT s.item % 10 AS kind, count(*) AS sales, sum(s.price) AS total
    FROM sales s JOIN items i ON s.item = i.item WHERE i.maker < 50 GROUP BY kind ORDER BY kind
"""


def seconds(folder: Path, latency: float, repeat: int) -> tuple[float, float]:
    """Median seconds until a session over a new store has answered and is closed, with loose outputs and with packs,
    in turn."""
    _tables(folder)
    times: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(repeat + 1):
        for pack in (False, True) if turn % 2 else (True, False):
            took = _once(folder, latency, pack)
            if turn:  # the first loads what is to be loaded
                times[pack].append(took)
    return median(times[False]), median(times[True])


def _once(folder: Path, latency: float, pack: bool) -> float:
    with distant(latency):
        began = time.perf_counter()
        with connect(slots=2, memory="1GB", checkpoints="memory://store", pack=pack, staged=True) as session:
            session.register_folder(str(folder))
            assert len(session.sql(_TEXT).fetchall()) == 10
        return time.perf_counter() - began


def _tables(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.arange(200_000)
    sales = pa.table({"item": numbers % 1000, "price": numbers % 77})
    items = pa.table({"item": np.arange(1000), "maker": np.arange(1000) % 100})
    pq.write_table(sales, folder / "sales.parquet", row_group_size=20_000)
    pq.write_table(items, folder / "items.parquet")
