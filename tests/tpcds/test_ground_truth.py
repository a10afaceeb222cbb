"""The ground truth of simulations: measured on small data, carried to large by rules, distorted at will."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest

from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.catalog.errors import ConfigError
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.finish import Finish
from qoop.planner.plan import Plan, Resources, Stage
from qoop.tpcds.results import Results
from qoop.tpcds.simulate import measuring
from qoop.tpcds.simulate.extrapolation import LEAST, StageGroundTruth, residual, residuals
from qoop.tpcds.simulate.ground_truth import (
    GroundTruth,
    Straggling,
    believed,
    distorted,
    edition,
    known_true,
    measured,
)
from qoop.tpcds.simulate.workload import PAPER, Query, workload

SOME = (7, 50)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def found(tpcds_small: Path, cache: Path) -> dict[int, Query]:
    return workload(tpcds_small, SOME, cache_dir=cache)


@pytest.fixture(scope="module")
def options(tpcds_small: Path) -> measuring.MeasureOptions:
    return measuring.MeasureOptions(tpcds_small, SOME, {1.0: tpcds_small, 10.0: tpcds_small})


@pytest.fixture(scope="module")
def known(options: measuring.MeasureOptions, cache: Path) -> measuring.Measurements:
    assert measuring.run(options, cache_dir=cache) == {}
    return measuring.measurements(options.directory, cache)


def spec(stage: Stage, cpu: float = 1.0, memory: float = 128e9) -> TaskSpec:
    return TaskSpec(
        AttemptId(TaskId("j", stage.id, 0), 1), stage, checkpoint_key(stage, 0), (), {}, Resources(cpu, memory)
    )


def work(ground_truth: GroundTruth, plan: Plan) -> float:
    return sum(stage.width * ground_truth(spec(stage)).seconds for stage in plan.stages)


def test_every_stage_of_every_plan_is_measured_and_what_is_known_is_not_run_again(
    known: measuring.Measurements, found: dict[int, Query], options: measuring.MeasureOptions, cache: Path
) -> None:
    for number, query in found.items():
        stages = known.of(1.0, number)
        keys = {key for one in query.candidates for key in measuring.stage_keys(one.plan).values()}
        assert keys == stages.keys()
        assert all(one.seconds > 0 for one in stages.values())
        assert max(one.rows for one in stages.values()) > 1_000
    before = measuring.results_file(options.directory, cache).read_text()
    measuring.run(options, cache_dir=cache)
    assert measuring.results_file(options.directory, cache).read_text() == before


def test_a_narrow_plan_has_one_task_a_stage(found: dict[int, Query]) -> None:
    wide = found[50].launch.plan
    narrow = measuring.narrow(wide)
    assert {stage.width for stage in narrow.stages} == {1} != {stage.width for stage in wide.stages}


def test_folders_of_other_scales_are_named_by_them(tmp_path: Path) -> None:
    assert measuring.parse_sizes(tmp_path, ["10=/x"]) == {1.0: tmp_path, 10.0: Path("/x")}
    for wrong in ("/x", "ten=/x", "0=/x"):
        with pytest.raises(ConfigError, match="10=DIR"):
            measuring.parse_sizes(tmp_path, [wrong])


def test_with_belief_for_truth_a_query_ends_when_its_plan_is_believed_to(found: dict[int, Query]) -> None:
    ground_truth = believed(found.values())
    fleet = Fleet.uniform(PAPER.machines, PAPER.machine)
    plan = found[7].launch.plan
    run = simulate(fleet, [SimulatedJob("q", 0.0, plan)], ground_truth)
    assert run.jobs[0].seconds == pytest.approx(Finish(plan, 30, PAPER.cost).seconds(PAPER.whole), rel=0.05)


def test_who_knows_the_truth_foretells_when_a_plan_ends(
    known: measuring.Measurements, found: dict[int, Query], tpcds_small: Path, cache: Path
) -> None:
    ground_truth = measured(tpcds_small, found, cache_dir=cache)
    plan = found[7].launch.plan
    ran = simulate(Fleet.uniform(PAPER.machines, PAPER.machine), [SimulatedJob("q", 0.0, plan)], ground_truth)
    knowing = known_true(found[7], ground_truth).launch
    assert ran.seconds == pytest.approx(knowing.finish.seconds(PAPER.whole), rel=0.05)
    assert [stage.estimate.rows for stage in knowing.plan.stages] != [stage.estimate.rows for stage in plan.stages]


def test_what_crosses_the_network_takes_longer_on_few_machines_and_no_time_on_one(found: dict[int, Query]) -> None:
    ground_truth = believed(found.values())
    stage = max(found[50].launch.plan.stages, key=lambda stage: ground_truth.of(stage).parted)
    seconds = [ground_truth.outcome(spec(stage), machines).seconds for machines in (1, 2, 20)]
    local = ground_truth.of(stage).seconds + ground_truth.of(stage).local
    assert seconds[0] == pytest.approx(local)
    assert seconds[1] > seconds[0] and seconds[2] > seconds[0]


def test_what_does_not_fit_the_memory_is_written_and_read(found: dict[int, Query]) -> None:
    ground_truth = believed(found.values())
    stage = max(found[50].launch.plan.stages, key=lambda stage: ground_truth.of(stage).wants)
    assert ground_truth(spec(stage, memory=1e6)).seconds > ground_truth(spec(stage)).seconds


def test_true_rows_follow_what_was_measured(
    known: measuring.Measurements, found: dict[int, Query], tpcds_small: Path, cache: Path
) -> None:
    """The same data stand for scale 10: if nothing has grown by then, less has grown at the target."""
    one = measured(tpcds_small, found, scales=(1.0,), cache_dir=cache)
    both = measured(tpcds_small, found, cache_dir=cache)
    for query in found.values():
        for stage in query.launch.plan.stages:
            assert both.of(stage).rows <= one.of(stage).rows * 1.001


def test_truth_is_read_again_as_it_was(
    known: measuring.Measurements, found: dict[int, Query], tpcds_small: Path, cache: Path
) -> None:
    facts = measured(tpcds_small, found, cache_dir=cache).facts
    assert measured(tpcds_small, found, cache_dir=cache).facts == facts
    alone = measured(tpcds_small, {7: found[7]}, cache_dir=cache).facts
    assert alone and all(facts[key] == fact for key, fact in alone.items())


def test_every_measurement_makes_another_edition(tpcds_small: Path, tmp_path: Path) -> None:
    before = edition(tpcds_small, cache_dir=tmp_path)
    assert edition(tpcds_small, cache_dir=tmp_path) == before
    measuring.Measurements(Results(measuring.results_file(tpcds_small, tmp_path), {})).put(1.0, 7, {})
    assert edition(tpcds_small, cache_dir=tmp_path) != before


def test_without_measurements_belief_is_the_truth(found: dict[int, Query], tpcds_small: Path, tmp_path: Path) -> None:
    for number, query in found.items():
        ground_truth = measured(tpcds_small, {number: query}, cache_dir=tmp_path)
        assert work(ground_truth, query.launch.plan) == pytest.approx(
            work(believed([query]), query.launch.plan), rel=0.02
        )


def test_stages_that_were_measured_too_shortly_have_the_residual_of_their_kind() -> None:
    def stage(measured: float | None, model: float | None) -> StageGroundTruth:
        return StageGroundTruth("0.0", 1, 0, 0, 0, 0, 1, 1, "Join", measured, model)

    long, short, none = stage(1.0, 0.5), stage(LEAST / 2, LEAST / 10), stage(None, None)
    scan = replace(stage(6.0, 2.0), kind="Scan")
    kinds = residuals([long, short, none, scan])
    joins, all_ = (1.0 + LEAST / 2) / (0.5 + LEAST / 10), (7.0 + LEAST / 2) / (2.5 + LEAST / 10)
    assert residual(long, kinds) == pytest.approx(2.0 / all_) and residual(scan, kinds) == pytest.approx(3.0 / all_)
    assert residual(short, kinds) == residual(none, kinds) == pytest.approx(joins / all_)
    assert residual(none, {}) == 1.0


def test_a_machine_that_is_slow_all_over_measures_the_same_truth() -> None:
    quick = [StageGroundTruth("0.0", 1, 0, 0, 0, 0, 1, 1, kind, s, 1.0) for kind, s in (("Join", 0.5), ("Scan", 2.0))]
    slow = [replace(stage, measured=3 * (stage.measured or 0)) for stage in quick]
    assert [residual(stage, residuals(slow)) for stage in slow] == pytest.approx(
        [residual(stage, residuals(quick)) for stage in quick]
    )


def test_a_distorted_truth_is_off_by_so_much_and_the_same_each_time(found: dict[int, Query]) -> None:
    ground_truth = believed(found.values())
    plan = found[7].launch.plan
    assert work(distorted(ground_truth, 25), plan) == pytest.approx(1.25 * work(ground_truth, plan), rel=1e-3)
    assert distorted(ground_truth, 25, seed=3).facts == distorted(ground_truth, 25, seed=3).facts
    assert distorted(ground_truth, 25, seed=3).facts != distorted(ground_truth, 25, seed=4).facts
    ratios = [
        distorted(ground_truth, 25, 3).facts[key].seconds / fact.seconds for key, fact in ground_truth.facts.items()
    ]
    assert 0.75 <= min(ratios) < 0.9 and 1.1 < max(ratios) <= 1.25


def test_stragglers_are_drawn_for_each_attempt_and_change_no_mean(found: dict[int, Query]) -> None:
    ground_truth, plan = believed(found.values()), found[7].launch.plan
    some = [(stage, part) for stage in plan.stages for part in range(min(20, stage.width))]
    specs = [replace(spec(stage), key=checkpoint_key(stage, part)) for stage, part in some] * 20  # tried twenty times
    usual = [ground_truth(spec).seconds for spec in specs]

    def factors(seed: int, order: int = 1) -> list[float]:
        outcome = Straggling(ground_truth, seed=seed).on(
            lambda: {f"m{n}": PAPER.machine for n in range(PAPER.machines)}
        )
        drawn = [outcome(spec).seconds for spec in specs[::order]][::order]
        return [seconds / known for seconds, known in zip(drawn, usual, strict=True)]

    one = factors(1)
    assert one == factors(1) != factors(2)
    assert sorted(one) == pytest.approx(sorted(factors(1, order=-1)))  # in any order
    assert len(one) > 500 and fmean(one) == pytest.approx(1.0, abs=0.05)
    assert fmean(factor > 1.5 * median(one) for factor in one) == pytest.approx(0.155, abs=0.03)


def test_a_damaged_file_of_measurements_is_refused(tpcds_small: Path, tmp_path: Path) -> None:
    measuring.results_file(tpcds_small, tmp_path).write_text(json.dumps({"format": "other"}))
    with pytest.raises(ConfigError):
        measuring.measurements(tpcds_small, tmp_path)
