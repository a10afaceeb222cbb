"""A notice that slots will go: what becomes of the attempts in them, and what still begins there."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from memory_trace import MemoryTrace

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.granting.revocation import MARGIN, Fate, decide, in_time, offers, remaining
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.schedulers.base import Request
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import CapacityNotice, Demand, MachineLost, Running, ShareChanged, SlotsChanged
from qoop.engine.history import CapacityAnnounced, Failed
from qoop.engine.state import State
from qoop.engine.task import AttemptId, TaskId
from qoop.planner.packing import Available
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput

COLUMNS = (("x", "INTEGER"),)
GONE = CapacityNotice("m", Resources(), at=30.0)
HALF = CapacityNotice("m", Resources(1, 50), at=30.0)
FULL = {"m": Available(Resources(2, 100), Resources())}


def running(number: int, seconds: float, started: float = 0.0, machine: str = "m") -> Running:
    return Running(AttemptId(TaskId("j", "s", number), number), machine, Resources(1, 50), started, seconds)


def ready(seconds: float) -> Demand:
    return Demand("k", TaskId("k", "s", 0), Resources(1, 50), seconds)


def fates(
    items: list[Running], notice: CapacityNotice, *waiting: Demand, now: float = 0.0, **more: Available
) -> list[Fate]:
    found = decide(items, {"m": notice}, {**FULL, **more}, waiting, now)
    return [found[item.attempt] for item in items if item.attempt in found]


def test_what_should_end_in_time_goes_on_and_the_oldest_of_the_rest_stays() -> None:
    assert fates([running(1, 10), running(2, 20)], GONE) == [Fate.FINISH, Fate.FINISH]
    assert fates([running(1, 100, started=-5.0), running(2, 100)], HALF) == [Fate.STAY, Fate.FINISH]
    assert fates([running(1, 100, started=-5.0), running(2, 10)], HALF) == [Fate.STAY, Fate.FINISH]


def test_the_doomed_move_to_resources_that_stays() -> None:
    free = Available(Resources(2, 100), Resources(1, 50))
    assert fates([running(1, 100), running(2, 100)], GONE, n=free) == [Fate.FINISH, Fate.MOVE]
    assert fates([running(1, 10), running(2, 100)], GONE, n=free) == [Fate.FINISH, Fate.MOVE]
    assert fates([running(1, 100)], GONE, n=replace(free, free=Resources(1, 10))) == [Fate.FINISH]


def test_the_doomed_make_way_for_a_task_that_ends_in_time_and_no_other() -> None:
    both = [running(1, 100, started=-5.0), running(2, 100)]
    assert fates(both, GONE, ready(10)) == [Fate.FINISH, Fate.STOP]
    assert fates(both, GONE, ready(10), ready(9)) == [Fate.STOP, Fate.STOP]
    assert fates(both, GONE, ready(29)) == [Fate.FINISH, Fate.FINISH]
    assert fates(both, HALF, ready(10)) == [Fate.STAY, Fate.STOP]


def test_without_time_left_nothing_ends_in_time() -> None:
    now = CapacityNotice("m", Resources(), at=0.0)
    assert fates([running(1, 0.1)], now, ready(0.1)) == [Fate.FINISH]  # it is killed at once, unless it ends first
    assert not in_time(0.1, 0.0)


def test_an_attempt_that_has_overrun_is_believed_to_go_on() -> None:
    assert remaining(running(1, 10), now=100.0) == 25.0


def test_machines_without_a_notice_are_let_alone() -> None:
    assert decide([running(1, 100, machine="n")], {"m": GONE}, FULL, [ready(1)], 0.0) == {}


def test_on_resources_that_go_only_tasks_that_end_in_time_are_begun() -> None:
    availability = {
        "m": Available(Resources(2, 100), Resources(2, 100)),
        "n": Available(Resources(1, 50), Resources(1, 50)),
    }
    request = Request("k", 1, 1.0, Resources(), (ready(100), ready(10)))
    (all_requests, lasting), (swift, going) = offers([request], availability, {"m": HALF}, [], now=0.0)
    assert all_requests == [request] and lasting["n"] == availability["n"]
    assert lasting["m"] == Available(Resources(1, 50), Resources(1, 50))
    assert [demand.seconds for demand in swift[0].demands] == [10] and going == {"m": availability["m"]}


seconds = st.floats(0.1, 200)
availability_left = st.builds(Resources, st.integers(0, 3), st.integers(0, 150))


@given(
    st.lists(st.tuples(seconds, st.floats(0, 50)), max_size=4), availability_left, st.floats(0, 120), st.lists(seconds)
)
def test_fates_fit_together(spec: list[tuple[float, float]], after: Resources, at: float, wanted: list[float]) -> None:
    items = [running(i, seconds, started=-age) for i, (seconds, age) in enumerate(spec)]
    found = decide(items, {"m": CapacityNotice("m", after, at)}, FULL, [ready(s) for s in wanted], 0.0)
    assert set(found) == {item.attempt for item in items}
    stay = [item for item in items if found[item.attempt] is Fate.STAY]
    assert sum((item.resources for item in stay), Resources()).fits(after)
    for item in items:
        if MARGIN * remaining(item, 0.0) <= at:
            assert found[item.attempt] is Fate.FINISH  # never stopped
    stopped = sum(fate is Fate.STOP for fate in found.values())
    assert stopped <= sum(MARGIN * seconds <= at for seconds in wanted)
    assert Fate.MOVE not in found.values()  # there is only one machine


# --- on simulated machines ---------------------------------------------------------------------------------


def stage(name: str, width: int, seconds: float, *sources: str) -> Stage:
    inputs = tuple(StageInput(source, source, "all") for source in sources)
    return Stage(name, "", inputs, COLUMNS, width, name, estimate=Estimate(task_seconds=seconds, task_memory=10.0))


def cluster(machines: dict[str, Resources]) -> tuple[Cluster, SimulatedBackend, MemoryTrace]:
    backend = SimulatedBackend(machines, VirtualClock(), lambda spec: Outcome(spec.stage.estimate.task_seconds))
    trace = MemoryTrace()
    return Cluster(backend, clock=backend.clock, trace=trace, thread=False), backend, trace


def run_to_the_end(cluster: Cluster) -> None:
    while cluster.busy:
        cluster.step()
        cluster._driver.check()


def test_a_notice_saves_what_a_revocation_without_one_loses() -> None:
    """Tasks of 40 s on two machines of one slot, one of which goes at 70 s."""
    ends, lost = {}, {}
    for warned in (False, True):
        work, backend, _ = cluster({"m": Resources(1, 100), "n": Resources(1, 100)})
        plan = Plan((stage("a", 3, 40.0), stage("b", 4, 20.0), stage("root", 1, 1.0, "a", "b")), COLUMNS)
        handle = work.submit(JobRequest(plan))
        if warned:
            backend.happen(CapacityNotice("m", Resources(), at=70.0), at=10.0)
        backend.happen(MachineLost("m"), at=70.0)
        run_to_the_end(work)
        assert handle.state is State.SUCCEEDED
        ends[warned] = backend.clock.now()
        lost[warned] = sum(isinstance(record, Failed) for record in handle.history())
    assert lost == {False: 1, True: 0} and ends[True] < ends[False]


def test_an_attempt_that_would_be_killed_moves_to_a_machine_that_joins() -> None:
    work, backend, _ = cluster({"m": Resources(1, 100), "n": Resources(1, 100)})
    handle = work.submit(JobRequest(Plan((stage("a", 2, 40.0), stage("root", 1, 1.0, "a")), COLUMNS)))
    backend.happen(CapacityNotice("n", Resources(), at=30.0), at=5.0)
    backend.happen(SlotsChanged("m", Resources(2, 200)), at=10.0)
    backend.happen(MachineLost("n"), at=30.0)
    run_to_the_end(work)
    assert handle.state is State.SUCCEEDED and backend.clock.now() == 51.0
    assert "others are free elsewhere" in "\n".join(str(record) for record in handle.history())


def test_the_share_falls_at_the_notice_and_the_resources_when_they_are_due() -> None:
    work, backend, trace = cluster({"m": Resources(2, 2e9)})
    handle = work.submit(JobRequest(Plan((stage("a", 8, 10.0), stage("root", 1, 1.0, "a")), COLUMNS)))
    work.step(0.0)
    work.resize(slots=1, notice=30.0)
    run_to_the_end(work)
    shares = [(entry.at, entry.what.share.cpu) for entry in trace.entries if isinstance(entry.what, ShareChanged)]
    assert shares == [(0.0, 2.0), (0.0, 1.0), (30.0, 1.0)]
    assert any(isinstance(record, CapacityAnnounced) for record in handle.history())
    assert not any(isinstance(record, Failed) for record in handle.history())
    assert backend.clock.now() == 61.0  # four tasks by 20 s, then one at a time: a second would not end by 30 s


def test_slots_that_were_announced_to_go_go_though_the_memory_changes_before() -> None:
    work, backend, _ = cluster({"m": Resources(2, 2e9)})
    handle = work.submit(JobRequest(Plan((stage("a", 8, 10.0), stage("root", 1, 1.0, "a")), COLUMNS)))
    work.step(0.0)
    work.resize(slots=1, notice=30.0)
    work.resize(memory=3 * 10**9)
    run_to_the_end(work)
    assert not any(isinstance(record, Failed) for record in handle.history())
    assert backend.clock.now() == 61.0  # as without
    assert backend.machines() == {"m": Resources(1, 3e9)}


def test_two_notices_come_true_each_at_its_time() -> None:
    work, backend, trace = cluster({"m": Resources(2, 2e9)})
    handle = work.submit(JobRequest(Plan((stage("a", 8, 10.0), stage("root", 1, 1.0, "a")), COLUMNS)))
    work.step(0.0)
    work.resize(slots=1, notice=30.0)
    work.resize(memory=3 * 10**9, notice=20.0)
    run_to_the_end(work)
    told = [(one.at, one.what.capacity) for one in trace.entries if isinstance(one.what, SlotsChanged)]
    assert told == [(20.0, Resources(2, 3e9)), (30.0, Resources(1, 3e9))]
    assert not any(isinstance(record, Failed) for record in handle.history())
    assert backend.clock.now() == 71.0  # until 20 s it is taken that both will come then


def test_a_job_that_comes_after_a_notice_hears_of_it() -> None:
    work, _, _ = cluster({"m": Resources(2, 2e9)})
    work.resize(slots=1, notice=30.0)
    handle = work.submit(JobRequest(Plan((stage("a", 8, 10.0), stage("root", 1, 1.0, "a")), COLUMNS)))
    run_to_the_end(work)
    assert any(isinstance(record, CapacityAnnounced) for record in handle.history())


def test_a_later_size_replaces_one_that_was_announced() -> None:
    work, backend, _ = cluster({"m": Resources(2, 2e9)})
    work.submit(JobRequest(Plan((stage("a", 8, 10.0),), COLUMNS)))
    work.step(0.0)
    work.resize(slots=0, notice=30.0)
    work.resize(slots=2)
    run_to_the_end(work)
    assert backend.clock.now() == 40.0
