"""Real runs against the same runs in the simulator: what is recorded, and how the two are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qoop.adaptive.simulation import Kernels
from qoop.catalog.errors import ConfigError
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput, TableInput
from qoop.tpcds.results import read
from qoop.tpcds.simulate import fidelity, fidelity_figures
from qoop.tpcds.simulate.fidelity import FidelityOptions
from qoop.tpcds.simulate.fidelity_figures import Fidelity, Pair
from qoop.tpcds.simulate.replica import Done, Replica, Solo, fastest

COLUMNS = (("x", "INTEGER"),)


def plan(width: int = 4) -> Plan:
    scan = Stage(
        "scan",
        "FROM t",
        (TableInput("t", "t", "1", ("x",), True),),
        COLUMNS,
        width,
        "a",
        estimate=Estimate(100, 800, 9.0),
    )
    root = Stage("root", "FROM scan", (StageInput("scan", "scan", "all"),), COLUMNS, 1, "b")
    return Plan((scan, root), COLUMNS)


def alone(seconds: float = 1.0, between: float = 0.25) -> Solo:
    tasks = {"scan": (Done(seconds, 25, 200),) * 4, "root": (Done(0.5, 1, 8),)}
    return Solo(tasks, 4 * seconds + 0.5 + 5 * between)


def machine(slots: int, run: Solo) -> Replica:
    return Replica.of(Resources(slots, 8e9), [(plan(), run)])


def test_a_run_on_one_slot_comes_out_as_it_was() -> None:
    assert machine(1, alone()).seconds(plan()) == pytest.approx(alone().seconds)


def test_two_slots_halve_what_can_be_done_side_by_side() -> None:
    assert machine(2, alone()).seconds(plan()) == pytest.approx(2 * 1.25 + 0.75)


def test_resources_that_go_and_come_back_are_followed() -> None:
    two, one = Resources(2, 8e9), Resources(1, 8e9)
    ran = machine(2, alone()).run([(0.0, plan(), None)], [(1.25, one), (2.5, two)])
    # two done at 1.25, one at 2.5, one at 3.75, the root 0.75 later
    assert ran.seconds == pytest.approx(4.5)


def test_threads_take_turns_where_there_are_more_of_them_than_cores() -> None:
    crowded = replace(machine(2, alone()), cores=2.0)
    assert crowded.seconds(plan()) == machine(2, alone()).seconds(plan())
    # until 1.5 a client plans during two tasks: 1 of 1.25 s is done then
    ran = crowded.run([(0.0, plan(), None)], planning=1.5)
    assert ran.seconds == pytest.approx(2 * 1.25 + 0.75 + 0.5)


def test_a_short_query_next_to_a_long_one_has_a_slot_on_top() -> None:
    only = Stage("only", "FROM t", plan().stages[0].table_inputs, COLUMNS, 1, "c", estimate=Estimate(1, 8, 0.2))
    short = Plan((only,), COLUMNS)
    runs = [(plan(), alone(10.0)), (short, Solo({"only": (Done(0.2, 1, 8),)}, 0.45))]
    here = replace(Replica.of(Resources(2, 8e9), runs), cores=2.0, kernels=Kernels(opening=0.3))
    long, brief = here.run([(0.0, plan(), None), (1.0, short, None)]).jobs
    assert brief.seconds == pytest.approx(1.5 * (0.3 + 0.45))  # three threads on two cores, a new kernel
    assert long.seconds == pytest.approx(here.seconds(plan()) + brief.seconds / 3)
    again = here.run([(0.0, plan(), None), (1.0, short, None), (5.0, short, None)]).jobs
    assert again[2].seconds == pytest.approx(brief.seconds)


def test_a_kernel_that_has_not_read_a_table_takes_longer_once() -> None:
    cold = replace(machine(2, alone()), kernels=Kernels(reading=0.1))
    assert cold.seconds(plan(), warm=False) == pytest.approx(cold.seconds(plan()) + 0.1)


def test_a_slot_that_comes_back_has_a_kernel_to_be_opened() -> None:
    opened = replace(machine(2, alone()), kernels=Kernels(opening=0.3, reading=0.1, stopping=0.2))
    two, one = Resources(2, 8e9), Resources(1, 8e9)
    ran = opened.run([(0.0, plan(), None)], [(1.0, one), (1.25, two)])
    # the first worker is done at 1.25, 2.5 and 3.75; the new one, at work from 1.55 on, at 2.9
    assert ran.seconds == pytest.approx(3.75 + 0.75)
    late = replace(opened, kernels=replace(opened.kernels, opening=2.0))
    ran = late.run([(0.0, plan(), None)], [(1.0, one), (1.25, two)])
    # the first worker has three done at 3.75; the fourth was granted at 2.5 and waited for the new kernel until 3.25
    assert ran.seconds == pytest.approx(3.25 + 0.1 + 1.25 + 0.75)


def test_when_memory_falls_all_kernels_are_replaced() -> None:
    opened = replace(machine(1, alone()), kernels=Kernels(opening=0.3, reading=0.1))
    ran = opened.run([(0.0, plan(), None)], [(1.0, Resources(1, 2e9))])
    # the task under way had more memory than there is now: it is lost, and waits for a new kernel, which is cold
    assert ran.seconds == pytest.approx(1.0 + 0.3 + 0.1 + machine(1, alone()).seconds(plan()))


def test_the_serial_part_of_tasks_is_found_from_plans_that_have_threads() -> None:
    wide = Plan((replace(plan().stages[0], slots=2, width=2), plan().root), COLUMNS)
    known = Replica.of(
        Resources(2, 8e9), [(wide, Solo({"scan": (Done(1.0, 1, 8),) * 2, "root": (Done(0.5, 1, 8),)}, 2.5))]
    )
    assert known.fitted([(wide, 2 * 0.8 + 0.5)]).serial == pytest.approx(0.6)
    assert known.fitted([]).serial == known.serial


def test_how_much_tasks_disturb_each_other_is_found_from_runs() -> None:
    real = 2 * 1.25 * 1.3 + 0.75
    fitted = machine(2, alone()).fitted([(plan(), real)])
    assert fitted.side_by_side == pytest.approx(1.3)
    assert fitted.seconds(plan()) == pytest.approx(real)


def test_a_stage_that_never_ran_takes_its_estimate_as_others_took_theirs() -> None:
    known = machine(1, alone())
    other = plan(width=3)
    assert known.misestimate == pytest.approx(4.5 / (4 * 9.0 + plan().root.estimate.task_seconds))
    expected = 3 * 9.0 * known.misestimate + 0.5 + 4 * known.between  # the root is known
    assert known.seconds(other) == pytest.approx(expected)


def test_of_several_runs_each_task_counts_at_its_fastest() -> None:
    first, second = alone(1.0), alone(0.5)
    slow_root = Solo({**second.tasks, "root": (Done(9.0, 1, 8),)}, 99.0)
    best = fastest([first, slow_root])
    assert best.tasks["scan"][0].seconds == 0.5 and best.tasks["root"][0].seconds == 0.5
    assert best.between == pytest.approx(first.between)  # not also what the tasks of `first` lost on those of `second`


def test_orders_count_pairs_of_plans_that_really_differ() -> None:
    pairs = (
        Pair("steady", 1, 0, 1.0, 1.0), Pair("steady", 1, 1, 2.0, 1.5), Pair("steady", 1, 2, 2.1, 1.2),
        Pair("steady", 2, 0, 1.0, 3.0), Pair("steady", 2, 1, 2.0, 2.0), Pair("dip", 2, None, 9.0, 1.0),
    )  # fmt: skip
    found = Fidelity(pairs, {}, {})
    assert found.orders() == (2, 3)  # 2.0 and 2.1 s are alike; query 2 comes out the wrong way round
    assert found.median_error == pytest.approx((0.25 + 3 / 7) / 2)


def test_what_was_fitted_to_is_not_judged() -> None:
    pairs = (Pair("steady", 1, 0, 1.0, 1.0, fitted=True), Pair("steady", 2, 0, 1.0, 1.2))
    assert Fidelity(pairs, {}, {}).median_error == pytest.approx(0.2)


def test_orders_of_plans_that_were_fitted_to_do_not_count() -> None:
    pairs = [Pair("steady", query, plan, 1.0 + plan, 1.0 + plan, query == 1) for query in (1, 2) for plan in (0, 1)]
    assert Fidelity(tuple(pairs), {}, {}).orders() == (1, 1)


def figures_of(count: int) -> Fidelity:
    return Fidelity(tuple(Pair("dip", query, None, 1.0, 1.1) for query in range(count)), {}, {})


def test_a_run_of_fewer_queries_does_not_take_the_place_of_one_of_more(tmp_path: Path) -> None:
    full, quick = (FidelityOptions(tmp_path, tuple(range(count)), repeat=repeat) for count, repeat in ((4, 3), (2, 1)))
    path = tmp_path / "fidelity.jsonl"
    assert fidelity.keep_summary(figures_of(2), quick, tmp_path)
    assert fidelity.keep_summary(figures_of(4), full, tmp_path)
    assert not fidelity.keep_summary(figures_of(2), quick, tmp_path)
    settings = read(path).settings
    assert (settings["queries"], settings["repeat"], settings["directory"]) == (4, 3, str(tmp_path))
    assert {"version", "planner", "profiles"} < settings.keys()
    assert fidelity.keep_summary(figures_of(2), quick, tmp_path, fresh=True)
    assert fidelity.summarized(path) == read(path).settings["queries"] == 2


def test_all_profiles_run_for_real_and_in_the_simulator_and_are_not_run_again(
    tpcds_small: Path, tmp_path: Path
) -> None:
    options = FidelityOptions(tpcds_small, (3, 55, 96, 42), repeat=1, results=tmp_path / "results.json")
    lines: list[str] = []
    found = fidelity.run(options, lines.append)
    assert found.failed == {}
    assert {pair.profile for pair in found.pairs} == set(fidelity_figures.PROFILES)
    assert all(pair.real > 0 and 0 < pair.simulated < 60 for pair in found.pairs)
    assert {pair.query for pair in found.pairs if pair.profile == "together"} == {3, 42, 55, 96}
    assert "median error" in fidelity_figures.table(found)
    again: list[str] = []
    assert fidelity.run(options, again.append).pairs == found.pairs
    assert again == ["simulating …"] != lines


def test_results_of_other_settings_are_refused(tpcds_small: Path, tmp_path: Path) -> None:
    options = FidelityOptions(tpcds_small, (3,), ("steady",), repeat=1, results=tmp_path / "results.json")
    fidelity.run(options)
    with pytest.raises(ConfigError, match="other settings"):
        fidelity.run(FidelityOptions(tpcds_small, (3,), ("steady",), repeat=2, results=tmp_path / "results.json"))
