"""A trace under every policy is gone through again with the same decisions, each and every one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random

import pytest
from memory_trace import MemoryTrace

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import CancelRequested, JobRequest
from qoop.adaptive.cluster.recording.trace import FORMER_NAMES, READABLE, VERSION, Chain
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.retrace.reading import Recording, read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.adaptive.schedulers.described import MODULES, made, named
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.backends.simulated_nodes import MachineModel
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Begun, CapacityNotice, MachineJoined, MachineLost, Queued, SlotsChanged, Start
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.bench.core_speed import plan_of

SIZE = Resources(4, 16e9)
TEXTS = (
    *(f"Reserving(policy={name}())" for name in MODULES if name != "Reserving"),
    "MaxMin(tenants=False)",
    "Urgency(tenants=False)",
)


KERNELS = Kernels(opening=0.8, reading=0.2, stopping=0.1)


@cache
def played(scheduler: str, kernels: Kernels | None = KERNELS, jobs: int = 12) -> MemoryTrace:
    """Jobs of three tenants on machines that come, go, shrink and open kernels, some jobs with other plans."""
    chance, clock, trace = Random(1), VirtualClock(100.0), MemoryTrace()

    def truth(spec: TaskSpec) -> Outcome:
        return Outcome(spec.stage.estimate.task_seconds * chance.uniform(0.5, 2.0))

    backend = SimulatedBackend({f"m{i}": SIZE for i in range(3)}, clock, truth, MachineModel(kernels), alone=True)
    weights = {"a": 2.0}
    cluster = Cluster(
        backend, made(scheduler), clock, trace, thread=False,
        options=ClusterOptions(extra_slots=True, tenants=weights, most_jobs=8),
    )  # fmt: skip
    backend.happen(SlotsChanged("m0", Resources(1, 4e9)), 103.0)
    backend.happen(SlotsChanged("m0", SIZE), 109.0)
    backend.happen(CapacityNotice("m1", Resources(), 114.0), 111.0)
    backend.happen(MachineLost("m1"), 114.0)
    backend.happen(MachineJoined("m3", SIZE), 116.0)
    for number in range(jobs):
        backend.appoint(partial(_submit, cluster, number, chance), 100.0 + chance.uniform(0, 20))
    backend.appoint(lambda: cluster.post(CancelRequested("job5")), 118.0)
    ticks = 0
    while (cluster.busy or clock.now() < 121.0) and not (backend.idle and not cluster.waits):
        cluster.step()
        ticks += 1
        assert ticks < 20_000, "the jobs never end"
    cluster.close()
    return trace


def _submit(cluster: Cluster, number: int, chance: Random) -> None:
    plan, other = (plan_of(f"job {number}", 12, Random(f"{number} {one}")) for one in "AB")
    adaptive = Adaptive(lambda _: [Candidate(other, "")], SIZE) if number % 3 == 0 else None
    deadline = chance.choice((20.0, 60.0, float("inf")))
    terms = Terms("abc"[number % 3], chance.choice((1.0, 3.0)), chance.uniform(1, 10), deadline)
    cluster.submit(JobRequest(plan, adaptive=adaptive, terms=terms))


def recording(trace: MemoryTrace, folder: Path) -> Recording:
    path = folder / "trace.jsonl"
    path.write_text("".join(f"{line}\n" for line in trace.to_json()))
    return read_trace(path)


@pytest.mark.parametrize("scheduler", TEXTS)
def test_a_trace_under_this_policy_repeats_every_decision(scheduler: str, tmp_path: Path) -> None:
    """Shares, starts with their machines and resources, stops, changes of plan, and ends."""
    trace = played(scheduler)
    again = rerun(recording(trace, tmp_path))
    assert again.difference is None, str(again)
    assert len(again.jobs) == 12 and again.ticks > 50
    assert sum(isinstance(entry.what, Start) for entry in trace.entries) > 100


def test_another_policy_decides_otherwise(tmp_path: Path) -> None:
    """Or the tests above would prove nothing."""
    found = recording(played("Reserving(policy=MaxMin())"), tmp_path)
    for other in ("LAS()", "EDF()", "SJF()"):
        assert rerun(found, scheduler=partial(made, other)).difference is not None
    assert rerun(found, scheduler=partial(named, "max_min")).difference is None


def test_a_trace_tells_which_attempts_waited(tmp_path: Path) -> None:
    found = recording(played("Reserving(policy=MaxMin())"), tmp_path)
    events = [event for tick in found.ticks for turn in tick.events for event in turn]
    queued = {event.attempt for event in events if isinstance(event, Queued)}
    begun = {event.attempt for event in events if isinstance(event, Begun)}
    assert begun and begun <= queued


@pytest.mark.parametrize("version", READABLE[:-1])
def test_a_trace_of_an_earlier_version_is_read(tmp_path: Path, version: int) -> None:
    """That of 8 is one without attempts that wait and accounts of tasks; neither has profiles."""
    again = rerun(read_trace(older(played("Reserving(policy=MaxMin())", kernels=None, jobs=6), tmp_path, version)))
    assert again.difference is None and len(again.jobs) == 6


def test_gains_of_an_earlier_version_are_refused_where_they_decided(tmp_path: Path) -> None:
    path = older(played("Reserving(policy=Quality())"), tmp_path, 16)
    with pytest.raises(ConfigError, match="made with Quality and lacks the gains of programs"):
        read_trace(path)


def test_a_trace_under_a_scheduler_that_was_removed_is_replayed_under_another(tmp_path: Path) -> None:
    trace = played("Reserving(policy=MaxMin())")
    found = recording(trace, tmp_path)
    old = replace(found, opened=replace(found.opened, scheduler="Reserving(policy=Auction())"))
    with pytest.raises(ConfigError, match=r"there is no Auction; there are MaxMin, .*give one"):
        rerun(old)
    assert rerun(old, scheduler=partial(named, "max_min")).difference is None


def older(trace: MemoryTrace, folder: Path, version: int) -> Path:
    """The file of a trace as an earlier version wrote it."""
    opening, sealing = Chain(), Chain()
    lines = [opening.opened(line) for line in trace.to_json()]
    rest = list(map(_as_before, lines[1:])) if version < 17 else lines[1:]  # 17 had the names of today
    old = [lines[0].replace(f'"version": {VERSION}', f'"version": {version}'), *rest]
    assert old[0] != lines[0] and (version >= 17 or old[1:] != lines[1:])
    path = folder / "old.jsonl"
    path.write_text("".join(f"{sealing.sealed(line)}\n" for line in old))
    return path


def _as_before(line: str) -> str:
    """Without what earlier versions did not know, and with the fields that have gone since."""
    found = json.loads(line)
    if "quick_search" in found:
        found["first_look"] = found.pop("quick_search")
    former = {new: name for name, new in FORMER_NAMES.items()}
    found |= {way: former.get(found[way], found[way]) for way in ("in", "out") if way in found}
    if request := found.get("request"):
        request.pop("fallback", None)
        request["pace"] = request.pop("slowdown", 1.0)
        request["course"] = {"fall": 0.5, "largest": 2.0}
        if request.get("adaptive"):
            request["adaptive"]["demand_aware"] = False
    return json.dumps({name: value for name, value in found.items() if name != "account"})
