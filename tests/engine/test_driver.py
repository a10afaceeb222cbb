"""The driver's accounts: a grant takes resources, the first report gives them back, whatever comes after."""

from __future__ import annotations

import pytest

from qoop.catalog.errors import ExecutionError, PlanError
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.driver import Driver
from qoop.engine.events import (
    CapacityExpected,
    CapacityNotice,
    Event,
    Grant,
    MachineJoined,
    MachineLost,
    SlotsChanged,
    Start,
    TaskFailed,
)
from qoop.engine.run import Run
from qoop.engine.state import State
from qoop.engine.task import TaskId
from qoop.planner.plan import Plan, Resources, Stage

COLUMNS = (("x", "INTEGER"),)
BROKEN = ExecutionError("broken")
PLAN = Plan((Stage("a", "", (), COLUMNS, 3, "a"),), COLUMNS)


def begin() -> tuple[Driver, SimulatedBackend, list[object]]:
    seen: list[object] = []
    backend = SimulatedBackend({"m": Resources(2, 100)}, VirtualClock())
    driver = Driver(backend, seen.append)
    run = Run("j", {})
    driver.add(run, now=0.0)
    driver.obey(run.switch(PLAN, now=0.0))
    return driver, backend, seen


def grant(driver: Driver, part: int) -> Start:
    return driver.apply(Grant("j", TaskId("j", "a", part), "m", Resources(1, 40)), now=0.0)


def take(driver: Driver, *events: Event) -> bool:
    changed = driver.take(events, now=1.0)
    driver.check()
    return changed


def test_resources_are_taken_until_the_attempt_reports() -> None:
    driver, backend, seen = begin()
    starts = [grant(driver, 0), grant(driver, 1)]
    assert driver.available("m").free == Resources(0, 20)
    assert driver.used_by("j") == Resources(2, 80)
    events = backend.wait(None)
    assert not take(driver, *events)
    assert driver.available("m").free == Resources(2, 100)
    assert driver.used_by("j") == Resources()
    assert seen == [*starts, *events]


def test_a_second_report_gives_no_resources_back() -> None:
    driver, _, _ = begin()
    failed = [TaskFailed(grant(driver, part).spec.attempt, BROKEN, True) for part in (0, 1)]
    take(driver, failed[0], failed[0])
    assert driver.available("m").free == Resources(1, 60)


def test_a_lost_machine_takes_its_accounts_with_it() -> None:
    driver, _, _ = begin()
    attempt = grant(driver, 0).spec.attempt
    assert take(driver, MachineLost("m"))
    assert driver.availability() == {} and driver.capacity == Resources()
    assert take(driver, TaskFailed(attempt, BROKEN, True), MachineJoined("m", Resources(1, 50)))
    assert driver.available("m").free == Resources(1, 50)
    assert driver.runs["j"].ready()[0].resources == Resources(1, 50)


def test_a_machine_that_shrank_has_nothing_free_until_reports_come() -> None:
    driver, _, _ = begin()
    grant(driver, 0), grant(driver, 1)
    assert take(driver, SlotsChanged("m", Resources(1, 100)))
    assert driver.available("m").free.cpu == -1


def test_resources_that_are_not_there_are_not_given() -> None:
    driver, _, _ = begin()
    grant(driver, 0), grant(driver, 1)
    with pytest.raises(PlanError, match="has not got"):
        grant(driver, 2)
    driver.check()
    driver, _, _ = begin()
    grant(driver, 0)
    take(driver, SlotsChanged("m", Resources(1, 100)))
    with pytest.raises(PlanError, match="has not got"):
        grant(driver, 1)


def test_what_was_announced_is_not_promised_and_still_there() -> None:
    driver, _, _ = begin()
    grant(driver, 0), grant(driver, 1)
    assert take(driver, CapacityNotice("m", Resources(1, 300), at=9.0), CapacityNotice("n", Resources(), at=9.0))
    assert driver.capacity == Resources(2, 100) and driver.promised == Resources(1, 100)
    assert driver.available("m").free == Resources(0, 20)
    assert take(driver, SlotsChanged("m", Resources(1, 300)))
    assert not driver.leaving and driver.promised == driver.capacity == Resources(1, 300)
    take(driver, CapacityNotice("m", Resources(), at=20.0), MachineLost("m"))
    assert not driver.leaving and driver.promised == Resources()


def test_what_is_expected_is_not_there_and_ends_with_its_time() -> None:
    driver, _, _ = begin()
    assert take(driver, CapacityExpected(((9.0, Resources(4)), (12.0, Resources(6, 100)))))
    assert driver.capacity == driver.promised == Resources(2, 100)
    assert driver.coming(0.0) == ((9.0, Resources(4, 200)), (12.0, Resources(6, 100)))
    assert driver.coming(9.0) == ((12.0, Resources(6, 100)),) and driver.coming(12.0) == ()
    take(driver, CapacityExpected(()))
    assert driver.coming(0.0) == ()


def test_more_that_was_announced_is_to_come() -> None:
    driver, _, _ = begin()
    take(driver, CapacityNotice("m", Resources(5, 300), at=9.0))
    assert driver.promised == Resources(2, 100) and driver.coming(0.0) == ((9.0, Resources(5, 300)),)
    take(driver, CapacityNotice("m", Resources(1, 50), at=9.0))
    assert driver.coming(0.0) == ()
    take(driver, SlotsChanged("m", Resources(1, 50)))
    assert driver.coming(0.0) == () and not driver.leaving


def test_a_run_that_was_removed_hears_no_more() -> None:
    driver, backend, _ = begin()
    run = driver.runs["j"]
    grant(driver, 0)
    driver.remove("j")
    take(driver, *backend.wait(None))
    assert driver.available("m").free == Resources(2, 100)
    assert run.state is State.RUNNING and len(run.alive) == 1
