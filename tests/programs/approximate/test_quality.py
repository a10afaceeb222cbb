"""Shares by quality: where slots go among growing answers, what exact jobs and tenants keep, what a trace holds."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scheduler_world import Known, empty, fill, request

import qoop
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.described import made
from qoop.adaptive.schedulers.quality.sharing import Quality
from qoop.planner.packing import Available
from qoop.planner.plan import Plan, Resources
from qoop.programs.approximate.target import RoundStart
from qoop.programs.iterate.curves import step_gain
from qoop.tpcds.load.growing.simulate import Drawing, play

NEW = RoundStart(math.inf, math.inf, 0.01, 0, 64, 1024, 64)
WIDE = RoundStart(0.2, 0.2, 0.01, 64, 128, 1024, 64)
NARROW = RoundStart(0.02, 0.2, 0.01, 256, 512, 1024, 64)


def of(job: str, start: RoundStart | None, work: float = 10.0, served: float = 0.0) -> Request:
    return replace(request(job, (1, 1), remaining_work=Known(work, served=served)), gain=start and start.gain)


def granted(requests: list[Request], machines: dict[str, Available], policy: Quality | None = None) -> list[str]:
    return [grant.job for grant in fill(policy or Quality(), requests, machines, endless=True)]


def test_the_error_to_come_is_that_of_a_sample() -> None:
    assert WIDE.predicted(64) == 0.2 and WIDE.predicted(1024) == 0.0
    assert math.isclose(WIDE.predicted(512), 0.2 * math.sqrt((1 / 512 - 1 / 1024) / (1 / 64 - 1 / 1024)))
    assert NEW.gain == 1.0 > WIDE.gain > NARROW.gain > 0.0
    met = RoundStart(0.05, 0.2, 0.04, 256, 512, 1024, 64)
    assert math.isclose(met.gain, (0.05**2 - 0.04**2) / (0.2**2 - 0.04**2)), "nothing is gained below the target"


def test_a_slot_goes_where_it_takes_most_error_away() -> None:
    machines = empty(m=(3, 100))
    assert granted([of("j1", NARROW), of("j2", WIDE), of("j3", NEW)], machines) == ["j3"] * 3
    assert granted([of("j1", NARROW), of("j2", WIDE)], empty(m=(1, 100))) == ["j2"]
    assert granted([of("j1", WIDE, work=10.0), of("j2", WIDE, work=1.0)], empty(m=(1, 100))) == ["j2"]
    steps = [replace(of(f"j{n}", None), gain=step_gain(fall, 1.0)) for n, fall in ((1, 0.1), (2, 0.5))]
    assert granted(steps, empty(m=(1, 100))) == ["j2"]


def test_exact_jobs_and_tenants_keep_their_shares() -> None:
    jobs = [of("j1", None), of("j2", NARROW), of("j3", NEW), of("j4", None)]
    found = granted(jobs, empty(m=(8, 100)))
    assert [found.count(one) for one in ("j1", "j2", "j3", "j4")] == [2, 0, 4, 2]
    heavy = [replace(of("j1", NARROW), tenant="a", tenant_weight=3.0), replace(of("j2", NEW), tenant="b")]
    found = granted(heavy, empty(m=(8, 100)))
    assert found.count("j1") == 6 and found.count("j2") == 2


def test_a_job_gets_its_least_over_time() -> None:
    policy = Quality(least=0.5)
    jobs = [of("j1", NARROW), of("j2", NEW, served=100.0)]
    assert policy.fair_shares(jobs, Resources(2, 100), now=0.0) == {"j1": Resources(1, 50), "j2": Resources(1, 50)}
    one = empty(m=(1, 100))
    grant = policy.next_grant(jobs, one, now=0.0)
    assert grant is not None and grant.job == "j2", "nothing is owed yet"
    grant = policy.next_grant(jobs, one, now=10.0)
    assert grant is not None and grant.job == "j1", "it was to have had five slot seconds"
    policy.fair_shares(jobs, Resources(2, 100), now=10.0)
    grant = policy.next_grant([replace(jobs[0], remaining_work=Known(10.0, served=6.0)), jobs[1]], one, now=11.0)
    assert grant is not None and grant.job == "j2"


def test_a_decision_for_100_jobs_takes_less_than_10_milliseconds() -> None:
    jobs = [of(f"j{number}", WIDE if number % 2 else NARROW, work=1.0 + number) for number in range(100)]
    policy = Quality()
    policy.fair_shares(jobs, Resources(40, 400), now=0.0)
    seconds = []
    for turn in range(10):
        fresh = [replace(job) for job in jobs]  # nothing is remembered of them
        begun = time.thread_time()
        assert policy.next_grant(fresh, empty(m=(40, 400)), now=float(turn)) is not None
        seconds.append(time.thread_time() - begun)
    assert min(seconds) < 0.010


@pytest.mark.parametrize("gain", [None, 0.0, NARROW.gain])
def test_a_trace_holds_the_gain_and_the_parameters(gain: float | None) -> None:
    codec = TraceCodec()
    asked = JobRequest(Plan((), ()), gain=gain)
    written = codec.write(asked)
    for line in codec.definitions():
        codec.define(json.loads(line))
    assert codec.read(JobRequest, written).gain == gain
    assert repr(made(repr(Quality(least=0.4)))) == "Quality(least=0.4)"


def test_errors_fall_sooner_than_under_max_min_with_the_same_rounds() -> None:
    drawing = Drawing(0.9, 1, seconds=120.0, tenants=1)
    fair, ours = play("max-min", drawing), play("quality", drawing)
    assert fair.answers == ours.answers > 5
    assert ours.area < fair.area and ours.to_90 < fair.to_90


def test_answers_grow_under_the_scheduler() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"k": rng.integers(0, 4, 300_000), "v": rng.gamma(2.0, 10.0, 300_000)})
    text = "SELECT k, sum(v) AS s FROM t GROUP BY k"
    with qoop.connect(slots=2, memory="1GB", scheduler="quality") as session:
        session.register("t", table)
        answers = [session.approximate(text, error=error, seed=1) for error in (0.1, 0.1, 0.0)]
        last = [answer.last() for answer in answers]
        told = [job._handle._run.job for answer in answers for job in answer.jobs]
        assert len(told) == len(set(told)) > 3
        assert [one.exact for one in last] == [False, False, True] and last[0].share == last[1].share < 1
        whole = dict(session.sql(text).fetchall())
        assert dict(last[2].plain().fetchall()) == pytest.approx(whole)
