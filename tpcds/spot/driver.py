"""The driver of one run, a process of its own: it imports no engine and no session.

Run as ``python -m qoop.tpcds.spot.driver``: one :class:`~qoop.tpcds.spot.course.Order` as a line of JSON comes on
standard input. It writes a line for every event, and last the figures of the whole run. Everything that it started ends
with it, and it ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qoop.tpcds.spot.course import AdapterError, Event, Order, drive
from qoop.tpcds.spot.machine import Machine, end_with_parent

_PIECE = 1 << 20


def main() -> None:
    """Do one run."""
    for number in (signal.SIGTERM, signal.SIGINT):  # Ctrl-C reaches this process, too
        signal.signal(number, lambda *_: sys.exit(1))
    end_with_parent()
    order = Order.of(json.loads(sys.stdin.readline()))
    _read_all(file for files in order.tables.values() for file in files)
    with tempfile.TemporaryDirectory(prefix="qoop-spot-") as scratch:
        machine = Machine(order, Path(scratch))
        durable = Durable(Path(order.durable))
        busy, own, begun = _busy_seconds(), _own_seconds(), time.monotonic()

        def tell(event: Event) -> None:
            if event.what == "gone":
                durable.measure()
            _write(asdict(event))

        try:
            drive(order, machine, tell)
        finally:
            machine.kill()
            with contextlib.suppress(AdapterError):  # the run has said so
                machine.clear()
            machine.close()
        wall, ours = time.monotonic() - begun, machine.cpu_seconds() + _own_seconds() - own
        others = (_busy_seconds() - busy - ours) / wall
        _write(
            {
                "cpu": machine.cpu_seconds(),
                "others": max(0.0, others),
                "durable": durable.largest,
                "durable_end": durable.last,
            }
        )


class Durable:
    """The durable folder. largest: the most bytes that it had at the end of a life; last: at the end of the last."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.largest, self.last = folder, 0, 0

    def measure(self) -> None:
        files = (file for file in self._folder.rglob("*") if file.is_file())
        self.last = sum(_size(file) for file in files)
        self.largest = max(self.largest, self.last)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _read_all(files: Iterable[str]) -> None:
    """Read the data once, so that all engines find the same in the cache of the system."""
    for file in files:
        with open(file, "rb", buffering=0) as stream:
            while stream.read(_PIECE):
                pass


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _busy_seconds() -> float:
    """Processor seconds of all programs of the system so far: user, nice, system, and interrupts."""
    with open("/proc/stat") as stream:
        fields = [int(field) for field in stream.readline().split()[1:]]
    return sum(fields[place] for place in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


def _write(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
