"""Traces: what goes in and comes out of a session is written, read back and gone through again with the same result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_trace import MemoryTrace

import qoop
from qoop.__main__ import main
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import CancelRequested, JobRequest, PinRequested, SuspendRequested
from qoop.adaptive.cluster.recording.trace import INPUTS, OUTPUTS, Chain
from qoop.adaptive.cluster.recording.trace_codec import read_error, write_error
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.retrace.reading import Recording, read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.adaptive.retrace.story import story
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import ConfigError, ExecutionError, OutOfMemory, Revoked, Suspended
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import (
    CallsObserved,
    CapacityExpected,
    CapacityNotice,
    CheckpointLost,
    MachineJoined,
    MachineLost,
    SlotsChanged,
    TaskFailed,
    WorkObserved,
)
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.history import Ended
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import CallEstimate, Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate

GB = 2**30
COLUMNS = (("x", "INTEGER"),)


def available(slots: float) -> Resources:
    return Resources(slots, slots * GB)


def stage(name: str, width: int, seconds: float, *reads: str, rows: float = 1.0, meaning: str = "") -> Stage:
    inputs = tuple(StageInput(read, read, "all") for read in reads)
    estimate = Estimate(rows=rows, task_seconds=seconds)
    return Stage(name, f"SELECT '{name}' AS x", inputs, COLUMNS, width, meaning or name, estimate=estimate)


def plan(*stages: Stage) -> Plan:
    return Plan(stages, COLUMNS)


WIDE = plan(stage("scan", 2, 1), stage("wide", 8, 2, "scan", rows=100_000), stage("root", 1, 1, "wide"))
NARROW = plan(stage("scan", 2, 1), stage("narrow", 1, 6, "scan"), stage("root", 1, 1, "narrow"))


class World:
    """Simulated machines under a cluster that is turned by hand and traced."""

    def __init__(
        self,
        slots: float = 8,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        machines: int = 1,
        extra_slots: bool = False,
    ) -> None:
        self.slots = slots
        self.clock = VirtualClock(100.0)
        capacity = {f"m{number}": available(slots / machines) for number in range(machines)}
        self.backend = SimulatedBackend(capacity, self.clock, script)
        self.trace = MemoryTrace()
        self.cluster = Cluster(
            self.backend, clock=self.clock, trace=self.trace, thread=False,
            options=ClusterOptions(wait_for_capacity=50, extra_slots=extra_slots),
        )  # fmt: skip

    def submit(self, launch: Plan, *others: Plan, **options: object) -> JobHandle:
        adaptive = Adaptive(lambda _: [Candidate(other, "") for other in others], available(self.slots))
        return self.cluster.submit(JobRequest(launch, adaptive=adaptive, **options))  # type: ignore[arg-type]

    def run_to_end(self) -> None:
        for _ in range(10_000):
            if not self.cluster.busy:
                return
            self.cluster.step()
        raise AssertionError("jobs never end")

    def recording(self, folder: Path) -> Recording:
        path = folder / "trace.jsonl"
        path.write_text("".join(f"{line}\n" for line in self.trace.to_json()))
        return read_trace(path)


def slots(at: float, count: float) -> tuple[SlotsChanged, float]:
    return SlotsChanged("m0", available(count)), 100 + at


def shrunk() -> World:
    world = World()
    world.backend.happen(*slots(1.5, 1))
    world.submit(WIDE, NARROW)
    world.run_to_end()
    return world


def test_what_functions_took_is_in_the_trace_and_decides_again(tmp_path: Path) -> None:
    """An attempt tells it while it runs, others at their end."""

    def dear(spec: TaskSpec) -> Outcome:
        called = (FunctionCalls("f@1", 10_000, 10.0),) if spec.stage.estimate.calls else ()
        return Outcome(10.1 if called else 1.0, called=called)

    scan = stage("scan", 16, 1)
    scan = replace(scan, estimate=replace(scan.estimate, calls=(CallEstimate("f@1", 10_000, 1e-6),)))
    world = World(script=dear)
    told = FunctionCalls("f@1", 100, 0.1)
    world.backend.happen(CallsObserved(AttemptId(TaskId("job1", "scan", 0), 1), (told,)), 100.4)
    handle = world.submit(
        plan(scan, stage("root", 1, 1, "scan")), plan(stage("late", 4, 1), stage("root", 1, 1, "late"))
    )
    world.run_to_end()
    again = rerun(world.recording(tmp_path))
    assert again.difference is None and again.decisions == 1
    (job,) = again.jobs
    assert job.history == handle.history() and any("f takes" in str(record) for record in job.history)


# --- simulated ----------------------------------------------------------------------------------------------


def test_a_rerun_comes_to_the_same_decisions_and_says_so(tmp_path: Path) -> None:
    world = shrunk()
    found = rerun(world.recording(tmp_path))
    assert found.difference is None and found.ticks > 5 and found.decisions == 1
    assert str(found) == f"{found.ticks} ticks, 1 decision: all the same"


def test_a_rerun_changes_to_the_fallback_plan_as_the_job_did(tmp_path: Path) -> None:
    def overflowing(spec: TaskSpec) -> Outcome:
        error = ExecutionError("an overflow") if spec.stage.id == "wide" else None
        return Outcome(1.0, error=error, retryable=False)

    world = World(script=overflowing)
    handle = world.submit(WIDE, NARROW, fallback=plan(stage("own", 1, 3)))
    world.run_to_end()
    assert [one.root.id for one in handle.plans()] == ["root", "own"]
    found = rerun(world.recording(tmp_path))
    assert found.difference is None
    assert [str(record) for record in found.jobs[0].history] == [str(record) for record in handle.history()]
    assert handle.history()[-1] == Ended(handle.history()[-1].at, "SUCCEEDED", None)


def test_a_rerun_has_the_history_of_the_jobs(tmp_path: Path) -> None:
    world = World()
    world.backend.happen(*slots(1.5, 1))
    handle = world.submit(WIDE, NARROW, text="SELECT x")
    world.run_to_end()
    (job,) = rerun(world.recording(tmp_path)).jobs
    assert (job.job, job.text, job.plans) == (handle.id, "SELECT x", handle.plans())
    assert [str(record) for record in job.history] == [str(record) for record in handle.history()]


def test_another_hysteresis_is_a_difference(tmp_path: Path) -> None:
    found = rerun(shrunk().recording(tmp_path), policy=Greedy.asking(0.99))
    assert found.difference is not None
    text = str(found.difference)
    assert "recorded: job1: at 1.510 s the share fell from 8 to 1 slots; plan B" in text
    assert "rerun:    job1: at 1.510 s" in text and "stayed: the gain is less than 99%" in text


def test_another_scheduler_is_a_difference(tmp_path: Path) -> None:
    class LastFirst(MaxMin):
        def next_grant(self, requests, availability, now=0.0):  # type: ignore[no-untyped-def]
            return super().next_grant(requests[-1:], availability, now)

    world = World(3)
    for _ in range(3):
        world.submit(WIDE)
    world.run_to_end()
    assert rerun(world.recording(tmp_path)).difference is None
    assert rerun(world.recording(tmp_path), scheduler=LastFirst).difference is not None


OPTIONS = (WIDE, NARROW, plan(stage("scan", 2, 1), stage("few", 3, 3, "scan"), stage("root", 1, 1, "few")))
ELASTIC = Plan((replace(stage("whole", 1, 9), whole=True, slots=8),), WIDE.columns)


class Script:
    """The outcomes of attempts, drawn by lot: mostly as estimated; other rows; failures of some kinds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def __call__(self, spec: TaskSpec) -> Outcome:
        usual = as_estimated(spec)
        match self.random.randrange(12):
            case 0:
                return replace(usual, error=ExecutionError("bad luck"), retryable=True)
            case 1:
                return replace(usual, error=OutOfMemory("too little"), retryable=True)
            case 2:
                return replace(usual, error=Revoked("gone"), retryable=True)
            case 3:
                return replace(usual, rows=200_000)
            case 4 if self.random.random() < 0.1:
                return replace(usual, error=ExecutionError("no hope"), retryable=False)
        return replace(usual, seconds=usual.seconds * self.random.uniform(0.5, 2))


class Lot:
    """The actions of callers and machines, drawn by lot, tick after tick."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.world = World(8, Script(seed), machines=random.choice([1, 2]), extra_slots=seed % 2 == 0)
        self.handles: list[JobHandle] = []

    def run(self) -> World:
        self.submit()
        for _ in range(self.random.randint(5, 60)):
            self.act()
            if self.world.cluster.busy:
                self.world.cluster.step(self.random.choice([None, 0.3, 2.0]))
        self.world.backend.happen(MachineJoined("m9", available(8)), self.world.clock.now())
        self.world.run_to_end()
        for handle in self.handles:
            handle.release()
        self.world.run_to_end()
        return self.world

    def submit(self) -> None:
        launch, *others = self.random.sample((*OPTIONS, ELASTIC), 3)
        handle = self.world.submit(
            launch, *others, timeout=self.random.choice([None, None, 9.0, 1e6]),
            terms=Terms(weight=self.random.choice([1.0, 2.5])),
            reuse=self.random.random() < 0.5,
        )  # fmt: skip
        self.handles.append(handle)

    def act(self) -> None:
        machine = f"m{self.random.randrange(2)}"
        handle, now = self.random.choice(self.handles), self.world.clock.now()
        happen = self.world.backend.happen
        match self.random.randrange(16):
            case 0 if len(self.handles) < 4:
                self.submit()
            case 1:
                handle.reconsider("it was time")
            case 2 if self.random.random() < 0.3:
                handle.cancel()
            case 4:
                self.world.cluster.post(PinRequested(handle.id))
            case 3 if self.random.random() < 0.3:
                self.suspend(handle)
            case 5 | 6 | 7:
                happen(SlotsChanged(machine, available(self.random.randint(0, 8))), now)
            case 8:
                left = available(self.random.randint(0, 4))
                happen(CapacityNotice(machine, left, now + 2), now)
                happen(SlotsChanged(machine, left), now + 2)
            case 9 if self.random.random() < 0.5:
                happen(MachineLost(machine), now)
            case 10:
                happen(MachineJoined(machine, available(self.random.randint(1, 8))), now)
            case 11:
                happen(CheckpointLost(checkpoint_key(self.random.choice(WIDE.stages), 0)), now)
            case 12:
                happen(TaskFailed(AttemptId(TaskId("job1", "scan", 0), 1), ExecutionError("late"), True), now)
            case 13:
                self.resize()
            case 14:
                attempt = AttemptId(TaskId("job1", "scan", 0), self.random.randint(1, 3))
                happen(CallsObserved(attempt, (FunctionCalls("f@1", 10, self.random.random()),)), now)
                happen(WorkObserved(attempt, self.random.random(), 1.0 + self.random.random()), now)
            case 15:
                self.expect(now)

    def suspend(self, handle: JobHandle) -> None:
        self.world.cluster.post(SuspendRequested(handle.id, "bundle"))
        self.world.cluster.post(CancelRequested(handle.id, Suspended("to be gone on with elsewhere")))

    def expect(self, now: float) -> None:
        slots = self.random.randint(0, 12)
        if self.random.random() < 0.5:
            self.world.cluster.expect([(2.0, slots), (4.0, slots + 1)])
        else:
            self.world.backend.happen(CapacityExpected(((now + 2.0, available(slots)),)), now)

    def resize(self) -> None:
        notice = self.random.choice([0.0, 3.0])
        with suppress(ConfigError):  # where there are two machines it is refused
            self.world.cluster.resize(self.random.randint(0, 8), None, notice)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000))
@example(600)  # a job is due in a turn in which nothing else happens, and that turn changes what is asked later
def test_whatever_happens_a_rerun_comes_to_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    world = Lot(seed).run()
    recording = world.recording(tmp_path_factory.mktemp("traces"))
    found = rerun(recording)
    assert str(rerun(recording)) == str(found)
    assert found.difference is None, f"seed {seed}: {found}"
    assert found.ticks > 0


def test_jobs_that_take_turns_are_gone_through_again(tmp_path: Path) -> None:
    """They should be short and are not, so that they lose extra slots, and tasks are interrupted for others."""
    world = World(1, lambda _: Outcome(30.0), extra_slots=True)
    handles = [world.submit(plan(stage(f"q{number}", 1, 0.1))) for number in range(5)]
    world.run_to_end()
    told = [str(record) for handle in handles for record in handle.history()]
    assert any("it is not short" in one for one in told) and any("has waited for" in one for one in told)
    assert rerun(world.recording(tmp_path)).difference is None


def test_the_lots_reach_everything_that_can_be_in_a_trace() -> None:
    """Else the test above would prove little."""
    seen = {type(entry.what).__name__ for seed in range(60) for entry in Lot(seed).run().trace.entries}
    real = {"CheckpointSaved", "CloseRequested", "PauseRequested"}  # only sessions have these
    real |= {"SampleOffered"}  # and only they know of approximate answers (test_deadlines.py)
    real |= {"MachineSlept"}  # and only their machines sleep (monitor/test_sleep.py)
    real |= {"ProgramMessage", "ProgramStepped"}  # and of programs (test_told.py)
    real |= {"Queued", "Begun"}  # and only machines with kernels these (test_replayed_policies.py)
    assert {*INPUTS, *OUTPUTS, "Start"} - seen == {*real, "Starting"}


# --- real ---------------------------------------------------------------------------------------------------


SALES = pa.table({"item": [i % 5000 for i in range(300_000)], "price": list(range(300_000))})
ITEMS = pa.table({"item": list(range(5000)), "name": [f"item {i % 40}" for i in range(5000)]})
QUERY = """SELECT name, sum(s.price) AS total, count(DISTINCT t.price) AS prices
FROM sales s JOIN items USING (item) JOIN sales t USING (item) WHERE s.price % 7 < 3 GROUP BY name"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a session with jobs side by side, one of them cancelled and one that fails, while it is resized."""
    path = tmp_path_factory.mktemp("traces") / "session.jsonl"
    with qoop.connect(slots=2, memory="2GB", trace=path) as session:
        session.register("sales", SALES)
        session.register("items", ITEMS)
        jobs = [session.submit(QUERY), session.submit(f"{QUERY} ORDER BY total LIMIT 3", weight=2.0)]
        doomed = session.submit("SELECT sum(a.price * b.price % 7) AS s FROM sales a, sales b, sales c")  # without end
        failing = session.submit("SELECT CAST(name AS INTEGER) FROM items")
        for count in (1, 0, 2, 1, 2):
            time.sleep(0.03)
            session.resize(slots=count)
        doomed.cancel()
        session.resize(slots=1, notice=0.05)
        assert [job.result().fetchall() != [] for job in jobs] == [True, True]
        with pytest.raises(ExecutionError):
            failing.result()
    return path


def test_a_real_session_is_gone_through_again(traced: Path) -> None:
    found = rerun(read_trace(traced))
    assert found.difference is None, found
    ends = [record.state for job in found.jobs for record in job.history if isinstance(record, Ended)]
    assert ends == ["SUCCEEDED", "SUCCEEDED", "CANCELLED", "FAILED"]
    assert any("the share" in str(record) for job in found.jobs for record in job.history)


def test_the_command_tells_the_history_and_the_verdict(traced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(traced)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("job1: SELECT name, sum(s.price)") and told[-1].endswith(": all the same")
    assert not any("started on local" in line for line in told)
    assert main(["replay", str(traced), "--job", "job2", "--full"]) == 0
    full = capsys.readouterr().out
    assert "started on local" in full and "job1:" not in full


def test_the_command_says_where_another_hysteresis_decides_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shrunk().recording(tmp_path)
    assert main(["replay", str(tmp_path / "trace.jsonl"), "--hysteresis", "0.99"]) == 1
    told = capsys.readouterr().out
    assert "the rerun differs" in told and "switched, keeping scan" in told and "less than 99%" in told


def test_an_unknown_job_is_named(traced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(traced), "--job", "job77"]) == 1
    assert "there is no job job77 in the trace; there are job1, job2" in capsys.readouterr().err


# --- files --------------------------------------------------------------------------------------------------


def damaged(path: Path, folder: Path, change: Callable[[list[str]], object]) -> Path:
    """A trace that was changed by somebody who knows how lines are summed."""
    before, after = Chain(), Chain()
    lines = [before.opened(line) + "\n" for line in path.read_text().splitlines()]
    change(lines)
    other = folder / "damaged.jsonl"
    other.write_text("".join(after.sealed(line.rstrip("\n")) + "\n" for line in lines if line))
    return other


def test_a_flipped_bit_anywhere_is_told_with_its_line(traced: Path, tmp_path: Path) -> None:
    whole, other = traced.read_bytes(), tmp_path / "flipped.jsonl"
    for place in range(0, len(whole) - 1, max(1, len(whole) // 100)):
        content = bytearray(whole)
        content[place] ^= 1
        other.write_bytes(content)
        line = whole[:place].count(b"\n") + 1
        with pytest.raises(ConfigError, match=rf"line {line} of the trace .* is damaged|is no trace|is of version"):
            read_trace(other)


def test_lines_that_are_missing_or_swapped_are_told(traced: Path, tmp_path: Path) -> None:
    lines, other = traced.read_text().splitlines(keepends=True), tmp_path / "other.jsonl"
    for changed in ([*lines[:5], *lines[6:]], [*lines[:5], lines[6], lines[5], *lines[7:]], [*lines[:6], *lines[5:]]):
        other.write_text("".join(changed))
        with pytest.raises(ConfigError, match=r"line [67] of the trace .* is damaged: it, or the line before it"):
            read_trace(other)


def test_a_cut_off_last_line_is_left_out_and_told(traced: Path, tmp_path: Path) -> None:
    lines = traced.read_text().splitlines(keepends=True)
    for kept in (len(lines) - 1, len(lines) // 2, 12):
        path = tmp_path / f"{kept}.jsonl"
        path.write_text("".join(lines[:kept])[:-5])
        recording = read_trace(path)
        assert recording.cut_off and not recording.ended
        assert [remark[:8] for remark in recording.remarks()] == ["the last", "the trac"]
        assert rerun(recording).difference is None


def tamper(word: str, old: str, new: str) -> Callable[[list[str]], object]:
    """In the first line with the word, put other text; without an old one, leave the line out."""

    def change(lines: list[str]) -> None:
        place = next(place for place, line in enumerate(lines) if word in line)
        lines[place] = lines[place].replace(old, new) if old else ""

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tamper("qoop-trace", '"version": 18', '"version": 5'), "only 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 and 18"),
        (tamper("qoop-trace", "", ""), "is no trace of qoop"),
        (lambda lines: lines.clear(), "is no trace of qoop"),
        (lambda lines: lines.__setitem__(slice(1, None), []), "is empty"),
        (lambda lines: lines.__setitem__(4, lines[4][:9] + "\n"), "line 5 of the trace .* is damaged"),
        (tamper('"in"', "Opened", "Miracle"), "line 2 .* nothing is called Miracle"),
        (tamper('"define"', "SELECT", "SELEKT"), "does not have its digest"),
        (tamper('"define"', "", ""), "there is no definition of the stage"),
        (tamper("TaskSucceeded", "#", "?"), "is no attempt"),
        (tamper("TaskSucceeded", '"committed": {', '"committed": {"colour": 1, '), "damaged TaskSucceeded"),
        (tamper('"tick"', "", ""), "it belongs to no tick"),
    ],
)
def test_damage_is_told(traced: Path, tmp_path: Path, change: Callable[[list[str]], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_trace(damaged(traced, tmp_path, change))


def test_a_decision_that_was_tampered_with_is_found(traced: Path, tmp_path: Path) -> None:
    def change(lines: list[str]) -> None:
        place = next(place for place, line in enumerate(lines) if '"out": "Starting"' in line)
        lines[place] = lines[place].replace('"cpu": 1', '"cpu": 2')

    found = rerun(read_trace(damaged(traced, tmp_path, change)))
    assert found.difference is not None and '"cpu": 2' in str(found) and '"cpu": 1' in str(found)


def test_a_folder_gets_a_file_for_every_session_and_a_file_belongs_to_one(tmp_path: Path) -> None:
    with qoop.connect(slots=1, trace=tmp_path) as one, qoop.connect(slots=1, trace=tmp_path) as other:
        assert one.sql("SELECT 1").fetchall() == other.sql("SELECT 1").fetchall() == [(1,)]
    assert len(list(tmp_path.glob("qoop-*.jsonl"))) == 2
    path = tmp_path / "one.jsonl"
    with qoop.connect(slots=1, trace=path), pytest.raises(ConfigError, match="is being written by another session"):
        qoop.connect(slots=1, trace=path)
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        qoop.connect(slots=1, trace=tmp_path / "nowhere" / "t.jsonl")


def test_a_full_disk_ends_the_trace_but_no_query() -> None:
    with (
        pytest.warns(RuntimeWarning, match="the trace /dev/full ends at turn 0: .*No space left"),
        qoop.connect(slots=1, trace="/dev/full") as session,
    ):
        assert session.sql("SELECT 41 + 1").fetchall() == [(42,)]


def test_the_environment_asks_for_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_TRACE", str(tmp_path / "t.jsonl"))
    with qoop.connect(slots=1) as session:
        session.sql("SELECT 1")
    assert read_trace(tmp_path / "t.jsonl").ended


def test_stages_and_plans_are_written_once(traced: Path) -> None:
    lines = [json.loads(line) for line in traced.read_text().splitlines()]
    digests = [line["define"] for line in lines if "define" in line]
    assert len(digests) == len(set(digests)) > 5


def test_errors_come_back_as_ours() -> None:
    error = OutOfMemory("too little")
    error.stage, error.part = "s3", 2
    back = read_error(write_error(error))
    assert (type(back), str(back), back.stage, back.part) == (OutOfMemory, "too little", "s3", 2)


# --- EXPLAIN HISTORY ----------------------------------------------------------------------------------------


def test_explain_history_tells_what_happened_without_every_task() -> None:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register("sales", SALES)
        session.register("items", ITEMS)
        [(key, text)] = session.sql(f"EXPLAIN HISTORY {QUERY}").fetchall()
        assert key == "history"
        assert "started:" in text and "was done:" in text and text.endswith("the job succeeded")
        assert "#" not in text, "an attempt is named"
        with pytest.raises(ConfigError, match="a history is a text"):
            session.explain(QUERY, history=True, format="svg")


def test_failures_of_a_kind_are_told_as_one() -> None:
    class Twice:
        def __init__(self) -> None:
            self.failed = 0

        def __call__(self, spec: TaskSpec) -> Outcome:
            self.failed += spec.stage.id == "wide"
            error = Revoked("gone") if spec.stage.id == "wide" and self.failed <= 8 else None
            return replace(as_estimated(spec), error=error)

    world = World(8, Twice())
    handle = world.submit(WIDE)
    world.run_to_end()
    lines = story(handle.history())
    assert "at 3.000 s 8 tasks of wide were interrupted and run again: gone" in lines
    assert any("stage wide was done: 8 rows, estimated 100,000; 8 tasks in 16.0 s" in line for line in lines)
    assert len(lines) < 12 < len(story(handle.history(), full=True))
