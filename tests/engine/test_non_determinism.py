"""Outputs that may differ when run again are not shared (law 12)."""

from __future__ import annotations

import qoop
from qoop.engine.task import checkpoint_key, own_non_deterministic
from qoop.planner.plan import Plan, Stage, StageInput


def a_plan() -> Plan:
    sample, twin = (
        Stage(name, "SELECT random() AS r", (), (("r", "DOUBLE"),), 1, "same", shareable=False) for name in ("s1", "s2")
    )
    whole = Stage("s3", "SELECT 1 AS n", (), (("n", "INTEGER"),), 1, "whole")
    inputs = tuple(StageInput(name, name, "all") for name in ("s1", "s2", "s3"))
    root = Stage("s4", "SELECT 1 AS n", inputs, (("n", "INTEGER"),), 1, "root", shareable=False)
    return Plan((sample, twin, whole, root), (("n", "INTEGER"),))


def test_non_deterministic_stages_of_a_plan_and_of_two_jobs_have_keys_of_their_own() -> None:
    plans = [own_non_deterministic(a_plan(), job) for job in ("job1", "job2")]
    keys = [[checkpoint_key(stage, 0) for stage in plan.stages] for plan in plans]
    assert len(set(keys[0])) == 4
    assert [a == b for a, b in zip(*keys, strict=True)] == [False, False, True, False]


def test_a_plan_without_non_deterministic_stages_is_left_as_it_is() -> None:
    plan = Plan((a_plan().stages[2],), (("n", "INTEGER"),))
    assert own_non_deterministic(plan, "job1") is plan


def test_two_random_subqueries_differ() -> None:
    with qoop.connect(slots=2) as session:
        text = "SELECT a.r <> b.r AS differ FROM (SELECT random() AS r) a, (SELECT random() AS r) b"
        assert session.sql(text).fetchall() == [(True,)]
