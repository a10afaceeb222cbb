"""The requests and seconds that packed outputs save behind a slow store: ``python tests/stores/pack_shuffle.py``.

A durable shuffle between two machines that share only a store. One maps and ends; the other finds the outputs and
reduces. The store counts its requests and delays each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from distant import distant

from qoop.catalog.stores.node_cache import NodeCache
from qoop.engine.events import Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.retention import Retention
from qoop.engine.task import CheckpointKey

_SIGNATURES = {"map": "1" * 32, "reduce": "2" * 32}


@dataclass(frozen=True, slots=True)
class ShuffleOptions:
    """The shuffle. rows: in every fragment. work: seconds that a task takes besides. latency: seconds of a request."""

    folder: Path
    maps: int = 200
    reduces: int = 200
    rows: int = 64
    slots: int = 2
    work: float = 0.0
    latency: float = 0.03
    pack: bool = True


@dataclass
class ShuffleResult:
    """Seconds and requests of each phase. total: sum over all rows, which must not depend on how they were kept."""

    seconds: dict[str, float] = field(default_factory=dict)
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    total: int = 0

    @property
    def kinds(self) -> Counter[str]:
        """Requests by kind."""
        return sum(self.requests.values(), Counter())

    @property
    def all_seconds(self) -> float:
        """From the first map to the last durable output."""
        return sum(self.seconds.values())

    @property
    def all_requests(self) -> int:
        """Of whichever kind."""
        return sum(sum(counts.values()) for counts in self.requests.values())


def run(options: ShuffleOptions) -> ShuffleResult:
    """Run the shuffle in a folder that is empty."""
    done = ShuffleResult()
    with distant(options.latency) as counts:
        with _phase(done, "map", counts), _machine(options, "mapper") as store:
            _each(options, options.maps, lambda part: _map(store, options, part))
        with _machine(options, "reducer") as store, _phase(done, "reduce", counts):
            store.present([_key("map", part) for part in range(options.maps)], "job")
            done.total = sum(_each(options, options.reduces, lambda part: _reduce(store, options, part)))
            store.flush()
    return done


def _key(stage: str, part: int) -> CheckpointKey:
    return CheckpointKey(_SIGNATURES[stage], "3" * 32, part)


@contextmanager
def _phase(done: ShuffleResult, name: str, counts: Counter[str]) -> Iterator[None]:
    before, began = counts.copy(), time.perf_counter()
    yield
    done.seconds[name] = time.perf_counter() - began
    done.requests[name] = counts - before


@contextmanager
def _machine(options: ShuffleOptions, name: str) -> Iterator[Store]:
    spill = options.folder / f"{name}-spill"
    spill.mkdir(parents=True)
    cache = NodeCache(options.folder / f"{name}-parts", 1 << 40)
    place = Retention("memory://store", pack=options.pack)
    with patch("qoop.catalog.stores.node_cache.node_cache", lambda: cache):
        store = Store(1 << 30, spill, place)
    try:
        yield store
    finally:
        store.close()


def _each(options: ShuffleOptions, parts: int, work: Callable[[int], int]) -> list[int]:
    with ThreadPoolExecutor(options.slots) as slots:
        return [*slots.map(work, range(parts))]


def _map(store: Store, options: ShuffleOptions, part: int) -> int:
    began = time.perf_counter()
    numbers = np.arange(options.reduces * options.rows, dtype=np.int64) + part
    whole = pa.table({"number": numbers, "key": numbers % 97})
    tables = [whole.slice(place * options.rows, options.rows) for place in range(options.reduces)]
    time.sleep(options.work)
    _put(store, options, "map", part, tables, began)
    return 0


def _reduce(store: Store, options: ShuffleOptions, part: int) -> int:
    began = time.perf_counter()
    reads: list[tuple[CheckpointKey, int | None]] = [(_key("map", one), part) for one in range(options.maps)]
    store.fetch(reads)
    whole = pa.concat_tables([store.read(*one) for one in reads])
    total = int(np.asarray(whole.column("number")).sum())
    time.sleep(options.work)
    _put(store, options, "reduce", part, [pa.table({"total": [total]})], began)
    return total


def _put(store: Store, options: ShuffleOptions, stage: str, part: int, tables: list[pa.Table], began: float) -> None:
    rows, sizes = (tuple(one.num_rows for one in tables), tuple(one.nbytes for one in tables))
    width = options.maps if stage == "map" else options.reduces
    committed = Committed(_key(stage, part), rows, sizes, time.perf_counter() - began, width=width)
    store.put(committed, "job", tables, durable=True)


def compared(options: ShuffleOptions) -> tuple[ShuffleResult, ShuffleResult]:
    """The shuffle with loose and with packed outputs, each in a folder below that of the options."""
    loose, packed = (
        run(replace(options, folder=options.folder / name, pack=pack))
        for name, pack in (("loose", False), ("packed", True))
    )
    assert loose.total == packed.total, "both read the same rows"
    return loose, packed


def line(name: str, one: ShuffleResult) -> str:
    """Seconds by phase and requests by kind."""
    seconds = ", ".join(f"{phase} {took:.1f} s" for phase, took in one.seconds.items())
    kinds = ", ".join(f"{times} {kind}" for kind, times in sorted(one.kinds.items()))
    return f"{name:>7}: {one.all_seconds:.1f} s ({seconds}), {one.all_requests} requests ({kinds})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare loose with packed outputs behind a slow store.")
    parser.add_argument("--tasks", type=int, default=200, metavar="N", help="that write, and that read (200)")
    parser.add_argument("--latency", type=float, default=0.03, metavar="S", help="seconds of a request (0.03)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qoop-packs-") as folder:
        shuffle = ShuffleOptions(Path(folder), options.tasks, options.tasks, latency=options.latency)
        loose, packed = compared(shuffle)
    print(line("loose", loose), line("packed", packed), sep="\n")
    print(
        f"{loose.all_requests / packed.all_requests:.1f} times fewer requests, "
        f"{loose.all_seconds / packed.all_seconds:.1f} times faster from end to end, "
        f"{loose.seconds['reduce'] / packed.seconds['reduce']:.1f} times on the machine that reduces"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
