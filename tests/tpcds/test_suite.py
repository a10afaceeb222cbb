"""The suite's runner, its table of claims, its figures and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from qoop.__main__ import main
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.triggers import Triggers
from qoop.adaptive.simulation import Fleet
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.engine.backends.outcomes import as_estimated
from qoop.engine.events import SlotsChanged
from qoop.planner.plan import Resources
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.results import Results
from qoop.tpcds.simulate import fidelity
from qoop.tpcds.simulate.fidelity_figures import Fidelity, Pair
from qoop.tpcds.simulate.ground_truth import believed, distorted
from qoop.tpcds.simulate.workload import Query
from qoop.tpcds.suite import (
    ablation,
    charts,
    commands,
    markets,
    micro,
    report,
    runner,
    runs,
    situations,
    toy,
    versions,
)
from qoop.tpcds.suite.commands import Plan
from qoop.tpcds.suite.criteria import Criterion, criteria, reasons
from qoop.tpcds.suite.figures import (
    CLARINET_ERROR,
    CLARINET_STAGE_ERRORS,
    CLARINET_STRAGGLING,
    ERROR,
    FIGURES,
    HYSTERESIS,
    STAGE_ERRORS,
    STRAGGLING,
    THRESHOLD,
    _mean_gain,
    error_robustness,
    over_hindsight,
    sweep,
    variant,
    variants_of,
)
from qoop.tpcds.suite.micro import DECISION_SECONDS, SWITCH_SECONDS, Scenario
from qoop.tpcds.suite.runner import Measured, Part
from qoop.tpcds.suite.runs import CLARINET, HINDSIGHT, NO_BACKTRACKING, QOOP, VOLCANO, Ran, RunRecord, Suite, by_query


def squared(number: int) -> int:
    if number < 0:
        raise ExecutionError(f"{number} is below 0")
    return number * number


def part(*numbers: int, **settings: object) -> Part:
    return Part("squares", settings, {f"of {number}": number for number in numbers}, squared)


def factorials(*numbers: int) -> Part:
    """Of a function that any process can import."""
    return Part("factorials", {}, {f"of {number}": number for number in numbers}, math.factorial)


@pytest.mark.parametrize("processes", [1, 2])
def test_items_are_measured_once_and_kept(tmp_path: Path, processes: int) -> None:
    assert runner.run(factorials(3, 4), tmp_path, processes).values == {"of 3": 6, "of 4": 24}
    begun: list[str] = []
    more = runner.run(factorials(3, 4, 5), tmp_path, processes, lambda done, of, name: begun.append(name))
    assert more.values == {"of 3": 6, "of 4": 24, "of 5": 120}
    assert begun == ["", "of 5"]


def test_what_failed_is_told_and_tried_again(tmp_path: Path) -> None:
    first = runner.run(part(-1, 2), tmp_path)
    assert first.values == {"of 2": 4}
    assert first.failed == {"of -1": "ExecutionError: -1 is below 0"}
    mended = Part("squares", {}, {"of -1": 1, "of 2": 2}, squared)
    assert runner.run(mended, tmp_path).values == {"of -1": 1, "of 2": 4}


def test_results_of_another_seed_are_refused(tmp_path: Path) -> None:
    runner.run(part(1, seed=1), tmp_path)
    with pytest.raises(ConfigError, match=r"other settings: \{'seed': 1\}, not \{'seed': 2\}; --fresh"):
        runner.run(part(1, seed=2), tmp_path)


SIMULATED = (commands._micro, commands._ablation)


@pytest.mark.parametrize("make", SIMULATED)
def test_results_of_another_truth_are_refused(
    make: Callable[[Plan], Part], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(tmp_path, True, (3,), None, 1)
    kept: list[Part] = []
    for ground_truth in ("one truth", "another"):
        monkeypatch.setattr(commands, "edition", lambda directory, ground_truth=ground_truth: ground_truth)
        kept.append(replace(make(plan), items={"3": 3}, measure=squared))
    runner.run(kept[0], tmp_path)
    assert runner.run(kept[0], tmp_path).values == {"3": 9}
    with pytest.raises(ConfigError, match="'ground_truth': 'another'"):
        runner.run(kept[1], tmp_path)


def test_results_of_other_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_package_of_this_test"
    (package / "below").mkdir(parents=True)
    for path in (package / "__init__.py", package / "one.py", package / "below" / "__init__.py"):
        path.write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def digest(*names: str) -> str:
        versions.code_of.cache_clear()
        return versions.code_of(*names)

    whole, one = digest(package.name), digest(f"{package.name}.one")
    (package / "below" / "__init__.py").write_text("x = 1")
    assert (digest(package.name), digest(f"{package.name}.one")) == (whole, one)
    (package / "one.py").write_text("x = 1")
    assert digest(package.name) != whole and digest(f"{package.name}.one") != one
    with pytest.raises(ConfigError, match="no module"):
        digest(f"{package.name}.two")
    assert digest(*versions.CORE) != digest(*versions.CORE[:-1])
    assert all(
        "code" in make(Plan(tmp_path, True, (3,), None, 1)).settings for make in (commands._toy, commands._profiles)
    )


def real_runs(asked: fidelity.FidelityOptions, told: fidelity.OnProgress) -> Fidelity:
    """In place of runs: keeps something, by the settings of the runs."""
    Results(asked.results, asked.settings).put("machine", 1)
    return Fidelity(tuple(Pair("dip", query, None, 1.0, 1.1) for query in asked.queries), {}, {})


def test_quick_real_runs_are_kept_next_to_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "run", real_runs)
    quick, full = (Plan(tmp_path, is_quick, (), None, 1) for is_quick in (True, False))
    for plan in (quick, full, quick):
        commands._fidelity(plan, tmp_path / "kept", fresh=False)
    assert len(list(tmp_path.glob("kept/fidelity-runs-*.jsonl"))) == 2
    assert fidelity.summarized(tmp_path / "kept" / "fidelity.jsonl") == 99
    commands._fidelity(quick, tmp_path / "kept", fresh=True)
    assert len(list(tmp_path.glob("kept/fidelity-runs-*.jsonl"))) == 1
    assert fidelity.summarized(tmp_path / "kept" / "fidelity.jsonl") == len(fidelity.QUICK)


def test_values_of_all_parts_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "run", real_runs)
    monkeypatch.setattr(commands, "_PARTS", {"toy": commands._toy})
    words = ["bench", "suite", str(tmp_path), "--quick", "--results", str(tmp_path / "kept")]
    assert main([*words, "--json", str(tmp_path / "all.json")]) == 0
    values = json.loads((tmp_path / "all.json").read_text())
    assert values["fidelity"]["median_error"] == pytest.approx(0.1)
    assert values["toy"]["ends"][QOOP] == 6 and "code" in values["settings"]["toy"]
    main(["bench", "report", "--results", str(tmp_path / "kept"), "--out", str(tmp_path / "out")])
    assert f"queries {len(fidelity.QUICK)}, repeat 1" in (tmp_path / "out" / "report.html").read_text()


def record(
    query: int, volatility: str, gain: float, more: Mapping[str, Ran] | None = None, kind: str = "spot"
) -> RunRecord:
    ours = Ran(100.0, tasks=1240, switches=1, depths=(1,), deciding=0.1, decisions=3, tempted=1)
    ran = {
        QOOP: ours,
        CLARINET: Ran(100.0 * gain, tasks=1000),
        VOLCANO: Ran(300.0, tasks=1000),
        NO_BACKTRACKING: Ran(110.0, tasks=1000),
        HINDSIGHT: Ran(90.0),
    }
    return RunRecord(query, kind, volatility, 0, query, 5, {**ran, **(more or {})})


def swept(error: float = 150.0) -> dict[str, Ran]:
    """error: seconds of Clarinet where estimates err."""
    names = [variant(name, value) for name in (HYSTERESIS, ERROR, THRESHOLD) for value in (-25, 0, 15)]
    wrong = {variant(CLARINET_ERROR, value): Ran(error) for value in (-25, 0, 15)}
    return {name: Ran(100.0) for name in names} | wrong


def full_suite() -> report.Found:
    gains = {"low": 1.1, "medium": 1.2, "high": 5.0}
    micro = [
        record(query, name, gain, kind=kind)
        for kind in runs.KINDS
        for name, gain in gains.items()
        for query in range(4)
    ]
    ablation = [record(query, "high", 5.0, swept(), kind) for kind in runs.KINDS for query in range(4)]
    macro: dict[str, Any] = {f"20 jobs: {planner} alone, query 1": {"seconds": 50.0} for planner in (QOOP, VOLCANO)}
    for name in ("DRF + Volcano", "SJF + Volcano", QOOP):
        jobs = [[1, 0.0, 100.0, 0], [1, 5.0, 100.0, 0]]
        macro[f"20 jobs: {name}, seed 1"] = {"mean": 100.0, "makespan": 500.0, "task_events": 1, "jobs": jobs}
    values: dict[str, dict[str, Any]] = {
        "toy": {"ends": {VOLCANO: 9.0, CLARINET: 7.0, QOOP: 6.0}},
        "micro": {str(n): one.json() for n, one in enumerate(micro)},
        "ablation": {str(n): one.json() for n, one in enumerate(ablation)},
        "macro": macro,
    }
    market = {"kind": "spot", "events": [60, 53, 40], "seconds": 600, "machines": [[0, 20], [60, 2]]}
    cluster = {"kind": "shared", "jobs": [[2, 0, 4], [1, 0, 1], [0, 0, 0]], "shares": [[[0, 600], [60, 300]]]}
    values["profiles"] = {"spot 0": market, "shared 0": cluster}
    pairs = [
        {"profile": name, "query": 1, "plan": 0, "real": 1.0, "simulated": 1.1, "fitted": False, "error": 0.1}
        for name in ("steady", "dip")
    ]
    values["fidelity"] = {"fidelity": {"pairs": pairs, "median_error": 0.1, "orders": {"right": 8, "of": 10}}}
    measured = {name: Measured(value, 1.0) for name, value in values.items()}
    return report.Found({name: {"seed": 1} for name in values}, measured)


def test_a_record_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    one = record(7, "high", 2.0)
    Results(tmp_path / "kept", {}).put("one", one.json())
    assert asdict(RunRecord.of(Results(tmp_path / "kept", {}).get("one"))) == asdict(one)


def test_gains_of_a_query_are_those_of_its_mean_times() -> None:
    (query,) = by_query([record(1, "high", 1.0), record(1, "high", 4.0)])
    assert query.gain() == 2.5
    assert quantile([1.0, 2.0, 3.0], 0.9) == pytest.approx(2.8)


def test_criteria_say_what_is_met_and_what_is_not() -> None:
    table = {(criterion.figure, criterion.what): criterion for criterion in criteria(full_suite().suite())}
    assert table["2.6a", "spot, high: median gain"].met
    assert table["2.3", "spot: events of 10 / 15 / 20 % in five hours (±10 %)"].met
    assert table["2.16", "makespan"].met
    assert table["F", "simulator: order of plans kept"].met is False
    assert table["2.6b", "shared, low: queries faster"].ours == "100% of 4"
    slow = criteria(Suite(micro=[record(1, "low", 0.9), record(2, "low", 1.0), record(3, "low", 1.0)]))
    verdicts = {criterion.what: criterion.met for criterion in slow if criterion.figure == "2.6a"}
    assert not any(verdicts.values()) and len(verdicts) == 3
    assert not criteria(Suite())


def claimed(suite: Suite) -> dict[str, Criterion]:
    return {criterion.what: criterion for criterion in criteria(suite)}


def test_time_spent_switching_is_that_of_runs_that_did() -> None:
    """0.01 s for each change and a third of what its three decisions took, of 100 and of 10 s."""
    short = Ran(10.0, switches=2, deciding=0.3, decisions=3)
    records = [record(1, "low", 1.0), record(2, "low", 1.0, {QOOP: short}), record(3, "low", 1.0, {QOOP: Ran(100.0)})]
    parts = [(0.1 / 3 + SWITCH_SECONDS) / 100, 2 * (0.1 + SWITCH_SECONDS) / 10]
    criterion = claimed(Suite(micro=records))["spot: time spent switching"]
    assert criterion.ours == f"mean {sum(parts) / 2:.3%}, worst {parts[1]:.3%} of 2 runs that switched"
    assert criterion.met is False
    assert claimed(Suite(micro=records[:1]))["spot: time spent switching"].met is True
    assert "spot: time spent switching" not in claimed(Suite(micro=records[2:]))


def deep(volatility: str, *depths: int) -> list[RunRecord]:
    """Runs that went so deep."""
    return [record(n, volatility, 1.0, {QOOP: Ran(100.0, depths=(depth,))}) for n, depth in enumerate(depths)]


def test_backtracking_is_judged() -> None:
    none, two = "spot, low: runs without backtracking", "spot: runs two stages deep or deeper"
    usual = claimed(Suite(micro=[*deep("low", 0, 0, 0, 0, 1), *deep("high", 0, 1, 1, 2)]))
    assert usual[none].met is True and usual[two].met is True
    assert usual[two].ours == "low 0.0%, high 25.0%"
    flat = claimed(Suite(micro=[*deep("low", 0, 0, 0, 1, 1), *deep("high", 0, 1)]))
    assert flat[none].met is False and flat[two].met is False
    assert claimed(Suite(micro=[*deep("low", 0, 3), *deep("high", 2)]))[two].met is False
    assert two not in claimed(Suite(micro=deep("low", 0)))


@pytest.mark.parametrize(
    ("volatility", "error", "kept"),
    [("low", 117, False), ("low", 118, True), ("high", 139, False), ("high", 140, True)],
)
def test_gains_that_errors_leave_are_judged_by_class(volatility: str, error: float, kept: bool) -> None:
    table = claimed(Suite(ablation=[record(1, volatility, 1.0, swept(error))]))
    where = f"spot, {volatility}: gain under ±25 % error"
    assert table[where].met is kept and table[f"{where}, against Clarinet"].met is True


def test_no_class_may_be_slower_than_clarinet_where_estimates_err() -> None:
    table = claimed(Suite(ablation=[record(1, "medium", 2.0, swept(99.0), kind) for kind in runs.KINDS]))
    verdicts = {what: criterion.met for what, criterion in table.items() if criterion.figure == "2.14"}
    wanted = (f"{kind}, medium: gain under ±25 % error, against Clarinet" for kind in runs.KINDS)
    assert verdicts == dict.fromkeys(wanted, False)


def test_the_runs_of_the_ablation_show_the_hindsight_optimum() -> None:
    records = [record(n, "high", 1.0, {}, "shared") for n in range(3)]
    table = claimed(Suite(ablation=records))
    assert table["shared, QOOP: time over the hindsight optimum's"].ours == "median 1.111, worst 1.11 of 3 runs"


def test_who_meets_another_truth_is_compared_with_clarinet_under_it() -> None:
    more = {
        STAGE_ERRORS: Ran(50.0),
        CLARINET_STAGE_ERRORS: Ran(75.0),
        STRAGGLING: Ran(10.0),
        CLARINET_STRAGGLING: Ran(30.0),
    }
    records = [record(1, "high", 5.0, more)]
    assert {STAGE_ERRORS, STRAGGLING} < set(variants_of(records))
    assert not {CLARINET_STAGE_ERRORS, CLARINET_STRAGGLING} & set(variants_of(records))
    assert (_mean_gain(records, STAGE_ERRORS), _mean_gain(records, STRAGGLING), _mean_gain(records, QOOP)) == (
        1.5,
        3.0,
        5.0,
    )
    assert over_hindsight(records, STAGE_ERRORS) == [] != over_hindsight(records, QOOP)


def macro_of(jains: Mapping[str, float]) -> Suite:
    """Two jobs a run, of which the second waits so long that the index comes out so."""
    values: dict[str, Any] = {
        f"2 jobs: {planner} alone, query 1": {"seconds": 1.0} for planner in (QOOP, VOLCANO, CLARINET)
    }
    for name, index in jains.items():  # (1 + x)² / 2 (1 + x²) = index
        part = 1 / (2 * index - 1)
        jobs = [[1, 0.0, 1.0, 0], [1, 0.0, part + (part**2 - 1) ** 0.5, 0]]
        values[f"2 jobs: {name}, seed 1"] = {"mean": 1.0, "makespan": 1.0, "task_events": 1, "jobs": jobs}
    return Suite(macro=values)


def test_fairness_is_judged_by_the_distance_to_drf_on_either_side() -> None:
    fairer = {"DRF + Volcano": 0.8, "DRF + Clarinet": 0.7, "SJF + Volcano": 0.78, QOOP: 0.99}
    (criterion,) = (one for one in criteria(macro_of(fairer)) if one.what.startswith("fairness"))
    assert criterion.met is False and "nearest SJF + Volcano with 0.780" in criterion.ours
    (criterion,) = (one for one in criteria(macro_of({**fairer, QOOP: 0.81})) if one.what.startswith("fairness"))
    assert criterion.met is True


def test_the_control_is_shown_and_not_ranked() -> None:
    table = {one.what: one for one in criteria(macro_of({"DRF + Volcano": 0.8, QOOP: 0.7, "Max-min + Clarinet": 0.8}))}
    assert table["control, Max-min + Clarinet"].met is None
    assert table["fairness nearer to DRF's than any other's"].met is True


def test_reasons_say_how_much_there_was_to_gain() -> None:
    first, second = reasons(Suite(micro=[record(1, "high", 1.8), record(2, "high", 0.9)]))
    assert "high: median 1.500, 90th percentile 1.90, most 2.00, over 1.02 in 50% of 2 runs" in first
    assert "Of the runs that changed plan 1 ended sooner than Clarinet's and 1 later" in second
    assert "of 6 decisions another plan was believed to end sooner, however little, in 2" in second


def test_a_sweep_compares_with_clarinet_under_the_same_error() -> None:
    suite = full_suite().suite()
    assert sweep(ERROR, CLARINET_ERROR)(suite.ablation) == {-25: 1.5, 0: 1.5, 15: 1.5}
    assert sweep(HYSTERESIS)(suite.ablation) == {-25: 5.0, 0: 5.0, 15: 5.0}


def test_the_page_holds_every_figure_and_needs_nothing_else(tmp_path: Path) -> None:
    found = full_suite()
    report.make(found, tmp_path)
    page = (tmp_path / "report.html").read_text()
    drawn = [figure for figure in FIGURES if figure.number != "2.6"]  # of a given profile
    for figure in drawn:
        svg = (tmp_path / "figures" / f"{figure.name}.svg").read_bytes()
        assert svg.lstrip().startswith(b"<?xml") and (tmp_path / "figures" / f"{figure.name}.png").stat().st_size > 5000
    assert page.count('<img src="data:image/svg+xml') == len(drawn)
    assert "http://" not in page.replace("http://www.w3.org", "") and "not met" in page
    assert page.index("How faithful") < page.index("F: Real") < page.index("Paper and ours") < page.index("Figure 2.6a")


def test_a_page_of_nothing_but_the_toy_says_what_is_missing(tmp_path: Path) -> None:
    assert main(["bench", "suite", str(tmp_path), "--parts", "toy", "--results", str(tmp_path / "kept")]) == 0
    assert main(["bench", "report", "--results", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("Not measured yet") == len(FIGURES) - 1


def test_a_report_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "report", "--results", str(tmp_path)]) == 1
    assert "holds no results" in capsys.readouterr().err


def test_what_jobs_see_of_a_shared_cluster_is_counted_by_job() -> None:
    every = markets.items(1)
    ten, fifteen, twenty = markets.measure(every["shared 0"])["jobs"]
    assert len(ten) == len(twenty) > 100
    assert all(a >= b >= c for a, b, c in zip(ten, fifteen, twenty, strict=True))
    assert markets.measure(every["spot 3"]) == markets.measure(every["spot 3"]) != markets.measure(every["spot 4"])


def test_a_figure_says_which_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[str] = []
    monkeypatch.setattr(charts, "labels", lambda axes, title, x, y, legend=True: titles.append(title))
    error_robustness(Suite(ablation=[record(1, "low", 2.0, swept(), kind) for kind in ("shared", "file")]))
    assert titles == ["Wrong estimates, shared cluster", "Wrong estimates, the given profile"]


def test_the_ablation_meets_all_kinds_of_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "edition", lambda directory: "ground_truth")
    items = commands._ablation(Plan(tmp_path, False, (4,), None, 1)).items.values()
    assert sorted((one.kind, one.volatility, one.region) for one in items) == sorted(
        (kind, name, 0) for kind in runs.KINDS for name in runs.CLASSES
    )


TOY = Fleet.uniform(1, Resources(4)).after((1.0, SlotsChanged("m1", Resources(2))))


def test_estimates_that_err_by_stage_are_the_same_for_ours_and_clarinet() -> None:
    query = Query(1, 3, 3, toy.plans())
    ground_truth = believed([query])
    here = Scenario(query, TOY, ground_truth)
    found = ablation._as_it_may_be(here, ground_truth, seed=3)
    wrong = Scenario(query, TOY, distorted(ground_truth, ablation.STAGE_ERROR, 3))
    assert found[CLARINET_STAGE_ERRORS] == wrong.pinned(wrong.launch) != here.pinned(here.launch)
    assert found[STAGE_ERRORS].seconds == wrong.adaptive().seconds


def test_hindsight_is_among_what_the_ablation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(1, 3, 3, toy.plans())
    monkeypatch.setattr(micro, "scenario", lambda situation, percent=0.0: Scenario(query, TOY, as_estimated))
    monkeypatch.setattr(micro, "known_ground_truth", lambda directory, number: believed([query]))
    ran = RunRecord.of(ablation.measure(situations.Situation(situations.Ground(tmp_path), 1, "spot", "low", 0))).runs
    assert ran[HINDSIGHT].seconds == 6.0 and {STAGE_ERRORS, CLARINET_STAGE_ERRORS} < ran.keys()


def test_a_change_of_plan_may_take_time_in_which_nothing_is_begun() -> None:
    query = Query(1, 3, 3, toy.plans())
    usual, slow = (Scenario(query, TOY, as_estimated, switching=seconds) for seconds in (0.0, 1.5))
    fast, late = (here.adaptive(policy=Greedy.asking(0.05), triggers=Triggers(quiet=0.0)) for here in (usual, slow))
    assert fast.switches == late.switches == 1
    assert fast.seconds + 1.0 <= late.seconds <= fast.seconds + 1.5
    assert usual.pinned(query.candidates[0]).seconds == slow.pinned(query.candidates[0]).seconds


def test_systems_under_test_meet_the_same_fleet_and_hindsight_is_the_best_of_all_plans() -> None:
    query = Query(1, 3, 3, toy.plans())
    here = Scenario(query, TOY, as_estimated)
    assert [here.pinned(one).seconds for one in query.candidates] == [9.0, 7.0, 6.0]
    assert here.launch is query.candidates[1]
    assert here.hindsight().plan == 2
    ours = here.adaptive(policy=Greedy.asking(0.05), triggers=Triggers(quiet=0.0))
    assert (ours.switches, ours.depths) == (1, (1,))
    assert ours.seconds > 6.0 and ours.deciding == 2 * DECISION_SECONDS


def test_a_run_that_never_switches_is_that_of_its_plan() -> None:
    query = Query(1, 3, 3, toy.plans())
    here, held = Scenario(query, TOY, as_estimated), Scenario(query, TOY, as_estimated)
    stayed = here.adaptive(policy=Greedy.asking(0.9))
    assert stayed.deciding > 0
    assert (stayed.decisions, stayed.tempted) == (2, 1)
    like_clarinet = replace(stayed, deciding=0.0, plan=1, decisions=0, tempted=0)
    assert here.pinned(here.launch) == held.pinned(held.launch) == like_clarinet


def test_regions_follow_from_the_seed_and_come_in_rounds(tmp_path: Path) -> None:
    ground = situations.Ground(tmp_path, seed=3)
    every = situations.situations(ground, (4, 7), ("spot",), 2)
    assert [one.region for one in every.values()] == [0] * 6 + [1] * 6
    one = every["spot high 1 query 7"]
    assert situations.place(one) == situations.place(one)
    assert situations.place(one).volatility == "high"
    other = situations.situations(situations.Ground(tmp_path, seed=4), (7,), ("spot",), 2)["spot high 1 query 7"]
    assert situations.place(one) != situations.place(other)
