"""Many plans for one query: a pool of candidates, and the few of them that are kept.

    variants × resources ──pool──> candidates ──finish times on a grid of shares──> keep ──> Alternatives

The aim is cover, not number: for every share on the grid the kept set holds a plan whose finish time is close to the
best of the pool, with as few plans as do that.  The work is limited by counts, so the same query has the same
alternatives on any machine and at any hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb, inf

from qoop.catalog.errors import PlanError
from qoop.catalog.sizes import counted
from qoop.planner.collector import collector_waits
from qoop.planner.plan import Resources
from qoop.planner.planner import Planning
from qoop.planner.search.candidate import (
    MOST_TOLERANCE,
    Alternatives,
    Candidate,
    Grid,
    Pool,
    StageKey,
    plan_name,
    stage_key,
)
from qoop.planner.search.fallback_plans import fallback_plans
from qoop.planner.variants import CALLING, VARIANTS, Variant

MOST_PLANS = 64
"""Candidates of one query at most."""


@collector_waits()
def pool(planning: Planning, grid: Grid, variants: Sequence[Variant] = VARIANTS, most: int = MOST_PLANS) -> Pool:
    """The different plans that the variants lead to with the resources of the grid, the usual plan first.

    most: after this number of different plans the search ends.
    """
    found: dict[object, Candidate] = {}
    for variant, available in _tries(planning, grid, variants):
        plan = planning.plan(variant, available)
        key = tuple((stage_key(stage), stage.slots) for stage in plan.stages)
        origin = f"{variant.name} for {_available(available)}"
        found.setdefault(key, Candidate(plan, origin, grid.machine, planning.cost, variant, available))
        if len(found) >= most:
            break
    return Pool(grid, tuple(found.values()))


def _tries(planning: Planning, grid: Grid, variants: Sequence[Variant]) -> Iterator[tuple[Variant, Resources]]:
    """Variants with resources, without those that cannot lead to another plan than one before."""
    tried: set[tuple[object, ...]] = set()
    for variant in (*variants, *CALLING) if planning.cost.calls else variants:
        if variant.lone and not grid.lone:
            continue
        relation = planning.arranged(variant.logical)
        for available in (one for one in grid.availability if variant.suits(one.cpu, grid.threads)):
            fitted = variant.on(available, grid.threads, grid.machine)
            key = (id(relation), fitted.limits, available)
            if key not in tried:
                tried.add(key)
                yield fitted, available


def _available(available: Resources) -> str:
    return f"{available.cpu:.0f} slots of {available.memory / available.cpu / 1e9:.1f} GB"


@collector_waits()
def keep(pool: Pool, tolerance: float = MOST_TOLERANCE) -> Alternatives:
    """As few plans of the pool as hold, for every share of the grid, one within `tolerance` of the best.

    Greedy set cover (Chvátal, "A Greedy Heuristic for the Set-Covering Problem", 1979): next comes the plan that
    covers the most shares not yet covered; of several the one that shares most stages with those kept already,
    then the one that is nearest to the best over all shares. Where :func:`smallest_cover` finds fewer plans, those
    are taken. Then come plans that are cheap to switch to
    (:mod:`qoop.planner.search.fallback_plans`), and those for cheap and for expensive functions of Python.

    tolerance: as a fraction, up to MOST_TOLERANCE. Raises PlanError if it is not.
    """
    if not 0.0 <= tolerance <= MOST_TOLERANCE:
        raise PlanError(f"the tolerance must be between 0 and {MOST_TOLERANCE} of the best plan, not {tolerance}")
    covers = [_covered(row, pool.best, tolerance) for row in pool.seconds]
    regret = [_regret(pool, place) for place in range(len(covers))]
    chosen = smallest_cover(covers, _without_redundant(_greedy(pool, covers, regret), covers), regret)
    more = fallback_plans(pool, chosen, tolerance) if len(pool.candidates) > len(chosen) else ()
    more = tuple(dict.fromkeys((*more, *_for_any_calls(pool))))
    more = tuple(place for place in more if place not in chosen)
    return Alternatives(pool, (*chosen, *more), len(more))


def _for_any_calls(pool: Pool) -> Sequence[int]:
    """For a query that calls functions of Python, the plan with the fewest calls and the one with the least other work:
    one of them is good for any cost of the functions."""
    calling = [one.finish.calling() for one in pool.candidates]
    if not any(calling):
        return ()
    work = [one.finish.work() for one in pool.candidates]
    least_calls = min(range(len(work)), key=lambda place: (calling[place], work[place]))
    return least_calls, min(range(len(work)), key=lambda place: work[place] - calling[place])


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
    """The time of a plan relative to the best one, added up over the grid."""
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


# As few sets as cover all that any of them does

MOST_COMBINATIONS = 5_000
"""Groups of sets that are looked at, at most, for one smaller than the greedy one."""


def smallest_cover(
    sets: Sequence[frozenset[int]], greedy: Sequence[int], regret: Sequence[float], most: int = MOST_COMBINATIONS
) -> tuple[int, ...]:
    """The places of the fewest sets with the union of all, found among at most `most` groups.

    greedy: the cover to return if none is smaller. regret: of covers of one size the one with the least is chosen.

    >>> six = [frozenset("abcd"), frozenset("abe"), frozenset("cdf")]
    >>> smallest_cover(six, [0, 1, 2], [0.0, 0.0, 0.0])
    (1, 2)
    """
    items = sorted(frozenset().union(*sets))
    bits = {item: 1 << place for place, item in enumerate(items)}
    masks = [sum(bits[item] for item in one) for one in sets]
    places = _undominated(masks, regret)
    for size in range(1, len(greedy)):
        most -= comb(len(places), size)
        if most < 0:
            break
        found = [group for group in combinations(places, size) if _union(masks, group) == (1 << len(items)) - 1]
        if found:
            return min(found, key=lambda group: (sum(regret[place] for place in group), group))
    return tuple(greedy)


def _undominated(masks: Sequence[int], regret: Sequence[float]) -> list[int]:
    """Places of the sets that no other one holds; of equal ones the one with the least regret."""
    best: dict[int, int] = {}
    for place in sorted(range(len(masks)), key=lambda i: (regret[i], i)):
        best.setdefault(masks[place], place)
    return sorted(
        place for mask, place in best.items() if not any(mask != other and mask & ~other == 0 for other in best)
    )


def _union(masks: Sequence[int], group: Sequence[int]) -> int:
    union = 0
    for place in group:
        union |= masks[place]
    return union


# ---- as text


def explain_alternatives(alternatives: Alternatives) -> str:
    """A text of the plan that wins on each share, of each plan, and of the work that they have in common.

    Plans are called A, B, C …; in the map columns are slots and rows memory a slot.
    """
    lines = [_headline(alternatives), "", *_heat_map(alternatives), ""]
    for place, one in enumerate(alternatives.kept):
        lines += [*_described(alternatives, place, one), ""]
    return "\n".join([*lines, *_common(alternatives)]).rstrip()


def _headline(alternatives: Alternatives) -> str:
    pool = alternatives.pool
    kept = f"{counted(len(alternatives.kept), 'plan')} of {counted(alternatives.shapes, 'shape')}"
    if not pool.whole:
        return f"{kept}, kept by an earlier search"
    more = f" {alternatives.fallback_plans} of them to switch to," if alternatives.fallback_plans else ""
    return (
        f"{kept} kept,{more} of {counted(len(pool.candidates), 'plan')} of {counted(pool.shapes, 'shape')}; "
        f"at worst {alternatives.cover_error:.0%} behind the best"
    )


def _heat_map(alternatives: Alternatives) -> Iterator[str]:
    """Memory a slot and link a line, slots a column: the fastest plan and its seconds."""
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
        f"{plan_name(place)}: {one.origin}; shape {one.shape}; {counted(len(plan.stages), 'stage')}, "
        f"{counted(tasks, 'task')}, {_short(one.finish.work())} of work; "
        f"wins on {wins} of {len(alternatives.winners)} shares"
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
    """Lines of the number of stages that each pair of plans shares."""
    kept = alternatives.kept
    pairs = [(i, j) for i in range(len(kept)) for j in range(i + 1, len(kept))]
    counts = [(len(kept[i].stages & kept[j].stages), i, j) for i, j in pairs]
    shared = [f"{plan_name(i)}{plan_name(j)} {count}" for count, i, j in counts if count]
    if pairs:
        yield f"stages in common: {', '.join(shared) or 'none'}"
