"""``qoop tpcds footers``: plans made from footers alone next to plans made from statistics that were collected.

Both plans of a query run in turn on the same session; the shortest times count. *cost* is the estimated work of the
one's operators over that of the other's, both by the collected statistics; it is 1 where the trees are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from qoop.catalog.statistics.footers import from_footers
from qoop.engine.task import content_of
from qoop.job import Prepared
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.estimate.tree_cost import seconds
from qoop.planner.plan import Plan
from qoop.planner.planner import stats_needed
from qoop.planner.variants import Logical, Variant
from qoop.session import Session, connect
from qoop.tpcds.queries import texts


@dataclass(frozen=True, slots=True)
class Options:
    """The queries and the data. repeat: runs of each of two plans that differ, 0: none."""

    directory: Path
    queries: tuple[int, ...] = ()
    suite: str = "tpcds"
    slots: int | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Compared:
    """One query. same: the plans are. cost: see the module. footers, full: seconds of the plans that were made so.

    reading: seconds to read the footers; collecting: to collect statistics that no query before has asked for.
    """

    query: int
    same: bool
    cost: float
    footers: float
    full: float
    reading: float
    collecting: float

    def line(self) -> str:
        """As a line of the table that starts with :data:`HEADER`."""
        plans = "same" if self.same else f"{self.cost:.2f}"
        ratio = self.footers / self.full if self.full else math.nan
        return (
            f"{self.query:5} {plans:>6} {self.footers:9.3f} {self.full:9.3f} {ratio:6.2f}"
            f" {self.reading * 1e3:8.1f} {self.collecting * 1e3:10.1f}"
        )


HEADER = "query   cost  footers s  full s  ratio  read ms  collect ms"


def compare(options: Options, show: Callable[[Compared], object]) -> list[Compared]:
    """Compare the plans of the chosen queries; `show` hears of each. Raises as a session does."""
    chosen = texts(options.suite, options.directory)
    found = []
    with connect(slots=options.slots, replan=False, reuse=False, staged=True, statistics="full") as session:
        session.register_folder(options.directory)
        for number in options.queries or tuple(chosen):
            found.append(_of(session, number, chosen[number], options.repeat))
            show(found[-1])
    return found


def _of(session: Session, number: int, text: str, repeat: int) -> Compared:
    full = replace(session.prepare(text), seen=NOTHING)
    begun = time.perf_counter()
    footers = with_footers(full)
    reading = time.perf_counter() - begun
    plans = [one.planning().plan(Variant(), session.available) for one in (footers, full)]
    same = _sketch(plans[0]) == _sketch(plans[1])
    best = _times(session, text, plans[:1], min(1, repeat)) if same else _times(session, text, plans, repeat)
    cost = 1.0 if same else cost_ratio(footers, full)
    return Compared(number, same, cost, best[0], best[-1], reading, full.statistics_seconds)


def with_footers(prepared: Prepared) -> Prepared:
    """The query as it would be prepared if no statistics had ever been collected."""
    tables = {name.lower(): table for name, table in prepared.tables.items()}
    needed = stats_needed(prepared.relation)
    return replace(
        prepared, stats={name: from_footers(tables[name.lower()], columns) for name, columns in needed.items()}
    )


def cost_ratio(one: Prepared, other: Prepared) -> float:
    """The work of the one's usual arrangement over that of the other's, by the estimates of the other."""
    ours, theirs = one.planning(), other.planning()
    work = [
        seconds(theirs.cost, tree, theirs.cardinality)
        for tree in (ours.arranged(Logical()), theirs.arranged(Logical()))
    ]
    return work[0] / work[1]


def _sketch(plan: Plan) -> tuple[object, ...]:
    return tuple((content_of(stage), stage.slots) for stage in plan.stages)


def _times(session: Session, text: str, plans: Sequence[Plan], repeat: int) -> list[float]:
    """The least seconds of each of the plans."""
    best = [math.inf] * len(plans) if repeat else [0.0] * len(plans)
    for turn in range(repeat):
        for place in range(len(plans)) if turn % 2 else reversed(range(len(plans))):
            begun = time.perf_counter()
            session.submit(text, plan=plans[place]).result().fetchall()
            best[place] = min(best[place], time.perf_counter() - begun)
    return best


def totals(found: Sequence[Compared]) -> str:
    """A few lines over all queries."""
    other = [one for one in found if not one.same]
    lines = [f"{len(found) - len(other)} of {len(found)} plans are the same"]
    if other:
        lines.append(
            f"cost of the others: geometric mean {_mean([one.cost for one in other]):.3f}, "
            f"worst {max(one.cost for one in other):.2f}"
        )
    if all(one.full for one in found):
        sums = sum(one.footers for one in found), sum(one.full for one in found)
        mean = _mean([one.footers / one.full for one in found])
        lines.append(f"seconds: {sums[0]:.1f} : {sums[1]:.1f} = {sums[0] / sums[1]:.3f}, geometric mean {mean:.3f}")
    reading, collecting = sum(one.reading for one in found), sum(one.collecting for one in found)
    lines.append(f"reading footers {reading:.2f} s, collecting statistics {collecting:.2f} s")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def json_of(found: Sequence[Compared]) -> dict[str, Any]:
    """The figures as JSON values."""
    return {"queries": [asdict(one) for one in found]}
