"""Scripts for one job: declare a plan in a few lines, tell the run what happened, read what it commands."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from qoop.catalog.errors import (
    Cancelled,
    CheckpointError,
    DiskFull,
    ExecutionError,
    OutOfMemory,
    PlanError,
    QoopError,
    Revoked,
    SourceError,
    Timeout,
)
from qoop.engine.events import (
    Begun,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Command,
    Committed,
    MachineJoined,
    MachineLost,
    Queued,
    Release,
    ShareChanged,
    SlotsChanged,
    Start,
    Stop,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.history import Began, Lost, Waiting
from qoop.engine.notices import Continued, NotSaved
from qoop.engine.run import Run
from qoop.engine.state import TRANSITIONS, Limits, State
from qoop.engine.task import AttemptId, CheckpointKey, TaskId, checkpoint_key
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput, TableInput

MB = 2**20
MACHINE = Resources(2, 1000 * MB)


def make_plan(text: str) -> Plan:
    """One stage a line: ``id width [mode:producer …] [t=seconds] [m=MB] [slots=n] [as=signature] [island]``."""
    rows = [line.split() for line in text.strip().splitlines()]
    cut = {word.split(":")[1]: int(row[1]) for row in rows for word in row if word.startswith("partition:")}
    return Plan(tuple(_stage(row, cut) for row in rows), (("x", "INTEGER"),))


def _stage(row: list[str], cut: dict[str, int]) -> Stage:
    options = dict(word.split("=") for word in row if "=" in word)
    inputs = [word.split(":") for word in row if ":" in word]
    return Stage(
        id=row[0],
        sql="",
        inputs=tuple(StageInput(name, name, mode) for mode, name in inputs),  # type: ignore[arg-type]
        columns=(("x", "INTEGER"),),
        width=int(row[1]),
        signature=options.get("as", row[0]),
        layout=Layout(("x",), cut[row[0]]) if row[0] in cut else Layout(),
        slots=int(options.get("slots", 1)),
        estimate=Estimate(task_seconds=float(options.get("t", 1)), task_memory=float(options.get("m", 1)) * MB),
        shareable="island" not in row,
    )


class Script:
    """A run, spoken to in short: ``"a.0"`` is part 0 of stage a."""

    def __init__(
        self,
        plan: str,
        machine: Resources = MACHINE,
        limits: Limits | None = None,
        fallback_plan: str | None = None,
        durable: bool = False,
    ) -> None:
        last = None if fallback_plan is None else make_plan(fallback_plan)
        self.run = Run("j", {}, limits=limits or Limits(), fallback_plan=last, durable=durable)
        self.now = 0.0
        self.attempts: dict[str, AttemptId] = {}
        self.specs: dict[AttemptId, CheckpointKey] = {}
        self.tell(MachineJoined("m", machine))
        self.switch(plan)

    def switch(self, plan: str, held: tuple[Committed, ...] = ()) -> list[str]:
        self.now += 1
        return self._said(self.run.switch(make_plan(plan), held, now=self.now))

    def tell(self, *events: object) -> list[str]:
        self.now += 1
        return self._said(self.run.handle(*events, now=self.now))  # type: ignore[arg-type]

    def start(self, *tasks: str, memory: float = 100.0, machine: str = "m") -> list[Start]:
        """Grant each task a slot; all must be ready."""
        starts = []
        for task in tasks:
            stage, part = task.split(".")
            available = Resources(1, memory * MB)
            start = self.run.grant(TaskId("j", stage, int(part)), machine, available, now=self.now)
            self.attempts[task] = start.spec.attempt
            self.specs[start.spec.attempt] = start.spec.key
            starts.append(start)
        self.run.check()
        return starts

    def done(self, *tasks: str) -> list[str]:
        said = []
        for task in tasks:
            attempt = self.attempts[task]
            said += self.tell(TaskSucceeded(attempt, Committed(self.specs[attempt], (5,), (40,), 0.5)))
        return said

    def play(self, *tasks: str) -> list[str]:
        """Start each task and let it succeed."""
        said = []
        for task in tasks:
            self.start(task)
            said += self.done(task)
        return said

    def fail(self, task: str, error: QoopError | None = None, retryable: bool = True) -> list[str]:
        return self.tell(TaskFailed(self.attempts[task], error or ExecutionError("broken"), retryable))

    def fail_by_slot(self, task: str) -> list[str]:
        return self.fail(task, Revoked("the slot was taken away"))

    def fail_by_machine(self, task: str) -> list[str]:
        return self.tell(MachineLost("m"), MachineJoined("m", MACHINE))

    def stopped(self, task: str) -> list[str]:
        return self.tell(TaskStopped(self.attempts[task]))

    def lose(self, stage: str, part: int) -> list[str]:
        return self.tell(CheckpointLost(checkpoint_key(self.run.plan.by_id[stage], part)))

    @property
    def ready(self) -> list[str]:
        return [f"{demand.task.stage}.{demand.task.part}" for demand in self.run.ready()]

    def memory(self, stage: str) -> float:
        return next(d.resources.memory for d in self.run.ready() if d.task.stage == stage) / MB

    def _said(self, commands: list[Command]) -> list[str]:
        self.run.check()
        words = []
        for command in commands:
            if isinstance(command, Stop):
                words.append(f"stop {command.attempt.task.stage}.{command.attempt.task.part}")
            elif isinstance(command, Release):
                words += [f"release {key.signature}.{key.part}" for key in command.keys]
        return words


JOIN = """
a 2
b 2
c 2 partition:a partition:b
d 1 all:c
"""


# --- waiting at a machine -----------------------------------------------------------------------------------


def test_an_attempt_that_waits_at_its_machine_is_told_apart_from_one_that_runs() -> None:
    s = Script("a 2 t=8\nb 1 all:a")
    s.start("a.0", "a.1")
    s.tell(Queued(s.attempts["a.1"]))
    (stage, _) = s.run.progress().stages
    assert (stage.running, stage.queued, s.run.progress().queued) == (2, 1, 1)
    first, second = s.run.running()
    assert not first.queued and second.queued
    assert (first.spent(s.now + 5), second.spent(s.now + 5)) == (6.0, 0.0)
    assert s.run.finished(s.now + 5).running[s.specs[s.attempts["a.0"]].content] == (6.0, 0.0)
    s.tell(Begun(s.attempts["a.1"]))
    assert s.run.progress().queued == 0 and s.run.running()[1].spent(s.now + 5) == 5.0
    waiting, began = (one for one in s.run.history if isinstance(one, Waiting | Began))
    assert "is queued on m" in str(waiting) and isinstance(began, Began) and began.waited == 2.0
    s.done("a.0", "a.1")
    assert s.run.progress().stages[0].done == 2


def test_late_and_repeated_reports_of_waiting_tell_nothing_new() -> None:
    s = Script("a 2\nb 1 all:a")
    s.start("a.0", "a.1")
    zero, one = s.attempts["a.0"], s.attempts["a.1"]
    s.tell(Begun(zero), Queued(zero))  # the second was overtaken by the first
    s.tell(Queued(one), Queued(one), Begun(one), Begun(one), Queued(one))
    assert s.run.progress().queued == 0
    assert [type(record) for record in s.run.history if isinstance(record, Waiting | Began)] == [Waiting, Began]
    s.done("a.0")
    s.tell(Queued(zero), Begun(zero))
    s.tell(Queued(one))
    s.done("a.1")
    s.play("b.0")
    s.tell(Queued(one), Begun(one))
    assert s.run.state is State.SUCCEEDED
    assert sum(isinstance(record, Waiting | Began) for record in s.run.history) == 2


def test_an_attempt_may_end_while_it_waits() -> None:
    s = Script("a 1\nb 1 all:a")
    s.start("a.0")
    s.tell(Queued(s.attempts["a.0"]))
    s.fail_by_slot("a.0")
    assert s.ready == ["a.0"] and s.run.progress().queued == 0
    s.play("a.0", "b.0")
    assert s.run.state is State.SUCCEEDED


# --- order of tasks -----------------------------------------------------------------------------------------


def test_tasks_become_ready_when_what_they_read_is_committed() -> None:
    s = Script(JOIN)
    assert s.ready == ["a.0", "b.0"]
    s.play("a.0", "a.1", "b.0")
    assert s.ready == ["b.1"]
    s.play("b.1")
    assert s.ready == ["c.0"]
    s.start("c.0")
    assert s.ready == ["c.1"]
    s.start("c.1")
    assert s.ready == []
    assert s.done("c.0") == []
    assert sorted(s.done("c.1")) == ["release a.0", "release a.1", "release b.0", "release b.1"]
    s.play("d.0")
    assert s.run.state is State.SUCCEEDED
    assert [fact.rows for fact in s.run.outputs] == [(5,)]


def test_forward_inputs_are_ready_and_released_part_by_part() -> None:
    s = Script("a 2\nb 2 forward:a\nc 1 all:b")
    s.play("a.1")
    assert s.ready == ["a.0", "b.1"]
    assert s.play("b.1") == ["release a.1"]
    assert s.ready == ["a.0"]


def test_inputs_name_the_checkpoints_and_partitions_to_read() -> None:
    s = Script(JOIN)
    s.play("a.0", "a.1", "b.0", "b.1")
    (start,) = s.start("c.1")
    assert [(i.name, [(k.signature, k.part, p) for k, p in i.reads]) for i in start.spec.inputs] == [
        ("a", [("a", 0, 1), ("a", 1, 1)]),
        ("b", [("b", 0, 1), ("b", 1, 1)]),
    ]
    s.start("c.0")
    s.done("c.0", "c.1")
    (start,) = s.start("d.0")
    assert [(k.part, p) for k, p in start.spec.inputs[0].reads] == [(0, None), (1, None)]


def test_a_task_is_cut_by_the_rows_that_it_reads() -> None:
    """Of a key with few values most partitions have no rows."""
    script = Script("a 1\nb 4 partition:a t=1\nc 1 all:b", limits=Limits(slice_seconds=0.2), durable=True)
    [start] = script.start("a.0")
    script.tell(TaskSucceeded(start.spec.attempt, Committed(start.spec.key, (0, 1, 60, 3), (8,) * 4, 0.5)))
    slicings = [start.spec.slicing for start in script.start(*[f"b.{part}" for part in range(4)])]
    assert [one.most for one in slicings if one is not None] == [1, 1, 4, 1]


def test_the_longest_estimated_path_comes_first() -> None:
    s = Script("a 1 t=1\nb 1 t=2\nslow 1 all:a t=9\nfast 1 all:b t=1\nroot 1 all:slow all:fast")
    assert s.ready == ["a.0", "b.0"]
    s = Script("a 1 t=1\nb 1 t=2\nslow 1 all:a t=1\nfast 1 all:b t=1\nroot 1 all:slow all:fast")
    assert s.ready == ["b.0", "a.0"]


def test_stages_of_equal_meaning_run_once() -> None:
    s = Script("a 2 as=same\nb 2 as=same\nroot 1 all:a all:b")
    s.play("a.0", "a.1")
    assert s.ready == ["root.0"]
    (start,) = s.start("root.0")
    assert start.spec.inputs[0].reads == start.spec.inputs[1].reads


def test_a_task_that_is_not_ready_gets_no_slot() -> None:
    s = Script(JOIN)
    with pytest.raises(PlanError, match=r"c\.0 was granted resources but is not ready"):
        s.start("c.0")
    s.start("a.0")
    with pytest.raises(PlanError, match="not ready"):
        s.start("a.0")


def test_a_table_the_job_does_not_have_is_named() -> None:
    stage = Stage("a", "", (TableInput("t", "sales", "v1", ("x",), True),), (("x", "INTEGER"),), 1, "a")
    with pytest.raises(PlanError, match="stage a reads table sales; the job has none"):
        Run("j", {}).switch(Plan((stage,), (("x", "INTEGER"),)), now=0.0)


# --- release ------------------------------------------------------------------------------------------------


def test_outputs_are_released_once_every_reader_is_done() -> None:
    s = Script("a 1\nb 1 all:a\nc 1 all:a\nroot 1 all:b all:c")
    assert s.play("a.0", "b.0") == []
    assert s.play("c.0") == ["release a.0"]
    assert sorted(s.play("root.0")) == ["release b.0", "release c.0"]
    assert s.run.state is State.SUCCEEDED
    assert [fact.key.signature for fact in s.run.outputs] == ["root"]


def test_checkpoints_can_be_kept_until_the_job_ends() -> None:
    s = Script("a 1\nb 1 all:a\nroot 1 all:b", limits=Limits(keep_checkpoints=True))
    assert s.play("a.0", "b.0") == []
    assert s.play("root.0") == ["release a.0", "release b.0"]


# --- failures -----------------------------------------------------------------------------------------------


def test_a_retryable_failure_is_retried_at_most_that_often() -> None:
    s = Script("a 1\nroot 1 all:a")
    for _ in range(3):
        s.start("a.0")
        assert s.fail("a.0") == []
        assert s.ready == ["a.0"]
    s.start("a.0")
    s.fail("a.0", ExecutionError("the disk hums"))
    assert s.run.state is State.FAILED
    assert str(s.run.error) == "stage a failed 4 times in task 0; last: the disk hums"


def test_a_failure_of_the_work_itself_ends_the_job_and_stops_the_rest() -> None:
    s = Script("a 2\nb 1\nroot 1 all:a all:b")
    s.play("b.0")
    s.start("a.0", "a.1")
    error = ExecutionError("division by zero")
    assert s.fail("a.0", error, retryable=False) == ["stop a.1"]
    assert s.run.state is State.RUNNING and s.run.ending
    assert s.ready == []
    assert s.stopped("a.1") == ["release b.0"]
    assert s.run.state is State.FAILED
    assert s.run.error is error


def test_a_failure_of_the_work_itself_has_it_go_over_to_the_fallback_plan_once() -> None:
    s = Script("a 2\nb 1\nroot 1 all:a all:b", fallback_plan="own 1")
    s.play("b.0")
    s.start("a.0", "a.1")
    assert s.fail("a.0", ExecutionError("an overflow"), retryable=False) == ["release b.0", "stop a.1"]
    assert s.run.state is State.RUNNING and s.run.on_fallback
    assert s.ready == ["own.0"]
    s.switch("a 1\nroot 1 all:a")
    assert s.ready == ["own.0"]
    s.stopped("a.1")
    s.start("own.0")
    s.fail("own.0", ExecutionError("an overflow again"), retryable=False)
    assert s.run.state is State.FAILED
    assert str(s.run.error) == "an overflow again"


@pytest.mark.parametrize("pinned", [True, False])
def test_the_fallback_plan_is_none_once_rows_of_the_answer_may_have_been_handed_out(pinned: bool) -> None:
    s = Script("root 2", fallback_plan="own 1")
    s.play("root.0")
    if pinned:
        s.run.pin()
    s.start("root.1")
    s.fail("root.1", ExecutionError("an overflow"), retryable=False)
    assert s.run.state is (State.FAILED if pinned else State.RUNNING)
    assert s.run.on_fallback != pinned


@pytest.mark.parametrize("error", [SourceError("gone"), PlanError("of ours")])
def test_the_fallback_plan_is_none_where_another_plan_would_fail_as_well(error: QoopError) -> None:
    s = Script("a 1\nroot 1 all:a", fallback_plan="own 1")
    s.start("a.0")
    s.fail("a.0", error, retryable=False)
    assert s.run.state is State.FAILED


def test_running_out_of_memory_doubles_the_demand_up_to_a_whole_machine() -> None:
    s = Script("a 2\nroot 1 all:a", machine=Resources(2, 1000 * MB))
    assert s.memory("a") == 32
    for had, wanted in ((100, 200), (200, 400), (500, 1000)):
        s.start("a.0", memory=had)
        s.fail("a.0", OutOfMemory("no memory"), retryable=False)
        assert s.memory("a") == wanted
    s.start("a.0", memory=1000)
    s.fail("a.0", OutOfMemory("no memory"))
    assert s.run.state is State.FAILED
    assert isinstance(s.run.error, OutOfMemory)
    assert "stage a needs more than 1.05 GB of memory for one task" in str(s.run.error)


def test_attempts_that_end_for_want_of_resources_are_remembered_with_their_seconds() -> None:
    s = Script("a 1\nroot 1 all:a", machine=Resources(2, 1000 * MB))
    for error in (Revoked("the slot was taken away"), OutOfMemory("no memory"), ExecutionError("a disk failed")):
        s.start("a.0", memory=100)
        s.fail("a.0", error)
    assert [len(seconds) for seconds in s.run.finished(0.0).interrupted.values()] == [2]


@pytest.mark.parametrize("others", [False, True])
def test_a_value_of_twice_a_machine_fails_the_job_at_once(others: bool) -> None:
    s = Script("a 2\nroot 1 all:a", machine=Resources(2, 1000 * MB), limits=Limits(leave_exhausted=others))
    for single, wanted in ((700, 700), (1500, 1000)):
        error = OutOfMemory("no memory")
        error.single = single * MB
        s.start("a.0", memory=100)
        s.fail("a.0", error)
        assert s.memory("a") == wanted
    error.single = 2000 * MB
    s.start("a.0", memory=100)
    s.fail("a.0", error)
    assert s.run.state is State.FAILED and "stage a makes a value of 2.1 GB" in str(s.run.error)


def test_a_demand_beyond_every_machine_asks_for_all_of_the_largest() -> None:
    s = Script("a 1 t=0.1 m=5000 slots=8", machine=Resources(2, 1000 * MB))
    assert s.run.ready()[0].resources == Resources(2, 1000 * MB)
    s.tell(MachineJoined("n", Resources(1, 9000 * MB)))
    assert s.run.ready()[0].resources == Resources(1, 5000 * MB)
    s.tell(MachineLost("n"), SlotsChanged("m", Resources(1, 600 * MB)))
    assert s.run.ready()[0].resources == Resources(1, 600 * MB)


def test_a_lone_task_that_takes_long_begins_on_any_slot() -> None:
    s = Script("a 1 m=500 slots=8", machine=Resources(2, 1000 * MB))
    assert s.run.ready()[0].resources == Resources(1, 500 * MB)
    assert s.run.plan.root.elastic_slots == 8


def test_the_floor_of_demands_leaves_resources_for_every_slot() -> None:
    assert Script("a 2\nroot 1 all:a", machine=Resources(4, 40 * MB)).memory("a") == 10


def test_lost_resources_are_no_failure_of_the_task_but_not_for_ever() -> None:
    s = Script("a 1\nroot 1 all:a", limits=Limits(max_attempts=2, max_revocations=5))
    for lose in (s.fail_by_slot, s.fail_by_machine) * 2:
        s.start("a.0")
        lose("a.0")
        assert s.ready == ["a.0"]
    s.start("a.0")
    s.fail("a.0")
    assert s.ready == ["a.0"]
    s.start("a.0")
    s.fail_by_slot("a.0")
    assert s.run.state is State.FAILED and "failed 5 times" in str(s.run.error)


def test_want_of_memory_reported_when_no_slot_is_left_is_not_the_end() -> None:
    s = Script("a 1\nroot 1 all:a", machine=Resources(2, 1000 * MB))
    s.start("a.0", memory=500.0)
    s.tell(SlotsChanged("m", Resources(0, 1000 * MB)))
    s.fail("a.0", OutOfMemory("full"))
    assert not s.run.ending
    s.tell(SlotsChanged("m", Resources(1, 800 * MB)))
    assert s.ready == ["a.0"] and s.memory("a") == 800


def test_an_attempt_that_is_given_up_is_ready_again_once_it_has_ended() -> None:
    s = Script("a 2\nroot 1 all:a")
    s.start("a.0", "a.1")
    assert [item.attempt for item in s.run.running()] == list(s.run.alive)
    commands = s.run.give_up([s.attempts["a.1"]], "its slot will be taken away", now=9.0)
    assert commands == [Stop(s.attempts["a.1"])] and s.ready == []
    assert [item.attempt for item in s.run.running()] == [s.attempts["a.0"]]
    s.stopped("a.1")
    assert s.ready == ["a.1"]
    assert s.run.give_up([s.attempts["a.1"]], "it has ended", now=10.0) == []


def test_seconds_are_those_of_the_longest_task_once_one_has_ended() -> None:
    s = Script("a 3 t=7\nroot 1 all:a")
    assert [demand.seconds for demand in s.run.ready()] == [7.0]
    s.play("a.0")
    assert [demand.seconds for demand in s.run.ready()] == [0.5]


def test_a_loss_that_was_announced_is_not_asked_for() -> None:
    s = Script("a 1 m=900\nroot 1 all:a", machine=Resources(2, 1000 * MB))
    assert s.memory("a") == 900
    s.tell(CapacityNotice("m", Resources(0, 100 * MB), at=100.0))
    assert s.memory("a") == 900  # before it goes there is memory
    s.tell(CapacityNotice("m", Resources(1, 300 * MB), at=100.0))
    assert s.memory("a") == 300


def test_a_notice_takes_the_place_of_the_one_before() -> None:
    s = Script("a 1 m=900\nroot 1 all:a", machine=Resources(2, 1000 * MB))
    asked = []
    for slots, memory in (1, 300), (1, 600), (0, 600), (2, 300), (4, 2000):
        s.tell(CapacityNotice("m", Resources(slots, memory * MB), at=100.0))
        asked.append(s.memory("a"))
    assert asked == [300, 600, 900, 300, 900]


def test_a_lost_machine_loses_its_attempts_only() -> None:
    s = Script("a 2\nroot 1 all:a")
    s.tell(MachineJoined("n", Resources(1, 100 * MB)))
    s.start("a.0", machine="m")
    s.start("a.1", machine="n")
    assert s.tell(MachineLost("n")) == []
    assert s.ready == ["a.1"]
    assert [attempt.task.part for attempt in s.run.alive] == [0]


def test_a_lost_checkpoint_is_made_again_with_all_it_needs() -> None:
    s = Script("a 1\nb 2 all:a\nroot 1 all:b")
    s.play("a.0", "b.0")
    assert s.play("b.1") == ["release a.0"]
    s.lose("b", 1)
    assert s.ready == ["a.0"]
    s.play("a.0")
    assert s.ready == ["b.1"]
    s.play("b.1")
    assert s.ready == ["root.0"]


def test_a_task_that_reads_what_is_lost_has_not_failed() -> None:
    s = Script("a 4\nroot 1 all:a", limits=Limits(max_attempts=2))
    s.play(*(f"a.{part}" for part in range(4)))
    for part in range(4):
        s.start("root.0")
        s.lose("a", part)
        s.fail("root.0", CheckpointError("it is gone"))
        s.play(f"a.{part}")
    s.play("root.0")
    assert s.run.state is State.SUCCEEDED


def test_what_is_lost_again_and_again_is_the_end() -> None:
    s = Script("a 1\nroot 1 all:a", limits=Limits(max_attempts=2, max_revocations=3))
    for _ in range(3):
        assert not s.run.ending
        s.play("a.0")
        s.lose("a", 0)
    assert s.run.state is State.FAILED and "made and lost 3 times" in str(s.run.error)


def test_a_non_deterministic_stage_made_again_takes_all_that_rests_on_it_with_it() -> None:
    s = Script("a 1 island\nb 2 all:a\nother 1\nroot 1 all:b all:other")
    s.play("a.0", "other.0", "b.0")
    s.start("b.1")
    s.lose("a", 0)
    assert s.fail("b.1", CheckpointError("a.0 is gone")) == []
    # b.1 needs the island again; b.0 came from the lost one and must not meet the new one
    assert s.ready == ["a.0"]
    s.play("a.0")
    assert s.ready == ["b.0"]
    s.play("b.0", "b.1", "root.0")
    assert s.run.state is State.SUCCEEDED
    assert any("cannot be made twice the same" in str(record) for record in s.run.history)


# --- late and duplicate reports -----------------------------------------------------------------------------


def test_reports_may_come_twice_and_late() -> None:
    s = Script("a 1\nb 1 all:a\nroot 1 all:b")
    s.start("a.0")
    s.done("a.0")
    assert s.done("a.0") == []
    s.start("b.0")
    assert s.done("b.0") == ["release a.0"]
    assert s.fail("a.0") == []
    # the store is told again: a late writer may have left the output behind
    assert s.done("a.0") == ["release a.0"]
    s.play("root.0")
    assert s.run.state is State.SUCCEEDED
    assert s.done("root.0") == [] and s.stopped("root.0") == []


def test_a_success_after_the_stop_counts() -> None:
    s = Script("a 1\nroot 1 all:a")
    s.start("a.0")
    assert s.run.cancel(now=9.0) == [Stop(s.attempts["a.0"])]
    assert s.done("a.0") == ["release a.0"]
    assert s.run.state is State.CANCELLED


def test_a_late_writer_is_cleaned_up_after_once_nobody_writes_the_same() -> None:
    s = Script("a 1\nroot 1 all:a")
    s.start("a.0")
    lost = TaskSucceeded(s.attempts["a.0"], Committed(s.specs[s.attempts["a.0"]], (5,), (40,), 0.5))
    s.tell(MachineLost("m"), MachineJoined("m", MACHINE))
    s.start("a.0")
    assert s.tell(lost) == []
    assert s.fail("a.0") == ["release a.0"]


def test_an_attempt_that_fails_while_being_stopped_fails_nothing() -> None:
    s = Script("a 1\nb 1\nroot 1 all:a all:b")
    s.start("a.0")
    assert s.switch("b 1\nroot 1 all:b") == ["stop a.0"]
    s.fail("a.0", ExecutionError("interrupted"), retryable=False)
    assert s.run.state is State.RUNNING and not s.run.ending


def test_a_part_of_the_answer_lost_before_the_end_is_made_again() -> None:
    s = Script("a 1\nb 1\nroot 1 all:a all:b")
    s.play("a.0")
    s.start("b.0")
    assert s.switch("a 1\nroot 1 all:a as=R") == ["stop b.0"]
    s.play("root.0")
    assert s.run.ending and s.run.state is State.RUNNING
    s.lose("root", 0)
    assert not s.run.ending
    s.stopped("b.0")
    s.play("a.0", "root.0")
    assert s.run.state is State.SUCCEEDED


# --- switching ----------------------------------------------------------------------------------------------

LEFT = "a 2\nb 1\nab 1 all:a all:b as=AB\nroot 1 all:ab as=R"
RIGHT = "b 1\nc 1\nbc 1 all:b all:c as=BC\na 2\nroot 1 all:bc all:a as=R"


def test_a_switch_keeps_what_is_shared_and_stops_the_rest() -> None:
    s = Script(LEFT, limits=Limits(keep_checkpoints=True))
    s.play("a.0", "b.0")
    s.start("a.1")
    assert s.switch(RIGHT) == []
    assert s.ready == ["c.0"]
    assert [str(attempt.task) for attempt in s.run.alive] == ["j/a.1"]
    s.play("c.0")
    s.start("bc.0")
    # backtracking: the attempt of the other plan is stopped, a.1 is shared by both and still runs
    assert s.switch(LEFT) == ["stop bc.0"]
    s.done("a.1")
    assert s.ready == ["ab.0"]
    s.play("ab.0", "root.0")
    assert s.run.state is State.RUNNING and s.run.ending
    s.stopped("bc.0")
    assert s.run.state is State.SUCCEEDED


def test_a_switch_stops_what_the_new_plan_makes_of_other_things() -> None:
    """A long task that does all at once is not waited for where the new plan has the answer from finished stages."""
    s = Script("a 1\nall 1 t=100 as=R", limits=Limits(keep_checkpoints=True))
    s.start("all.0")
    assert s.switch("a 2\nroot 1 all:a as=R") == ["stop all.0"]
    s.stopped("all.0")
    s.play("a.0", "a.1", "root.0")
    assert s.run.state is State.SUCCEEDED


def test_a_switch_releases_what_the_new_plan_does_not_need() -> None:
    s = Script(LEFT)
    s.play("a.0", "a.1", "b.0", "ab.0")
    assert s.switch("a 2\nc 1\nroot 1 all:a all:c as=R") == ["release AB.0"]


def test_a_stopped_attempt_blocks_its_task_until_it_reports() -> None:
    s = Script(LEFT, limits=Limits(keep_checkpoints=True))
    s.play("a.0", "a.1", "b.0")
    s.start("ab.0")
    assert s.switch(RIGHT) == ["stop ab.0"]
    s.switch(LEFT)
    assert s.ready == []
    s.stopped("ab.0")
    assert s.ready == ["ab.0"]


def test_a_start_takes_checkpoints_found_elsewhere_and_runs_only_the_rest() -> None:
    plan = make_plan(LEFT)
    found = Committed(checkpoint_key(plan.by_id["ab"], 0), (7,), (56,), 1.0)
    run = Run("j", {})
    run.switch(plan, [found], now=0.0)
    assert [demand.task.stage for demand in run.ready()] == ["root"]
    assert str(run.history[-2]).startswith("at 0.000 s started: 1 task to run, 1 checkpoint kept")
    assert str(run.history[-1]) == "at 0.000 s continued: 1 of 5 outputs found, 1 to make, about 1.0 s saved"
    run.switch(plan, now=1.0)
    assert sum(isinstance(record, Continued) for record in run.history) == 1


def test_an_output_that_is_found_later_is_noted_when_a_plan_uses_it() -> None:
    plan = make_plan(LEFT)
    run = Run("j", {})
    run.handle(MachineJoined("m", Resources(2.0, 1e9)), now=0.0)
    run.switch(plan, now=0.0)
    assert not run.continued and not any(isinstance(record, Continued) for record in run.history)
    run.adopt([Committed(checkpoint_key(plan.by_id["ab"], 0), (7,), (56,), 1.0, cpu_seconds=3.0)], now=1.0)
    run.switch(plan, now=1.0)
    assert run.continued
    assert [str(record) for record in run.history if isinstance(record, Continued)] == [
        "at 1.000 s continued: 1 of 5 outputs found, 1 to make, about 1.5 s saved"  # on two slots
    ]


def test_a_job_whose_outputs_must_outlive_the_process_fails_if_one_does_not() -> None:
    def saved(run: Run, why: str) -> None:
        run.switch(make_plan(LEFT), now=0.0)
        for _ in range(2):
            run.handle(CheckpointSaved(("j",), checkpoint_key(run.plan.root, 0), 10, 0.1, not why, why=why), now=1.0)

    kept, lax, strict = Run("j", {}), Run("j", {}), Run("j", {}, limits=Limits(all_saved=True))
    saved(kept, "")
    saved(lax, "the budget is 1 GB")
    saved(strict, "the budget is 1 GB")
    assert [sum(isinstance(record, NotSaved) for record in run.history) for run in (kept, lax, strict)] == [0, 1, 1]
    assert not lax.state.final and strict.state is State.FAILED
    assert isinstance(strict.error, DiskFull) and "the budget is 1 GB" in str(strict.error)


def test_a_plan_whose_root_is_held_is_done_at_once() -> None:
    plan = make_plan(LEFT)
    run = Run("j", {})
    run.switch(plan, [Committed(checkpoint_key(plan.root, 0), (7,), (56,), 1.0)], now=0.0)
    assert run.state is State.SUCCEEDED
    assert run.outputs[0].rows == (7,)


def test_non_deterministic_stages_are_not_carried_into_another_plan() -> None:
    s = Script("a 1 island\nb 1 all:a\nc 1\nroot 1 all:b all:c as=R", limits=Limits(keep_checkpoints=True))
    s.play("a.0", "c.0")
    s.start("b.0")
    assert s.switch("a 1 island\nb 1 all:a\nroot 1 all:b as=R") == ["stop b.0", "release a.0"]
    assert s.ready == ["a.0"]
    s.play("a.0")
    assert s.ready == []
    # the old attempt at b read the old a: its late success must not serve the new plan
    assert s.done("b.0") == ["release b.0"]
    assert s.ready == ["b.0"]


def test_a_non_deterministic_stage_made_again_after_a_switch_to_the_same_plan_spoils_what_rests_on_it() -> None:
    plan = "a 1 island\nb 2 all:a\nc 1 all:b\nroot 1 all:c all:b as=R"
    s = Script(plan)
    s.play("a.0", "b.0", "b.1")  # a is released now, but b rests on it
    s.switch(plan)
    assert "release b.1" in s.lose("b", 0)
    s.play("a.0", "b.0", "b.1")
    assert s.ready == ["c.0"]


def test_nothing_starts_while_it_is_held_whichever_plan_it_has() -> None:
    s = Script(LEFT)
    s.run.pause()
    assert s.run.state is State.SWITCHING
    assert s.ready == []
    s.switch(RIGHT)
    assert s.ready == []
    s.switch(LEFT)
    s.run.resume()
    assert s.run.state is State.RUNNING
    assert s.ready == ["a.0", "b.0"]


# --- ends ---------------------------------------------------------------------------------------------------


def test_cancelled_only_when_every_attempt_has_reported() -> None:
    s = Script("a 2\nroot 1 all:a")
    s.start("a.0", "a.1")
    assert len(s.run.cancel(now=5.0)) == 2
    assert s.run.cancel(now=5.1) == []
    s.stopped("a.0")
    assert s.run.state is State.RUNNING
    s.stopped("a.1")
    assert s.run.state is State.CANCELLED
    assert isinstance(s.run.error, Cancelled)


def test_the_first_outcome_stays() -> None:
    s = Script("a 1\nroot 1 all:a")
    s.start("a.0")
    s.run.fail(Timeout("too late"), now=5.0)
    s.run.cancel(now=6.0)
    s.stopped("a.0")
    assert s.run.state is State.FAILED
    assert isinstance(s.run.error, Timeout)


def test_final_states_are_final() -> None:
    assert all(not TRANSITIONS[state] for state in State if state.final)


# --- what can be read ---------------------------------------------------------------------------------------


def test_progress_counts_tasks_and_rows() -> None:
    s = Script("a 3\nroot 1 all:a")
    s.play("a.0")
    s.start("a.1")
    progress = s.run.progress()
    stage = progress.stages[0]
    assert (stage.done, stage.running, stage.total, stage.rows, stage.seconds) == (1, 1, 3, 5, 0.5)
    assert progress.fraction == 0.25
    s.done("a.1")
    s.play("a.2", "root.0")
    assert s.run.progress().fraction == 1.0


def test_the_story_of_a_key_is_told_in_sentences() -> None:
    s = Script("a 1\nroot 1 all:a")
    s.start("a.0")
    s.fail("a.0")
    s.play("a.0", "root.0")
    story = s.run.story(checkpoint_key(s.run.plan.stages[0], 0)).splitlines()
    assert [line.split(" s ", 1)[1] for line in story] == [
        "j/a.0#1 started on m with 1 slot and 105 MB",
        "j/a.0#1 failed and may be retried: broken",
        "j/a.0#2 started on m with 1 slot and 105 MB",
        "j/a.0#2 put out 5 rows in 0.500 s",
        "1 checkpoints were released",
    ]
    assert str(s.run.history[-1]).endswith("the job succeeded")


def test_the_share_is_told_and_kept() -> None:
    s = Script("a 1")
    s.tell(ShareChanged("j", Resources(1, 500 * MB)), ShareChanged("other", Resources(9, 9)))
    assert s.run.share == Resources(1, 500 * MB)


# --- anything may happen, in any order ----------------------------------------------------------------------

SHAPES = (
    # (plans of one query that share some signatures)
    (LEFT, RIGHT),
    (
        "a 3 t=2\nb 2\nc 3 partition:a partition:b\nd 3 forward:c\nroot 1 all:d as=R",
        "a 3 t=2\nb 2\ne 1 all:a all:b\nf 1 all:e\nroot 2 all:f all:b as=R",
    ),
    (
        "a 1 island\nb 2 all:a\nc 1 all:b\nroot 1 all:c all:b as=R",
        "a 1 island\nb 2 all:a\nroot 1 all:b as=R",
    ),
    ("a 2 as=x\nb 2 as=x\nroot 2 all:a forward:b as=R", "a 2 as=x\nc 1 all:a\nroot 1 all:c as=R"),
)


Content = frozenset[tuple[CheckpointKey, AttemptId]]


class AnyOrder(RuleBasedStateMachine):
    """A run under random reports, losses and switches, against a model of the store that it commands.

    What an output rests on is modelled as well: every time an island is made it puts out something else, and
    nothing may rest on two makings of it.
    """

    shapes = SHAPES

    @initialize(choice=st.integers(0, 9), keep=st.booleans())
    def begin(self, choice: int, keep: bool) -> None:
        self.plans = [make_plan(text) for text in self.shapes[choice % len(self.shapes)]]
        self.run = Run("j", {}, limits=Limits(max_attempts=30, keep_checkpoints=keep))
        self.now = 0.0
        self.store: dict[CheckpointKey, Content] = {}
        self.read: dict[AttemptId, Content] = {}
        self.non_deterministic: set[CheckpointKey] = set()
        self.alive: dict[AttemptId, CheckpointKey] = {}
        self.stopping: set[AttemptId] = set()
        self.past: list[TaskSucceeded | TaskFailed | TaskStopped] = []
        self.ghosts: list[TaskSucceeded] = []
        self.obey(self.run.handle(MachineJoined("m", Resources(4, 1000 * MB)), now=0.0))
        self.obey(self.run.switch(self.plans[0], now=0.0))

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Stop):
                assert command.attempt in self.alive, f"{command.attempt} was told to stop but is not alive"
                self.stopping.add(command.attempt)
            elif isinstance(command, Release):
                for key in command.keys:
                    self.store.pop(key, None)

    def tell(self, event: object) -> None:
        self.now += 1
        self.obey(self.run.handle(event, now=self.now))  # type: ignore[arg-type]

    def report(self, event: TaskSucceeded | TaskFailed | TaskStopped) -> None:
        self.alive.pop(event.attempt)
        self.past.append(event)
        if isinstance(event, TaskSucceeded):
            self.put(event)
        self.tell(event)

    def put(self, event: TaskSucceeded) -> None:
        own = {(event.committed.key, event.attempt)} if event.committed.key in self.non_deterministic else set()
        self.store.setdefault(event.committed.key, self.read[event.attempt] | own)  # the first output of a key stays

    def start(self, choice: int) -> None:
        demand = self.run.ready()[choice % len(self.run.ready())]
        spec = self.run.grant(demand.task, "m", demand.resources, now=self.now).spec
        for item in spec.inputs:
            for key, _ in item.reads:
                assert key in self.store, f"{spec.attempt} reads {key}\n{self.run.story(key)}"
        self.read[spec.attempt] = self.consistent({key for item in spec.inputs for key, _ in item.reads})
        if not spec.stage.shareable:
            self.non_deterministic.add(spec.key)
        self.alive[spec.attempt] = spec.key

    def consistent(self, keys: set[CheckpointKey]) -> Content:
        rests_on = frozenset(pair for key in keys for pair in self.store[key])
        non_deterministic = [one for one, _ in rests_on]
        for one in non_deterministic:
            assert non_deterministic.count(one) == 1, f"two makings of {one} meet\n{self.run.story(one)}"
        return rests_on

    def success(self, attempt: AttemptId) -> TaskSucceeded:
        return TaskSucceeded(attempt, Committed(self.alive[attempt], (1,), (8,), 1.0))

    @precondition(lambda self: self.run.ready())
    @rule(choice=st.integers(0, 9))
    def granted(self, choice: int) -> None:
        self.start(choice)

    @precondition(lambda self: self.alive)
    @rule(choice=st.integers(0, 9), how=st.sampled_from(["success"] * 8 + ["failed", "memory"]))
    def ended(self, choice: int, how: str) -> None:
        attempt = list(self.alive)[choice % len(self.alive)]
        error = OutOfMemory("no memory") if how == "memory" else ExecutionError("broken")
        self.report(self.success(attempt) if how == "success" else TaskFailed(attempt, error, retryable=True))

    @precondition(lambda self: self.stopping & set(self.alive))
    @rule()
    def has_stopped(self) -> None:
        self.report(TaskStopped(min(self.stopping & set(self.alive), key=lambda attempt: attempt.number)))

    @precondition(lambda self: self.past)
    @rule(choice=st.integers(0, 99))
    def told_again(self, choice: int) -> None:
        self.tell(self.past[choice % len(self.past)])

    @rule(choice=st.integers(0, 99), begun=st.booleans())
    def told_of_waiting(self, choice: int, begun: bool) -> None:
        """In any order, more than once, of attempts that have ended, too."""
        attempts = [*self.alive, *(event.attempt for event in self.past)]
        if attempts:
            attempt = attempts[choice % len(attempts)]
            self.tell(Begun(attempt) if begun else Queued(attempt))

    @precondition(lambda self: self.store)
    @rule(choice=st.integers(0, 99))
    def lost(self, choice: int) -> None:
        key = sorted(self.store, key=str)[choice % len(self.store)]
        del self.store[key]
        self.tell(CheckpointLost(key))

    @rule(choice=st.integers(0, 1), pause=st.booleans())
    def switched(self, choice: int, pause: bool) -> None:
        if pause:
            self.run.pause()
        self.now += 1
        self.obey(self.run.switch(self.plans[choice], now=self.now))
        if pause:
            assert not self.run.ready()
            self.run.resume()

    @rule()
    def machine_lost(self) -> None:
        """All attempts are gone, but some had written their output, and say so later."""
        self.ghosts += [self.success(attempt) for attempt in self.alive]
        self.alive.clear()
        self.tell(MachineLost("m"))
        self.tell(MachineJoined("m", Resources(4, 1000 * MB)))

    @precondition(lambda self: self.ghosts)
    @rule()
    def ghost(self) -> None:
        event = self.ghosts.pop()
        self.put(event)
        self.tell(event)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "run"):
            self.run.check()
            for fact in self.run.progress().present:
                assert fact.key in self.store, f"{fact.key} is believed to be held\n{self.run.story(fact.key)}"

    def teardown(self) -> None:
        """Left alone, every run ends, and leaves nothing but its answer."""
        if not hasattr(self, "run"):
            return
        for _ in range(1000):
            if self.run.state.final:
                break
            while self.run.ready():
                self.start(0)
            assert self.alive, "nothing runs and nothing is ready, yet the job has not ended"
            self.report(self.success(next(iter(self.alive))))
            self.run.check()
        assert self.run.state.final
        while self.ghosts:
            self.ghost()
        answer = {fact.key for fact in self.run.outputs} if self.run.state is State.SUCCEEDED else set()
        assert self.store.keys() >= answer or any(isinstance(e, Lost) and e.key in answer for e in self.run.history)
        assert self.store.keys() <= answer, "outputs are left behind"
        self.consistent(answer & self.store.keys())


class AnyOrderOfIslands(AnyOrder):
    shapes = SHAPES[2:3]


AnyOrderOfIslands.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestAnyOrderOfIslands = AnyOrderOfIslands.TestCase
AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
