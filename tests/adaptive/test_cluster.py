"""The cluster on simulated machines: its own thread and virtual time, or turned by hand."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_trace import MemoryTrace
from waits import until

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.granting.spare_resources import with_spare_memory
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import (
    Cancelled,
    ConfigError,
    ExecutionError,
    NoCapacity,
    OutOfMemory,
    PlanError,
    Revoked,
    SessionClosed,
    Timeout,
)
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.backends.simulated_nodes import MachineModel
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.clock import VirtualClock
from qoop.engine.events import (
    CapacityNotice,
    CheckpointLost,
    Demand,
    Event,
    Grant,
    MachineJoined,
    MachineLost,
    ShareChanged,
    SlotsChanged,
    Stop,
    TaskFailed,
)
from qoop.engine.history import Started
from qoop.engine.state import Limits, State
from qoop.engine.task import TaskId, TaskSpec, checkpoint_key
from qoop.planner.packing import Available
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput, TableInput

GB = 2**30
TWO_SLOTS = {"m": Resources(2, 8 * GB)}
COLUMNS = (("x", "INTEGER"),)


def two_stages(width: int = 4, seconds: float = 1.0, name: str = "q", slots: int = 1, memory: float = 1.0) -> Plan:
    """A stage of `width` tasks, and a root that reads all of them."""
    estimate = Estimate(task_seconds=seconds, task_memory=memory)
    scan = Stage("scan", "", (), COLUMNS, width, f"{name}/scan", slots=slots, estimate=estimate)
    root = Stage("root", "", (StageInput("i", "scan", "all"),), COLUMNS, 1, f"{name}/root", estimate=estimate)
    return Plan((scan, root), COLUMNS)


def for_ever(_: TaskSpec) -> Outcome:
    return Outcome(math.inf)


class Bench:
    """A cluster with the backend and clock under it."""

    def __init__(
        self,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        machines: dict[str, Resources] = TWO_SLOTS,
        thread: bool = True,
        wait_for_capacity: float = math.inf,
    ) -> None:
        self.clock = VirtualClock()
        self.backend = SimulatedBackend(machines, self.clock, script)
        self.trace = MemoryTrace()
        self.cluster = Cluster(
            self.backend, clock=self.clock, trace=self.trace, thread=thread,
            options=ClusterOptions(wait_for_capacity=wait_for_capacity),
        )  # fmt: skip

    def submit(self, plan: Plan | None = None, weight: float = 1.0, **options: object) -> JobHandle:
        return self.cluster.submit(JobRequest(plan or two_stages(), terms=Terms(weight=weight), **options))  # type: ignore[arg-type]

    def run_to_end(self) -> None:
        """Turn the loop by hand until all jobs have ended, checking all invariants after every turn."""
        for _ in range(10_000):
            if not self.cluster.busy:
                return
            self.cluster.step()
            self.cluster._driver.check()
        raise AssertionError("jobs never end")

    def running(self, count: int) -> None:
        """Wait until that many attempts run (they run in virtual time, but start in ours), and the jobs know."""
        until(
            lambda: len(self.backend.running) == self.known() == count,
            lambda: f"{self.backend.running} run, {self.known()} are known to",
        )

    def known(self) -> int:
        """The number of attempts that the jobs believe to run."""
        with self.cluster.lock:
            return sum(len(job.run.alive) for job in self.cluster._jobs.values())


@contextmanager
def bench(*args: object, **options: object) -> Iterator[Bench]:
    before = set(threading.enumerate())  # sessions of other tests may be open
    made = Bench(*args, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.cluster.close()
        assert made.backend.closed
        assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "qoop-cluster"]


# --- with a thread of its own -----------------------------------------------------------------------------


def test_a_job_runs_and_leaves_only_its_answer() -> None:
    with bench() as b:
        handle = b.submit()
        assert handle.wait(60)
        assert handle.state is State.SUCCEEDED and handle.error is None
        assert [fact.key for fact in handle.outputs()] == list(b.backend.committed)
        handle.release()
        b.submit(two_stages(name="r")).wait(60)
        assert [key.signature for key in b.backend.committed] == ["r/root"]


def test_several_jobs_from_several_threads_all_end() -> None:
    with bench() as b:
        handles: list[JobHandle] = []
        lock = threading.Lock()

        def submit(i: int) -> None:
            handle = b.submit(two_stages(width=i + 1, name=f"q{i}"))
            with lock:
                handles.append(handle)

        threads = [threading.Thread(target=submit, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(handle.wait(60) for handle in handles)
        assert {handle.state for handle in handles} == {State.SUCCEEDED}
        assert len({handle.id for handle in handles}) == 8


def test_a_cancelled_job_stops_its_attempts_and_no_other() -> None:
    with bench(for_ever) as b:
        one, other = b.submit(), b.submit(two_stages(name="r"))
        b.running(2)
        assert not one.wait(0.01)
        one.cancel()
        assert one.wait(60)
        assert one.state is State.CANCELLED
        with pytest.raises(Cancelled):
            one.outputs()
        b.running(2)
        assert {attempt.task.job for attempt in b.backend.running} == {other.id}
        one.cancel()


def test_a_job_that_takes_too_long_fails_with_timeout() -> None:
    with bench(for_ever) as b:
        handle = b.submit(timeout=7.0)
        assert handle.wait(60)
        assert handle.state is State.FAILED
        assert isinstance(handle.error, Timeout) and "7 seconds" in str(handle.error)
        assert b.clock.now() == 7.0


def test_a_failure_is_told_with_its_error() -> None:
    error = ExecutionError("stage scan: division by zero")
    with bench(lambda spec: Outcome(1.0, error, retryable=False)) as b:
        handle = b.submit()
        with pytest.raises(ExecutionError, match="division by zero"):
            handle.outputs()
        assert handle.error is error
        assert not b.backend.running


def test_a_plan_that_cannot_start_fails_its_job_only() -> None:
    stage = Stage("a", "", (TableInput("t", "sales", "v1", ("x",), True),), COLUMNS, 1, "a")
    with bench() as b:
        bad, good = b.submit(Plan((stage,), COLUMNS)), b.submit()
        assert bad.wait(60) and isinstance(bad.error, PlanError)
        assert good.wait(60) and good.state is State.SUCCEEDED


def test_close_cancels_what_runs_and_refuses_what_comes() -> None:
    with bench(for_ever) as b:
        handle = b.submit()
        b.running(2)
        b.cluster.close()
        assert handle.state is State.CANCELLED
        assert b.backend.running == () and b.backend.committed == ()
        with pytest.raises(SessionClosed):
            b.submit()


def test_a_backend_that_closes_may_wait_for_threads_that_ask_what_is_wanted() -> None:
    ended = []
    with bench() as b:
        close = b.backend.close

        def joins() -> None:
            asking = threading.Thread(target=b.cluster.demand, daemon=True)
            asking.start()
            asking.join(60)
            ended.append(not asking.is_alive())
            close()

        b.backend.close = joins  # type: ignore[method-assign]
    assert ended == [True]


def test_the_loop_does_not_die_in_silence() -> None:
    def broken(_: TaskSpec) -> Outcome:
        raise ZeroDivisionError("a bug")

    with bench(broken) as b:
        handle = b.submit()
        assert handle.wait(60)
        with pytest.raises(ExecutionError, match="the engine's loop failed: ZeroDivisionError: a bug") as caught:
            handle.outputs()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(ExecutionError, match="a bug"):
            b.submit()


def test_progress_and_history_can_be_read_at_any_time() -> None:
    with bench(lambda spec: Outcome(math.inf if spec.attempt.task.part == 3 else 1.0)) as b:
        handle = b.submit()
        b.running(1)
        progress = handle.progress()
        assert [(stage.stage, stage.done, stage.running) for stage in progress.stages] == [
            ("scan", 3, 1),
            ("root", 0, 0),
        ]
        assert sum(isinstance(record, Started) for record in handle.history()) == 4


@pytest.mark.parametrize("options", [{"weight": 0.0}, {"weight": math.nan}, {"deadline": 0.0}, {"priority": 11}])
def test_nonsense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        JobRequest(two_stages(), timeout=0.0)
    with pytest.raises(ConfigError):
        Terms(**options)  # type: ignore[arg-type]


# --- turned by hand -----------------------------------------------------------------------------------------


def test_tasks_run_side_by_side_on_the_slots_there_are() -> None:
    b = Bench(thread=False)
    b.submit()
    b.run_to_end()
    assert b.clock.now() == 3.0  # four tasks on two slots, then the root


def test_two_jobs_share_the_slots() -> None:
    b = Bench(thread=False)
    one, other = b.submit(two_stages(8)), b.submit(two_stages(20, name="r"))
    b.cluster.step()
    assert sorted(spec.attempt.task.job for spec in b.backend.started) == [one.id, other.id]
    b.run_to_end()
    shares = [entry.what.share.cpu for entry in b.trace.entries if isinstance(entry.what, ShareChanged)]
    assert shares == [1.0, 1.0, 2.0]  # two at the start, and the rest for the last


def test_a_new_job_changes_the_shares_and_takes_only_what_becomes_free() -> None:
    b = Bench(machines={"m": Resources(4, 8 * GB)}, thread=False)
    one = b.submit(two_stages(12))
    b.cluster.step(0.5)
    other = b.submit(two_stages(12, name="r"), weight=3.0)
    b.cluster.step(0.0)
    assert {attempt.task.job for attempt in b.backend.running} == {one.id}  # nothing is taken from those that run
    b.cluster.step()
    assert sorted(attempt.task.job for attempt in b.backend.running) == [one.id, other.id, other.id, other.id]
    b.run_to_end()
    kinds = [entry.what for entry in b.trace.entries]
    assert [(told.job, told.share.cpu) for told in kinds if isinstance(told, ShareChanged)][:3] == [
        (one.id, 4.0), (one.id, 1.0), (other.id, 3.0),
    ]  # fmt: skip
    assert not any(isinstance(what, Stop | TaskFailed) for what in kinds)


def test_a_heavier_job_gets_more() -> None:
    b = Bench(machines={"m": Resources(4, 8 * GB)}, thread=False)
    b.submit(two_stages(30), weight=3.0)
    b.submit(two_stages(30, name="r"))
    b.cluster.step()
    jobs = [spec.attempt.task.job for spec in b.backend.started]
    assert sorted(jobs) == ["job1", "job1", "job1", "job2"]


def test_lost_slots_cost_only_the_attempts_on_them() -> None:
    b = Bench(machines={"m": Resources(4, 8 * GB)}, thread=False)
    handle = b.submit(two_stages(8))
    b.backend.happen(SlotsChanged("m", Resources(1, 2 * GB)), at=0.5)
    b.run_to_end()
    assert handle.state is State.SUCCEEDED
    assert b.clock.now() == 9.0  # one task by 1.0, seven more and the root one after another
    assert len(b.backend.started) == 9 + 3


def test_capacity_that_falls_often_fails_no_job_but_not_for_ever() -> None:
    def lost_slots(times: int) -> JobHandle:
        b = Bench(machines={"m": Resources(1, GB)}, thread=False)
        handle = b.submit(two_stages(1))
        for i in range(times):
            b.backend.happen(SlotsChanged("m", Resources(0, GB)), at=0.9 * (i + 1))
            b.backend.happen(SlotsChanged("m", Resources(1, GB)), at=0.9 * (i + 1))
        b.run_to_end()
        return handle

    assert lost_slots(20).state is State.SUCCEEDED
    error = lost_slots(60).error
    assert error is not None and "failed 50 times" in str(error) and isinstance(error.__cause__, Revoked)


def test_jobs_wait_for_a_slot_and_no_longer_than_they_may() -> None:
    b = Bench(thread=False, wait_for_capacity=10.0)
    early = b.submit(two_stages(1))
    b.backend.happen(SlotsChanged("m", Resources(0, GB)), at=0.5)
    b.backend.happen(SlotsChanged("m", Resources(2, GB)), at=10.0)
    b.run_to_end()
    assert early.state is State.SUCCEEDED and b.clock.now() == 12.0
    late = b.submit(two_stages(1, name="r"))
    b.cluster.resize(slots=0)
    b.run_to_end()
    assert isinstance(late.error, NoCapacity) and b.clock.now() == 22.0


def test_nothing_is_granted_on_resources_that_were_taken_away() -> None:
    b = Bench(for_ever, thread=False)
    b.submit(two_stages(4))
    b.cluster.resize(slots=1)
    assert len(b.backend.running) == 1
    b.cluster.resize(slots=3, memory=GB)
    assert len(b.backend.running) == 3
    b.cluster._driver.check()
    with pytest.raises(ConfigError):
        bench_of_two = Bench(machines={"m": Resources(1, GB), "n": Resources(1, GB)}, thread=False)
        bench_of_two.cluster.resize(slots=1)
    b.cluster.close()
    with pytest.raises(SessionClosed):
        b.cluster.resize(slots=1)


def test_a_lost_machine_and_a_lost_checkpoint_are_made_good() -> None:
    plan = two_stages(4)
    b = Bench(machines={"m": Resources(1, GB), "n": Resources(1, GB)}, thread=False)
    handle = b.submit(plan)
    b.backend.happen(MachineLost("n"), at=0.5)
    b.backend.happen(CheckpointLost(checkpoint_key(plan.stages[0], 0)), at=1.5)
    b.run_to_end()
    assert handle.state is State.SUCCEEDED
    assert b.clock.now() == 6.0


def test_running_out_of_memory_ends_alone_on_the_machine_or_in_a_clear_error() -> None:
    def script(spec: TaskSpec) -> Outcome:
        return Outcome(1.0, OutOfMemory("full") if spec.resources.memory < need else None)

    need = 8.0 * GB
    b = Bench(script, thread=False)
    assert b.submit().wait(0) is False
    b.run_to_end()
    scans = [spec.resources.memory / GB for spec in b.backend.started if spec.stage.id == "scan"]
    assert scans == [4, 4, 8, 8, 8, 8]
    need = 9.0 * GB
    handle = b.submit()
    b.run_to_end()
    assert isinstance(handle.error, OutOfMemory)


def test_a_wide_task_takes_the_slots_there_are() -> None:
    b = Bench(thread=False)
    b.submit(two_stages(2, slots=16))
    b.run_to_end()
    assert [spec.resources.cpu for spec in b.backend.started] == [2, 2, 1]


def test_a_wide_task_does_not_starve_among_small_ones() -> None:
    """Small tasks of uneven length would never leave both slots free at once."""
    b = Bench(lambda spec: Outcome(0.7 + 0.37 * (spec.attempt.task.part % 2)), thread=False)
    b.submit(two_stages(400, name="small"), weight=100.0)
    b.cluster.step(0.1)
    wide = b.submit(two_stages(1, slots=2, name="wide"))
    while not wide.wait(0):
        b.cluster.step()
    assert b.clock.now() < 40
    b.cluster.close()


def test_checkpoints_that_the_backend_has_are_used_if_asked_for() -> None:
    b = Bench(thread=False)
    b.submit()
    b.run_to_end()
    b.submit()
    b.run_to_end()
    assert len(b.backend.started) == 10
    handle = b.submit(reuse=True)
    b.run_to_end()
    assert handle.state is State.SUCCEEDED
    assert len(b.backend.started) == 10


def test_the_trace_is_json_lines() -> None:
    b = Bench(thread=False)
    b.submit(two_stages(1))
    b.run_to_end()
    lines = list(b.trace.to_json())
    assert lines[0].startswith('{"format": "qoop-trace", "version": 18, "qoop": ')
    assert sum('"out": "Starting"' in line for line in lines) == 2
    assert sum('"in": "TaskSucceeded"' in line for line in lines) == 2


# --- machines that come and go ------------------------------------------------------------------------------


class Strict(SimulatedBackend):
    """Refuses what does not fit next to all attempts that have not reported, those being stopped with them."""

    def start(self, machine: str, spec: TaskSpec) -> None:
        there = [other.spec.resources for other in self._running.values() if other.machine == machine]
        assert sum(there, spec.resources).fits(self.machines()[machine]), f"{spec.attempt} does not fit on {machine}"
        super().start(machine, spec)


availability = st.builds(Resources, st.integers(0, 4), st.sampled_from([1.0 * GB, 4.0 * GB]))
names = st.sampled_from(["m", "n", "o"])


@given(
    changes=st.lists(
        st.tuples(st.floats(0.1, 9), names, st.one_of(st.none(), availability), st.sampled_from([0, 2])), max_size=9
    ),
    jobs=st.lists(st.tuples(st.integers(1, 6), st.floats(0.1, 3), st.integers(1, 3)), min_size=1, max_size=3),
    slow=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=80, deadline=None)
def test_whatever_comes_and_goes_no_resources_are_given_twice_and_all_jobs_end(
    changes: list[tuple[float, str, Resources | None, int]], jobs: list[tuple[int, float, int]], slow: float
) -> None:
    clock = VirtualClock()
    backend = Strict({"m": Resources(2, 8 * GB)}, clock, model=MachineModel(Kernels(opening=slow, stopping=slow)))
    cluster = Cluster(backend, clock=clock, thread=False)
    handles = [
        cluster.submit(JobRequest(two_stages(width, seconds, f"q{i}", slots, GB), terms=Terms(weight=i + 1.0)))
        for i, (width, seconds, slots) in enumerate(jobs)
    ]
    for at, machine, available, notice in changes:
        event: Event = MachineLost(machine) if available is None else SlotsChanged(machine, available)
        if notice:
            backend.happen(CapacityNotice(machine, available or Resources(), at + notice), at)
        backend.happen(event, at + notice)
    backend.happen(MachineJoined("z", Resources(2, 8 * GB)), at=12.0)
    for _ in range(10_000):
        if not cluster.busy:
            break
        cluster.step()
        cluster._driver.check()
    assert [handle.state for handle in handles] == [State.SUCCEEDED] * len(jobs)
    assert not backend.running and not cluster._driver._used
    assert {key.signature for key in backend.committed} <= {f"q{i}/root" for i in range(len(jobs))}


# --- spare memory --------------------------------------------------------------------------------------------


def spare(demand: float, free: float, *others: float) -> float:
    grant = Grant("j", TaskId("j", "s", 0), "m", Resources(1, demand))
    available = Available(Resources(4, 800), Resources(2, free))
    waiting = tuple(Demand("k", TaskId("k", "s", i), Resources(1, other)) for i, other in enumerate(others))
    return with_spare_memory(grant, available, [Request("k", 1, 1.0, Resources(), waiting)]).resources.memory


def test_a_task_gets_the_memory_of_its_slots() -> None:
    assert spare(50, 800) == 200
    assert spare(300, 800) == 300
    assert spare(50, 120) == 120


def test_memory_that_a_waiting_task_needs_is_left_to_it() -> None:
    assert spare(50, 400, 300) == 100
    assert spare(50, 400, 360) == 200  # it does not fit next to this one anyhow


def test_limits_reach_the_run() -> None:
    b = Bench(lambda spec: Outcome(1.0, ExecutionError("broken")), thread=False)
    handle = b.submit(two_stages(1), limits=Limits(max_attempts=2))
    b.run_to_end()
    assert "failed 2 times" in str(handle.error)
