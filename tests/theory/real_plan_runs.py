"""The plans of one query under changes of capacity, run in virtual time on the engine's own core.

Belief and truth are the same here (every task takes what its estimate says): what is measured is the policy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Policy
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.catalog.table import Table
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.events import SlotsChanged
from qoop.engine.state import Limits
from qoop.engine.task import TaskSpec
from qoop.planner.estimate.cost import DEFAULT, SPILL_BYTE
from qoop.planner.plan import Resources, Stage
from qoop.planner.search.candidate import Candidate

MACHINE = "m"
_LIMITS = Limits(max_revocations=1_000_000)
"""Capacity may change so fast that a task loses its slot again and again."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Capacity over time: (from when, slots, bytes of memory a slot), the first from 0."""

    changes: tuple[tuple[float, int, float], ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """One run in virtual time: its seconds, and how often it changed plan."""

    seconds: float
    switches: int


class Scenario:
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

    def _run(self, steps: Steps, pinned: int | None) -> Ran:
        shares = [(at, Resources(slots, slots * memory)) for at, slots, memory in steps.changes]
        fleet = Fleet(
            {MACHINE: shares[0][1]},
            tuple((at, SlotsChanged(MACHINE, share)) for at, share in shares[1:]),
        )
        adaptive = None
        if pinned is None:
            adaptive = Adaptive(lambda _: self.plans, shares[0][1], at_once=True, policy=self._policy)
        job = SimulatedJob("job", 0.0, self.plans[pinned or 0].plan, adaptive, tables=self._tables, limits=_LIMITS)
        (ran,) = simulate(fleet, [job], self._outcome).jobs
        if ran.error is not None:
            raise ran.error
        return Ran(ran.seconds, ran.switches)

    def _outcome(self, spec: TaskSpec) -> Outcome:
        """The outcome as the planner expects it: work on the slots granted, moving data, spilling what does not fit."""
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
    """The work of a task of the stage. Not its signature: that of a non-deterministic stage is the job's own."""
    return stage.sql, stage.layout, stage.width, stage.slots
