"""Counts of what the server did, and the text in which Prometheus reads them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the buckets of how long queries take."""
_OUTCOMES = ("done", "failed", "cancelled", "refused", "described")


class Counts:
    """The queries that have ended so far, counted; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: Counter[str] = Counter(dict.fromkeys(_OUTCOMES, 0))
        self._errors: Counter[str] = Counter()
        self._sums: Counter[str] = Counter({"rows": 0, "switches": 0, "checkpoints": 0})
        self._seconds, self._waits = _Histogram(), _Histogram()

    def ended(self, outcome: str, error: str, rows: int, seconds: float) -> None:
        """A query has ended. error: the class of what it raised, if it did."""
        with self._lock:
            self._outcomes[outcome] += 1
            if error:
                self._errors[error] += 1
            self._sums["rows"] += rows
            if outcome != "refused":
                self._seconds.add(seconds)

    def of_job(self, switches: int, checkpoints: int, waited: float) -> None:
        """A job has ended after that many changes of plan, and outputs of tasks that were used. waited: seconds until
        its first task began."""
        with self._lock:
            self._waits.add(waited)
            self._sums["switches"] += switches
            self._sums["checkpoints"] += checkpoints

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it in Prometheus' format. gauges: what holds now, as what it means and how much, by name."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines(gauges))

    def _lines(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        outcomes = [(f'{{outcome="{name}"}}', number) for name, number in self._outcomes.items()]
        yield from _metric("queries_total", "counter", "Queries that have ended, by how", outcomes)
        errors = [(f'{{error="{name}"}}', number) for name, number in self._errors.items()]
        yield from _metric("errors_total", "counter", "Errors reported to users, by class", errors)
        counted = (
            ("rows", "Rows of answers"),
            ("switches", "Changes of plan"),
            ("checkpoints", "Outputs of tasks used"),
        )
        for name, what in counted:
            yield from _metric(f"{name}_total", "counter", what, [("", self._sums[name])])
        yield from self._seconds.lines("query_seconds", "Seconds from a request to its last row")
        yield from self._waits.lines("wait_seconds", "Seconds until the first task of a query began")
        for name, (what, number) in gauges.items():
            yield from _metric(name, "gauge", what, [("", number)])


class _Histogram:
    """Numbers of seconds, counted by bucket."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._sum += seconds
        self._counts[next((bound for bound in _SECONDS if seconds <= bound), float("inf"))] += 1

    def lines(self, name: str, what: str) -> Iterator[str]:
        yield from _metric(name, "histogram", what, [])
        total = 0
        for bound in _SECONDS:
            total += self._counts[bound]
            yield f'qoop_{name}_bucket{{le="{bound:g}"}} {total}'
        number = self._counts.total()
        yield f'qoop_{name}_bucket{{le="+Inf"}} {number}'
        yield f"qoop_{name}_sum {self._sum:.6f}"
        yield f"qoop_{name}_count {number}"


def _metric(name: str, kind: str, what: str, values: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP qoop_{name} {what}"
    yield f"# TYPE qoop_{name} {kind}"
    for labels, number in values:
        yield f"qoop_{name}{labels} {number:.15g}"
