"""Tenants: one that has many jobs has one share."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qoop
from qoop.control.cluster import Cluster
from qoop.control.messages import JobRequest
from qoop.control.tenants import Tenants
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Ended, ShareTold
from qoop.planner.plan import Estimate, Plan, Resources, Stage

JOBS = st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0.1, 10)), min_size=1, max_size=12)


def plan(name: str, tasks: int) -> Plan:
    estimate = Estimate(task_seconds=1.0, task_memory=1e6)
    return Plan((Stage(name, "", (), (("x", "INTEGER"),), tasks, name, estimate=estimate),), (("x", "INTEGER"),))


@given(JOBS)
def test_each_tenant_has_one_share_and_its_jobs_divide_it_by_their_weights(jobs: list[tuple[str, float]]) -> None:
    tenants = Tenants()
    for number, (tenant, weight) in enumerate(jobs):
        tenants.add(f"job{number}", tenant, weight)
    weights = [tenants.weight(f"job{number}") for number in range(len(jobs))]
    names = {tenant for tenant, _ in jobs}
    if len(names) == 1:
        assert weights == [weight for _, weight in jobs]
        return
    for name in names:
        own = [(found, weight) for found, (tenant, weight) in zip(weights, jobs, strict=True) if tenant == name]
        assert sum(found for found, _ in own) == pytest.approx(1.0)
        assert all(found / own[0][0] == pytest.approx(weight / own[0][1]) for found, weight in own)


def test_who_splits_a_query_in_twenty_gains_nothing() -> None:
    def ends(pieces: int) -> tuple[float, float]:
        """The end of the last job of either tenant: one of 80 tasks, and the same in pieces."""
        clock = VirtualClock()
        backend = SimulatedBackend({"m": Resources(8, 8e9)}, clock)
        cluster = Cluster(backend, clock=clock, thread=False)
        one = cluster.submit(JobRequest(plan("one", 80), tenant="one"))
        many = [cluster.submit(JobRequest(plan(f"p{n}", 80 // pieces), tenant="many")) for n in range(pieces)]
        while cluster.busy:
            cluster.step()
            cluster.check()
        last = [next(r.at for r in job.history() if isinstance(r, Ended)) for job in (one, *many)]
        return last[0], max(last[1:])

    assert ends(20)[0] <= ends(1)[0] + 1.0


def test_shares_are_told_by_tenant_and_again_when_jobs_come_and_go() -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(8, 8e9)}, clock), clock=clock, thread=False)
    jobs = [cluster.submit(JobRequest(plan(f"p{n}", 40), tenant=tenant)) for n, tenant in enumerate("xyy")]
    cluster.step(0.0)

    def shares() -> list[float]:
        return [[one.share.cpu for one in job.history() if isinstance(one, ShareTold)][-1] for job in jobs]

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
        assert session.config.tenant == "dashboards"
