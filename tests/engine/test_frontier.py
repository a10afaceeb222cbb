"""Every row of the table of a task's states, by the calls that take it; all else is refused."""

from __future__ import annotations

import re

import pytest

from qoop.catalog.errors import PlanError
from qoop.engine import frontier as module
from qoop.engine.frontier import TASK_TRANSITIONS, Frontier, TaskState
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.plan import Plan, Stage, StageInput

S = TaskState
ROW = re.compile(
    r"^ {4}(?P<state>IDLE|WAITING|READY|RUNNING|PRESENT)? +(?P<becomes>IDLE|WAITING|READY|RUNNING|PRESENT) "
)


def _stage(name: str, *reads: str) -> Stage:
    inputs = tuple(StageInput(one, one, "all") for one in reads)
    return Stage(name, "", inputs, (("x", "INTEGER"),), width=1, signature=name)


PLAN = Plan((_stage("a"), _stage("b", "a"), _stage("root", "b")), (("x", "INTEGER"),))

SCRIPTS = {
    (S.IDLE, S.WAITING): ("present root", "lose root"),
    (S.IDLE, S.READY): ("present root a", "lose root"),
    (S.IDLE, S.RUNNING): ("present root a; busy b", "lose root"),
    (S.IDLE, S.PRESENT): ("present root", "commit b"),
    (S.WAITING, S.READY): ("", "commit a"),
    (S.WAITING, S.IDLE): ("", "commit root"),
    (S.WAITING, S.PRESENT): ("", "commit b"),
    (S.READY, S.RUNNING): ("present a", "begin b"),
    (S.READY, S.WAITING): ("present a", "lose a"),
    (S.READY, S.IDLE): ("present a", "commit root"),
    (S.READY, S.PRESENT): ("present a", "commit b"),
    (S.RUNNING, S.PRESENT): ("present a; busy b", "succeed b"),
    (S.RUNNING, S.READY): ("present a; busy b", "end b"),
    (S.RUNNING, S.WAITING): ("busy b", "end b"),
    (S.RUNNING, S.IDLE): ("present a; busy b", "commit root"),
    (S.PRESENT, S.IDLE): ("present root b", "lose b"),
    (S.PRESENT, S.WAITING): ("present b", "lose b"),
    (S.PRESENT, S.READY): ("present a b", "lose b"),
    (S.PRESENT, S.RUNNING): ("present a b; busy b", "lose b"),
}
"""By row: the outputs and attempts at the start, and the call that moves the task of b."""


def begun(start: str) -> Frontier:
    keys: dict[str, set[CheckpointKey]] = {"present": set(), "busy": set()}
    for part in filter(None, start.split("; ")):
        kind, *names = part.split()
        keys[kind] = {checkpoint_key(PLAN.by_id[name], 0) for name in names}
    return Frontier(PLAN, keys["present"], keys["busy"], reuse_dependents=True)


def documented() -> set[tuple[TaskState, TaskState]]:
    """The rows of the module's table."""
    rows, state = set(), S.IDLE
    for line in (module.__doc__ or "").splitlines():
        found = ROW.match(line)
        if found:
            state = S[found["state"]] if found["state"] else state
            rows.add((state, S[found["becomes"]]))
    return rows


def test_the_table_of_the_module_is_the_table_of_the_code() -> None:
    assert documented() == {(state, after) for state, all_after in TASK_TRANSITIONS.items() for after in all_after}
    assert documented() == set(SCRIPTS)


@pytest.mark.parametrize(("state", "becomes"), SCRIPTS)
def test_each_row_is_taken(state: TaskState, becomes: TaskState) -> None:
    start, call = SCRIPTS[state, becomes]
    frontier = begun(start)
    task = frontier.nodes["b"].tasks[0]
    frontier.check()
    assert task.state is state
    frontier.drain()
    name, target = call.split()
    getattr(frontier, name)(frontier.nodes[target].tasks[0])
    frontier.check()
    assert task.state is becomes
    assert (task in frontier.drain()[0]) == (task.busy and not task.active)


@pytest.mark.parametrize("start", ["present root", "", "present a; busy b", "present b"])
def test_an_attempt_begins_at_a_ready_task_alone(start: str) -> None:
    frontier = begun(start)
    task = frontier.nodes["b"].tasks[0]
    before = task.state
    with pytest.raises(PlanError, match=f"task b.0 is {before}: no attempt can begin"):
        frontier.begin(task)
    frontier.check()
    assert task.state is before is not S.READY


def test_an_output_that_is_released_leaves_the_task_idle() -> None:
    frontier = begun("present root b")
    task = frontier.nodes["b"].tasks[0]
    frontier.release(task)
    frontier.check()
    assert task.state is S.IDLE
