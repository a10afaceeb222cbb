"""Changing plan while a job runs, on simulated machines: capacity is scripted, decisions and answers are checked."""

from __future__ import annotations

from collections.abc import Sequence

from qoop.adaptive import Adaptive, changed
from qoop.cluster import Cluster, JobHandle, JobRequest
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import Event, SlotsChanged
from qoop.engine.history import Decided
from qoop.engine.run import State
from qoop.planner.alternatives import Candidate
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput

GB = 2**30
COLUMNS = (("x", "INTEGER"),)


def room(slots: float) -> Resources:
    return Resources(slots, slots * GB)


def plan(text: str) -> Plan:
    """One stage a line: ``id width seconds_of_a_task [reads …] [as=signature]``; the last one is the root."""
    return Plan(tuple(_stage(line.split()) for line in text.strip().splitlines()), COLUMNS)


def _stage(words: list[str]) -> Stage:
    name, width, seconds, *rest = words
    options = dict(word.split("=") for word in rest if "=" in word)
    return Stage(
        name,
        "",
        tuple(StageInput(read, read, "all") for read in rest if "=" not in read),
        COLUMNS,
        int(width),
        options.get("as", name),
        estimate=Estimate(rows=float(options.get("rows", 1)), task_seconds=float(seconds)),
        shareable="island" not in options,
    )


WIDE = plan("scan 2 1\nwide 8 2 scan\nroot 1 1 wide")  # 8 × 2 s: on 8 slots 2 s, on one 16 s
NARROW = plan("scan 2 1\nnarrow 1 6 scan\nroot 1 1 narrow")  # 6 s whatever there is


class Bench:
    """A cluster turned by hand: scripted capacity, virtual time, all invariants after every turn."""

    def __init__(self, slots: float, *happenings: tuple[float, Event]) -> None:
        self.clock = VirtualClock()
        self.backend = SimulatedBackend({"m": room(slots)}, self.clock)
        self.cluster = Cluster(self.backend, clock=self.clock, thread=False)
        self.slots = slots
        for at, event in happenings:
            self.backend.happen(event, at)

    def submit(self, launch: Plan, *others: Plan, **options: object) -> JobHandle:
        self.searches = 0

        def find(_: object) -> Sequence[Candidate]:
            self.searches += 1
            return [Candidate(other, "") for other in others]

        adaptive = Adaptive(find, room(self.slots), **options)  # type: ignore[arg-type]
        return self.cluster.submit(JobRequest(launch, adaptive=adaptive))

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.cluster.busy:
                return
            self.cluster.step()
            self.cluster._driver.check()
        raise AssertionError("jobs never end")

    def run(self, launch: Plan, *others: Plan, **options: object) -> JobHandle:
        handle = self.submit(launch, *others, **options)
        self.settle()
        assert handle.state is State.SUCCEEDED, handle.error
        return handle


def slots(at: float, count: float) -> tuple[float, Event]:
    return at, SlotsChanged("m", room(count))


def decisions(handle: JobHandle) -> list[Decided]:
    return [record for record in handle.history() if isinstance(record, Decided)]


def moves(handle: JobHandle) -> str:
    """The plans it ran, in letters."""
    return "A" + "".join(record.chosen for record in decisions(handle) if record.switched)


def test_the_plan_for_the_share_there_is_runs_and_nothing_else_happens() -> None:
    bench = Bench(8)
    handle = bench.run(WIDE, NARROW)
    assert moves(handle) == "A" and bench.clock.now() == 4.0


def test_lost_slots_bring_a_narrower_plan_and_finished_work_is_kept() -> None:
    bench = Bench(8, slots(1.5, 1))
    handle = bench.run(WIDE, NARROW)
    (record,) = [one for one in decisions(handle) if one.switched]
    assert moves(handle) == "AB" and record.kept == ("scan",) and record.work_left_out == 0.0
    assert bench.clock.now() < 1.6 + 6 + 1
    assert [spec.stage.id for spec in bench.backend.started].count("scan") == 2, "scan was done once"


def test_a_decision_reads_as_a_sentence() -> None:
    handle = Bench(8, slots(1.5, 1)).run(WIDE, NARROW)
    (record,) = [one for one in decisions(handle) if one.switched]
    assert str(record) == (
        "at 1.510 s the share fell from 8 to 1 slots; plan B would end in 7.0 s, the running plan A in 16.5 s; "
        "switched, keeping scan, leaving out 0.0 s of work"
    )


def test_capacity_that_comes_back_brings_back_the_first_plan_and_leaves_out_what_was_done() -> None:
    handle = Bench(8, slots(1.5, 1), slots(2.0, 8)).run(WIDE, NARROW)
    assert moves(handle) == "ABA"
    assert handle.plans() == (WIDE, NARROW, WIDE)


def test_without_alternatives_the_plan_is_kept() -> None:
    handle = Bench(8, slots(1.5, 1)).run(WIDE)
    assert moves(handle) == "A" and "there is no other plan" in str(decisions(handle)[-1])


def test_a_burst_of_changes_is_one_decision() -> None:
    steps = [slots(1.5 + 0.002 * step, 8 - step) for step in range(7)]
    handle = Bench(8, *steps).run(WIDE, NARROW)
    causes = [record.cause for record in decisions(handle)]
    assert causes.count("the share fell from 8 to 2 slots") == 1 and len(causes) <= 2, causes


def test_a_second_job_takes_half_and_both_are_thought_over() -> None:
    bench = Bench(8)
    first = bench.submit(WIDE, NARROW)
    while bench.clock.now() < 1:
        bench.cluster.step()
    second = bench.cluster.submit(JobRequest(plan("other 16 4\nend 1 1 other")))
    bench.settle()
    assert second.state is State.SUCCEEDED and first.state is State.SUCCEEDED
    assert "the share fell from 8 to 4 slots" in [record.cause for record in decisions(first)]


def test_how_far_a_share_has_moved() -> None:
    assert changed(room(8), room(8)) == 0.0
    assert changed(Resources(8, 100), Resources(8, 80)) == 0.2
    assert changed(Resources(0, 0), Resources(1, 0)) == float("inf")
