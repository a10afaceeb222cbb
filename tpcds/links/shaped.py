"""Links between the nodes of a cluster that are all on this machine: token buckets, for benchmarks.

A process on a node that is begun with :func:`install` as its `worker_process_setup_hook` gives and takes answers at the
rates of :data:`VARIABLE`. What it gives waits for tokens of its link out, piece by piece, what it gets for those of its
link in; all transfers of a process share its links as they come. An answer begins after the latency.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from qoop.engine.backends.ray.peers import Wire, put_wire

VARIABLE = "BENCH_LINKS"
_PIECE = 64 << 10  # bytes that wait for tokens together


@dataclass(frozen=True, slots=True)
class Shape:
    """rate: bytes a second of a link in each direction. latency: seconds. folder: where a process writes the bytes that
    it gave. slow: the first process that comes has half the rate."""

    rate: float
    latency: float
    folder: str
    slow: bool = False

    def runtime_env(self) -> dict[str, Any]:
        """That of a session whose processes on the nodes have such links."""
        hook = f"{install.__module__}.{install.__name__}"
        return {"worker_process_setup_hook": hook, "env_vars": {VARIABLE: json.dumps(asdict(self))}}

    def given(self) -> int:
        """Bytes that all processes have given so far."""
        return sum(int(path.read_text() or 0) for path in Path(self.folder).glob("given-*"))


class Bucket:
    """Tokens for that many bytes a second, for all threads of a process in the order in which they ask."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Wait until that many bytes have passed."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            at = self._free_at
        time.sleep(max(0.0, at - time.monotonic()))


class ShapedWire(Wire):
    """Answers over two links of that rate."""

    def __init__(self, shape: Shape, rate: float) -> None:
        self._shape = shape
        self._out, self._in = Bucket(rate), Bucket(rate)
        self._given = 0
        self._counting = threading.Lock()

    def send(self, answer: pa.Table) -> flight.FlightDataStream:
        """Piece by piece."""
        return flight.GeneratorStream(answer.schema, self._pieces(answer))

    def receive(self, answer: flight.FlightStreamReader) -> pa.Table:
        """Piece by piece, too."""
        batches = []
        for chunk in answer:
            self._in.take(chunk.data.nbytes)
            batches.append(chunk.data)
        return pa.Table.from_batches(batches, answer.schema)

    def _pieces(self, answer: pa.Table) -> Iterator[pa.RecordBatch]:
        time.sleep(self._shape.latency)
        rows = max(1, int(_PIECE * answer.num_rows / max(1, answer.nbytes)))
        for batch in answer.to_batches(max_chunksize=rows):
            self._out.take(batch.nbytes)
            yield batch
        with self._counting:
            self._given += answer.nbytes
            (Path(self._shape.folder) / f"given-{os.getpid()}").write_text(str(self._given))


def install() -> None:
    """Have this process give and take answers over links as the environment says; without a word there, as ever."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return
    shape = Shape(**json.loads(text))
    put_wire(ShapedWire(shape, shape.rate / 2 if shape.slow and _first(Path(shape.folder)) else shape.rate))


def _first(folder: Path) -> bool:
    """True for one process only."""
    try:
        os.close(os.open(folder / "slow", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
