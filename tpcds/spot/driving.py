"""One run from outside: starts a driver, and reads what it reports."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from qoop.catalog.errors import ExecutionError
from qoop.tpcds.spot.course import Event, Order


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a driver: all events of a run, and figures of the whole.

    cpu: processor seconds of the adapter and its children; others: CPUs that other programs used; durable: the most
    bytes in the durable folder at the end of a life; durable_end: of the last life.
    """

    events: Sequence[Event]
    cpu: float
    others: float
    durable: int
    durable_end: int


def report(order: Order) -> Report:
    """Do one run. Raises ExecutionError if the driver fails."""
    with subprocess.Popen(
        [sys.executable, "-m", "qoop.tpcds.spot.driver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        try:
            out, _ = driver.communicate(json.dumps(order.json()).encode() + b"\n")
        finally:
            with contextlib.suppress(ProcessLookupError):  # broken off: it ends what it has started
                driver.terminate()
    lines = [json.loads(line) for line in out.splitlines()]
    if driver.returncode != 0 or not lines or "cpu" not in lines[-1]:
        raise ExecutionError(f"the driver of a run ended with exit code {driver.returncode}")
    *events, figures = lines
    return Report([Event(**event) for event in events], **figures)
