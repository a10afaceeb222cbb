"""The map: its grid, who is compared in it, the ceiling, and what is said of the results."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.adaptive.profiles import CapacityProfile
from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.outcomes import Outcome
from qoop.planner.estimate.cost import SPILL_BYTE
from qoop.planner.finish import Finish
from qoop.planner.plan import Estimate, Plan, Resources, Stage
from qoop.tpcds.map import cells, classes, cluster, pictures, records
from qoop.tpcds.map import simulate as map_simulate
from qoop.tpcds.map.cells import DOWN, UP, Cell
from qoop.tpcds.map.records import Group, Record
from qoop.tpcds.map.systems import ANNOUNCED, CEILING, CLARINET, GREEDY, HINDSIGHT, OURS, ROBUST, Contest, robust
from qoop.tpcds.queries import parse_names
from qoop.tpcds.results import Results
from qoop.tpcds.simulate.ground_truth import believed, misjudged
from qoop.tpcds.simulate.measuring import Measurements
from qoop.tpcds.simulate.workload import PAPER, Query
from qoop.tpcds.suite import toy


def toy_query() -> Query:
    """The toy, with stages that a ground truth can tell apart."""

    def named(plan: Plan) -> Plan:
        return replace(plan, stages=tuple(replace(one, sql=f"{one.id} {one.width}") for one in plan.stages))

    return Query(1, 3, 3, tuple(replace(one, plan=named(one.plan)) for one in toy.plans()))


QUERY = toy_query()
FALLS = CapacityProfile.of([(0, 4, 1e9), (1, 2, 1e9)])


def contest(profile: CapacityProfile = FALLS) -> Contest:
    return Contest(QUERY, profile, believed((QUERY,)), [])


def record(group: str, query: int = 1, **seconds: float) -> Record:
    return Record(group, query, query, seconds, dict.fromkeys(seconds, 0))


def test_the_grid_is_the_one_that_was_announced() -> None:
    every = cells.cells()
    assert len({cell.name for cell in every}) == len(every) == 56
    assert sum(cell.axis == "shares" for cell in every) == 26
    items = list(cells.rounds([7, 9]).values())
    assert [query for _, query in items] == [7] * 56 + [9] * 56


def test_the_sample_is_even_in_rank_of_joins_among_those_with_three_plans() -> None:
    plans = QUERY.candidates
    found = {number: Query(number, 100 - number, 3, plans if number % 2 else plans[:2]) for number in range(1, 42)}
    assert cells.sample(found, 5) == (41, 31, 21, 11, 1)


def test_a_share_changes_once_or_to_and_fro() -> None:
    once = cells.profile(Cell("shares", *UP), 50.0, random.Random(1))
    assert [(one.at, one.all_slots) for one in once.points] == [(0.0, 60), (5.0, 600)]
    steps = cells.profile(Cell("steps", *DOWN, steps=5.0), 50.0, random.Random(1)).points
    assert [one.all_slots for one in steps[:4]] == [600, 60, 600, 60] and steps[1].at < 10.0
    assert steps[3].at - steps[2].at == pytest.approx(10.0)
    falls = cells.profile(Cell("memory falls", 60, 60, memory_after=0.25), 50.0, random.Random(1))
    assert [one.all_memory for one in falls.points] == [2 * 128e9, 128e9 / 2]


def test_on_the_toy_the_ceiling_is_never_behind_anyone() -> None:
    runs = contest_of_toy().all()
    assert runs[CLARINET].seconds == 7.0 and runs[HINDSIGHT].seconds == 6.0
    assert runs[CEILING].seconds == min(one.seconds for one in runs.values()) == 6.0


def contest_of_toy() -> Contest:
    here = contest()
    here.likely = [here.fleet.available]
    return here


def test_announced_capacity_begins_with_the_plan_for_it() -> None:
    grows = CapacityProfile.of([(0, 1, 1e9, 1), (1, 1, 1e9, 12)])
    unaware, announced = contest(grows), contest(grows)
    unaware.likely = announced.likely = [Resources(1), Resources(12)]
    announced.announcements = [(0.0, ((1.0, 12),))]
    assert ANNOUNCED not in unaware.real()
    runs = announced.real()
    assert runs[ANNOUNCED].seconds < runs[OURS].seconds <= runs[CLARINET].seconds
    announced.announcements = [(0.0, ())]
    assert announced.real()[ANNOUNCED].seconds == runs[OURS].seconds


def test_a_schedule_is_run_as_it_is_written() -> None:
    here = contest()
    found = here.scripted(((0.0, 1), (1.0, 2)))
    assert (found.seconds, found.switches) == (pytest.approx(6.0, abs=0.02), 1)
    assert here.scripted(((0.0, 1),)).seconds == 7.0


def test_the_beam_knows_what_comes_and_goes_over_in_time() -> None:
    schedules = contest().schedules
    assert schedules[0][-1][1] == 2  # "D before C" is the best on two slots
    grows = contest(CapacityProfile.of([(0, 1, 1e9), (1, 12, 1e9)]))
    assert grows.schedules[0][-1][1] == 1 and grows.scripted(grows.schedules[0]).seconds < 5.0


def test_the_robust_plan_regrets_least() -> None:
    bushy = QUERY.candidates[1]
    assert robust(QUERY.candidates, [Resources(12)]) is bushy
    assert robust(QUERY.candidates, [Resources(1), Resources(2)]) is not bushy


def test_stages_are_misjudged_each_in_its_own_way() -> None:
    truth = believed((QUERY,))
    wrong = misjudged(truth, 4.0, 1)
    off = [wrong.facts[key].seconds / facts.seconds for key, facts in truth.facts.items()]
    assert all(0.25 <= one <= 4.0 for one in off) and max(off) > 1.3 * min(off)
    assert all(wrong.facts[key].rows != facts.rows for key, facts in truth.facts.items())
    assert misjudged(truth, 4.0, 1).facts == wrong.facts != misjudged(truth, 4.0, 2).facts


def test_of_systems_as_good_the_simplest_is_best() -> None:
    near = record("a", **{CLARINET: 10.05, ROBUST: 12.0, GREEDY: 10.0, OURS: 10.0, CEILING: 10.0})
    assert Group("a", [near]).best == CLARINET
    far = record("a", **{CLARINET: 20.0, ROBUST: 12.0, GREEDY: 10.0, OURS: 10.05, CEILING: 9.0})
    assert Group("a", [far]).best == GREEDY
    assert Group("a", [near, far]).mean_gain(GREEDY) == pytest.approx((1.005 + 2.0) / 2)


def test_a_line_for_each_cell_and_pictures_of_all(tmp_path: Path) -> None:
    seconds = {CLARINET: 20.0, ROBUST: 12.0, GREEDY: 10.0, OURS: 16.0, HINDSIGHT: 11.0, CEILING: 8.0}
    known = [record(cell.name, query, **seconds) for query in (1, 2) for cell in cells.cells()]
    lines = records.lines(records.groups(known))
    assert len(lines) == 57 and "1.250" in lines[1] and lines[1].endswith(GREEDY)
    lines = records.lines(records.groups([record("a", 1, **seconds, **{ANNOUNCED: 9.0})]))
    assert len(lines) == 3 and lines[2].startswith("a, announced") and "2.222" in lines[2]
    assert "ours 2.000, 2.000" in records.summary(known)
    pictures.draw("map", known, tmp_path)
    made = {path.name for path in tmp_path.glob("*.svg")}
    assert made == {"map-shares.svg", "map-axes.svg", "map-joins.svg"}


def test_tasks_of_a_machine_share_its_disk_and_its_link() -> None:
    def seconds(tasks: int, **bytes_moved: float) -> float:
        stage = Stage("s", "", (), (("x", "INTEGER"),), tasks, "s", estimate=Estimate(rows=1.0, task_seconds=1.0))
        fleet = Fleet({"m": Resources(4, 1e9, disk=100.0, network=50.0)})
        job = SimulatedJob("job", 0.0, Plan((stage,), (("x", "INTEGER"),)))
        (ran,) = simulate(fleet, [job], lambda spec: Outcome(1.0, **bytes_moved)).jobs
        return ran.seconds

    assert seconds(1) == seconds(4) == 1.0
    assert seconds(1, spilled=1000.0) == pytest.approx(11.0, rel=0.01)
    assert seconds(4, spilled=1000.0) == pytest.approx(41.0, rel=0.01)
    assert seconds(4, arriving=1000.0) == pytest.approx(81.0, rel=0.01)
    assert seconds(2, arriving=1000.0, spilled=1000.0) == pytest.approx(40.0 + 1.0 + 20.0, rel=0.01)


def test_spilling_is_believed_to_be_as_slow_as_the_disk_that_is_shared() -> None:
    stage = Stage("s", "", (), (("x", "INTEGER"),), 4, "s", estimate=Estimate(1.0, 8.0, 1.0, 10, 10 + 10**9))
    finish = Finish(Plan((stage,), (("x", "INTEGER"),)), 4)
    alone, shared = (finish.seconds(Resources(4, 1e9, disk=disk)) for disk in (0.0, 500e6))
    assert alone == pytest.approx(1.0 + 10**9 * SPILL_BYTE, rel=0.01)
    assert shared == pytest.approx(1.0 + 4 * 10**9 * SPILL_BYTE, rel=0.01)


def test_what_jobs_hold_is_what_the_others_do_not_have() -> None:
    stage = Stage("s", "", (), (("x", "INTEGER"),), 2, "s", estimate=Estimate(rows=1.0, task_seconds=30.0))
    plan = Plan((stage,), (("x", "INTEGER"),))
    jobs = [SimulatedJob("a", 0.0, plan), SimulatedJob("b", 20.0, plan)]
    found = cluster.holdings(simulate(Fleet({"m": Resources(8, 1e9)}), jobs), 0.0, 60.0)
    assert found == cluster.Holdings((2, 2, 4, 2, 2), (2, 2, 2, 2, 2))
    assert [one.all_slots for one in found.rest().points][:3] == [598, 598, 596]
    assert [one.all_slots for one in found.held().points] == [2] * 5


def test_a_query_meets_the_same_at_every_length(tmp_path: Path) -> None:
    items = classes.items(tmp_path, 1, [7])
    starts = [one for one in items.values() if one.name == classes.FIRST and one.start == 1 and one.tolerance is None]
    assert [one.length for one in starts] == list(classes.LENGTHS)
    assert len({classes.profile(one) for one in starts}) == 1
    begun = classes.profile(starts[0])
    assert begun.points[0].machines == 2 and 0.0 < begun.points[1].at < 60.0 and begun.points[1].machines == 4
    (since, coming), *_ = classes.announcements(starts[0])
    assert since == 0.0 and coming[0] == pytest.approx((begun.points[1].at, 4)) and coming[1][1] == 6
    assert not any(classes.announcements(one) for one in items.values() if one.name != classes.FIRST)
    assert len(items) == 19 * 5 + 7 * 3


def test_a_recorded_trace_has_the_classes_that_it_has(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"0,add,n{number}\n" for number in range(10)) + "700000,remove,n1\n1900000,add,m1\n")
    items = classes.items(tmp_path, 1, [7], str(trace)).values()
    assert {one.name for one in items} == {"low", "medium"} and {one.length for one in items} == {"C"}
    assert all(classes.profile(one).points[0].machines in (9, 10) for one in items)


def test_unknown_lengths_and_classes_are_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="there is no length 'Z'; there are A, B, C, D, E"):
        parse_names("A, Z", classes.LENGTHS, "length")
    assert list(parse_names(None, classes.STARTS, "class")) == list(classes.STARTS)


def test_a_query_that_was_not_measured_is_no_ground_for_a_run_as_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_simulate, "measurements", lambda directory: Measurements(Results(None, {})))
    with pytest.raises(ConfigError, match="query 1 was not measured: qoop bench measure"):
        map_simulate.as_measured(tmp_path, QUERY, PAPER)
