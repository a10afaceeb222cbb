"""Ways to pull rows from other machines in virtual time, and nodes of one host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.simulated import Outcome
from qoop.engine.history import CapacityTold, Record, Started
from qoop.engine.task import AttemptId, CheckpointKey, TaskId
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput, TableInput
from qoop.simulation import Fleet, MachineShared, SimulatedJob, simulate
from qoop.tpcds.links.bench import ExchangesOptions, play, run, ways
from qoop.tpcds.links.workload import Cluster, drawn
from qoop.tpcds.on_ray.ray_spot import Followed, busy, cold, predicted, sharing
from qoop.tpcds.simulate.replica import Replica

SMALL = Cluster(5)


def test_pulls_from_all_at_once_beat_pulls_in_turn_where_exchanges_take_long() -> None:
    done = run(ExchangesOptions(("shuffle-bound", "compute-bound"), 3, ("in-turn",), SMALL), lambda _: None)
    assert done.times("shuffle-bound", "in-turn")[2] < 0.75
    assert done.times("compute-bound", "in-turn")[0] > 0.95


def test_the_same_seed_gives_the_same_run_and_a_slow_link_a_longer_one() -> None:
    case, at_once = drawn("shuffle-bound", 1, SMALL), ways()["at-once"]
    first, again = play(case, at_once, SMALL), play(case, at_once, SMALL)
    assert first.seconds == again.seconds and first.exchanged == again.exchanged
    assert play(case, at_once, replace(SMALL, slow=1)).seconds > 1.2 * first.seconds


def test_the_command_writes_figures_and_refuses_what_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["bench", "exchanges", "--seeds", "1", "--machines", "3", "--kinds", "shuffle-bound"]
    assert main([*asked, "--ways", "in-turn", "--json", str(tmp_path / "x.json")]) == 0
    assert "in-turn" in capsys.readouterr().out
    assert json.loads((tmp_path / "x.json").read_text())["seconds"]["shuffle-bound"]["at-once"]
    assert main([*asked, "--ways", "best"]) != 0
    assert main([*asked, "--kinds", "best"]) != 0
    with pytest.raises(ConfigError):
        Cluster(2, slow=3).fleet()


def plan_of(width: int, seconds: float) -> Plan:
    scan = Stage("scan", "", (), (), width, "scan", estimate=Estimate(task_seconds=seconds, task_memory=0.0))
    return Plan((scan, Stage("root", "", (StageInput("i", "scan", "all"),), (), 1, "root")), ())


def test_nodes_of_one_host_share_its_processors_with_each_other_and_with_nodes_that_begin() -> None:
    plan, fleet = plan_of(4, 3.0), Fleet.uniform(4, Resources(1.0, 1e9))

    def seconds(fleet: Fleet, one_host: bool) -> float:
        outcome = lambda spec: Outcome(spec.stage.estimate.task_seconds)  # noqa: E731
        jobs = [SimulatedJob("q", 0.0, plan)]
        return simulate(fleet, jobs, outcome, crowding=lambda busy: max(1.0, busy / 2), one_host=one_host).seconds

    assert seconds(fleet, one_host=False) == pytest.approx(3.0, abs=0.01)
    assert seconds(fleet, one_host=True) == pytest.approx(6.0, abs=0.01)
    steps = list(busy([1.0], [(0.0, 2.0), (2.0, 0.0)]))
    assert steps == [(1.0, MachineShared("host", 2.0)), (3.0, MachineShared("host", 0.0))]
    began = fleet.after(*steps)
    assert seconds(began, one_host=True) == pytest.approx(6.667, abs=0.01)  # for 2 s, a third as fast, not half


def test_how_much_threads_disturb_each_other_follows_from_a_run_on_nodes_that_stay() -> None:
    plan = plan_of(8, 0.5)
    machine = Replica(Resources(1.0, 1e9), {}, 0.0)
    fitted = sharing(machine, plan, nodes=2, seconds=3.0)
    assert fitted.side_by_side == pytest.approx(1.5, abs=0.05)


def test_a_prediction_knows_nodes_that_begin_cold_ones_and_those_that_are_gone_before_it_is_heard() -> None:
    scan, root = plan_of(8, 0.5).stages
    plan = Plan((replace(scan, inputs=(TableInput("t", "t", "1", (), split=True),)), root), ())
    machine = replace(Replica(Resources(1.0, 1e9), {}, 0.0), cores=2.0)
    attempt = AttemptId(TaskId("q", "scan", 0), 1)
    one = Resources(1.0, 1e9)
    told: list[Record] = [
        CapacityTold(0.0, "a", one), Started(0.0, attempt, CheckpointKey("s", "one", 0), "a", one)
    ]  # fmt: skip
    alone = predicted(plan, machine, told)
    begins = [(0.0, 3.0), (100.0, 0.0)]
    disturbed = predicted(plan, machine, told, Followed([0.0]), begins)
    assert disturbed == pytest.approx(2 * alone), "four threads on two processors, to the end"
    assert predicted(plan, machine, told, Followed([0.0, 0.0]), begins) == pytest.approx(3.5 * alone)
    joined = [*told, CapacityTold(2.1, "b", one)]
    warm = predicted(plan, machine, joined)
    assert warm + 0.1 < predicted(plan, cold(machine, plan, 0.4), joined) < warm + 0.5
    lost = [*joined, CapacityTold(3.5, "b", None)]
    assert predicted(plan, machine, lost, Followed(kills=[(2.2, "b")])) > predicted(plan, machine, lost) + 0.3
