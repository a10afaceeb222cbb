"""Traces: what goes in and comes out of a session is written, read back and gone through again with the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qoop.adaptive import Adaptive
from qoop.cluster import Cluster, JobHandle
from qoop.engine.backends.simulated import Outcome, SimulatedBackend, as_estimated
from qoop.engine.clock import VirtualClock
from qoop.engine.events import SlotsChanged
from qoop.engine.task import TaskSpec
from qoop.letters import JobRequest
from qoop.planner.alternatives import Candidate
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.replanner import Greedy
from qoop.rerun import Recording, read_trace, rerun
from qoop.schedulers.max_min import MaxMin
from qoop.trace import MemoryTrace

GB = 2**30
COLUMNS = (("x", "INTEGER"),)


def room(slots: float) -> Resources:
    return Resources(slots, slots * GB)


def stage(name: str, width: int, seconds: float, *reads: str, rows: float = 1.0, meaning: str = "") -> Stage:
    inputs = tuple(StageInput(read, read, "all") for read in reads)
    estimate = Estimate(rows=rows, task_seconds=seconds)
    return Stage(name, f"SELECT '{name}' AS x", inputs, COLUMNS, width, meaning or name, estimate=estimate)


def plan(*stages: Stage) -> Plan:
    return Plan(stages, COLUMNS)


WIDE = plan(stage("scan", 2, 1), stage("wide", 8, 2, "scan", rows=100_000), stage("root", 1, 1, "wide"))
NARROW = plan(stage("scan", 2, 1), stage("narrow", 1, 6, "scan"), stage("root", 1, 1, "narrow"))


class World:
    """Simulated machines under a cluster that is turned by hand and traced."""

    def __init__(
        self, slots: float = 8, script: Callable[[TaskSpec], Outcome] = as_estimated, machines: int = 1
    ) -> None:
        self.slots = slots
        self.clock = VirtualClock(100.0)
        capacity = {f"m{number}": room(slots / machines) for number in range(machines)}
        self.backend = SimulatedBackend(capacity, self.clock, script)
        self.trace = MemoryTrace()
        self.cluster = Cluster(self.backend, clock=self.clock, trace=self.trace, thread=False, wait_for_capacity=50)

    def submit(self, launch: Plan, *others: Plan, **options: object) -> JobHandle:
        adaptive = Adaptive(lambda _: [Candidate(other, "") for other in others], room(self.slots))
        return self.cluster.submit(JobRequest(launch, adaptive=adaptive, **options))  # type: ignore[arg-type]

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.cluster.busy:
                return
            self.cluster.step()
        raise AssertionError("jobs never end")

    def recording(self, folder: Path) -> Recording:
        path = folder / "trace.jsonl"
        path.write_text("".join(f"{line}\n" for line in self.trace.to_json()))
        return read_trace(path)


def slots(at: float, count: float) -> tuple[SlotsChanged, float]:
    return SlotsChanged("m0", room(count)), 100 + at


def shrunk() -> World:
    world = World()
    world.backend.happen(*slots(1.5, 1))
    world.submit(WIDE, NARROW)
    world.settle()
    return world


# --- simulated ----------------------------------------------------------------------------------------------


def test_a_rerun_comes_to_the_same_decisions_and_says_so(tmp_path: Path) -> None:
    world = shrunk()
    found = rerun(world.recording(tmp_path))
    assert found.difference is None and found.turns > 5 and found.decisions == 1
    assert str(found) == f"{found.turns} turns, 1 decision: all the same"


def test_a_rerun_has_the_history_of_the_jobs(tmp_path: Path) -> None:
    world = World()
    world.backend.happen(*slots(1.5, 1))
    handle = world.submit(WIDE, NARROW, text="SELECT x")
    world.settle()
    (job,) = rerun(world.recording(tmp_path)).jobs
    assert (job.job, job.text, job.plans) == (handle.id, "SELECT x", handle.plans())
    assert [str(record) for record in job.history] == [str(record) for record in handle.history()]


def test_another_hysteresis_is_a_difference(tmp_path: Path) -> None:
    found = rerun(shrunk().recording(tmp_path), policy=Greedy(hysteresis=0.99))
    assert found.difference is not None
    text = str(found.difference)
    assert "recorded: job1: at 1.510 s the share fell from 8 to 1 slots; plan B" in text
    assert "rerun:    job1: at 1.510 s" in text and "stayed: the gain is less than 99%" in text


def test_another_scheduler_is_a_difference(tmp_path: Path) -> None:
    class LastFirst(MaxMin):
        def next_grant(self, claims, rooms):  # type: ignore[no-untyped-def]
            return super().next_grant(claims[-1:], rooms)

    world = World(3)
    for _ in range(3):
        world.submit(WIDE)
    world.settle()
    assert rerun(world.recording(tmp_path)).difference is None
    assert rerun(world.recording(tmp_path), scheduler=LastFirst).difference is not None
