"""The slowdown of a session's jobs, which is believed of the next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.replanning.slowdown import MachineSlowdown
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.task import TaskSpec
from qoop.planner.plan import CallEstimate, Estimate, Plan, Resources, Stage, StageInput

COLUMNS = (("x", "BIGINT"),)
SCAN = Stage("scan", "", (), COLUMNS, 12, "scan", estimate=Estimate(task_seconds=2.0))
ROOT = Stage("root", "", (StageInput("scan", "scan", "all"),), COLUMNS, 1, "root", estimate=Estimate(task_seconds=1.0))
PLAN = Plan((SCAN, ROOT), COLUMNS)


def run(factor: float, plan: Plan = PLAN, slowdown: float = 1.0) -> tuple[JobHandle, float, float]:
    """A job on four slots whose tasks take that many times as long as estimated; the end that was told once it had
    begun, and the true one."""
    clock = VirtualClock()

    def script(spec: TaskSpec) -> Outcome:
        usual = as_estimated(spec)
        return replace(usual, seconds=usual.seconds * factor)

    cluster = Cluster(SimulatedBackend({"m": Resources(4, 8e9)}, clock, script), clock=clock, thread=False)
    handle = cluster.submit(JobRequest(plan, slowdown=slowdown))
    cluster.step(0.1)
    left = handle.status().left
    assert left is not None
    told = clock.now() + left.likely
    while cluster.busy:
        cluster.step()
    return handle, told, clock.now()


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_the_more_jobs_have_told_the_more_it_is_believed(factor: float) -> None:
    learned, values = MachineSlowdown(), []
    for _ in range(9):
        handle, told, end = run(factor, slowdown=learned.value)
        learned.learn(PLAN, handle.history())
        values.append(learned.value)
    assert values == sorted(values, reverse=factor < 1.0)
    assert values[-1] == pytest.approx(factor, rel=0.1) and told == pytest.approx(end, rel=0.1)


def test_it_follows_what_the_last_jobs_told() -> None:
    learned = MachineSlowdown()
    for factor, jobs in ((4.0, 20), (1.0, 20)):
        for _ in range(jobs):
            learned.learn(PLAN, run(factor)[0].history())
    assert learned.value == pytest.approx(1.0, rel=0.01)


def test_duckdbs_plan_and_short_tasks_tell_nothing() -> None:
    learned = MachineSlowdown()
    history = run(4.0)[0].history()
    learned.learn(Plan(tuple(replace(stage, whole=True) for stage in PLAN.stages), COLUMNS), history)
    short = Plan((replace(SCAN, width=1, estimate=Estimate(task_seconds=1e-3)),), COLUMNS)
    learned.learn(short, run(4.0, short)[0].history())
    learned.learn(PLAN, ())
    assert learned.value == 1.0


def test_a_job_far_from_its_estimates_tells_no_more_than_four_times() -> None:
    learned = MachineSlowdown()
    learned.learn(PLAN, run(100.0)[0].history())
    assert 1.0 < learned.value < 4.0


def test_functions_of_python_tell_nothing() -> None:
    calling = replace(SCAN, estimate=Estimate(task_seconds=2.0, calls=(CallEstimate("f@1", 10.0, 1e-6),)))
    learned = MachineSlowdown()
    learned.learn(Plan((calling,), COLUMNS), run(4.0, Plan((calling,), COLUMNS))[0].history())
    assert learned.value == 1.0


def test_a_session_tells_the_next_job() -> None:
    with qoop.connect(slots=2) as session:
        session.register("t", pa.table({"i": np.arange(1_000_000)}))
        query = "SELECT i // 142858 AS k, max(md5(repeat(i::VARCHAR, {}))) FROM t GROUP BY k ORDER BY k"
        assert session.planning.slowdown == 1.0
        for times in (20, 21):
            assert len(session.sql(query.format(times)).fetchall()) == 7
        assert session.planning.slowdown > 1.0, "long texts take longer than is believed: of that rows tell nothing"


def test_of_rows_that_were_misjudged_the_pace_tells_nothing() -> None:
    """The groups of one query are 200 times as many as is believed, and the plan's seconds are put right by that. Those
    of the other, which runs next to it, are as many as is believed."""
    query = "SELECT count(*) FROM (SELECT {} AS k, sum(i) AS s FROM t GROUP BY k) WHERE s > {}"
    options = {"slots": 1, "memory": "2GB"}
    with qoop.connect(**options) as misjudged, qoop.connect(**options) as judged_well:
        for session in (misjudged, judged_well):
            session.register("t", pa.table({"i": np.arange(1_000_000)}))
        for least in (3, 4):
            for session, key in ((misjudged, "hash(i) % 970_000"), (judged_well, "i")):
                assert session.sql(query.format(key, least)).fetchall() != [(0,)]
        assert 0.4 < misjudged.planning.slowdown / judged_well.planning.slowdown < 2.5
