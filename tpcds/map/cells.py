"""The grid of the map: what changes, by how much, when, and under which estimates (see tpcds/EVALUATION_LOG.md)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from qoop.adaptive.profiles import CapacityProfile, Point
from qoop.planner.plan import Resources
from qoop.tpcds.simulate.workload import PAPER, Setting, Workload

SHARES = (8, 30, 60, 240, 600)
SMALLEST = (2, 60)
UP, DOWN = (60, 600), (600, 60)
MOMENTS = (0.02, 0.25, 0.5, 0.75)
STEPS = (0.5, 2.0, 5.0, 20.0)
WORKS = (5.0, 10.0)
MEMORIES = (0.25, 0.0625)
NO_ERROR, OURS, FOURFOLD = "none", "ours", "x4"
AT = 0.1
"""The moment of the change at the base point, as a part of Clarinet's run."""
MOST_STEPS = 80
"""The most changes of an oscillation; then the share stays."""
QUERIES = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of one axis.

    axis: its name. before, after: slots at launch and later. moment: when they change, as a part of Clarinet's run on
    the launch share. steps: if there are any, Clarinet's run over the length of one: the share oscillates.
    work: of a task, times the base's. error: of estimates. memory: of a slot, times the base's; memory_after: what it
    becomes at the change.
    """

    axis: str
    before: int
    after: int
    moment: float = AT
    steps: float = 0.0
    work: float = 1.0
    error: str = NO_ERROR
    memory: float = 1.0
    memory_after: float | None = None

    @property
    def value(self) -> str:
        """Its place on the axis, as text."""
        values = {
            "shares": f"{self.before}", "moment": f"{self.moment:g}", "steps": f"{self.steps:g}",
            "work": f"{self.work:g}", "error": self.error, "memory": f"{self.memory:g}", "memory falls": "0.25",
        }  # fmt: skip
        return values[self.axis]

    @property
    def name(self) -> str:
        return f"{self.axis} {self.value}: {self.before} to {self.after}"

    @property
    def setting(self) -> Setting:
        """The setting that the plans are made for."""
        return replace(PAPER, grain=PAPER.grain * self.work)


def cells() -> tuple[Cell, ...]:
    """All of them, each axis from the base point."""
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    yield from (Cell("shares", before, after) for before in SHARES for after in SHARES)
    yield Cell("shares", *SMALLEST)
    for pair in (UP, DOWN):
        base = Cell("shares", *pair)
        yield from (replace(base, axis="moment", moment=moment) for moment in MOMENTS)
        yield from (replace(base, axis="steps", steps=steps) for steps in STEPS)
        yield from (replace(base, axis="work", work=work) for work in WORKS)
        yield from (replace(base, axis="error", error=error) for error in (OURS, FOURFOLD))
        yield from (replace(base, axis="memory", memory=memory) for memory in MEMORIES)
        yield Cell("memory falls", pair[0], pair[0], memory_after=0.25)


def sample(found: Workload, count: int = QUERIES) -> tuple[int, ...]:
    """Of the queries that keep three plans or more, in the order of their joins, some in even steps of rank."""
    ranked = sorted((one.joins, one.number) for one in found.values() if len(one.candidates) >= 3)
    places = (round(step * (len(ranked) - 1) / max(1, count - 1)) for step in range(count))
    return tuple(ranked[place][1] for place in dict.fromkeys(places))


def point(at: float, slots: int, memory: float = 1.0, setting: Setting = PAPER) -> Point:
    """That many slots on as few machines as have them. memory: of a slot, times the setting's."""
    machines = ceil(slots / setting.slots)
    each = slots if machines == 1 else setting.slots
    return Point(at, each, each * memory * setting.memory / setting.slots, machines)


def share(slots: int, memory: float = 1.0, setting: Setting = PAPER) -> Resources:
    """The same as a share."""
    whole = setting.share(slots)
    return replace(whole, memory=whole.memory * memory)


def profile(cell: Cell, run: float, chance: random.Random) -> CapacityProfile:
    """The slots over time. run: seconds that Clarinet takes on the launch share."""
    later = cell.memory if cell.memory_after is None else cell.memory_after
    begun, changed = point(0.0, cell.before, cell.memory), point(0.0, cell.after, later)
    if not cell.steps:
        return CapacityProfile((begun, replace(changed, at=cell.moment * run)))
    length = run / cell.steps
    first = length * chance.uniform(0.05, 1.0)
    moments = (first + length * step for step in range(MOST_STEPS))
    later_points = (replace((changed, begun)[step % 2], at=at) for step, at in enumerate(moments))
    return CapacityProfile((begun, *later_points))


def rounds(queries: Sequence[int]) -> Mapping[str, tuple[Cell, int]]:
    """Every query in every cell, one query through all cells before the next one."""
    return {f"query {query}, {cell.name}": (cell, query) for query in queries for cell in cells()}
