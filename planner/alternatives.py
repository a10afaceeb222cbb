"""Many plans for one query: a pool of candidates, and the few of them that are kept.

    variants × rooms ──pool──> candidates ──finish times on a grid of shares──> keep ──> Alternatives

The aim is cover, not number: for every share on the grid the kept set holds a plan whose finish time is close to the
best of the pool, with as few plans as do that.  The work is limited by counts, so the same query has the same
alternatives on any machine and at any hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from math import ceil, inf

from qoop.catalog.errors import PlanError
from qoop.planner.collector import collector_waits
from qoop.planner.cost import DEFAULT, CostModel
from qoop.planner.cover import smallest_cover
from qoop.planner.finish import ONE_MACHINE, Finish
from qoop.planner.plan import Layout, Plan, Resources, Signature, Stage, StageId
from qoop.planner.planner import Planning
from qoop.planner.spares import spares
from qoop.planner.variants import RARE, VARIANTS, Variant

MOST_PLANS = 64
"""Candidates of one query at most."""

MOST_TOLERANCE = 0.10
"""How far behind the best a plan may be to count as near it, at most."""

_NO_ROOM = Resources()

StageKey = tuple[Signature, Layout, int, str]


@dataclass(frozen=True)
class Grid:
    """The shares of resources that plans are compared on.

    points: cpu slots and memory in bytes, and network in bytes per second where that is limited.
    rooms: those of the points, or others, for which plans are made; the first is where the usual plan is made.
    threads: slots that one task can be given. machine: slots of one machine.
    """

    points: tuple[Resources, ...]
    rooms: tuple[Resources, ...]
    threads: int
    machine: int

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
        rooms = dict.fromkeys(share(cpu, memories[-1], links[0]) for cpu in few)
        if not made_for:
            rooms[share(ordered[-1], memories[0], links[0])] = None
        return cls(tuple(points), tuple(rooms), threads, machine)

    def link(self, point: Resources) -> float:
        """Bytes per second in and out of one machine of a share; 0: no limit."""
        return point.network / max(1, ceil(point.cpu / self.machine))


def local_grid(room: Resources) -> Grid:
    """For one machine: 1, 2, 4 … slots up to twice those there are, with a quarter of its memory and all of it."""
    slots = max(1, int(room.cpu))
    cpus = [1]
    while cpus[-1] < 2 * slots:
        cpus.append(2 * cpus[-1])
    each = room.memory / slots
    return Grid.of(cpus, (each / 4, each), threads=slots)


def cluster_grid() -> Grid:
    """The cluster of the paper (spec section 6): 20 machines of 30 one-core containers, 1 Gbit/s each or a quarter.

    Of five rooms, those chosen give the best pools: 7 % in the mean of TPC-DS queries behind plans made for all of its
    points.
    """
    return Grid.of(
        (1, 8, 30, 60, 120, 240, 360, 600), (1e9, 4e9), threads=1, machine=30, links=(125e6, 125e6 / 4),
        made_for=(600, 240, 60, 8, 1),
    )  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A plan of the pool. origin: the variant that made it, and for how many slots and bytes of memory each.

    machine: slots of one machine. cost: the constants by which its finish times are worked out.
    variant, room: what `origin` says in words: a planning of the query makes the plan of them again.
    """

    plan: Plan
    origin: str
    machine: int = ONE_MACHINE
    cost: CostModel = DEFAULT
    variant: Variant = VARIANTS[0]
    room: Resources = _NO_ROOM

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
        """The stages that may serve others, each with what it must have in common with an equal one."""
        return tuple((stage, stage_key(stage)) for stage in self.plan.stages if stage.shareable)

    @cached_property
    def finish(self) -> Finish:
        return Finish(self.plan, self.machine, self.cost)


def stage_key(stage: Stage) -> StageKey:
    """What makes the outputs of two stages interchangeable part by part."""
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


@collector_waits()
def pool(planning: Planning, grid: Grid, variants: Sequence[Variant] = VARIANTS, most: int = MOST_PLANS) -> Pool:
    """The different plans that the variants lead to in the rooms of the grid, the usual plan first.

    most: after so many different plans the search ends.
    """
    found: dict[object, Candidate] = {}
    for variant, room in _tries(planning, grid, variants):
        plan = planning.plan(variant, room)
        key = tuple((stage_key(stage), stage.slots) for stage in plan.stages)
        origin = f"{variant.name} for {_room(room)}"
        found.setdefault(key, Candidate(plan, origin, grid.machine, planning.cost, variant, room))
        if len(found) >= most:
            break
    return Pool(grid, tuple(found.values()))


def full_pool(planning: Planning, grid: Grid, most: int = 1024) -> Pool:
    """What a search without regard to time finds: every way to arrange the query with every set of limits, made for
    every share of the grid that differs in slots, and for all slots of every kind."""
    logical = dict.fromkeys(variant.logical for variant in (*VARIANTS, *RARE))
    limits = dict.fromkeys(variant.limits for variant in VARIANTS)
    every = [Variant(f"full {i}.{j}", one, two) for i, one in enumerate(logical) for j, two in enumerate(limits)]
    largest = max(point.cpu for point in grid.points)
    usual = grid.rooms[0]
    own = [p for p in grid.points if p.cpu == largest or (p.memory / p.cpu == usual.memory / usual.cpu)]
    links = {grid.link(usual), 0.0}
    rooms = dict.fromkeys([*grid.rooms, *(p for p in own if p.cpu == largest or grid.link(p) in links)])
    return pool(planning, replace(grid, rooms=tuple(rooms)), [*VARIANTS, *every], most)


def _tries(planning: Planning, grid: Grid, variants: Sequence[Variant]) -> Iterator[tuple[Variant, Resources]]:
    """Variants for rooms, without those that cannot lead to another plan than one before."""
    seen: set[tuple[object, ...]] = set()
    for variant in variants:
        relation = planning.arranged(variant.logical)
        least, most = variant.slots
        for room in (room for room in grid.rooms if least <= room.cpu <= most):
            fitted = variant.on(room, grid.threads, grid.machine)
            key = (id(relation), fitted.limits, room)
            if key not in seen:
                seen.add(key)
                yield fitted, room


def _room(room: Resources) -> str:
    return f"{room.cpu:.0f} slots of {room.memory / room.cpu / 1e9:.1f} GB"


@dataclass(frozen=True)
class Pool:
    """All candidates of a query on a grid. whole: False: those that an earlier search has kept, and no others."""

    grid: Grid
    candidates: tuple[Candidate, ...]
    whole: bool = True

    @cached_property
    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Finish time by candidate and point of the grid.

        Where a plan cannot be within :data:`MOST_TOLERANCE` of another it is not simulated: the time is then what it
        takes at least.
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
        """How many different shapes the candidates have."""
        return len({one.shape for one in self.candidates})


@dataclass(frozen=True)
class Alternatives:
    """The kept plans of a query.

    chosen: their places in the pool: first those that cover needs, then, so many as `spares` says, those that are kept
    because they are cheap to switch to.
    """

    pool: Pool
    chosen: tuple[int, ...]
    spares: int = 0

    @property
    def covering(self) -> int:
        """How many plans are kept because cover needs them."""
        return len(self.chosen) - self.spares

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
        """How many different shapes the kept plans have."""
        return len({one.shape for one in self.kept})

    @property
    def cover_error(self) -> float:
        """By how much, at worst, the best kept plan finishes later than the best of the pool, as a fraction of it."""
        rows = [self.pool.seconds[i] for i in self.chosen]
        times = zip(map(min, zip(*rows, strict=True)), self.pool.best, strict=True)
        return max((kept / best - 1.0 for kept, best in times if 0.0 < best < inf), default=0.0)

    def seconds(self, place: int) -> float:
        """When the best kept plan ends on a point of the grid."""
        return self.pool.seconds[self.chosen[self.winners[place]]][place]

    def best(self, share: Resources) -> Candidate:
        """The kept plan that finishes first, from nothing, on a share that need not be on the grid."""
        return min(self.kept, key=lambda one: one.finish.seconds(share))


@collector_waits()
def keep(pool: Pool, tolerance: float = MOST_TOLERANCE) -> Alternatives:
    """As few plans of the pool as hold, for every share of the grid, one within `tolerance` of the best.

    Greedy set cover (Chvátal, "A Greedy Heuristic for the Set-Covering Problem", 1979): next comes the plan that
    covers the most shares not yet covered; of several the one that shares most stages with those kept already,
    then the one that is nearest to the best over all shares. Where that takes more plans than necessary, and it can be
    told (:mod:`qoop.planner.cover`), the fewest. Then come plans that are cheap to switch to
    (:mod:`qoop.planner.spares`).

    tolerance: as a fraction, up to MOST_TOLERANCE. Raises PlanError if it is not.
    """
    if not 0.0 <= tolerance <= MOST_TOLERANCE:
        raise PlanError(f"plans are told apart to within 0 to {MOST_TOLERANCE} of the best, not {tolerance}")
    covers = [_covered(row, pool.best, tolerance) for row in pool.seconds]
    regret = [_regret(pool, place) for place in range(len(covers))]
    chosen = smallest_cover(covers, _without_redundant(_greedy(pool, covers, regret), covers), regret)
    more = spares(pool, chosen, tolerance) if len(pool.candidates) > len(chosen) else ()
    return Alternatives(pool, (*chosen, *more), len(more))


def _greedy(pool: Pool, covers: Sequence[frozenset[int]], regret: Sequence[float]) -> list[int]:
    missing = frozenset().union(*covers)
    chosen: list[int] = []
    shared: frozenset[StageKey] = frozenset()
    while missing or not chosen:
        counts = [len(covered & missing) for covered in covers]
        most = max(counts)
        tied = (place for place, count in enumerate(counts) if count == most)
        place = max(tied, key=lambda i: (len(pool.candidates[i].stages & shared), -regret[i], -i))
        chosen.append(place)
        missing -= covers[place]
        shared |= pool.candidates[place].stages
    return chosen


def _covered(seconds: Sequence[float], best: Sequence[float], tolerance: float) -> frozenset[int]:
    pairs = enumerate(zip(seconds, best, strict=True))
    return frozenset(i for i, (mine, least) in pairs if least < inf and mine <= (1.0 + tolerance) * least)


def _regret(pool: Pool, place: int) -> float:
    """How much longer than the best a plan takes, added up over the grid."""
    pairs = zip(pool.seconds[place], pool.best, strict=True)
    return sum(mine / best for mine, best in pairs if 0.0 < best < inf)


def _without_redundant(chosen: Sequence[int], covers: Sequence[frozenset[int]]) -> tuple[int, ...]:
    """Drop plans, the last chosen first, whose shares the others cover: later choices can make one needless."""
    kept = list(chosen)
    for place in reversed(chosen):
        others = [covers[i] for i in kept if i != place]
        if others and covers[place] <= frozenset().union(*others):
            kept.remove(place)
    return tuple(kept)


def prune_by_work(rectangles: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """The places of plans, given as (width, work), that the paper's algorithm keeps (spec section 5).

    By width ascending, a plan stays only if its work is at most half that of the one kept before it.

    >>> prune_by_work([(1, 100), (4, 60), (2, 50), (8, 25)])
    (0, 2, 3)
    """
    kept: list[int] = []
    for place in sorted(range(len(rectangles)), key=lambda i: (*rectangles[i], i)):
        if not kept or 2.0 * rectangles[place][1] <= rectangles[kept[-1]][1]:
            kept.append(place)
    return tuple(kept)


def pruned(pool: Pool) -> Pool:
    """The candidates that :func:`prune_by_work` keeps: width is the most slots a plan uses, work its slot seconds."""
    rectangles = [(_width(one.plan), one.finish.work()) for one in pool.candidates]
    return replace(pool, candidates=tuple(pool.candidates[i] for i in sorted(prune_by_work(rectangles))))


def _width(plan: Plan) -> float:
    return float(max(stage.width * stage.slots for stage in plan.stages))


# ---- as text


def explain_alternatives(alternatives: Alternatives) -> str:
    """Which plan wins on which share, what each is, and what work they have in common.

    Plans are called A, B, C …; in the map columns are slots and rows memory a slot.
    """
    lines = [_headline(alternatives), "", *_heat_map(alternatives), ""]
    for place, one in enumerate(alternatives.kept):
        lines += [*_described(alternatives, place, one), ""]
    return "\n".join([*lines, *_common(alternatives)]).rstrip()


def _headline(alternatives: Alternatives) -> str:
    pool = alternatives.pool
    if not pool.whole:
        return f"{len(alternatives.kept)} plans of {alternatives.shapes} shapes were kept by an earlier search"
    more = f" {alternatives.spares} of them to switch to," if alternatives.spares else ""
    return (
        f"{len(alternatives.kept)} plans of {alternatives.shapes} shapes are kept,{more} of {len(pool.candidates)} "
        f"plans of {pool.shapes} shapes; at worst {alternatives.cover_error:.0%} behind the best"
    )


def plan_name(place: int) -> str:
    """A, B … Z, A1, B1 …

    >>> plan_name(0), plan_name(27)
    ('A', 'B1')
    """
    return chr(ord("A") + place % 26) + (str(place // 26) if place >= 26 else "")


def _heat_map(alternatives: Alternatives) -> Iterator[str]:
    """Memory a slot and link a line, slots a column: who wins, and in how many seconds."""
    grid = alternatives.pool.grid
    cells: dict[tuple[str, float, float], str] = {}
    for place, point in enumerate(grid.points):
        winner = alternatives.winners[place]
        cells[_memory(point), grid.link(point), point.cpu] = (
            f"{plan_name(winner)} {_short(alternatives.seconds(place))}"
        )
    cpus = sorted({point.cpu for point in grid.points})
    links = sorted({grid.link(point) for point in grid.points} - {0.0}, reverse=True) or [0.0]
    width = max(map(len, cells.values()))
    yield "memory a slot  " + "  ".join(f"{cpu:.0f}".rjust(width) for cpu in cpus) + "  slots"
    for memory in dict.fromkeys(_memory(point) for point in reversed(grid.points)):
        for link in links:
            row = (cells.get((memory, link, cpu), cells.get((memory, 0.0, cpu), "")).rjust(width) for cpu in cpus)
            note = f"  at {link / 1e6:.0f} MB/s a machine" if len(links) > 1 else ""
            yield memory.rjust(13) + "  " + "  ".join(row) + note


def _memory(point: Resources) -> str:
    return f"{point.memory / point.cpu / 1e9:.2f} GB"


def _short(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _described(alternatives: Alternatives, place: int, one: Candidate) -> Iterator[str]:
    plan = one.plan
    wins = sum(winner == place for winner in alternatives.winners)
    tasks = sum(stage.width for stage in plan.stages)
    yield (
        f"{plan_name(place)}: {one.origin}; shape {one.shape}; {len(plan.stages)} stages, {tasks} tasks, "
        f"{_short(one.finish.work())} of work; wins on {wins} of {len(alternatives.winners)} shares"
    )
    readers = _readers(alternatives.kept)
    for stage in plan.stages:
        also = [plan_name(i) for i in readers.get(stage_key(stage), ()) if i != place]
        note = f"  (also in {', '.join(also)})" if also else ""
        yield f"   {stage.id}  {stage.label}  [{stage.width}×{stage.slots}]{note}"


def _readers(plans: Iterable[Candidate]) -> dict[StageKey, list[int]]:
    found: dict[StageKey, list[int]] = {}
    for place, one in enumerate(plans):
        for key in sorted(one.stages, key=repr):
            found.setdefault(key, []).append(place)
    return found


def _common(alternatives: Alternatives) -> Iterator[str]:
    """How many stages each pair of plans shares."""
    kept = alternatives.kept
    pairs = [(i, j) for i in range(len(kept)) for j in range(i + 1, len(kept))]
    counts = [(len(kept[i].stages & kept[j].stages), i, j) for i, j in pairs]
    shared = [f"{plan_name(i)}{plan_name(j)} {count}" for count, i, j in counts if count]
    if pairs:
        yield f"stages in common: {', '.join(shared) or 'none'}"
