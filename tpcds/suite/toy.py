"""The toy of figure 2.4: a join of four tables, resources that change at t = 1, and three ways to plan for it.

The paper gives the end times alone (Volcano 9, Clarinet 7, QOOP 6), so the instance is our own::

    slots      4 from 0 on, 2 from 1 on
    Volcano    A⋈B 1×1 -> ⋈C 1×4 -> ⋈D 1×4          9 units of work, one task after the other
    Clarinet   A⋈B 1×1, C⋈D 1×1 -> ⋈ 12×1          14 units of work, ends at 4 if the four slots stay
    third      A⋈B 1×1 -> ⋈D 2×3 -> ⋈C 2×2         11 units of work, ends at 6 on two slots

``2×3`` are two tasks of three units each. At t = 1 what is left takes 8, 6 and 5 units on the two slots that remain, if
A⋈B is kept. QOOP, which began as Clarinet did, switches to the third plan: it drops the finished C⋈D, and loses one
unit of work to end one unit earlier. No single plan could have ended sooner. All three are chosen and run by the real
code: plans, choosers, cluster and core; a unit is a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.baselines import AtLaunch, clarinet, hindsight, volcano
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.triggers import Triggers
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import SlotsChanged
from qoop.engine.history import Record
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate

SLOTS = ((0.0, 4), (1.0, 2))
"""From when how many slots."""

PAPER = {"Volcano": 9.0, "Clarinet": 7.0, "QOOP": 6.0}
"""The end of each in the paper, in units of time."""

_MACHINE = "m"
_COST = replace(DEFAULT, exchange_byte=0.0, output_byte=0.0, task_overhead_seconds=0.0)
"""Tasks take what the drawing says: starting them and moving rows takes no time."""


def plans() -> tuple[Candidate, ...]:
    """The plans of A ⋈ B ⋈ C ⋈ D, the usual one first."""
    left_deep = _plan(("ab", 1, 1.0), ("abc", 1, 4.0, "ab"), ("abcd", 1, 4.0, "abc"))
    bushy = _plan(("ab", 1, 1.0), ("cd", 1, 1.0), ("abcd", 12, 1.0, "ab", "cd"))
    third = _plan(("ab", 1, 1.0), ("abd", 2, 3.0, "ab"), ("abcd", 2, 2.0, "abd"))
    names = ("one after the other", "two by two", "D before C")
    return tuple(Candidate(plan, name, cost=_COST) for plan, name in zip((left_deep, bushy, third), names, strict=True))


def _plan(*stages: tuple[object, ...]) -> Plan:
    return Plan(tuple(_stage(*stage) for stage in stages), (("x", "INTEGER"),))  # type: ignore[arg-type]


def _stage(tables: str, width: int, seconds: float, *reads: str) -> Stage:
    """The join of some tables. width: its tasks. seconds: of each task. reads: joins that it is made of."""
    inputs = tuple(StageInput(one, one, "all") for one in reads)
    estimate = Estimate(rows=float(width), task_seconds=seconds)
    label = " ⋈ ".join(tables.upper())
    return Stage(tables, "", inputs, (("x", "INTEGER"),), width, tables, estimate=estimate, label=label)


@dataclass(frozen=True)
class Ran:
    """One run. planner: the system that chose. history: of the job."""

    planner: str
    history: tuple[Record, ...]
    plans: tuple[Plan, ...]

    @property
    def ended(self) -> float:
        """The end of the query, in units of time."""
        return self.history[-1].at


def run(planner: str) -> Ran:
    """The query as one of :data:`PAPER` plans it."""
    available = Resources(SLOTS[0][1])
    known = plans()
    if planner == "Volcano":
        return _run(planner, volcano(known))
    launch = clarinet(known, available)
    if planner == "Clarinet":
        return _run(planner, launch)
    triggers = Triggers(quiet=0.0)  # nothing else can come at the same moment
    policy = AtLaunch(Greedy(careful=False))  # estimates do not err here
    return _run(planner, launch, Adaptive(lambda _: known, available, at_once=True, policy=policy, triggers=triggers))


def _run(planner: str, launch: Candidate, adaptive: Adaptive | None = None) -> Ran:
    clock = VirtualClock()
    backend = SimulatedBackend({_MACHINE: Resources(SLOTS[0][1])}, clock)
    for at, slots in SLOTS[1:]:
        backend.happen(SlotsChanged(_MACHINE, Resources(slots)), at)
    cluster = Cluster(backend, clock=clock, thread=False)
    handle = cluster.submit(JobRequest(launch.plan, adaptive=adaptive))
    while cluster.busy:
        cluster.step()
    handle.outputs()
    cluster.close()
    return Ran(planner, tuple(handle.history()), handle.plans())


def measure(_: object = None) -> dict[str, float]:
    """The end of the query, by planner; and with the best single plan in hindsight."""
    ends = {planner: run(planner).ended for planner in PAPER}
    best = hindsight(plans(), lambda one: _run("hindsight", one).ended)
    return ends | {"hindsight": best.seconds}
