"""The suite's runner, its table of claims, its figures and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from qoop.__main__ import main
from qoop.adaptive import Triggers
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.engine.backends.simulated import as_estimated
from qoop.engine.events import SlotsChanged
from qoop.planner.plan import Resources
from qoop.replanner import Greedy
from qoop.simulation import Fleet
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.results import Results
from qoop.tpcds.suite import ablation, markets, report, runner, runs, situations, toy
from qoop.tpcds.suite.claims import claims, reasons
from qoop.tpcds.suite.figures import CLARINET_ERROR, ERROR, FIGURES, HYSTERESIS, THRESHOLD, Suite, sweep, variant
from qoop.tpcds.suite.micro import DECISION_SECONDS, Arena
from qoop.tpcds.suite.runner import Measured, Part
from qoop.tpcds.suite.runs import CLARINET, HINDSIGHT, NO_BACKTRACKING, QOOP, VOLCANO, Met, Ran, by_query
from qoop.tpcds.workload import Query


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
    with pytest.raises(ConfigError, match="other settings"):
        runner.run(part(1, seed=2), tmp_path)


def met(query: int, volatility: str, gain: float, more: Mapping[str, Ran] | None = None, kind: str = "spot") -> Met:
    ours = Ran(100.0, tasks=1240, switches=1, depths=(1,), deciding=0.1, decisions=3, tempted=1)
    ran = {
        QOOP: ours,
        CLARINET: Ran(100.0 * gain, tasks=1000),
        VOLCANO: Ran(300.0, tasks=1000),
        NO_BACKTRACKING: Ran(110.0, tasks=1000),
        HINDSIGHT: Ran(90.0),
    }
    return Met(query, kind, volatility, 0, query, 5, {**ran, **(more or {})})


def swept() -> dict[str, Ran]:
    names = [variant(name, value) for name in (HYSTERESIS, ERROR, THRESHOLD) for value in (-25, 0, 15)]
    return {name: Ran(100.0) for name in names} | {variant(CLARINET_ERROR, value): Ran(150.0) for value in (-25, 0, 15)}


def full_suite() -> report.Found:
    gains = {"low": 1.1, "medium": 1.2, "high": 5.0}
    micro = [
        met(query, name, gain, kind=kind) for kind in runs.KINDS for name, gain in gains.items() for query in range(4)
    ]
    ablation = [met(query, "high", 5.0, swept()) for query in range(4)]
    macro: dict[str, Any] = {f"20 jobs: {planner} alone, query 1": {"seconds": 50.0} for planner in (QOOP, VOLCANO)}
    for name in ("DRF + Volcano", "SJF + Volcano", QOOP):
        jobs = [[1, 0.0, 100.0, 0], [1, 5.0, 100.0, 0]]
        macro[f"20 jobs: {name}, seed 1"] = {"mean": 100.0, "makespan": 500.0, "task_events": 1, "jobs": jobs}
    values: dict[str, dict[str, Any]] = {
        "toy": {"ends": {VOLCANO: 9.0, CLARINET: 7.0, QOOP: 6.0}},
        "micro": {str(n): one.json() for n, one in enumerate(micro)},
        "ablation": {str(n): one.json() for n, one in enumerate(ablation)},
        "speed": {"x10": met(1, "high", 2.0, kind="10").json(), "x1": met(1, "high", 1.0, kind="1").json()},
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
    one = met(7, "high", 2.0)
    Results(tmp_path / "kept", {}).put("one", one.json())
    assert asdict(Met.of(Results(tmp_path / "kept", {}).get("one"))) == asdict(one)


def test_gains_of_a_query_are_those_of_its_mean_times() -> None:
    (query,) = by_query([met(1, "high", 1.0), met(1, "high", 4.0)])
    assert query.gain() == 2.5
    assert quantile([1.0, 2.0, 3.0], 0.9) == pytest.approx(2.8)


def test_claims_say_what_is_met_and_what_is_not() -> None:
    table = {(claim.figure, claim.what): claim for claim in claims(full_suite().suite())}
    assert table["2.6a", "spot, high: median gain"].met
    assert table["2.3", "spot: events of 10 / 15 / 20 % in five hours (±10 %)"].met
    assert table["2.16", "makespan"].met
    assert table["F", "simulator: order of plans kept"].met is False
    assert table["2.6b", "shared, low: queries faster"].ours == "100% of 4"
    slow = claims(Suite(micro=[met(1, "low", 0.9), met(2, "low", 1.0), met(3, "low", 1.0)]))
    verdicts = {claim.what: claim.met for claim in slow if claim.figure == "2.6a"}
    assert not any(verdicts.values()) and len(verdicts) == 3
    assert not claims(Suite())


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
    (claim,) = (one for one in claims(macro_of(fairer)) if one.what.startswith("fairness"))
    assert claim.met is False and "nearest SJF + Volcano with 0.780" in claim.ours
    (claim,) = (one for one in claims(macro_of({**fairer, QOOP: 0.81})) if one.what.startswith("fairness"))
    assert claim.met is True


def test_the_control_is_shown_and_not_ranked() -> None:
    table = {one.what: one for one in claims(macro_of({"DRF + Volcano": 0.8, QOOP: 0.7, "Max-min + Clarinet": 0.8}))}
    assert table["control, Max-min + Clarinet"].met is None
    assert table["fairness nearer to DRF's than any other's"].met is True


def test_reasons_say_how_much_there_was_to_gain() -> None:
    first, second = reasons(Suite(micro=[met(1, "high", 1.8), met(2, "high", 0.9)]))
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
    assert main(["bench", "toy", str(tmp_path), "--results", str(tmp_path / "kept")]) == 0
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


def test_the_same_regions_pass_faster(tmp_path: Path) -> None:
    ground = situations.Ground(tmp_path)
    every = list(ablation.speed_items(ground, (4,)).values())
    slow, fast = (situations.profile(one) for one in (every[0], every[2]))
    assert [10 * point.at for point in fast.points] == pytest.approx([point.at for point in slow.points])
    assert [point.machines for point in fast.points] == [point.machines for point in slow.points]


TOY = Fleet.uniform(1, Resources(4)).after((1.0, SlotsChanged("m1", Resources(2))))


def test_a_change_of_plan_may_take_time_in_which_nothing_is_begun() -> None:
    query = Query(1, 3, 3, toy.plans())
    usual, slow = (Arena(query, TOY, as_estimated, switching=seconds) for seconds in (0.0, 1.5))
    fast, late = (here.adaptive(policy=Greedy(0.05), triggers=Triggers(quiet=0.0)) for here in (usual, slow))
    assert fast.switches == late.switches == 1
    assert fast.seconds + 1.0 <= late.seconds <= fast.seconds + 1.5
    assert usual.pinned(query.candidates[0]).seconds == slow.pinned(query.candidates[0]).seconds


def test_contestants_meet_the_same_fleet_and_hindsight_is_the_best_of_all_plans() -> None:
    query = Query(1, 3, 3, toy.plans())
    here = Arena(query, TOY, as_estimated)
    assert [here.pinned(one).seconds for one in query.candidates] == [9.0, 7.0, 6.0]
    assert here.launch is query.candidates[1]
    assert here.hindsight().plan == 2
    ours = here.adaptive(policy=Greedy(hysteresis=0.05), triggers=Triggers(quiet=0.0))
    assert (ours.switches, ours.depths) == (1, (1,))
    assert ours.seconds > 6.0 and ours.deciding == 2 * DECISION_SECONDS


def test_a_run_that_never_switches_is_that_of_its_plan() -> None:
    query = Query(1, 3, 3, toy.plans())
    here, held = Arena(query, TOY, as_estimated), Arena(query, TOY, as_estimated)
    stayed = here.adaptive(policy=Greedy(hysteresis=0.9))
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
