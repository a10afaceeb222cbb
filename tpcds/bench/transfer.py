"""The worth of predicate transfer, and how little the order of joins matters with it.

Two plans of a query differ in one choice: whether keys are transferred (:mod:`qoop.planner.arrange.transfer`).  Both
run in turn, and which comes first alternates; where the plans are equal, the query is run once on each order and counts
for both.  With orders drawn by chance (:mod:`qoop.planner.join_order.shuffled`) each order is one pair of plans.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp, inf, log
from pathlib import Path
from typing import Any

from qoop.catalog.errors import Timeout
from qoop.planner.plan import Plan
from qoop.planner.variants import Logical, Variant
from qoop.session import Session, connect
from qoop.tpcds.queries import text, texts


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """The runs to make. queries: none: all 99. repeat: runs of each plan, the shortest counts. orders: drawn by
    chance; 0: the usual one. timeout: seconds of one run, which a run that is longer counts as.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    repeat: int = 3
    orders: int = 0
    timeout: float = 60.0
    slots: int | None = None
    memory: str | None = None


@dataclass(frozen=True)
class TransferResult:
    """One query: seconds of each order, without and with transfers. changed: orders whose plans differ."""

    query: int
    without: Sequence[float]
    with_keys: Sequence[float]
    changed: int

    def line(self) -> str:
        sides = (self.without, self.with_keys)
        cells = "".join(f"{sum(side):9.3f} {max(side) / min(side):8.1f}" for side in sides)
        return f"{self.query:5d} {self.changed:7d}{cells} {sum(self.with_keys) / sum(self.without):7.2f}"


HEADER = "query changed  without longest:     with longest:   ratio"


def run(options: TransferOptions, told: Callable[[str], None] = print) -> list[TransferResult]:
    """Run the queries. Raises ConfigError or SourceError if it cannot begin, QueryError or ExecutionError."""
    told(HEADER)
    done = []
    with connect(slots=options.slots, memory=options.memory, replan=False, reuse=False, staged=True) as session:
        session.register_folder(options.directory)
        for number in options.queries or tuple(texts()):
            one = _query(session, options, number)
            told(one.line())
            done.append(one)
    return done


def _query(session: Session, options: TransferOptions, number: int) -> TransferResult:
    query = text(number, directory=options.directory)
    seeds: Sequence[int | None] = range(1, options.orders + 1) if options.orders else (None,)
    pairs = [plans(session, query, seed) for seed in seeds]
    _seconds(session, query, pairs[0][1], options.timeout)  # files come into the system's cache
    times = [_pair(session, options, query, *pair) for pair in pairs]
    without, with_keys = zip(*times, strict=True)
    return TransferResult(number, without, with_keys, sum(a != b for a, b in pairs))


def plans(session: Session, query: str, seed: int | None) -> tuple[Plan, Plan]:
    """The plans of a query without and with transfers. seed: of an order of joins; None: the usual one."""
    planning, share = session.prepare(query).planning(), session.planning.usable
    choices = (Logical(transfer_gain=inf, seed=seed), Logical(seed=seed))
    without, with_keys = (planning.plan(Variant("transfer", one), share) for one in choices)
    return without, with_keys


def _pair(session: Session, options: TransferOptions, query: str, *pair: Plan) -> tuple[float, float]:
    if pair[0] == pair[1]:
        seconds = min(_seconds(session, query, pair[0], options.timeout) for _ in range(options.repeat))
        return seconds, seconds
    best = [inf, inf]
    for turn in range(options.repeat):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            best[side] = min(best[side], _seconds(session, query, pair[side], options.timeout))
    return best[0], best[1]


def _seconds(session: Session, query: str, plan: Plan, timeout: float) -> float:
    begun = time.perf_counter()
    try:
        session.submit(query, plan=plan, timeout=timeout).result()
    except Timeout:
        return timeout
    return time.perf_counter() - begun


def table(done: Sequence[TransferResult]) -> str:
    """The sums, and the geometric means of longest over shortest order."""
    lines = []
    for name, sides in (
        ("without", [one.without for one in done]),
        ("with", [one.with_keys for one in done]),
    ):
        spread = _geometric(max(side) / min(side) for side in sides)
        lines.append(f"{name:>8}: {sum(map(sum, sides)):9.3f} s, longest over shortest order {spread:.2f}")
    return "\n".join(lines)


def _geometric(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def to_json(done: Sequence[TransferResult]) -> dict[str, Any]:
    """The figures as JSON values."""
    return {"queries": [asdict(one) for one in done]}
