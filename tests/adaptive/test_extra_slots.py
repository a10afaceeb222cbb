"""Short next to long: a job that waits with nothing running gets a slot on top of those there are."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf

import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.granting.extra_slots import BRIEF_SECONDS, PATIENCE_SECONDS, most_extra, most_short
from qoop.adaptive.cluster.granting.preemption import PATIENCE_SECONDS as LAST_PATIENCE
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import Cancelled, ConfigError, Timeout
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.backends.simulated_nodes import MachineModel
from qoop.engine.backends.worker_pool import Kernels
from qoop.engine.clock import VirtualClock
from qoop.engine.events import SlotsChanged, WorkObserved
from qoop.engine.history import Started, Stopping
from qoop.engine.task import TaskSpec
from qoop.planner.plan import ISOLATED, Estimate, Plan, Resources, Stage
from qoop.query.drawing.terminal import Terminal
from qoop.query.drawing.view import brief, view

ENDLESS = "SELECT count(*) FROM range(100000000000) a, range(1000) b WHERE (a.range * b.range) % 7 = 3"


def plan(name: str, seconds: float, memory: float = 1e6, opaque: str | None = None) -> Plan:
    estimate = Estimate(task_seconds=seconds, task_memory=memory)
    stage = Stage(name, "", (), (("x", "INTEGER"),), 1, name, estimate=estimate, opaque=opaque)
    return Plan((stage,), (("x", "INTEGER"),))


class World:
    """One simulated machine, turned by hand."""

    def __init__(
        self,
        slots: int = 1,
        extra_slots: bool = True,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        stopping: float = 0.0,
    ) -> None:
        self.clock = VirtualClock()
        model = MachineModel(kernels=Kernels(stopping=stopping) if stopping else None)
        self.backend = SimulatedBackend({"m": Resources(slots, slots * 1e9)}, self.clock, script, model)
        options = ClusterOptions(extra_slots=extra_slots)
        self.cluster = Cluster(self.backend, clock=self.clock, thread=False, options=options)

    def submit(self, plan: Plan, tenant: str = "") -> JobHandle:
        return self.cluster.submit(JobRequest(plan, terms=Terms(tenant)))

    def until(self, at: float) -> None:
        while self.clock.now() < at:
            self.cluster.step(at - self.clock.now())
            self.cluster.check()

    def end(self) -> None:
        while self.cluster.busy:
            self.cluster.step()
            self.cluster.check()


def began(job: JobHandle) -> tuple[float, bool]:
    (record,) = (one for one in job.history() if isinstance(one, Started))
    return job._run.began + record.at, record.extra


def test_long_jobs_are_known_while_they_run_and_so_are_those_of_tenants_whose_last_one_was_long() -> None:
    world = World(slots=3)
    jobs = [world.submit(plan("long", 100.0), "ann"), world.submit(plan("short", 0.5), "ben")]
    world.cluster._granter.extra._slots.tenants.note("cat", False)  # type: ignore[union-attr]
    jobs.append(world.submit(plan("perhaps", 0.5), "cat"))
    world.until(0.1)
    assert [world.cluster.is_long(job.id) for job in jobs] == [True, False, True]
    world.end()
    assert not any(world.cluster.is_long(job.id) for job in jobs)


def test_short_jobs_of_tenants_whose_last_one_was_short_are_known_while_they_run() -> None:
    world = World(slots=4)
    world.submit(plan("first", 0.2), "ann")
    world.until(0.5)
    asked = [("long", 100.0, "ann"), ("short", 0.5, "ann"), ("unknown", 0.5, "ben")]
    jobs = [world.submit(plan(name, seconds), tenant) for name, seconds, tenant in asked]
    world.until(0.6)
    assert [world.cluster.is_short(job.id) for job in jobs] == [False, True, False]
    assert [world.cluster.has_short(tenant) for tenant in ("ann", "ben")] == [True, False]
    world.end()
    assert not any(world.cluster.is_short(job.id) for job in jobs)


def test_a_short_job_begins_at_once_next_to_a_long_one() -> None:
    world = World()
    long = world.submit(plan("long", 100.0))
    world.until(3.0)
    short = world.submit(plan("short", 0.9 * BRIEF_SECONDS))
    world.end()
    assert began(long) == (0.0, False) and began(short) == (3.0, True)


def test_without_extra_slots_it_waits() -> None:
    world = World(extra_slots=False)
    world.submit(plan("long", 100.0))
    world.until(3.0)
    short = world.submit(plan("short", 0.1))
    world.end()
    assert began(short) == (100.0, False)


def test_a_long_one_waits_a_while_and_does_not_starve() -> None:
    world = World()
    world.submit(plan("first", 1e6))
    second = world.submit(plan("second", 50.0))
    world.end()
    at, extra = began(second)
    assert extra and at == pytest.approx(PATIENCE_SECONDS, abs=0.01)


def test_while_slots_are_free_nobody_gets_an_extra_one() -> None:
    world = World(2)
    jobs = [world.submit(plan(name, 5.0)) for name in ("a", "b")]
    world.end()
    assert [began(job) for job in jobs] == [(0.0, False)] * 2


def test_there_are_so_many_and_no_more() -> None:
    world = World()
    jobs = [world.submit(plan(f"p{number}", 0.5)) for number in range(7)]
    world.until(0.1)
    assert sum(any(isinstance(one, Started) for one in job.history()) for job in jobs) == 1 + most_short(Resources(1))
    world.end()


def test_long_ones_have_fewer_and_leave_the_rest_to_short_ones() -> None:
    world = World()
    jobs = [world.submit(plan(f"long{number}", 50.0)) for number in range(7)]
    world.until(2.0)
    assert sum(any(isinstance(one, Started) for one in job.history()) for job in jobs) == most_extra(Resources(1))
    left = most_short(Resources(1)) - (most_extra(Resources(1)) - 1)
    short = [world.submit(plan(f"short{number}", 0.5)) for number in range(left)]
    world.until(2.01)
    assert left == 2 and [began(one) for one in short] == [(2.0, True)] * left
    world.end()


def test_short_queries_do_not_wait_for_each_other_where_the_processor_is_full() -> None:
    """Ten a second, of 0.15 s each, next to two bombs that hold the slots."""
    world = World(2, script=lambda spec: Outcome(inf if spec.stage.id.startswith("bomb") else 0.15))
    bombs = [world.submit(plan(f"bomb{number}", 9.0), f"bomber{number}") for number in range(4)]
    world.until(3.0)
    shorts, waits = list[tuple[float, JobHandle]](), list[float]()
    for tick in range(100):
        shorts.append((world.clock.now(), world.submit(plan(f"s{tick}", 0.01, opaque=ISOLATED), f"board{tick % 10}")))
        world.until(3.0 + 0.1 * (tick + 1))
        waits += [world.clock.now() - at for at, job in shorts if job.state == "SUCCEEDED"]
        shorts = [(at, job) for at, job in shorts if job.state != "SUCCEEDED"]
    assert len(waits) > 90 and max(waits) < 0.45, sorted(waits)[-5:]
    for one in bombs:
        one.cancel()
    world.end()


def test_a_slot_that_becomes_free_goes_to_the_one_that_had_an_extra_one() -> None:
    """It is no longer one on top of what there is, so another may be."""
    world = World()
    world.submit(plan("first", 5.0))
    world.submit(plan("second", 50.0))
    world.until(6.0)
    third = world.submit(plan("third", 10.0))
    world.until(6.5)
    assert not world.cluster._driver.extra() and world.cluster._driver.capacity.cpu == 1
    world.end()
    assert began(third)[1]


def test_a_task_that_needs_more_memory_than_an_extra_one_gets_waits() -> None:
    world = World()
    world.submit(plan("first", 8.0))
    big = world.submit(plan("big", 0.5, memory=0.9e9))
    world.end()
    assert began(big) == (8.0, False)


def test_next_to_a_task_of_which_much_is_left_it_waits_no_longer_than_its_patience() -> None:
    world = World()
    first = world.submit(plan("first", 20.0))
    big = world.submit(plan("big", 0.5, memory=0.9e9))
    world.until(5.1)
    assert began(big) == (pytest.approx(LAST_PATIENCE, abs=0.1), False)
    assert first.status().blocked_by == (big.id,) and first.status().preemptions == 1
    world.end()
    assert first.state == big.state == "SUCCEEDED"


def test_texts_that_never_end_leave_a_slot_to_short_ones() -> None:
    """Nobody knows how long they take: each is tried out on an extra slot, for no more than a second."""
    world = World(script=lambda spec: Outcome(inf if spec.stage.id.startswith("endless") else 0.01))
    endless = [world.submit(plan(f"endless{number}", 0.01)) for number in range(5)]
    world.until(3.0)
    for number in range(5):
        short = world.submit(plan(f"short{number}", 0.01))
        world.until(world.clock.now() + 0.3)
        assert short.state == "SUCCEEDED"
    for one in endless:
        one.cancel()
    world.end()


def test_tasks_that_take_long_to_stop_hold_up_no_short_query() -> None:
    """DuckDB frees its memory behind all others, so a task ends half a second after it was interrupted."""
    world = World(2, script=lambda spec: Outcome(inf if spec.stage.id.startswith("bomb") else 0.01), stopping=0.5)
    world.submit(plan("first", 0.01), "dashboard")
    world.until(0.1)
    bombs = [world.submit(plan(f"bomb{number}", 0.01), f"bomber{number}") for number in range(8)]
    world.until(0.2)
    shorts = [world.submit(plan(f"short{number}", 0.01), "dashboard") for number in range(3)]
    world.until(0.4)
    assert [short.state for short in shorts] == ["SUCCEEDED"] * 3
    for one in bombs:
        one.cancel()
    world.end()


def test_tenants_with_short_queries_hardly_wait_for_those_with_texts_that_never_end() -> None:
    """Each bomb has the estimate of a short query, and each tenant with bombs sends the next one at once."""
    world = World(2, script=lambda spec: Outcome(inf if spec.stage.id.startswith("bomb") else 0.01))
    bombs, waits, count = dict[int, JobHandle](), list[float](), 0
    for tick in range(250):  # of 50 ms; there are ten dashboards, of which one asks in each
        for bomber in range(10):
            if tick % 100 == 10 * bomber or (tick == 20 and bomber not in bombs):
                if bomber in bombs:
                    bombs[bomber].cancel()
                count += 1
                bombs[bomber] = world.submit(plan(f"bomb{count}", 0.01, opaque=ISOLATED), f"bomber{bomber}")
        short = world.submit(plan(f"short{tick}", 0.01), f"dashboard{tick % 10}")
        begun = world.clock.now()
        while short.state != "SUCCEEDED":
            world.cluster.step(0.05)
        waits.append(world.clock.now() - begun)
        world.until(max(world.clock.now(), 0.05 * (tick + 1)))
    for one in bombs.values():
        one.cancel()
    world.end()
    waits.sort()
    assert waits[len(waits) // 2] < 0.02 and waits[int(0.99 * len(waits))] <= 0.1 and waits[-1] <= 0.3, waits[-20:]


def test_at_the_start_bombs_that_came_first_hold_up_no_query_with_an_estimate() -> None:
    """No tenant is known yet, and ten bombs wait for a try before the first dashboard comes."""
    world = World(2, script=lambda spec: Outcome(inf if spec.stage.id.startswith("bomb") else 0.01))
    bombs = [world.submit(plan(f"bomb{one}", 0.01, opaque=ISOLATED), f"bomber{one}") for one in range(10)]
    world.until(0.01)
    shorts = [world.submit(plan(f"short{one}", 0.01), f"dashboard{one}") for one in range(10)]
    world.until(0.3)
    assert [short.state for short in shorts] == ["SUCCEEDED"] * 10
    for one in bombs:
        one.cancel()
    world.end()


@pytest.mark.parametrize("opaque", [None, ISOLATED])
def test_a_short_query_that_is_late_once_is_tried_again(opaque: str | None) -> None:
    """Its first try meets a machine that is full. It does not wait for the end of long queries."""
    tries = Counter[str]()

    def script(spec: TaskSpec) -> Outcome:
        tries[spec.stage.id] += 1
        if spec.stage.id.startswith("endless"):
            return Outcome(inf)
        return Outcome(0.9 if spec.stage.id.startswith("unlucky") and tries[spec.stage.id] == 1 else 0.01)

    world = World(script=script)
    endless = [world.submit(plan(f"endless{number}", 0.01), "bomber") for number in range(2)]
    world.until(3.0)
    world.submit(plan("first", 0.01), "dashboard")
    world.until(3.1)
    names = [f"unlucky{number}" for number in range(2)]  # as many as there are slots for short ones
    unlucky = [world.submit(plan(name, 0.01, opaque=opaque), "dashboard") for name in names]
    world.until(3.2)
    other = world.submit(plan("other", 0.01), "dashboard")
    world.until(3.6)
    assert {job.state for job in (other, *unlucky)} == {"SUCCEEDED"}
    assert [tries[name] for name in names] == [2] * 2
    for one in endless:
        one.cancel()
    world.end()


@pytest.mark.parametrize(("cpu_seconds", "goes_on"), [(0.02, True), (0.2, False)])
def test_a_text_in_a_process_is_late_by_what_its_process_has_used(cpu_seconds: float, goes_on: bool) -> None:
    """The machine is full, so it takes 3 s where 20 ms are enough, and other short queries wait for its slot."""
    taken = {"endless": inf, "slow": 3.0, "other": 2.0}
    world = World(script=lambda spec: Outcome(taken.get(spec.stage.id.rstrip("0123456789"), 0.01)))
    endless = [world.submit(plan(f"endless{number}", 0.01), "bomber") for number in range(2)]
    world.until(3.0)
    world.submit(plan("first", 0.01), "dashboard")
    world.until(3.1)
    slow = world.submit(plan("slow", 0.01, opaque=ISOLATED), "dashboard")
    world.until(3.2)
    others = [world.submit(plan(f"other{number}", 0.01), "dashboard") for number in range(4)]
    (attempt,) = (one.attempt for one in slow._run.running())
    for tick in range(1, 12):
        world.backend.happen(WorkObserved(attempt, None, 1.0, cpu_seconds), 3.1 + 0.25 * tick)
    world.until(6.2)
    assert (slow.state == "SUCCEEDED" and began(slow) == (3.1, True)) is goes_on
    for one in (*endless, slow, *others):
        one.cancel()
    world.end()


def test_jobs_that_take_much_longer_than_estimated_take_turns_and_all_end() -> None:
    world = World(script=lambda _: Outcome(30.0))
    jobs = [world.submit(plan(f"p{number}", 0.01, memory=0.9e9)) for number in range(3)]
    world.until(20.0)
    assert all(any(isinstance(one, Started) for one in job.history()) for job in jobs)
    world.end()
    assert all(job.state == "SUCCEEDED" for job in jobs)
    assert world.clock.now() < 4 * 90.0
    told = [str(one) for job in jobs for one in job.history() if isinstance(one, Stopping)]
    assert told and all("has waited for" in one and "are lost" in one for one in told)


def test_a_job_that_waits_says_for_whom(session: qoop.Session) -> None:
    endless = [session.submit(ENDLESS.replace("3", str(number))) for number in (3, 4, 5, 6)]
    last = endless[-1]
    status = until(lambda: (found := last.status()).blocked_by and found)
    (headline, *_) = view(last.id, status, Terminal(120, 20, False))
    assert status.left is None and "ends in" not in headline
    assert f"waits for a slot of {', '.join(status.blocked_by)}" in headline and "waits for" in brief(last.id, status)
    for job in endless:
        job.cancel()


def test_without_any_slot_nothing_begins() -> None:
    world = World()
    world.backend.happen(SlotsChanged("m", Resources(0, 0)), 0.0)
    world.until(1.0)
    short = world.submit(plan("short", 0.1))
    world.until(5.0)
    assert not any(isinstance(one, Started) for one in short.history())
    world.backend.happen(SlotsChanged("m", Resources(1, 1e9)), 5.0)
    world.end()
    assert began(short)[0] == 5.0


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="1GB") as session:
        session.register("t", pa.table({"n": range(100_000)}))
        yield session


def test_select_1_is_answered_next_to_queries_that_never_end(session: qoop.Session) -> None:
    endless = [session.submit(ENDLESS), session.submit("SELECT count(*) FROM t a, t b, t c WHERE a.n * b.n % 7 = c.n")]
    for _ in range(3):
        assert session.sql("SELECT 1").fetchall() == [(1,)]
        assert session.sql("SELECT count(*), sum(n) FROM t").fetchall() == [(100_000, 4_999_950_000)]
    assert not any(job.wait(0) for job in endless)
    for job in endless:
        job.cancel()


def test_fifty_clients_next_to_a_long_query_get_their_answers(session: qoop.Session) -> None:
    endless = session.submit(ENDLESS)
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        answers[number] = session.sql(f"SELECT sum(n) FROM t WHERE n % 50 = {number}").fetchall()

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert answers == {number: [(sum(range(number, 100_000, 50)),)] for number in range(50)}
    assert not endless.wait(0)
    endless.cancel()


def test_a_job_that_nobody_waits_for_can_be_told_to_end(session: qoop.Session) -> None:
    job = session.submit(ENDLESS)
    with pytest.raises(Timeout, match="it goes on"):
        job.result(timeout=0.05)
    assert not job.wait(0)
    with pytest.raises(Timeout, match="was cancelled"):
        job.result(timeout=0.05, on_timeout="cancel")
    with pytest.raises(Cancelled):
        job.result()
    with pytest.raises(ConfigError, match="'go on' or 'cancel', not 'stop'"):
        job.result(on_timeout="stop")  # type: ignore[arg-type]
