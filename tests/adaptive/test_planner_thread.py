"""The thread that works out decisions and searches."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from waits import PATIENCE

import qoop
from qoop.adaptive.cluster import planner_thread
from qoop.adaptive.cluster.planner_thread import PlannerThread
from qoop.planner.planner import Planning
from qoop.query.plan_search import PlanSearch


def test_work_for_an_idle_time_waits_until_no_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_thread, "IDLE_SECONDS", 0.002)
    looked, job_ended, done = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    def busy() -> bool:
        looked.set()
        return not job_ended.is_set()

    planner = PlannerThread(busy=busy)
    planner.ask_when_idle(lambda: order.append("when idle"), lambda _: done.set())
    assert looked.wait(PATIENCE) and not order
    planner.ask(lambda: order.append("at once"), lambda _: job_ended.set())
    assert done.wait(PATIENCE)
    planner.close()
    assert order == ["at once", "when idle"]


def test_a_quick_search_ends_with_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    began, job_ended = threading.Event(), threading.Event()
    plans: list[object] = []
    searching, plan = PlanSearch._search_quickly, Planning.plan

    def search(*arguments: object) -> object:
        began.set()
        assert job_ended.wait(PATIENCE)
        return searching(*arguments)  # type: ignore[arg-type]

    def counted(*arguments: object) -> object:
        plans.append(plan(*arguments))  # type: ignore[arg-type]
        return plans[-1]

    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr(PlanSearch, "_search_quickly", search)
    monkeypatch.setattr(Planning, "plan", counted)
    with qoop.connect(slots=1, staged=False) as session:
        session.register("t", pa.table({"a": range(2000)}))
        job = session.submit("SELECT count(*) FROM t x, t y, t z WHERE hash(x.a, y.a, z.a) % 3 = 1")
        assert began.wait(PATIENCE)
        job.cancel()
        job.wait()
        job_ended.set()
        session.cluster.wait_for_planner()
        assert not plans
        assert session.explain("SELECT 1", alternatives=True) and plans, "later searches go on"
