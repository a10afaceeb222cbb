"""Counts of finished queries and the present state of the server, as Prometheus reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from qoop.adaptive.monitor.cgroup import groups

Gauges: TypeAlias = Mapping[str, tuple[str, float]]
"""Present values: the description and the number, by name."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the buckets of query times."""
_OUTCOMES = ("done", "failed", "cancelled", "refused", "described")


class Counts:
    """The queries that have ended so far, counted. Thread-safe."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        counter, histogram = (
            partial(Counter, registry=registry),
            partial(Histogram, registry=registry, buckets=_SECONDS),
        )
        self._outcomes = counter("qoop_queries", "Queries that have ended, by outcome", ["outcome"])
        self._errors = counter("qoop_errors", "Errors reported to users, by class", ["error"])
        self._tenants = counter("qoop_tenant_queries", "Queries that have ended, by tenant", ["tenant"])
        self._rows = counter("qoop_rows", "Rows of answers")
        self._bytes = counter("qoop_result_bytes", "Bytes of answers, as Arrow")
        self._switches = counter("qoop_switches", "Changes of plan")
        self._checkpoints = counter("qoop_checkpoints", "Outputs of tasks used")
        self._seconds = histogram("qoop_query_seconds", "Seconds from a request to its last row")
        self._waits = histogram("qoop_wait_seconds", "Seconds until the first task of a query began")
        ProcessCollector(registry=registry)
        for outcome in _OUTCOMES:
            self._outcomes.labels(outcome)

    def ended(self, outcome: str, error: str, tenant: str, rows: int, size: int, seconds: float) -> None:
        """A query has ended. error: the class of the error that it raised, or "". size: bytes of its answer."""
        self._outcomes.labels(outcome).inc()
        self._tenants.labels(tenant).inc()
        if error:
            self._errors.labels(error).inc()
        self._rows.inc(rows)
        self._bytes.inc(size)
        if outcome != "refused":
            self._seconds.observe(seconds)

    def of_job(self, switches: int, checkpoints: int, waited: float) -> None:
        """A job has ended after that many changes of plan, and used outputs of tasks. waited: seconds until its first
        task began."""
        self._waits.observe(waited)
        self._switches.inc(switches)
        self._checkpoints.inc(checkpoints)

    def text(self, gauges: Gauges) -> str:
        """All of it in Prometheus' format."""
        present = CollectorRegistry()
        present.register(_Present({**gauges, **_container()}))
        return (generate_latest(self._registry) + generate_latest(present)).decode()


class _Present(Collector):
    """Gauges with the values of this moment."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, (description, number) in self._gauges.items():
            yield GaugeMetricFamily(f"qoop_{name}", description, number)


def _container() -> Gauges:
    """The memory of the innermost control group with a limit, where the kernel ends processes; empty without one."""
    limited = next((one for one in groups() if one.memory() < math.inf), None)
    used = limited.memory_used() if limited is not None else None
    if limited is None or used is None:
        return {}
    return {
        "container_memory_bytes": ("Memory of the container that the kernel cannot take back", used),
        "container_memory_limit_bytes": (
            "Memory at which the kernel ends processes of the container",
            limited.memory(),
        ),
    }
