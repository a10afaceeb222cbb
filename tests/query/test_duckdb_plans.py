"""DuckDB's own plan of a query: when it is chosen, and that it behaves as any other plan does."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest import LogCaptureFixture
from waits import PATIENCE, until

import qoop
from qoop.adaptive.replanning.greedy import BOTH_ERR
from qoop.adaptive.replanning.replanner import Replanner
from qoop.catalog.errors import QueryError
from qoop.engine.history import Ended, Started, Switched
from qoop.engine.kernel import Kernel
from qoop.engine.task import TaskSpec
from qoop.planner.algebra.relation import Relation
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan
from qoop.planner.planner import Planning
from qoop.planner.variants import Variant
from qoop.planner.whole_query import OWN_PLAN
from qoop.query.duckdb_plans import GOES_ON, KERNEL_PART, DuckDBPlan, as_they_turned_out

FOREVER = "SELECT count(*) FROM range(1_000_000_000_000) AS r(i) WHERE hash(i) % 7 = 3"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[qoop.Session]:
    duckdb.sql("SELECT i AS a, i % 10 AS b FROM range(50_000) AS r(i)").write_parquet(str(tmp_path / "t.parquet"))
    with qoop.connect(slots=2, memory="1GB", staged=False) as session:
        session.register_folder(tmp_path)
        yield session


def threads(job: qoop.Job) -> list[float]:
    return [one.resources.cpu for one in job.history() if isinstance(one, Started)]


def test_a_short_query_runs_by_it_on_all_slots(session: qoop.Session) -> None:
    job = session.submit("SELECT b, sum(a) FROM t GROUP BY b ORDER BY b")
    assert job.result().fetchall() == [(b, 124_975_000 + 5_000 * b) for b in range(10)]
    assert [stage.opaque for stage in job.plan.stages] == [OWN_PLAN]
    assert threads(job) == [2.0]


def test_explain_says_so(session: qoop.Session) -> None:
    assert f"runs whole: {OWN_PLAN}" in session.explain("SELECT max(a) FROM t")


def test_in_stages_it_is_no_alternative(tmp_path: Path) -> None:
    with qoop.connect(slots=2, staged=True) as session:
        session.register("t", pa.table({"a": [1, 2, 3]}))
        job = session.submit("SELECT sum(a) FROM t")
        assert job.result().fetchall() == [(6,)]
        assert not any(stage.whole for stage in job.plan.stages)


def test_it_takes_the_slots_that_another_job_leaves(session: qoop.Session) -> None:
    first = session.submit(FOREVER)
    until(lambda: threads(first))
    session.resize(slots=3, memory="2GB")
    second = session.submit("SELECT count(*) FROM t")
    assert second.result(timeout=60).fetchall() == [(50_000,)]
    assert (threads(first), threads(second)) == ([2.0], [1.0])
    first.cancel()


def test_fewer_slots_begin_it_again_on_what_is_left(session: qoop.Session) -> None:
    job = session.submit(FOREVER)
    until(lambda: threads(job))
    session.resize(slots=1)
    until(lambda: len(threads(job)) >= 2)
    assert threads(job) == [2.0, 1.0]
    job.cancel()
    assert job.wait(60)


def test_errors_are_those_of_duckdb(session: qoop.Session) -> None:
    with pytest.raises(qoop.BindError, match=r"Referenced column \"nope\" not found"):
        session.sql("SELECT nope FROM t")
    with pytest.raises(qoop.ExecutionError, match="Could not convert string 'x'"):
        session.sql("SELECT 'x'::INT FROM t")


def test_a_name_means_what_it_was_given_last(session: qoop.Session) -> None:
    assert session.sql("SELECT max(a) FROM t").fetchall() == [(49_999,)]
    session.register("t", pa.table({"a": ["x", "y"], "z": [1, 2]}))
    assert session.sql("SELECT max(a) FROM t").fetchall() == [("y",)]
    assert session.sql("FROM t ORDER BY z").fetchall() == [("x", 1), ("y", 2)]


def test_a_file_that_the_text_names_is_read_again(session: qoop.Session, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.parquet"
    for value in (1, 2):
        duckdb.sql(f"SELECT {value} AS v").write_parquet(str(path))
        assert session.sql(f"SELECT v FROM read_parquet('{path}')").fetchall() == [(value,)]


def test_neither_planner_nor_sqlglot_is_loaded_for_it(tmp_path: Path) -> None:
    duckdb.sql("SELECT 42 AS a").write_parquet(str(tmp_path / "t.parquet"))
    code = f"""
import sys, qoop
with qoop.connect(slots=1, staged=False) as session:
    session.register_folder({str(tmp_path)!r})
    print(session.sql("SELECT a FROM t").fetchall())
print([name for name in ("sqlglot", "pandas", "networkx", "qoop.planner.planner") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["[(42,)]", "[]"]


JOIN = """
SELECT u.b % 7 AS k, count(*) AS n, sum(hash(t.a + u.a) % 5) AS s
FROM t JOIN t AS u ON t.b = u.b WHERE u.a < 2000 GROUP BY k ORDER BY k
"""  # 10 million pairs: a second or so


@pytest.fixture
def all_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No query counts as short, and others are searched for from the start."""
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.planning.SEARCH_AFTER", 0.0)


def decide_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's plan begins its work after a decision, which on a busy machine may take longer than the query."""
    decided, run, apply = threading.Event(), Kernel.run, Replanner._apply

    def waiting(kernel: Kernel, spec: TaskSpec, *arguments: Any, **named: Any) -> Any:
        if spec.stage.whole:
            assert decided.wait(PATIENCE)
            decided.clear()
        return run(kernel, spec, *arguments, **named)

    def deciding(replanner: Replanner, *arguments: Any) -> Any:
        commands = apply(replanner, *arguments)
        decided.set()
        return commands

    monkeypatch.setattr(Kernel, "run", waiting)
    monkeypatch.setattr(Replanner, "_apply", deciding)


@pytest.fixture
def decided_first(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_first(monkeypatch)


def expect(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """By statistics DuckDB's plan should take so long."""
    monkeypatch.setattr(Planning, "duckdb_seconds", lambda *_: seconds)


def plans(job: qoop.Job) -> list[bool]:
    return [plan.root.whole for plan in job.plans]


@pytest.mark.parametrize(("part", "spills"), [(0.9, False), (1.7, False), (1.9, True)])
def test_it_spills_what_does_not_fit_the_memory_that_it_has(session: qoop.Session, part: float, spills: bool) -> None:
    """Tasks have 500 MB, and DuckDB's plan that runs alone 900: it keeps no outputs."""
    planning = session.planning
    share, quick = planning.usable, planning._quick_plans(JOIN, planning.usable)
    lone = next(one for one in quick.candidates if one.variant.lone)
    *others, root = lone.plan.stages
    root = replace(root, estimate=replace(root.estimate, task_wants=part * share.memory))
    quick = replace(quick, candidates=(replace(lone, plan=Plan((*others, root), lone.plan.columns)),))
    assert (quick.spilling(share) > 0.0) == spills


def test_a_long_query_begins_with_it_and_goes_over_to_a_plan_that_ends_sooner(
    session: qoop.Session, tmp_path: Path, all_long: None, decided_first: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 1000.0)
    job = session.submit(JOIN)
    assert job.result().fetchall() == duckdb_answer(tmp_path)
    assert plans(job) == [True, False]
    assert "the alternatives became known" in " ".join(map(str, job.history()))


def test_it_is_kept_where_nothing_ends_sooner(
    session: qoop.Session, tmp_path: Path, all_long: None, decided_first: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 0.001)
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    job = session.submit(JOIN)
    assert job.result().fetchall() == duckdb_answer(tmp_path)
    assert plans(job) == [True]


@pytest.mark.parametrize(("locked", "source", "known"), [(False, "f", True), (True, "f", False), (False, "m", False)])
def test_it_is_estimated_by_its_own_order_of_joins(
    locked: bool, source: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DuckDB that explains opens any file, so it gets no text of a locked session; nor tables in memory."""
    given, estimate = list[str | None](), Planning.duckdb_seconds

    def estimating(planning: Planning, relation: Relation, explained: str | None = None) -> float:
        given.append(explained)
        return estimate(planning, relation, explained)

    monkeypatch.setattr(Planning, "duckdb_seconds", estimating)
    rows = duckdb.sql("SELECT i AS a, i % 10 AS b FROM range(1000) AS r(i)").to_arrow_table()
    pq.write_table(rows, tmp_path / "f.parquet")
    with qoop.connect(slots=2, memory="1GB", staged=False, locked=locked) as session:
        session.register("f", tmp_path / "f.parquet")
        session.register("m", rows)
        session.alternatives(f"SELECT count(*) FROM {source} JOIN f AS g ON {source}.a = g.b")
    assert [explained is not None and "HASH_JOIN" in explained for explained in given] == [known]


def test_no_others_are_made_where_the_first_are_far_behind(
    session: qoop.Session, all_long: None, decided_first: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 0.001)
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    monkeypatch.setattr("qoop.query.plan_store.SessionPlans.alternatives", None)  # a search would fail
    for _ in range(2):
        job = session.submit(JOIN, resume=False)
        job.result()
        assert "other plans should take much longer" in " ".join(map(str, job.history()))
    adaptive = session.planning.plan(JOIN).adaptive
    assert adaptive is not None and adaptive.quick_search(0.0) == ()
    overdue = adaptive.quick_search(100.0)
    assert overdue and [one.plan.root.whole for one in overdue][:2] == [True, False], "the first are compared by now"


def test_a_job_whose_tables_are_others_by_now_stays_with_its_plan(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 0.001)
    adaptive = session.planning.plan(JOIN).adaptive
    assert adaptive is not None and adaptive.quick_search(100.0)
    session.register("t", pa.table({"a": [1], "b": [2]}))
    assert adaptive.quick_search(100.0) == () and not adaptive.find(NOTHING)
    assert [row[:2] for row in session.sql(JOIN).fetchall()] == [(2, 1)]
    session.execute("DROP TABLE t")
    assert adaptive.quick_search(100.0) == ()


def test_a_policy_that_decides_by_more_than_seconds_is_always_asked(all_long: None) -> None:
    with qoop.connect(slots=2, memory="1GB", staged=False, policy="cheapest") as session:
        session.register("t", pa.table({"a": [1, 2], "b": [2, 3]}))
        adaptive = session.planning.plan(JOIN).adaptive
        assert adaptive is not None and adaptive.quick_search(0.0) is None


def test_a_job_whose_settings_are_others_by_now_stays_with_its_plan(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 0.001)
    adaptive = session.planning.plan(JOIN).adaptive
    assert adaptive is not None and adaptive.quick_search(100.0)
    session.sql("SET default_null_order = 'nulls_first'")
    assert not adaptive.quick_search(100.0)
    session.sql("RESET default_null_order")
    assert adaptive.quick_search(100.0) != ()


@pytest.mark.parametrize("reuse", [True, False])
def test_an_answer_that_is_there_counts_where_it_is_taken_over(
    reuse: bool, session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(seconds: float, reuse: bool) -> qoop.Job:
        expect(monkeypatch, seconds)
        shutil.rmtree(tmp_path / "kept" / "plans", ignore_errors=True)  # they have the estimate of the run before
        with qoop.connect(slots=2, memory="1GB", checkpoints=tmp_path / "kept", reuse=reuse, staged=False) as other:
            other.register_folder(tmp_path)
            job = other.submit(JOIN)
            assert job.result().fetchall() == duckdb_answer(tmp_path)
            return job

    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    assert plans(run(0.001, True)) == [True]
    assert plans(run(1000.0, reuse)) == [reuse]


@pytest.mark.parametrize("seconds", [0.001, 1000.0])
def test_a_process_that_starts_again_compares_plans_without_the_planner(
    seconds: float, session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate for DuckDB's plan is stored with the plan of stages."""

    def planned() -> bool:
        with qoop.connect(slots=2, memory="1GB", checkpoints=tmp_path / "kept", staged=False) as other:
            other.register_folder(tmp_path)
            plan = other.planning.plan(JOIN).plan
            assert other.sql(JOIN).fetchall() == duckdb_answer(tmp_path)
            return plan.root.whole

    expect(monkeypatch, seconds)
    is_whole = planned()
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    monkeypatch.setattr("qoop.query.plan_search.PlanSearch.prepare", None)  # to plan again would fail
    shutil.rmtree(tmp_path / "kept" / "runs")
    for output in (tmp_path / "kept").glob("*.arrow"):
        output.unlink()
    assert planned() == is_whole == (seconds < 1.0)


@pytest.mark.parametrize(("seconds", "is_costly"), [(0.3, True), (60.0, False)])
def test_other_plans_of_a_query_that_has_run_are_searched_for_its_next_run(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch, seconds: float, is_costly: bool
) -> None:
    """If the search takes much of a run, while no job runs. A plan that is known is left only if it is overdue, or
    is long and has lost slots."""
    planning = session.planning
    session.alternatives("SELECT max(a) FROM t")  # loads the planner
    own = replace(planning._own(JOIN, 2).taking(2 * seconds, "run"), runs=1)
    monkeypatch.setattr(planning, "_own", lambda *_: own)
    requests: list[bool] = []
    monkeypatch.setattr(planning._background, "ask", lambda *_: requests.append(False))
    monkeypatch.setattr(planning._background, "ask_when_idle", lambda *_: requests.append(True))
    adaptive = planning.plan(JOIN).adaptive
    assert adaptive is not None
    assert adaptive.quick_search(seconds) == () == adaptive.quick_search(seconds) and requests == [is_costly]
    assert adaptive.quick_search(2 * GOES_ON * seconds) != (), "it is overdue"
    compared: list[float] = []
    quick_plans = planning._quick_plans
    monkeypatch.setattr(planning, "_quick_plans", lambda *of: compared.append(of[1].cpu) or quick_plans(*of))
    adaptive.quick_search(seconds)
    session.resize(slots=1)
    adaptive.quick_search(seconds)
    assert compared == ([] if is_costly else [1.0])


def test_a_quick_search_is_for_the_slots_at_hand(session: qoop.Session, all_long: None) -> None:
    for slots in (2, 1):
        session.resize(slots=slots)
        adaptive = session.planning.plan(JOIN).adaptive
        assert adaptive is not None
        adaptive.quick_search(0.0)
        estimate = session.planning._own(JOIN, slots).others_estimated
        assert estimate is not None and estimate[0] == slots


def test_the_next_time_the_plan_that_took_less_is_begun_with(
    session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 1000.0)
    session.submit(JOIN).result()
    assert not session.submit(JOIN, resume=False).plan.root.whole, "it should take much less"
    session.submit(JOIN, resume=False).result()
    monkeypatch.setattr("qoop.query.planning.QueryPlanning._own_seconds", lambda *_: 0.0)
    assert session.submit(JOIN).plan.root.whole, "stages took longer than DuckDB should"


def test_what_was_measured_is_compared_with_estimates_at_the_pace_of_the_machine(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan is not left for stages if it took twice what they should, and plans take thrice what they should."""
    monkeypatch.setattr("qoop.query.duckdb_plans.KERNEL_PART", 1.0)
    planning, plans = session.planning, session.planning._duckdb_plans
    share, found = planning.usable, session.alternatives(JOIN).kept[1:]
    least = min(one.finish.seconds(share) for one in found)
    own = planning._own(JOIN, 2).taking(2.0 * least * 2, "run")  # of one thread, on two slots
    assert not planning._best(own, found, share).root.whole
    monkeypatch.setattr(type(planning), "_own_seconds", lambda _, own, share: own.seconds / 2)
    plans._slowdowns.extend([3.0, 1.0, 3.0, 9.0])
    assert plans.slowdown == 1.0, "four may be chance"
    plans._slowdowns.append(3.0)
    assert plans.slowdown == 3.0
    assert planning._best(own, found, share).root.whole
    assert not planning._best(replace(own, basis="statistics"), found, share).root.whole, "both are estimates"


@pytest.mark.parametrize(("runs", "part", "whole"), [(0, 0.6, False), (1, 0.6, True), (1, 0.4, False)])
def test_a_plan_that_has_run_is_left_for_a_trial_only_where_that_should_take_half_of_its_time(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch, runs: int, part: float, whole: bool
) -> None:
    planning = session.planning
    share, found = planning.usable, session.alternatives(JOIN).kept[1:]
    least = min(one.finish.seconds(share) for one in found)
    own = replace(planning._own(JOIN, 2).taking(least / part, "run"), runs=runs, estimated=None)
    monkeypatch.setattr(type(planning), "_own_seconds", lambda _, own, share: own.seconds)
    assert planning._best(own, found, share).root.whole == whole


def test_half_of_what_duckdbs_plan_was_misjudged_by_is_believed_of_others(session: qoop.Session) -> None:
    plans = session.planning._duckdb_plans
    own = session.planning._own(JOIN, 2).taking(8.0, "run")
    assert plans.slowdown_of_others(own) == 1.0, "it was not estimated, nor was anything else"
    assert plans.slowdown_of_others(replace(own, estimated=2.0)) == 2.0
    plans._slowdowns.extend([4.0] * 5)
    assert plans.slowdown_of_others(replace(own, estimated=0.5)) == pytest.approx(8.0)
    assert plans.slowdown_of_others(replace(own, basis="statistics", estimated=8.0)) == 1.0, "all are estimates"


def test_a_query_that_has_run_before_anything_was_estimated_is_estimated_later(
    session: qoop.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.query.duckdb_plans.seconds_from_footers", lambda *_: 1e-3)
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)  # or it is estimated while it runs
    session.submit(JOIN).result()
    session.planning.plan("SELECT 1 FROM t")
    before = session.planning._own(JOIN, 2)
    assert before.basis == "run" and before.estimated is None
    session.alternatives(JOIN)
    after = session.planning._own(JOIN, 2)
    assert after.estimated and (after.basis, after.seconds, after.runs) == ("run", before.seconds, 1)


def test_the_slowdown_follows_runs_with_estimates(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 1e-3)
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    for number in range(5):
        text = f"SELECT sum(hash(a + {number})) FROM t"
        session.alternatives(text)
        session.submit(text).result()
    session.planning.plan("SELECT 1 FROM t")
    assert session.planning._duckdb_plans.slowdown > 1.0


def test_outputs_that_are_to_survive_are_worth_stages(
    session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with qoop.connect(slots=2, memory="1GB", staged=False, checkpoints=tmp_path / "kept") as durable:
        durable.register("t", tmp_path / "t.parquet")
        expect(monkeypatch, 1000.0)
        assert not durable.submit(JOIN).plan.root.whole
    with qoop.connect(slots=2, memory="1GB", staged=False, checkpoints=tmp_path / "others") as durable:
        durable.register("t", tmp_path / "t.parquet")
        expect(monkeypatch, 0.0001)
        job = durable.submit(JOIN)
        assert job.plan.root.whole
        assert job.result().fetchall() == duckdb_answer(tmp_path)


def test_one_task_is_no_plan_where_the_outputs_of_stages_are_to_survive(session: qoop.Session, tmp_path: Path) -> None:
    """A plan of one task with all slots has nothing on disk before its end."""
    for staged in (True, False):
        with qoop.connect(slots=2, memory="1GB", staged=staged, checkpoints=tmp_path / "kept") as durable:
            durable.register("t", tmp_path / "t.parquet")
            assert durable.alternatives(JOIN).pool.grid.lone == (not staged)


def test_what_a_long_task_would_lose_counts_where_outputs_are_to_survive(
    session: qoop.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a minute a process is lost, with half of its task on average."""
    with qoop.connect(slots=2, memory="1GB", staged=False, checkpoints=tmp_path / "kept") as durable:
        durable.register("t", tmp_path / "t.parquet")
        share = durable.planning.usable
        kept = durable.alternatives(JOIN).kept
        lone = next(one for one in kept if one.variant.lone or len(one.plan.stages) == 1 == one.plan.root.width)
        long, short = lone.slower(60.0 / lone.finish.seconds(share)), lone
        for one, factor in ((long, 1.5), (short, 1.0)):
            [risky] = durable.planning._earlier.losses.among([one], share)
            assert risky.finish.seconds(share) == pytest.approx(factor * one.finish.seconds(share), rel=0.02)
            assert session.planning._earlier.losses.among([one], share) == [one]


def test_it_is_the_first_of_the_alternatives(session: qoop.Session) -> None:
    found = session.alternatives(JOIN)
    assert [one.plan.root.whole for one in found.kept] == [True] + [False] * (len(found.kept) - 1)
    assert len(found.kept) > 1
    assert "DuckDB" in session.explain(JOIN, alternatives=True)


def duckdb_answer(folder: Path) -> list[tuple[object, ...]]:
    return duckdb.sql(f"WITH t AS (FROM '{folder}/t.parquet') {JOIN}").fetchall()


def test_what_it_took_is_believed_from_then_on(session: qoop.Session) -> None:
    text = "SELECT count(*) FROM t JOIN t AS u ON t.b = u.b WHERE u.a < 2000;  -- the whole of it"
    before = session.planning.plan(text).plan.root.estimate.task_seconds
    session.sql(text)
    after = session.planning.plan(f"  {text}").plan.root.estimate.task_seconds
    assert after != before
    session.register("t", pa.table({"a": [1], "b": [2]}))
    assert session.planning.plan(text).plan.root.estimate.task_seconds not in (before, after), "other rows"


def test_stages_that_took_longer_than_they_should_are_not_gone_over_to(
    session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(monkeypatch, 1000.0)
    session.submit(JOIN).result()  # goes over to stages
    session.submit(JOIN).result()  # in stages from the start
    session.planning.plan(JOIN)  # learns of the jobs before
    known = session.planning._duckdb_plans
    slow = {key: replace(one, staged_seconds=1e6) for key, one in known._known.items()}
    monkeypatch.setattr(known, "_known", OrderedDict(slow))
    monkeypatch.setattr("qoop.adaptive.replanning.replanner.CHECK_AGAIN", 1e9)
    job = session.submit(JOIN)
    assert job.result().fetchall() == duckdb_answer(tmp_path)
    assert plans(job) == [True]


def known(session: qoop.Session) -> DuckDBPlan:
    """The memory of a session whose only query is the join."""
    session.planning.plan(JOIN)  # learns of the jobs before
    [one] = session.planning._duckdb_plans._known.values()
    return one


def gone_over(session: qoop.Session, monkeypatch: pytest.MonkeyPatch) -> tuple[qoop.Job, float]:
    """The join, once it has left DuckDB's plan for stages, and when it did, in its seconds."""
    expect(monkeypatch, 1000.0)
    with monkeypatch.context() as patched:
        decide_first(patched)
        job = session.submit(JOIN)
        job.result()
    [went_over] = [one.at for one in job.history() if isinstance(one, Switched) and one.number == 2]
    return job, went_over


def test_stages_that_a_query_goes_over_to_are_timed_from_then_on(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, went_over = gone_over(session, monkeypatch)
    [ended] = [one.at for one in job.history() if isinstance(one, Ended)]
    assert known(session).staged_seconds == pytest.approx((ended - went_over) / job._handle.slowed)
    assert (known(session).runs, known(session).staged_runs) == (0, 1)


def test_a_plan_of_duckdbs_that_was_left_is_known_to_take_longer_than_it_had_run(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the query would begin by it the next time, too, and others would be looked for too late again."""
    job, went_over = gone_over(session, monkeypatch)
    begun = next(one.at for one in job.history() if isinstance(one, Started))
    memory = session.planning._duckdb_plans
    little = {key: one.taking(1e-6, "statistics") for key, one in memory._known.items()}
    monkeypatch.setattr(memory, "_known", OrderedDict(little))
    one = known(session)
    assert (one.basis, one.runs) == ("run", 0)
    assert one.seconds == pytest.approx(GOES_ON * (went_over - begun) / on_threads(1.0, 2.0) / job._handle.slowed)


def test_stages_that_are_known_to_take_little_are_kept_to(session: qoop.Session) -> None:
    """However long the estimates say that they take."""
    found, share = session.alternatives(JOIN).kept, session.planning.usable
    took = min(one.finish.seconds(share) for one in found[1:]) / 2
    turned_out = as_they_turned_out(found, took, share)
    assert min(one.finish.seconds(share) for one in turned_out[1:]) < took * 1.2


@pytest.mark.parametrize(
    ("seconds", "runs", "staged_seconds", "staged_runs", "whole"),
    [
        (2.0, 2, 2.5, 2, True),  # thread seconds: half as long on two slots
        (6.0, 2, 2.5, 2, False),
        (5.0, 1, 2.5, 2, True),  # the only run may have been disturbed
        (6.0, 1, 2.5, 2, False),  # not by that much
        (4.0, 2, 2.5, 1, False),  # likewise
    ],
)
def test_a_way_that_hardly_ran_has_a_second_chance(
    session: qoop.Session,
    all_long: None,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    runs: int,
    staged_seconds: float,
    staged_runs: int,
    whole: bool,
) -> None:
    session.alternatives(JOIN)
    one = replace(known(session), runs=runs, staged_seconds=staged_seconds, staged_runs=staged_runs)
    memory = session.planning._duckdb_plans
    monkeypatch.setattr(memory, "_known", OrderedDict({key: one.taking(seconds, "run") for key in memory._known}))
    assert session.planning.plan(JOIN).plan.root.whole == whole


def failing(session: qoop.Session, query: str) -> qoop.query.job.Planned:
    """The query in stages, one of which computes what it cannot: as where DuckDB drops a row before an overflow."""
    planned = session.planning.plan(query)
    stages = session.prepare(query).planning().plan(Variant(), session.planning.usable).stages
    raising = replace(stages[0], sql=stages[0].sql.replace("SELECT", "SELECT CAST('x' || random() AS INTEGER),", 1))
    return replace(planned, plan=replace(planned.plan, stages=(raising, *stages[1:])))


def test_it_answers_where_a_stage_fails_by_what_it_computes(session: qoop.Session, caplog: LogCaptureFixture) -> None:
    query = "SELECT b, sum(a) FROM t GROUP BY b ORDER BY b"
    with caplog.at_level("INFO", logger="qoop"):
        job = session.start(failing(session, query))
        assert job.result().fetchall() == [(b, 124_975_000 + 5_000 * b) for b in range(10)]
    assert [plan.root.whole for plan in job.plans] == [False, True]
    last = next(one for one in job.history() if isinstance(one, Switched) and one.number == 2)
    assert "DuckDB's own plan began: 1 task to run" in str(last)
    assert "stopped, since Stage s1" in str(last)
    assert "Could not convert string 'x" in last.why
    assert any("DuckDB's own plan began" in record.message for record in caplog.records)
    again = session.planning.plan(query)
    assert again.plan.root.whole
    assert session.planning.plan(query).last_resort == again.plan


def test_its_error_is_told_where_it_fails_as_well(session: qoop.Session) -> None:
    job = session.start(failing(session, "SELECT sum(CAST(a || 'y' AS INTEGER)) FROM t"))
    with pytest.raises(qoop.ExecutionError, match="Could not convert string '0y'"):
        job.result()
    assert job.wait(60)


def test_stages_that_failed_are_not_tried_again(session: qoop.Session) -> None:
    query = "SELECT b, sum(a) FROM t GROUP BY b ORDER BY b"
    session.start(failing(session, query)).result()
    session.planning.plan(query)  # learns
    own = session.planning._own(query, 2)
    slow = own.taking(1e3, "run")
    found = session.planning.alternatives(query).kept
    assert session.planning._best(slow, found, session.planning.usable).root.whole
    left = as_they_turned_out(found, slow.staged_seconds, session.planning.usable)
    assert all(one.plan.root.whole for one in left)


def test_a_query_that_went_over_before_its_task_began_disturbs_no_other(
    session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch, caplog: LogCaptureFixture
) -> None:
    expect(monkeypatch, 1000.0)
    for module in ("extra_slots", "extra_grants"):
        monkeypatch.setattr(f"qoop.adaptive.cluster.granting.{module}.most_extra", lambda capacity: 0)
    monkeypatch.setattr("qoop.adaptive.cluster.granting.extra_slots._MORE_SHORT", 0)
    session.resize(slots=1)
    others = [session.submit(f"{FOREVER} AND i > {number}") for number in range(3)]
    job = session.submit(JOIN)
    until(lambda: len(job.plans) > 1)
    for other in others:
        other.cancel()
    assert job.result().fetchall() == duckdb_answer(tmp_path)
    assert plans(job) == [True, False]
    whole = job.plans[0].root.signature
    assert not any(isinstance(one, Started) and one.key.signature == whole for one in job.history())
    assert session.sql("SELECT 1").fetchall() == [(1,)]
    assert session.planning._own(JOIN, 1).staged_runs == 1 and not caplog.records


def test_a_query_that_has_begun_in_stages_is_not_led_back_by_the_same_estimates(
    session: qoop.Session, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.query.planning.COMPARE_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.quick_plans.held_to_take", lambda candidate, share, seconds: 0.0)
    expect(monkeypatch, 10.0)  # of one thread
    planned = session.planning.plan(JOIN)
    assert planned.adaptive is not None and not planned.plan.root.whole
    [own] = [one for one in planned.adaptive.find(NOTHING) if one.plan.root.whole]
    assert own.plan.root.estimate.task_seconds == pytest.approx(10.0 * KERNEL_PART * BOTH_ERR)


def test_what_does_not_fit_the_memory_counts_in_what_duckdbs_plan_should_take(all_long: None) -> None:
    rows = pa.table({"a": np.arange(1_000_000), "b": np.arange(1_000_000)})
    text = "SELECT a, b, count(*) AS n FROM t GROUP BY a, b"
    estimates = []
    for memory in ("50MB", "10GB"):
        with qoop.connect(slots=2, memory=memory, staged=False, statistics="full") as session:
            session.register("t", rows)
            adaptive = session.planning.plan(text).adaptive
            assert adaptive is not None
            adaptive.quick_search(0.0)
            estimates.append(session.planning._own(text, 2).estimated or 0.0)
    assert estimates[0] > 1.2 * estimates[1] > 0


def slow_stages(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Tasks of stages take that many times as long as they do."""
    run = Kernel.run

    def slowly(kernel: Kernel, spec: TaskSpec, *arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        made = run(kernel, spec, *arguments, **named)
        over = begun + factor * (time.perf_counter() - begun)
        while not spec.stage.whole and time.perf_counter() < over:
            time.sleep(0.01)
            arguments[1]()  # raises where the attempt is to stop
        return made

    monkeypatch.setattr(Kernel, "run", slowly)


def test_a_trial_of_stages_that_are_slow_ends_and_is_not_made_again(
    session: qoop.Session, tmp_path: Path, all_long: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's plan of the join has taken a second; stages should take less by their estimates."""
    session.alternatives(JOIN)
    one = known(session)
    memory = session.planning._duckdb_plans
    took = replace(one.taking(1.0 / on_threads(1.0, 2.0), "run"), runs=1)
    monkeypatch.setattr(memory, "_known", OrderedDict(dict.fromkeys(memory._known, took)))
    slow_stages(monkeypatch, 200.0)
    job = session.submit(JOIN)
    assert job.result().fetchall() == duckdb_answer(tmp_path)
    assert plans(job) == [False, True] and "a plan is on trial" in " ".join(map(str, job.history()))
    again = session.submit(JOIN)
    assert again.result().fetchall() == duckdb_answer(tmp_path) and plans(again) == [True]
    staged = known(session).staged_seconds
    assert staged is not None and staged > 1.0


@pytest.mark.parametrize(("conditions", "may"), [(("", ""), False), ((" WHERE b < 5", " WHERE b >= 5"), True)])
def test_subplans_are_written_out_in_a_quick_search_only_where_that_may_pay(
    session: qoop.Session, conditions: tuple[str, str], may: bool
) -> None:
    one, two = (f"(SELECT a, n FROM g{condition})" for condition in conditions)
    text = f"""WITH g AS (SELECT a, b, count(*) AS n FROM t GROUP BY a, b)
    SELECT count(*) FROM {one} x JOIN {two} y ON x.a = y.a"""
    assert session.planning.prepare(text).planning().may_inline() == may


def test_a_search_that_ends_early_leaves_no_explanation_running(
    session: qoop.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that closed meanwhile had a connection that was in use."""
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def explaining(*_: object) -> None:
        begun.set()
        assert goes_on.wait(PATIENCE)
        ended.set()

    def stops(*_: object) -> None:
        assert begun.wait(PATIENCE)
        threading.Timer(0.01, goes_on.set).start()
        raise QueryError("stops")

    planning = session.planning
    monkeypatch.setattr(planning._tables.catalog, "duckdb_plan", explaining)
    monkeypatch.setattr(planning, "_quick_plans", stops)
    with pytest.raises(QueryError, match="stops"):
        planning._with_quick_plans(planning._own(JOIN, 2), JOIN, planning.usable)
    assert ended.is_set()
