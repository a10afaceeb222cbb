"""Outputs worth writing: by hand, against all sets there are, and on real data, with the process's end in between."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_world import option

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.replanning.worthwhile import Course, Worthwhile
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Saved
from qoop.planner.plan import Plan, Resources

CHAIN = "a 1 10\nb 1 20 a\nc 1 30 b\nroot 1 1 c"


def plan(text: str) -> Plan:
    return option(text).candidate.plan


def course(text: str, slots: float = 1) -> Course:
    return Course.of(plan(text), Resources(slots))


def test_a_chain_runs_one_stage_after_the_other() -> None:
    assert course(CHAIN).ends == pytest.approx((10, 30, 60, 61), rel=0.01)


def test_stages_next_to_each_other_take_the_time_that_all_of_their_work_takes() -> None:
    both = "a 4 10\nb 4 10\nroot 1 1 a b"
    assert course(both, slots=8).ends == pytest.approx((10, 10, 11), rel=0.01)
    assert course(both, slots=4).ends[-1] == pytest.approx(20.25, rel=0.01)


def test_what_would_be_done_again_is_what_is_not_written_and_still_read() -> None:
    run = course(CHAIN)
    assert run.lost(frozenset(), 59) == {1, 0}  # c runs: it needs b, and b needs a
    assert run.lost(frozenset({1}), 59) == frozenset()
    assert run.lost(frozenset({0}), 59) == {1}
    assert run.lost(frozenset(), run.ends[-1]) == frozenset()  # the answer is there


def test_work_at_risk_by_hand() -> None:
    """Nothing written: a counts in half for 10 s, b for 20 s on top of all of a, c for 30 s on top of a and b, …"""
    by_hand = 10 * 5 + 20 * (10 + 10) + 30 * (30 + 15) + 1 * (60 + 0.5)
    assert course(CHAIN).at_risk(frozenset()) == pytest.approx(by_hand, rel=0.01)
    assert course(CHAIN).at_risk(frozenset(range(4))) == 0


def test_dear_writing_and_rare_failures_leave_nothing_worth_it() -> None:
    free = Worthwhile(every=60, most_lost=1e9, byte_seconds=0, output_seconds=0)
    never = Worthwhile(every=1e9, most_lost=1e9, output_seconds=1, free=0)
    assert free.stages(plan(CHAIN), Resources(1)) >= {"a", "b", "c"}
    assert never.stages(plan(CHAIN), Resources(1)) == frozenset()


def test_of_a_chain_the_output_late_in_it_is_written_first() -> None:
    """Writing costs 4 s: b saves a and b for 31 s, a saves a for 51 s."""
    some = Worthwhile(every=240, most_lost=1e9, byte_seconds=0, output_seconds=4)
    assert some.stages(plan(CHAIN), Resources(1)) == {"b", "c"} or some.stages(plan(CHAIN), Resources(1)) == {"b"}


shapes = st.lists(st.tuples(st.integers(1, 8), st.floats(0.1, 30), st.integers(0, 7)), min_size=1, max_size=5)


def _text(stages: list[tuple[int, float, int]]) -> str:
    lines = []
    for i, (width, seconds, reads) in enumerate(stages):
        sources = " ".join(f"s{j}" for j in range(i) if reads >> j & 1)
        lines.append(f"s{i} {width} {seconds} {sources}".strip())
    everything = " ".join(f"s{i}" for i in range(len(stages)))
    return "\n".join([*lines, f"root 1 1 {everything}"])


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(1, 8), st.floats(10, 5000), st.floats(0, 2))
def test_no_set_of_stages_costs_much_less_and_none_loses_more_than_promised(
    stages: list[tuple[int, float, int]], slots: int, every: float, each: float
) -> None:
    made, share = plan(_text(stages)), Resources(slots)
    run, free = Course.of(made, share), Worthwhile(every, 1e9, 0.0, each, free=0)

    def cost(places: frozenset[int]) -> float:
        return sum(made.stages[i].width * each for i in places) + run.at_risk(places) / every

    everything = range(len(made.stages))
    sets = chain.from_iterable(combinations(everything, size) for size in range(len(made.stages) + 1))
    names = {stage.id: i for i, stage in enumerate(made.stages)}
    chosen = frozenset(names[id] for id in free.stages(made, share))
    assert cost(chosen) <= 1.25 * min(cost(frozenset(places)) for places in sets) + 1e-9
    bound = Worthwhile(every, 20.0, 0.0, each, free=0).stages(made, share)
    assert run.most_lost(frozenset(names[id] for id in bound))[0] <= 20.0


def test_a_run_writes_the_outputs_of_just_these_stages_and_resumes_from_them() -> None:
    """The process ends while c runs, at 40 s: of the chain b was written, so that a and b need not run again."""
    made = plan(CHAIN)
    saving = Worthwhile(every=240, most_lost=1e9, byte_seconds=0, output_seconds=4)
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(1)}, clock)
    cluster = Cluster(backend, clock=clock, thread=False)
    cluster.submit(JobRequest(made, durable=True, saving=saving))
    while clock.now() <= 30.001:
        cluster.step()
    written = {spec.stage.id for spec in backend.started if spec.durable}
    assert written == saving.stages(made, Resources(1)) & {"a", "b", "c"} and "a" not in written and "b" in written
    again = frozenset(i for i, stage in enumerate(made.stages) if stage.id in written)
    assert course(CHAIN).lost(again, clock.now()) == frozenset()


@pytest.mark.parametrize("saving", [None, Worthwhile(every=1.0)])
def test_without_durable_nothing_is_written(saving: Worthwhile | None) -> None:
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(1)}, clock)
    cluster = Cluster(backend, clock=clock, thread=False)
    cluster.submit(JobRequest(plan(CHAIN), saving=saving))
    while cluster.busy:
        cluster.step()
    assert not any(spec.durable for spec in backend.started)


TEXT = "SELECT k % 7 AS g, count(*) AS n, sum(v) AS s FROM facts WHERE v > 3 GROUP BY 1 ORDER BY 1"


def _facts() -> pa.Table:
    return pa.table({"k": range(200_000), "v": [i % 100 for i in range(200_000)]})


def _written(persist: str, folder: Path) -> tuple[int, list[tuple[object, ...]]]:
    with qoop.connect(slots=2, memory="1GB", checkpoints=folder, persist=persist) as session:
        session.register("facts", _facts())
        job = session.submit(TEXT)
        rows = job.result().fetchall()
        session.backend.store.flush()
        files = sum(one.parent.name != "runs" for one in folder.rglob("*.json"))  # the notes of a run end after it
        assert sum(isinstance(record, Saved) for record in job.history()) <= files
    return files, rows


def test_short_queries_write_nothing_if_only_what_is_worthwhile_is_written(tmp_path: Path) -> None:
    all_files, rows = _written("all", tmp_path / "all")
    few_files, same = _written("worthwhile", tmp_path / "few")
    assert all_files > 0 and few_files == 0
    assert rows == same and len(rows) == 7


def test_sessions_give_their_jobs_the_parts_that_are_switched_on() -> None:
    def policy_of(**options: Any) -> tuple[str, str]:
        with qoop.connect(slots=2, memory="1GB", **options) as session:
            session.register("facts", _facts())
            adaptive = session.planning.plan(TEXT).adaptive
            assert adaptive is not None
            assert len(session.sql(TEXT).fetchall()) == 7
            return type(adaptive.policy).__name__, type(session.cluster._scheduler).__name__

    assert policy_of() == ("Greedy", "Reserving")
    assert policy_of(policy="cheapest", scheduler="LAS()") == ("Priced", "LAS")


def test_options_that_there_are_not_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="policy must be one of greedy, cheapest, not 'bold'"):
        qoop.connect(policy="bold")
    with pytest.raises(ConfigError, match="persist must be one of learned, all, worthwhile"):
        qoop.connect(checkpoints=tmp_path, persist="some")


WIDE = "a 1 10\nb 4 20 a\nc 1 30 b\nd 9 2 c\nroot 1 1 d"


@given(shapes, st.integers(1, 8), st.floats(0, 2), st.floats(0, 0.2))
def test_without_losses_writing_takes_only_its_free_part_of_the_work(
    stages: list[tuple[int, float, int]], slots: int, each: float, free: float
) -> None:
    made, share = plan(_text(stages)), Resources(slots)
    chosen = Worthwhile(1e12, 1e12, 0.0, each, free).stages(made, share)
    writing = sum(stage.width * each for stage in made.stages if stage.id in chosen)
    assert writing <= free * sum(Course.of(made, share).work) + 1e-9


def test_the_most_valuable_outputs_are_written_within_the_free_part() -> None:
    """Of 123 s of work, 3.7 s are free: c, 30 s in one output, comes first; b, 80 s in four, exceeds what is left."""
    rule = Worthwhile(every=1e12, most_lost=1e12, byte_seconds=0, output_seconds=1.5)
    assert rule.stages(plan(WIDE), Resources(1)) == {"a", "c"}
    assert replace(rule, free=0.0).stages(plan(WIDE), Resources(1)) == frozenset()


def test_a_run_writes_little_where_losses_are_rare_and_all_where_they_are_not() -> None:
    def written(every: float) -> tuple[set[str], float]:
        clock = VirtualClock()
        backend = SimulatedBackend({"m": Resources(1)}, clock)
        cluster = Cluster(backend, clock=clock, thread=False)
        rule = Worthwhile(every, 1e12, 0.0, 1.5)
        cluster.submit(JobRequest(plan(WIDE), durable=True, saving=rule))
        while cluster.busy:
            cluster.step()
        durable = [spec.stage.id for spec in backend.started if spec.durable]
        return set(durable), 1.5 * len(durable) / clock.now()

    few, part = written(1e12)
    assert few and part <= 0.03
    most, _ = written(60.0)
    assert most > few and {"a", "b", "c"} <= most
