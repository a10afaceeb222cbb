"""The thread that works out decisions and searches."""

from __future__ import annotations

import threading

import pytest
from waits import PATIENCE

from qoop.adaptive.cluster import planner_thread
from qoop.adaptive.cluster.planner_thread import PlannerThread


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
