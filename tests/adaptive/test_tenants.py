"""Tenants: one that has many jobs has one share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.granting.tenant_limits import TENANT, USER, Owner
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.terms import Terms
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Demand
from qoop.engine.history import Decided, Ended, Regranted, ShareReported, Started
from qoop.engine.state import State
from qoop.engine.task import TaskId
from qoop.planner.packing import Available
from qoop.planner.plan import Estimate, Plan, Resources, Stage


def plan(name: str, tasks: int, memory: float = 1e6) -> Plan:
    estimate = Estimate(task_seconds=1.0, task_memory=memory)
    return Plan((Stage(name, "", (), (("x", "INTEGER"),), tasks, name, estimate=estimate),), (("x", "INTEGER"),))


def shared(jobs: Sequence[tuple[str, float, int]], slots: int, weights: Mapping[str, float]) -> list[int]:
    """The slots that jobs hold once all are granted: jobs as (tenant, weight within it, ready tasks)."""
    waiting = Waiting()
    for number, (tenant, weight, tasks) in enumerate(jobs):
        name = f"j{number}"
        demands = (Demand(name, TaskId(name, "s", 0), Resources(1)),) if tasks else ()
        whom = {"tenant": tenant, "tenant_weight": weights.get(tenant, 1.0)}
        waiting.put(Request(name, number, weight, Resources(), demands, **whom))
    held = [0] * len(jobs)
    while sum(held) < slots and waiting:
        grant = MaxMin().next_grant(waiting, {"m": Available(Resources(slots), Resources(slots - sum(held)))})
        assert grant is not None
        place = int(grant.job[1:])
        held[place] += 1
        before = next(one for one in waiting if one.job == grant.job)
        left = before.demands if held[place] < jobs[place][2] else ()
        waiting.put(replace(before, used=Resources(held[place]), demands=left))
    return held


def test_what_a_job_has_no_use_for_goes_to_its_tenant_first() -> None:
    assert shared([("x", 1, 1), ("x", 1, 40), ("y", 1, 40)], 12, {}) == [1, 5, 6]
    assert shared([("x", 1, 40), ("y", 1, 20), ("y", 1, 20)], 12, {"x": 2.0}) == [8, 2, 2]
    assert shared([("x", 3, 40), ("x", 1, 40), ("y", 1, 2)], 10, {}) == [6, 2, 2]


JOBS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from([1.0, 2.0]), st.integers(0, 20)), min_size=1, max_size=9
)


@given(JOBS, st.integers(1, 30), st.fixed_dictionaries({"x": st.sampled_from([1.0, 3.0])}))
def test_grants_are_max_min_between_tenants_and_between_the_jobs_of_each(
    jobs: list[tuple[str, float, int]], slots: int, weights: dict[str, float]
) -> None:
    held = shared(jobs, slots, weights)
    assert sum(held) == min(slots, sum(tasks for _, _, tasks in jobs))
    of = {tenant: sum(n for n, job in zip(held, jobs, strict=True) if job[0] == tenant) for tenant, *_ in jobs}
    for (tenant, weight, tasks), n in zip(jobs, held, strict=True):
        if n == tasks:
            continue  # it wants more: nobody has more than it by more than the slot that was granted last
        for (other, their_weight, _), m in zip(jobs, held, strict=True):
            if other == tenant:
                assert (m - 1) / their_weight <= n / weight + 1e-9
            else:
                least = of[tenant] / weights.get(tenant, 1.0)
                assert (of[other] - 1) / weights.get(other, 1.0) <= least + 1e-9


def test_who_splits_a_query_in_twenty_gains_nothing() -> None:
    def ends(pieces: int) -> tuple[float, float]:
        """The end of the last job of either tenant: one of 80 tasks, and the same in pieces."""
        clock = VirtualClock()
        backend = SimulatedBackend({"m": Resources(8, 8e9)}, clock)
        cluster = Cluster(backend, clock=clock, thread=False)
        one = cluster.submit(JobRequest(plan("one", 80), terms=Terms("one")))
        many = [cluster.submit(JobRequest(plan(f"p{n}", 80 // pieces), terms=Terms("many"))) for n in range(pieces)]
        while cluster.busy:
            cluster.step()
            cluster.check()
        last = [next(r.at for r in job.history() if isinstance(r, Ended)) for job in (one, *many)]
        return last[0], max(last[1:])

    assert ends(20)[0] <= ends(1)[0] + 1.0


def test_shares_are_told_by_tenant_and_again_when_jobs_come_and_go() -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(8, 8e9)}, clock), clock=clock, thread=False)
    jobs = [cluster.submit(JobRequest(plan(f"p{n}", 40), terms=Terms(tenant))) for n, tenant in enumerate("xyy")]
    cluster.step(0.0)

    def shares() -> list[float]:
        return [[one.share.cpu for one in job.history() if isinstance(one, ShareReported)][-1] for job in jobs]

    assert shares() == [4.0, 2.0, 2.0]
    jobs[2].cancel()
    cluster.step(0.0)
    cluster.step(1.0)
    assert shares()[:2] == [4.0, 4.0]
    cluster.close()


def test_sessions_and_jobs_name_a_tenant() -> None:
    with qoop.connect(slots=1, memory="500MB", tenant="dashboards") as session:
        session.register("t", pa.table({"n": [1, 2]}))
        job = session.submit("SELECT sum(n) FROM t")
        other = session.submit("SELECT max(n) FROM t", tenant="night")
        assert job.result().fetchall() == [(3,)] and other.result().fetchall() == [(2,)]
        session.sql("SET tenant = 'analysts'")
        session.sql("SET priority = 8")
        session.sql("SET deadline = '1 min'")
        assert session.submit("SELECT min(n) FROM t").terms == Terms("analysts", 1.0, 8.0, 60.0)
        session.sql("RESET tenant")
        assert session.submit("SELECT 2", deadline=9).terms == Terms("dashboards", 1.0, 8.0, 9.0)
        assert session.submit("SELECT 2", deadline="9 s").terms.deadline == 9.0
        for given, said in (
            ({"deadline": "soon"}, "'soon' is not a length of time"),
            ({"priority": "high"}, "not 'high'"),
            ({"weight": "much"}, "weight must be a number, not 'much'"),
        ):
            with pytest.raises(qoop.ConfigError, match=said):
                session.submit("SELECT 2", **given)  # type: ignore[call-overload]
    for wrong, said in (
        ({"priority": 11}, "from 1 to 10"),
        ({"deadline": 0}, "above 0"),
        ({"tenants": "x"}, "names"),
    ):
        with pytest.raises(qoop.ConfigError, match=said):
            qoop.connect(slots=1, **wrong)  # type: ignore[arg-type]


def test_plans_are_compared_on_whole_slots_however_many_jobs_there_are() -> None:
    with qoop.connect(slots=1, memory="500MB", staged=True) as session:
        session.register("t", pa.table({"g": [n % 7 for n in range(20_000)], "v": list(range(20_000))}))
        texts = [f"SELECT g, sum(v + {n}) AS s FROM t GROUP BY g ORDER BY g" for n in range(8)]
        jobs = [session.submit(text) for text in texts]
        assert all(len(job.result()) == 7 for job in jobs)
        decided = [one for job in jobs for one in job.history() if isinstance(one, Decided)]
    assert all(one.after.cpu == 1 for one in decided)
    assert not [one for one in decided if "share rose" in one.cause]


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 12)), min_size=1, max_size=6),
    st.integers(2, 8),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=30)
def test_a_tenant_holds_no_more_slots_than_its_limit_and_all_of_its_jobs_end(
    jobs: list[tuple[str, int]], slots: int, limit: int
) -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(slots, 1e12)}, clock), clock=clock, thread=False)
    cluster.limit(Owner(TENANT, "x"), limit)
    handles = [
        cluster.submit(JobRequest(plan(f"p{number}", tasks), terms=Terms(tenant)))
        for number, (tenant, tasks) in enumerate(jobs)
    ]
    most = {"x": 0.0, "y": 0.0}
    while cluster.busy:
        cluster.step(0.25)
        for tenant in most:
            held = sum(cluster.used_by(one.id).cpu for one in handles if one.terms.tenant == tenant)
            most[tenant] = max(most[tenant], held)
    assert all(one.state is State.SUCCEEDED for one in handles)
    assert most["x"] <= limit
    tasks_of_y = sum(tasks for tenant, tasks in jobs if tenant == "y")
    assert most["y"] >= min(tasks_of_y, slots - min(limit, slots)), "what the limit leaves is for others"


@pytest.mark.parametrize(("of_tenant", "of_user"), [(4, 2), (2, 3)])
def test_limits_of_a_user_and_of_its_tenant_hold_both(of_tenant: int, of_user: int) -> None:
    clock, unit = VirtualClock(), 100e6
    cluster = Cluster(SimulatedBackend({"m": Resources(8, 8 * unit)}, clock), clock=clock, thread=False)
    cluster.limit(Owner(TENANT, "x"), memory=of_tenant * unit)
    cluster.limit(Owner(USER, "ann"), of_user, of_user * unit)
    handles = [
        cluster.submit(JobRequest(plan(f"p{number}", 6, unit), terms=Terms("x", user=user)))
        for number, user in enumerate(["ann", "ann", "bob"])
    ]
    most = {"ann": Resources(), "bob": Resources(), "x": Resources()}
    while cluster.busy:
        cluster.step(0.25)
        for name in most:
            held = sum((cluster.used_by(one.id) for one in handles if name in ("x", one.terms.user)), Resources())
            most[name] = max(most[name], held, key=lambda one: one.cpu)
    assert all(one.state is State.SUCCEEDED for one in handles)
    assert (most["ann"].cpu, most["x"].memory) == (min(of_user, of_tenant), of_tenant * unit)


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(2, 8),
    st.integers(1, 5),
)
@settings(deadline=None, max_examples=30)
def test_a_tenant_holds_no_more_memory_than_its_limit_and_all_of_its_jobs_end(
    jobs: list[tuple[str, int, int]], slots: int, limit: int
) -> None:
    """Memory is counted in 100 MB, of which a slot has one."""
    clock, unit = VirtualClock(), 100e6
    cluster = Cluster(SimulatedBackend({"m": Resources(slots, slots * unit)}, clock), clock=clock, thread=False)
    cluster.limit(Owner(TENANT, "x"), memory=limit * unit)
    handles = [
        cluster.submit(JobRequest(plan(f"p{number}", tasks, memory * unit / 2), terms=Terms(tenant)))
        for number, (tenant, tasks, memory) in enumerate(jobs)
    ]
    most = 0.0
    while cluster.busy:
        cluster.step(0.25)
        most = max(most, sum(cluster.used_by(one.id).memory for one in handles if one.terms.tenant == "x"))
    assert all(one.state is State.SUCCEEDED for one in handles)
    assert most <= limit * unit
    assert most > 0 or all(tenant == "y" for tenant, *_ in jobs)


def test_a_task_that_needs_more_memory_than_its_tenant_may_have_fails_and_says_so() -> None:
    text = "SELECT length(string_agg(repeat('x', 2000), '')) AS n FROM range({})"
    with qoop.connect(slots=2, memory="1GB") as session:
        session.cluster.limit(Owner(TENANT, "x"), memory=100e6)
        job = session.submit(text.format(40_000), tenant="x")
        with pytest.raises(qoop.OutOfMemory, match="more than 100 MB of memory for one task, which is all it may have"):
            job.result()
        granted = [one.resources.memory for one in job.history() if isinstance(one, Started | Regranted)]
        assert granted and max(granted) <= 100e6
        assert session.submit(text.format(10), tenant="x").result().fetchall() == [(20_000,)]
        assert session.submit(text.format(40_000), tenant="y").result().fetchall() == [(80_000_000,)]


def test_a_tenant_without_jobs_knows_the_slots_that_others_would_leave_it() -> None:
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(3, 1e9)}, clock)
    cluster = Cluster(
        backend, clock=clock, thread=False, options=ClusterOptions(tenants={"views": 0.5, "x": 1.0, "y": 1.5})
    )
    views = Terms("views")
    assert cluster.shares.slots_for(views) == 3.0 and not cluster.shares.others_run(views)
    for tenant in ("x", "x", "y"):
        cluster.submit(JobRequest(plan(tenant, 1), terms=Terms(tenant)))
    cluster.step()
    assert cluster.shares.slots_for(views) == pytest.approx(3 * 0.5 / (0.5 + 1.0 + 1.5))
    assert cluster.shares.others_run(views) and cluster.shares.others_run(Terms("x"))
