"""Outputs that may differ when run again are not shared (law 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import qoop
from qoop.engine.events import CheckpointLost, Committed, MachineJoined, TaskSucceeded
from qoop.engine.run import Run
from qoop.engine.running.going_on import going_on
from qoop.engine.state import Limits, State
from qoop.engine.task import CheckpointKey, TaskId, TaskSpec, checkpoint_key, own_non_deterministic
from qoop.planner.plan import Layout, Plan, Resources, Stage, StageInput


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


COLUMNS = (("n", "INTEGER"),)
DIGITS = Plan(
    (
        Stage("sums", "", (), (("s", "DOUBLE"),), 2, "sums", Layout(("s",), 2)),
        Stage("names", "", (), COLUMNS, 1, "names"),
        Stage(
            "above", "", (StageInput("sums", "sums", "partition"), StageInput("names", "names", "all")), COLUMNS, 2,
            "above", Layout(("n",), 2), shareable=False, by_digits=True,
        ),
        Stage(
            "root", "", (StageInput("above", "above", "partition"),), COLUMNS, 2, "root", shareable=False,
            by_digits=True,
        ),
    ),
    COLUMNS,
)  # fmt: skip
"""The last digits of `sums` decide the rows of `above`."""


class Place:
    """Outputs that processes leave. made: how often an output was made, so no two of them are equal."""

    def __init__(self) -> None:
        self.outputs: dict[CheckpointKey, Committed] = {}
        self.made = 0

    def put(self, *keys: CheckpointKey) -> None:
        for key in keys:
            self.made += 1
            self.outputs[key] = Committed(key, (5, 5), (40, 40), 0.5 + self.made)

    def present(self, keys: Sequence[CheckpointKey]) -> list[Committed]:
        return [self.outputs[key] for key in keys if key in self.outputs]

    def plan(self, plan: Plan = DIGITS, text: str = "SELECT") -> Plan | None:
        return going_on(plan, text, self.present)


def keys_of(plan: Plan | None, stage: str) -> list[CheckpointKey]:
    assert plan is not None
    return [checkpoint_key(plan.by_id[stage], part) for part in range(plan.by_id[stage].width)]


@pytest.fixture
def place() -> Place:
    found = Place()
    found.put(*keys_of(DIGITS, "sums"))
    return found


def test_what_rests_on_the_same_sums_has_the_same_names_in_every_process(place: Place) -> None:
    before, after = place.plan(), place.plan()
    assert before == after
    assert keys_of(before, "sums") == keys_of(DIGITS, "sums"), "others use them, too"
    for stage in ("above", "root"):
        assert set(keys_of(before, stage)).isdisjoint(keys_of(DIGITS, stage))
    assert keys_of(place.plan(text="another"), "root") != keys_of(before, "root")


def test_outputs_that_rest_on_two_makings_of_a_sum_never_meet(place: Place) -> None:
    before = place.plan()
    place.put(*keys_of(before, "above"))
    place.put(keys_of(DIGITS, "sums")[1])
    after = place.plan()
    assert set(keys_of(before, "above")).isdisjoint(keys_of(after, "above"))
    del place.outputs[keys_of(DIGITS, "sums")[0]]
    assert place.plan() is None, "which sums will be read is not known"


def test_what_rests_on_a_lost_output_is_not_used_however_often_that_comes(place: Place) -> None:
    seen = set[CheckpointKey]()
    for _ in range(3):
        plan = place.plan()
        assert seen.isdisjoint(keys_of(plan, "root"))
        seen.update(keys_of(plan, "root"))
        place.put(*keys_of(plan, "above"), *keys_of(plan, "root"))
        assert place.plan() == plan, "nothing is lost"
        del place.outputs[keys_of(plan, "above")[1]]


@pytest.mark.parametrize(
    "changes", [{"by_digits": False}, {"sql": "SELECT random()", "by_digits": False}], ids=["ties", "random"]
)
def test_what_depends_on_more_than_digits_goes_on_in_no_other_process(place: Place, changes: dict[str, object]) -> None:
    stages = [replace(one, **changes) if one.id == "above" else one for one in DIGITS.stages]  # type: ignore[arg-type]
    assert place.plan(Plan(tuple(stages), COLUMNS)) is None
    assert place.plan(Plan(DIGITS.stages[:2], COLUMNS)) is None, "all its outputs have names that everybody knows"


class Going:
    """A run that goes on with a plan; its tasks are made one after the other."""

    def __init__(self, plan: Plan, found: Sequence[Committed], goes_on: bool) -> None:
        self.run = Run(
            "j", {}, durable=True, limits=Limits(goes_on=goes_on, slice_seconds=0.001, keep_checkpoints=True)
        )
        self.run.handle(MachineJoined("m", Resources(1, 2**30)), now=0.0)
        self.run.switch(plan, found, now=0.0)

    def make(self, task: str) -> TaskSpec:
        stage, part = task.split(".")
        start = self.run.grant(TaskId("j", stage, int(part)), "m", Resources(1, 2**25), now=0.0)
        committed = Committed(start.spec.key, (5, 5), (40, 40), 0.5)
        self.run.handle(TaskSucceeded(start.spec.attempt, committed), now=0.0)
        return start.spec

    @property
    def ready(self) -> list[str]:
        return [f"{one.task.stage}.{one.task.part}" for one in self.run.ready()]


def test_a_run_takes_over_and_leaves_what_rests_on_digits_only_where_it_goes_on(place: Place) -> None:
    plan = place.plan()
    assert plan is not None
    place.put(*keys_of(DIGITS, "names"), keys_of(plan, "above")[0])
    held = list(place.outputs.values())
    alone = Going(plan, held, goes_on=False)
    assert alone.ready == ["above.0"] and not alone.make("above.0").durable
    run = Going(plan, held, goes_on=True)
    assert run.ready == ["above.1"]
    above, root = run.make("above.1"), run.make("root.0")
    assert (above.durable, above.shared, above.slicing is not None) == (True, False, True)
    assert (root.durable, root.slicing) == (True, None), "a slice would not be missed with what it rests on"
    run.make("root.1")
    assert run.run.state is State.SUCCEEDED


def test_what_is_made_again_or_by_another_plan_serves_no_other_process(place: Place) -> None:
    plan = place.plan()
    assert plan is not None
    place.put(*keys_of(DIGITS, "names"), *keys_of(plan, "above"))
    lost = Going(plan, list(place.outputs.values()), goes_on=True)
    lost.run.handle(CheckpointLost(keys_of(plan, "above")[0]), now=0.0)
    assert [lost.make(task).durable for task in ("above.0", "above.1", "root.0")] == [False] * 3
    changed = Going(plan, list(place.outputs.values()), goes_on=True)
    for other in (own_non_deterministic(DIGITS, "j"), plan):
        changed.run.switch(other, now=0.0)
    assert [changed.make(task).durable for task in ("above.0", "above.1", "root.0")] == [False] * 3
