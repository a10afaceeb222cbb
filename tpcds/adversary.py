"""An adversary for real plans: the changes of capacity under which re-planning does worst.

For rectangles (spec section 5) greedy switching has a proven bound. For real plans there is none, so it is looked for:
profiles of capacity are bred, in virtual time and on the engine's own core, for the largest ratio of the time of the
adaptive run to that of the best single plan chosen in hindsight, knowing the whole profile. The worst one is then
shrunk to few events. The ratio is reported, not bounded; below 1 switching was better than any single plan.

Belief and truth are the same here (every task takes what its estimate says): what is measured is the policy alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path

from qoop.adaptive import Adaptive
from qoop.catalog.table import Table
from qoop.engine.backends.simulated import Outcome
from qoop.engine.events import SlotsChanged
from qoop.engine.task import TaskSpec
from qoop.planner.alternatives import Candidate, keep, local_grid, pool
from qoop.planner.cost import DEFAULT
from qoop.planner.finish import SPILL_BYTE
from qoop.planner.plan import Resources, Stage
from qoop.policies.forecast import Forecast
from qoop.replanner import Greedy, Policy
from qoop.session import connect
from qoop.simulation import Fleet, SimulatedJob, simulate
from qoop.tpcds.alternatives import scaled, scaled_splits
from qoop.tpcds.queries import text

MACHINE = "m"
MEMORY = 4e9
"""Bytes of memory a slot."""
_SAME = 0.98
"""Part of the ratio that a shrunk profile must keep."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Capacity over time: (from when, slots, bytes of memory a slot), the first from 0."""

    changes: tuple[tuple[float, int, float], ...]

    def __str__(self) -> str:
        return ", then ".join(f"{slots} of {memory / 1e9:g} GB from {at:.4g} s" for at, slots, memory in self.changes)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run in virtual time: its seconds, and how often it changed plan."""

    seconds: float
    switches: int


@dataclass(frozen=True)
class Worst:
    """The worst that was found for one query.

    adaptive, hindsight, held: seconds of the adaptive run, of the best single plan, and of the launch plan alone.
    tried: profiles that were run. found: the ratio before the profile was shrunk. others: the ratio of each other
    policy of `POLICIES` on the same profile, which was not looked for against it.
    """

    steps: Steps
    adaptive: Ran
    hindsight: float
    held: float
    plans: int
    tried: int
    found: float
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.adaptive.seconds / self.hindsight

    def __str__(self) -> str:
        return (
            f"{self.ratio:.2f} x hindsight ({self.adaptive.seconds:.4g} s with {self.adaptive.switches} switches; best"
            f" of {self.plans} plans {self.hindsight:.4g} s; launch plan {self.held:.4g} s): slots {self.steps}"
        )


POLICIES: Mapping[str, Policy] = {
    "greedy": Greedy(),
    "forecast": Forecast(),
    "unguarded": Forecast(risk=inf),
    "naive": Greedy(hysteresis=0.0, least_gain=0.0),
}
"""Whom the adversary may play against: greed; a forecast learned from the job's own shares, with and without its guard;
greed without hysteresis."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at. stats_scale: rows as at that scale, for data of scale 1. slots: at the start.

    policy: by its name in `POLICIES`.
    """

    directory: Path
    queries: tuple[int, ...]
    stats_scale: float = 100.0
    slots: int = 16
    evaluations: int = 200
    seed: int = 1
    policy: str = "greedy"


def run(options: Options, told: Callable[[int, Worst], None] = lambda query, worst: None) -> dict[int, Worst]:
    """Search for each query, with the plans that it keeps for such a machine. Raises ConfigError, SourceError."""
    found = {}
    with connect() as session:
        session.register_folder(options.directory)
        for query in options.queries:
            prepared = session.prepare(text(query))
            stats = scaled(prepared.stats, options.stats_scale)
            splits = scaled_splits(prepared.splits, options.stats_scale)
            planning = replace(prepared, stats=stats, splits=splits).planning()
            kept = keep(pool(planning, local_grid(Resources(options.slots, options.slots * MEMORY)))).kept
            arena = Arena(kept, prepared.tables, options.slots, MEMORY, POLICIES[options.policy])
            worst = search(arena, options.seed, options.evaluations)
            found[query] = replace(worst, others=_others(arena, options.policy, worst.steps))
            told(query, found[query])
    return found


def _others(arena: Arena, policy: str, steps: Steps) -> dict[str, float]:
    """The ratio of each of the other policies."""
    return {name: arena.against(other).ratio(steps) for name, other in POLICIES.items() if name != policy}


def table(found: Mapping[int, Worst]) -> str:
    """The distribution of the worst ratios."""
    ratios = sorted(worst.ratio for worst in found.values())
    held = sorted(worst.held / worst.hindsight for worst in found.values())
    others = {
        name: sorted(worst.others[name] for worst in found.values()) for name in next(iter(found.values())).others
    }
    switched = sum(worst.adaptive.switches > 0 for worst in found.values())
    return "\n".join(
        (
            "",
            f"worst ratio to the best plan in hindsight: median {_middle(ratios):.2f}, largest {ratios[-1]:.2f}",
            f"of the launch plan on the same profiles:   median {_middle(held):.2f}, largest {held[-1]:.2f}",
            *(
                f"of {name} on the same profiles: median {_middle(all_):.2f}, largest {all_[-1]:.2f}"
                for name, all_ in others.items()
            ),
            f"{switched} of {len(found)} queries changed plan on their worst profile",
        )
    )


def to_json(found: Mapping[int, Worst]) -> dict[str, object]:
    """The figures as JSON values."""
    return {"queries": [{"query": query, "ratio": worst.ratio, **asdict(worst)} for query, worst in found.items()]}


def _middle(ordered: Sequence[float]) -> float:
    return ordered[(len(ordered) - 1) // 2]


class Arena:
    """The plans of one query under profiles of capacity.

    plans: the first is the launch plan. tables: those the plans read. slots: at the start, and at most; memory: bytes
    a slot at the start, and at most.
    """

    def __init__(
        self, plans: Sequence[Candidate], tables: Mapping[str, Table], slots: int, memory: float,
        policy: Policy | None = None,
    ) -> None:  # fmt: skip
        self.plans = tuple(plans)
        self.slots = slots
        self._tables = tables
        self.memory = memory
        self._policy = policy if policy is not None else Greedy()
        self._runs: dict[tuple[Steps, int | None], Ran] = {}

    def against(self, policy: Policy) -> Arena:
        """The same plans under another policy."""
        other = Arena(self.plans, self._tables, self.slots, self.memory, policy)
        other._runs = {(steps, pinned): ran for (steps, pinned), ran in self._runs.items() if pinned is not None}
        return other

    @cached_property
    def undisturbed(self) -> float:
        """Seconds of the launch plan on all slots."""
        return self.run(self.calm, 0).seconds

    @property
    def calm(self) -> Steps:
        """Nothing changes."""
        return Steps(((0.0, self.slots, self.memory),))

    def run(self, steps: Steps, pinned: int | None = None) -> Ran:
        """Run one plan under a profile, or, with none pinned, the adaptive job; in virtual time."""
        known = self._runs.get((steps, pinned))
        if known is None:
            known = self._runs[steps, pinned] = self._run(steps, pinned)
        return known

    def hindsight(self, steps: Steps) -> float:
        """Seconds of the best single plan for this profile."""
        return min(self.run(steps, place).seconds for place in range(len(self.plans)))

    def ratio(self, steps: Steps) -> float:
        """How many times the hindsight optimum the adaptive run takes."""
        return self.run(steps).seconds / self.hindsight(steps)

    def _run(self, steps: Steps, pinned: int | None) -> Ran:
        rooms = [(at, Resources(slots, slots * memory)) for at, slots, memory in steps.changes]
        fleet = Fleet({MACHINE: rooms[0][1]}, tuple((at, SlotsChanged(MACHINE, room)) for at, room in rooms[1:]))
        adaptive = None
        if pinned is None:
            adaptive = Adaptive(lambda _: self.plans, rooms[0][1], at_once=True, policy=self._policy)
        job = SimulatedJob("job", 0.0, self.plans[pinned or 0].plan, adaptive, tables=self._tables)
        (ran,) = simulate(fleet, [job], self._outcome).jobs
        if ran.error is not None:
            raise ran.error
        return Ran(ran.seconds, ran.switches)

    def _outcome(self, spec: TaskSpec) -> Outcome:
        """What the planner believes: work on the slots granted, moving data, spilling what does not fit."""
        estimate = spec.stage.estimate
        made_for_reuse = (estimate.task_seconds, DEFAULT.task_overhead_seconds, estimate.task_wants)
        seconds, local, wants = self._tasks.get(_work(spec.stage), made_for_reuse)
        spilled = max(0.0, wants - spec.resources.memory)
        stage = spec.stage
        rows = round(stage.estimate.rows / stage.width / stage.layout.parts)
        return Outcome(seconds / max(1.0, spec.resources.cpu) + local + spilled * SPILL_BYTE, rows=rows)

    @cached_property
    def _tasks(self) -> dict[tuple[object, ...], tuple[float, float, float]]:
        return {
            _work(stage): (task.seconds, task.local, task.wants)
            for one in self.plans
            for stage, task in zip(one.plan.stages, one.finish.tasks, strict=True)
        }


def _work(stage: Stage) -> tuple[object, ...]:
    """What a task of the stage does. Not its signature: that of an island is the job's own."""
    return stage.sql, stage.layout, stage.width, stage.slots


def search(
    arena: Arena, seed: int, evaluations: int = 200, events: int = 6, told: Callable[[str], None] = lambda _: None
) -> Worst:
    """Breed profiles for the worst ratio: from random ones by hill climbing with restarts; then shrink the worst.

    evaluations: profiles tried in all. events: changes of capacity in a profile at most.
    """
    chance = random.Random(seed)
    best, best_ratio = _random(arena, chance, events), 0.0
    here, here_ratio, stale = best, -inf, 0
    for _ in range(evaluations):
        tried = _mutated(arena, here, chance, events) if here_ratio > -inf else here
        ratio = arena.ratio(tried)
        stale = 0 if ratio > here_ratio else stale + 1
        if ratio >= here_ratio:
            here, here_ratio = tried, ratio
        if ratio > best_ratio:
            best, best_ratio = tried, ratio
            told(f"{ratio:.2f} x: {tried}")
        if stale > evaluations // 5:
            here, here_ratio, stale = _random(arena, chance, events), -inf, 0
    small = shrink(best, lambda steps: arena.ratio(steps) >= _SAME * best_ratio)
    return Worst(
        small, arena.run(small), arena.hindsight(small), arena.run(small, 0).seconds, len(arena.plans), evaluations,
        best_ratio,
    )  # fmt: skip


def shrink(steps: Steps, still: Callable[[Steps], bool]) -> Steps:
    """As few changes as still do it: drop one after the other, as long as that is possible (Zeller's ddmin, coarse)."""
    while True:
        smaller = next((one for one in _smaller(steps) if still(one)), None)
        if smaller is None:
            return steps
        steps = smaller


def _smaller(steps: Steps) -> Iterator[Steps]:
    changes = steps.changes
    for place in range(1, len(changes)):
        yield Steps(changes[:place] + changes[place + 1 :])


def _levels(arena: Arena) -> list[tuple[int, float]]:
    """1, 2, 4 … slots, up to those there are at the start, with all, a quarter or a sixteenth of the memory."""
    slots = [1]
    while slots[-1] < arena.slots:
        slots.append(min(2 * slots[-1], arena.slots))
    return [(count, arena.memory / part) for count in slots for part in (1, 4, 16)]


def _random(arena: Arena, chance: random.Random, events: int) -> Steps:
    count = chance.randint(1, events)
    moments = sorted(chance.uniform(0.0, 3.0) * arena.undisturbed for _ in range(count))
    levels = _levels(arena)
    return _tidy([*arena.calm.changes, *((at, *chance.choice(levels)) for at in moments)])


def _mutated(arena: Arena, steps: Steps, chance: random.Random, events: int) -> Steps:
    changes = list(steps.changes)
    kind = chance.choice(("add", "drop", "move", "level", "level"))
    if kind == "add" and len(changes) <= events:
        changes.append((chance.uniform(0.0, 3.0) * arena.undisturbed, *chance.choice(_levels(arena))))
    elif kind == "drop" and len(changes) > 1:
        del changes[chance.randrange(1, len(changes))]
    elif kind == "move" and len(changes) > 1:
        place = chance.randrange(1, len(changes))
        changes[place] = (changes[place][0] * chance.uniform(0.7, 1.4), *changes[place][1:])
    elif len(changes) > 1:
        place = chance.randrange(1, len(changes))
        changes[place] = (changes[place][0], *chance.choice(_levels(arena)))
    return _tidy(changes)


def _tidy(changes: Sequence[tuple[float, int, float]]) -> Steps:
    """In order of time, without changes that change nothing."""
    kept: list[tuple[float, int, float]] = []
    for change in sorted(changes):
        if not kept or kept[-1][1:] != change[1:]:
            kept.append(change)
    return Steps(tuple(kept))
