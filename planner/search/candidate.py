"""The results of a search for plans, as values: candidates, the shares they are compared on, and those that are kept.

They are apart from the search itself (:mod:`qoop.planner.search.alternatives`), so that kept plans can be taken up
again without loading a planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from math import ceil, inf

from qoop.catalog.value import value
from qoop.planner.estimate.cost import DEFAULT, CostModel
from qoop.planner.finish import ONE_MACHINE, Finish
from qoop.planner.plan import Layout, Plan, Resources, Signature, Stage, StageId
from qoop.planner.variants import VARIANTS, Variant

MOST_TOLERANCE = 0.10
"""The largest distance from the best at which a plan counts as near it."""

StageKey = tuple[Signature, Layout, int, str]

_NOTHING_AVAILABLE = Resources()


@value
class Grid:
    """The shares of resources that plans are compared on.

    points: cpu slots and memory in bytes, and network in bytes per second where that is limited.
    availability: those of the points, or others, for which plans are made; the first is where the usual plan is made.
    threads: the most slots of one task. machine: slots of one machine.
    lone: True if plans of one task with all slots are made, whose work is lost with the task.
    """

    points: tuple[Resources, ...]
    availability: tuple[Resources, ...]
    threads: int
    machine: int
    lone: bool = True

    @classmethod
    def of(
        cls,
        cpus: Sequence[int],
        memory_per_slot: Sequence[float],
        threads: int,
        machine: int = ONE_MACHINE,
        links: Sequence[float] = (0.0,),
        made_for: Sequence[int] = (),
    ) -> Grid:
        """Every number of slots with every memory a slot and every link; plans are made for few, some and all slots.

        The largest memory is the usual one. links: bytes per second in and out of one machine, the usual first; 0: no
        limit. Slots that fit one machine need no network. made_for: for how many slots plans are made, if for others.
        """

        def share(cpu: int, memory: float, link: float) -> Resources:
            return Resources(cpu, cpu * memory, network=link * ceil(cpu / machine) if cpu > machine else 0.0)

        memories, ordered = sorted(memory_per_slot), sorted(cpus)
        points = dict.fromkeys(share(cpu, memory, link) for link in links for memory in memories for cpu in ordered)
        few = made_for or (ordered[-1], ordered[len(ordered) // 2], ordered[0])
        availability = dict.fromkeys(share(cpu, memories[-1], links[0]) for cpu in few)
        if not made_for:
            availability[share(ordered[-1], memories[0], links[0])] = None
        return cls(tuple(points), tuple(availability), threads, machine)

    def link(self, point: Resources) -> float:
        """Bytes per second in and out of one machine of a share; 0: no limit."""
        return point.network / max(1, ceil(point.cpu / self.machine))


@lru_cache(maxsize=64)
def local_grid(available: Resources, lone: bool = True, most: float = 0.0) -> Grid:
    """For one machine: 1, 2, 4 … slots up to twice those there are, with a quarter of its memory and all of it.
    lone: see `Grid`. most: slots that there may be, where that is more than twice as many."""
    slots = max(1, int(available.cpu))
    cpus = [1]
    while cpus[-1] < max(2 * slots, most):
        cpus.append(2 * cpus[-1])
    each = available.memory / slots
    return replace(Grid.of(cpus, (each / 4, each), threads=slots), lone=lone)


def cluster_grid() -> Grid:
    """The cluster of the paper (paper section 6): 20 machines of 30 one-core containers, 1 Gbit/s each or a quarter.

    Plans are made for the best five of its points: their pool is 7 % in the mean of TPC-DS queries behind a pool made
    for all points.
    """
    return Grid.of(
        (1, 8, 30, 60, 120, 240, 360, 600), (1e9, 4e9), threads=1, machine=30, links=(125e6, 125e6 / 4),
        made_for=(600, 240, 60, 8, 1),
    )  # fmt: skip


@value
class Candidate:
    """A plan of the pool. origin: the variant that made it, and for how many slots and bytes of memory each.

    machine: slots of one machine. cost: the constants of its finish times.
    variant, available: the values of `origin`; a planning of the query makes the same plan of them.
    """

    plan: Plan
    origin: str
    machine: int = ONE_MACHINE
    cost: CostModel = DEFAULT
    variant: Variant = VARIANTS[0]
    available: Resources = _NOTHING_AVAILABLE

    @cached_property
    def shape(self) -> str:
        """See :func:`shape`."""
        return shape(self.plan)

    @cached_property
    def stages(self) -> frozenset[StageKey]:
        """Stages whose outputs may serve any plan that has an equal one."""
        return frozenset(key for _, key in self.keyed)

    @cached_property
    def keyed(self) -> tuple[tuple[Stage, StageKey], ...]:
        """The stages that may serve others, each with the facts that an equal one must share."""
        return tuple((stage, stage_key(stage)) for stage in self.plan.stages if stage.shareable)

    @cached_property
    def finish(self) -> Finish:
        return Finish(self.plan, self.machine, self.cost)

    def longest_task(self, share: Resources) -> float:
        """Seconds of the longest task, which takes no longer than the whole plan: a task alone has all slots."""
        longest = max(stage.estimate.task_seconds for stage in self.plan.stages)
        return min(longest, self.finish.seconds(share))

    def slower(self, factor: float) -> Candidate:
        """The same with stages that take `factor` times as long."""
        if factor == 1.0:
            return self
        estimates = [replace(one.estimate, task_seconds=factor * one.estimate.task_seconds) for one in self.plan.stages]
        pairs = zip(self.plan.stages, estimates, strict=True)
        return replace(self, plan=replace(self.plan, stages=tuple(replace(one, estimate=e) for one, e in pairs)))


def stage_key(stage: Stage) -> StageKey:
    """The key that stages have in common whose outputs are interchangeable part by part."""
    return stage.signature, stage.layout, stage.width, stage.cut


def shape(plan: Plan) -> str:
    """Digest of the plan's stage DAG, labelled by signatures; numbers of tasks and partitions do not count.

    Each stage is named by its signature and the names of what it reads, so equal names mean equal DAGs below.
    """
    names: dict[StageId, str] = {}
    for stage in plan.stages:
        below = sorted({names[item.stage] for item in stage.stage_inputs})
        names[stage.id] = _digest(stage.signature, *below)
    return _digest(*sorted(names.values()))


def _digest(*parts: str) -> str:
    return blake2b("|".join(parts).encode(), digest_size=8).hexdigest()


@value
class Pool:
    """All candidates of a query on a grid. whole: False: those that an earlier search has kept, and no others."""

    grid: Grid
    candidates: tuple[Candidate, ...]
    whole: bool = True

    @cached_property
    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Finish time by candidate and point of the grid.

        A plan that cannot be within :data:`MOST_TOLERANCE` of another is not simulated: its time is then a lower bound.
        """
        return tuple(zip(*map(self._seconds_on, self.grid.points), strict=True))

    def _seconds_on(self, share: Resources) -> list[float]:
        seconds = [one.finish.at_least(share) for one in self.candidates]
        best = inf
        for place in sorted(range(len(seconds)), key=lambda i: (seconds[i], i)):
            if seconds[place] <= (1.0 + MOST_TOLERANCE) * best:
                seconds[place] = self.candidates[place].finish.seconds(share)
                best = min(best, seconds[place])
        return seconds

    @cached_property
    def best(self) -> tuple[float, ...]:
        """The shortest finish time on each point of the grid."""
        return tuple(map(min, zip(*self.seconds, strict=True)))

    @property
    def shapes(self) -> int:
        """The number of different shapes of the candidates."""
        return len({one.shape for one in self.candidates})


@value
class Alternatives:
    """The kept plans of a query.

    chosen: their places in the pool: first those that cover needs, then as many as `fallback_plans` says, kept because
    they are cheap to switch to.
    """

    pool: Pool
    chosen: tuple[int, ...]
    fallback_plans: int = 0

    def and_first(self, candidate: Candidate) -> Alternatives:
        """The same and, before them, a plan that no search had to find."""
        pool = replace(self.pool, candidates=(candidate, *self.pool.candidates))
        return Alternatives(pool, (0, *(place + 1 for place in self.chosen)), self.fallback_plans)

    @property
    def covering(self) -> int:
        """The number of plans that are kept because cover needs them."""
        return len(self.chosen) - self.fallback_plans

    @cached_property
    def kept(self) -> tuple[Candidate, ...]:
        return tuple(self.pool.candidates[i] for i in self.chosen)

    @cached_property
    def winners(self) -> tuple[int, ...]:
        """By point of the grid, the place in `kept` of the plan that finishes first; ties go to the earlier."""
        rows = [self.pool.seconds[i] for i in self.chosen]
        return tuple(min(range(len(rows)), key=lambda k: rows[k][p]) for p in range(len(self.pool.grid.points)))

    @property
    def shapes(self) -> int:
        """The number of different shapes of the kept plans."""
        return len({one.shape for one in self.kept})

    @property
    def cover_error(self) -> float:
        """The largest delay of the best kept plan against the best of the pool, as a fraction of the latter's time."""
        rows = [self.pool.seconds[i] for i in self.chosen]
        times = zip(map(min, zip(*rows, strict=True)), self.pool.best, strict=True)
        return max((kept / best - 1.0 for kept, best in times if 0.0 < best < inf), default=0.0)

    def seconds(self, place: int) -> float:
        """The seconds that the best kept plan takes on a point of the grid."""
        return self.pool.seconds[self.chosen[self.winners[place]]][place]

    def best(self, share: Resources) -> Candidate:
        """The kept plan that finishes first, from nothing, on a share that need not be on the grid."""
        return min(self.kept, key=lambda one: one.finish.seconds(share))


def plan_name(place: int) -> str:
    """A, B … Z, A1, B1 …

    >>> plan_name(0), plan_name(27)
    ('A', 'B1')
    """
    return chr(ord("A") + place % 26) + (str(place // 26) if place >= 26 else "")
