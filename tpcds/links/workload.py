"""Plans of scans and joins on a simulated cluster, drawn at random: bound by exchanges, or by work.

A plan is a tree: scans at the leaves, of a join both inputs cut by its key, one task at the root. Every stage has a
task a machine, whose seconds vary a little, and whose outputs differ in size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from qoop.adaptive.simulation import Fleet, World
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageId, StageInput

SPREAD, SKEW = 0.2, 0.2
"""Deviation of the logarithm of a task's seconds, and of an output's bytes, within a stage."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A kind of plans. work: least and most seconds of a task. moved: seconds that what a stage puts out would keep
    all links busy."""

    work: tuple[float, float]
    moved: tuple[float, float]


MIXES: Mapping[str, Mix] = {
    "shuffle-bound": Mix((0.1, 1.0), (0.5, 5.0)),
    "compute-bound": Mix((2.0, 8.0), (0.02, 0.2)),
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines with links of that many bytes a second in each direction. slow: how many have links of half the rate."""

    machines: int = 20
    slots: int = 2
    link: float = 125e6
    slow: int = 0

    def fleet(self) -> Fleet:
        """Its machines. Raises ConfigError if there are fewer than are slow."""
        if not 0 <= self.slow <= self.machines:
            raise ConfigError(f"of {self.machines} machines {self.slow} cannot have slow links")
        each = Resources(self.slots, 64e9, 0.0, self.link)
        machines = dict(Fleet.uniform(self.machines, each).machines)
        for name in list(machines)[: self.slow]:
            machines[name] = replace(each, network=self.link / 2)
        return Fleet(machines)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan and what its tasks come to."""

    name: str
    plan: Plan
    truth: Callable[[TaskSpec], Outcome] | World


def drawn(kind: str, seed: int, cluster: Cluster) -> Drawn:
    """The plan of a seed. Raises ConfigError for a kind that does not exist."""
    if kind not in MIXES:
        raise ConfigError(f"no plans of the kind {kind!r}; there are {', '.join(MIXES)}")
    mix, rng = MIXES[kind], random.Random(f"plan {kind} {seed}")
    width, stages = cluster.machines, list[Stage]()

    def add(name: StageId, sources: tuple[StageId, ...], tasks: int = width, parts: int = width) -> StageId:
        moved = rng.uniform(*mix.moved) * cluster.link * cluster.machines if parts > 1 or tasks > 1 else 8.0
        estimate = Estimate(bytes=moved, task_seconds=rng.uniform(*mix.work), task_memory=0.0)
        inputs = tuple(StageInput(f"i{source}", source, "partition" if tasks > 1 else "all") for source in sources)
        layout = Layout(("k",), parts) if parts > 1 else Layout()
        signature = f"{kind}/{seed}/{name}"
        stages.append(Stage(name, "", inputs, (), tasks, signature, layout, str(tasks), estimate=estimate))
        return name

    trees = [add(f"scan{number}", ()) for number in range(rng.randint(4, 6))]
    while len(trees) > 1:
        one, other = (trees.pop(rng.randrange(len(trees))) for _ in range(2))
        trees.append(add(f"join{len(stages)}", (one, other), parts=width if trees else 1))
    final = stages[-1]  # groups are few: what the root gathers is small
    stages[-1] = replace(final, estimate=replace(final.estimate, bytes=8e3 * width))
    add("root", (trees[0],), tasks=1, parts=1)
    return Drawn(f"{kind}-{seed}", Plan(tuple(stages), ()), _truth(f"{kind} {seed}"))


def _truth(seed: str) -> Callable[[TaskSpec], Outcome]:
    """Tasks as estimated but for chance, which is the same for every way to pull."""

    def outcome(spec: TaskSpec) -> Outcome:
        stage, part = spec.stage, spec.attempt.task.part
        rng = random.Random(f"task {seed} {stage.id} {part}")
        seconds = stage.estimate.task_seconds * rng.lognormvariate(-(SPREAD**2) / 2, SPREAD)
        size = stage.estimate.bytes / stage.width / stage.layout.parts * rng.lognormvariate(-(SKEW**2) / 2, SKEW)
        return Outcome(seconds, bytes=int(size))

    return outcome
