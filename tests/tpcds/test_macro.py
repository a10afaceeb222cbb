"""Many jobs on one cluster: what is measured of each combination, on a small made-up workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from qoop.engine.backends.outcomes import as_estimated
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.simulate.workload import PAPER, Query
from qoop.tpcds.suite import macro
from qoop.tpcds.suite.cluster_figures import macro_means
from qoop.tpcds.suite.runs import Suite

COLUMNS = (("x", "INTEGER"),)
SETTING = macro.Setting("", jobs=6, apart=10.0, seeds=(1, 2))


def candidate(query: int, tasks: int, seconds: float, slots: int) -> Candidate:
    scan = Stage(f"s{query}", "", (), COLUMNS, tasks, f"s{query}/{tasks}", estimate=Estimate(task_seconds=seconds))
    root = Stage("root", "", (StageInput("s", scan.id, "all"),), COLUMNS, 1, f"r{query}/{tasks}")
    return Candidate(Plan((scan, root), COLUMNS), f"{slots}", PAPER.slots, DEFAULT, available=Resources(slots))


@pytest.fixture(scope="module", autouse=True)
def few_queries() -> Iterator[None]:
    """Wide plans do more work in less time than narrow ones."""
    made = {
        number: Query(number, 1, 2, (candidate(number, 300, 9.0, 600), candidate(number, 30, 60.0 - number, 60)))
        for number in (1, 2, 3)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(macro, "_queries", lambda directory: made)
        patch.setattr(macro, "_ground_truth", lambda directory: as_estimated)
        yield


@pytest.fixture(scope="module")
def values(few_queries: None) -> Mapping[str, Any]:
    return {name: macro.measure(item) for name, item in macro.items(SETTING).items()}


def test_jobs_arrive_as_the_seed_says() -> None:
    first, again, other = macro.arrivals(SETTING, 1), macro.arrivals(SETTING, 1), macro.arrivals(SETTING, 2)
    assert first == again != other
    assert first[0].at == 0.0 and [one.at for one in first] == sorted(one.at for one in first)
    many = macro.arrivals(macro.Setting("", jobs=4000, apart=80.0), 1)
    assert many[-1].at / 3999 == pytest.approx(80.0, rel=0.05)


def test_every_combination_runs_the_same_jobs_and_has_its_figures(values: Mapping[str, Any]) -> None:
    runs = [values[f"{name}, seed 1"]["jobs"] for name in macro.COMBINATIONS]
    assert len(runs) == 8 and all([job[:2] for job in run] == [job[:2] for job in runs[0]] for run in runs)
    found = macro.figures(SETTING, values)
    assert [one.combination for one in found] == list(macro.COMBINATIONS)
    for one in found:
        assert 0.0 < one.jain <= 1.0 and one.mean < one.makespan and one.seeds == 2


def test_a_combination_that_is_not_measured_has_no_figures(values: Mapping[str, Any]) -> None:
    some = {name: value for name, value in values.items() if not name.startswith("Clarinet alone")}
    assert len(macro.figures(SETTING, some)) == 5


def test_a_combination_is_not_ranked_on_other_seeds_than_its_rivals(values: Mapping[str, Any]) -> None:
    some = {name: value for name, value in values.items() if name != "SJF + Volcano, seed 2"}
    names = [one.combination for one in macro.figures(SETTING, some)]
    assert names == [name for name in macro.COMBINATIONS if name != "SJF + Volcano"]


def test_a_job_alone_is_not_slowed_by_others(values: Mapping[str, Any]) -> None:
    for name, combination in macro.COMBINATIONS.items():
        for query, _, seconds, _ in values[f"{name}, seed 1"]["jobs"]:
            if combination.planner == "Volcano":  # the others take another plan where they have less
                assert seconds >= values[f"Volcano alone, query {query}"]["seconds"] - 1e-6


def test_a_run_that_was_broken_off_is_judged_by_the_seeds_that_it_has_whole(values: Mapping[str, Any]) -> None:
    assert macro.whole_seeds(values) == (1, 2)
    broken_off = {name: value for name, value in values.items() if name != "SJF + Volcano, seed 2"}
    assert macro.whole_seeds(broken_off) == (1,)
    strange = {**values["SJF + Volcano, seed 2"], "jobs": [[99, 0.0, 1.0, 0]]}  # a query whose time alone is not known
    assert macro.whole_seeds({**values, "SJF + Volcano, seed 2": strange}) == (1,)
    found = macro_means(Suite(macro={f"6 jobs: {name}": value for name, value in broken_off.items()}))
    assert list(found) == list(macro.COMBINATIONS)
