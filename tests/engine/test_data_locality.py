"""Of equal tasks one is begun where its input lies."""

from __future__ import annotations

from collections import Counter
from random import Random

from qoop.engine.events import Committed, MachineJoined, MachineLost, Start, TaskSucceeded
from qoop.engine.run import Run
from qoop.engine.state import Limits
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput, TableInput

AVAILABLE = Resources(1, 1 << 30)
WIDTH = 12


def stage(name: str, *inputs: TableInput | StageInput, width: int = WIDTH) -> Stage:
    return Stage(
        id=name, sql="", inputs=inputs, columns=(("x", "INTEGER"),), signature=f"signature of {name}",
        layout=Layout(), width=width, estimate=Estimate(task_seconds=1.0),
    )  # fmt: skip


def plan() -> Plan:
    scan = stage("scan", TableInput("t", "t", "version", ("x",), True))
    follow = stage("follow", StageInput("scan", "scan", "forward"))
    return Plan((scan, follow, stage("root", StageInput("follow", "follow", "all"), width=1)), (("x", "INTEGER"),))


def started(machines: str = "abc", near: bool = True) -> Run:
    run = Run("job", {"t": None}, limits=Limits(near=near))  # type: ignore[dict-item]
    run.handle(*(MachineJoined(machine, Resources(WIDTH, 100 << 30)) for machine in machines), now=0.0)
    run.switch(plan(), now=0.0)
    return run


def begin(run: Run, name: str, machine: str) -> Start:
    """Grant the machine a slot for the next task of a stage."""
    [demand] = [demand for demand in run.ready() if demand.task.stage == name]
    start = run.grant(demand.task, machine, AVAILABLE, now=1.0)
    run.check()
    return start


def end(run: Run, start: Start, bytes_: int = 1000) -> None:
    run.handle(TaskSucceeded(start.spec.attempt, Committed(start.spec.key, (1,), (bytes_,), 1.0)), now=2.0)
    run.check()


def scan_all(run: Run, machines: str, seed: int = 0) -> dict[int, str]:
    """The machine that each part of the scan ran on; machines ask in any order."""
    where: dict[int, str] = {}
    order = [machine for machine in machines for _ in range(WIDTH // len(machines))]
    Random(seed).shuffle(order)
    for machine in order:
        start = begin(run, "scan", machine)
        where[start.spec.attempt.task.part] = machine
        end(run, start)
    assert sorted(where) == list(range(WIDTH))
    return where


def test_what_follows_a_task_runs_where_it_ran() -> None:
    run = started()
    where = scan_all(run, "abc")
    for machine in "abc" * 4:
        start = begin(run, "follow", machine)
        assert where[start.spec.attempt.task.part] == machine
        assert start.spec.inputs[0].keys[0].part == start.spec.attempt.task.part


def test_a_machine_with_none_of_its_own_takes_what_there_is() -> None:
    run = started()
    where = scan_all(run, "abc")
    parts = [begin(run, "follow", "b").spec.attempt.task.part for _ in range(WIDTH)]
    assert [where[part] for part in parts[:4]] == ["b"] * 4 and sorted(parts) == list(range(WIDTH))


def test_splits_are_read_where_they_were_read_by_another_query() -> None:
    first, second = (scan_all(started(), "abc", seed) for seed in (1, 2))
    agree = sum(first[part] == second[part] for part in first)
    orders = [scan_all(started(near=False), "abc", seed) for seed in (1, 2)]
    assert agree >= 8 > sum(orders[0][part] == orders[1][part] for part in first)


def test_outputs_of_a_machine_that_is_lost_lie_nowhere() -> None:
    run = started("ab")
    scan_all(run, "ab")
    run.handle(MachineLost("b"), now=3.0)
    parts = [begin(run, "follow", "a").spec.attempt.task.part for _ in range(WIDTH)]
    assert sorted(parts) == list(range(WIDTH))


def test_by_default_and_on_one_machine_tasks_come_in_order() -> None:
    for run in (started(near=False), started("a")):
        parts = [begin(run, "scan", "a").spec.attempt.task.part for _ in range(WIDTH)]
        assert parts == list(range(WIDTH))


def test_what_a_lot_of_was_made_there_comes_first() -> None:
    run = started("ab")
    sizes = Counter[int]()
    for number in range(WIDTH):
        start = begin(run, "scan", "ab"[number % 2])
        sizes[start.spec.attempt.task.part] = 1000 + number if number % 2 else 0
        end(run, start, 1000 + number)
    found = [begin(run, "follow", "b").spec.attempt.task.part for _ in range(WIDTH // 2)]
    assert found == [part for part, _ in sizes.most_common(WIDTH // 2)]
