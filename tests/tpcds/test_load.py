"""Queries of several tenants at a load: what arrives, how a run is judged, and the whole of a small one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.__main__ import main
from qoop.planner.plan import Estimate, Plan, Stage
from qoop.tpcds.load import commands, simulate
from qoop.tpcds.load.arrivals import BURST, TENANTS, Queries, arrivals
from qoop.tpcds.load.measures import Played, Summary, compared, even_shares, lines, summary

WORK = {number: 10.0 * number for number in range(1, 31)}


def plan(tasks: int, seconds: float = 1.0) -> Plan:
    estimate = Estimate(task_seconds=seconds, task_memory=1e6)
    return Plan((Stage("s", "", (), (("x", "INTEGER"),), tasks, "s", estimate=estimate),), (("x", "INTEGER"),))


@given(st.integers(0, 50), st.sampled_from([0.6, 1.2]))
def test_tenants_offer_the_load_by_their_habits(seed: int, load: float) -> None:
    found = arrivals(Queries(WORK), 100, load, 1000.0, seed)
    assert found == arrivals(Queries(WORK), 100, load, 1000.0, seed)
    assert sum(WORK[one.query] for one in found) == pytest.approx(load * 100 * 1000, rel=0.1)
    assert [one.at for one in found] == sorted(one.at for one in found) and len({one.name for one in found}) == len(
        found
    )
    for tenant in TENANTS:
        own = [one for one in found if one.tenant == tenant.name]
        together = Counter(one.at for one in own)
        assert own and all(0 <= one.at <= 1000 and 1 <= one.priority <= 10 for one in own)
        if tenant.habit == "dashboard":
            assert set(together.values()) == {BURST} and all(one.query <= 10 for one in own)
        elif tenant.habit == "analyst":
            assert set(together.values()) == {1} and all(one.query > 20 for one in own)
        else:
            assert len(together) == 1


def test_a_job_is_judged_by_its_even_share_while_it_lived() -> None:
    def job(tenant: str, at: float, ended: float, tasks: int) -> Played:
        return Played(tenant, at, ended, float(tasks), 30.0, 5.0, lambda slots: tasks / slots)

    played = [job("x", 0.0, 20.0, 80), job("y", 10.0, 20.0, 20), job("y", 10.0, 40.0, 20)]
    assert even_shares(played, 8) == pytest.approx([(80 + 40) / 20, 2.0, (20 + 160) / 30])
    found = summary("p", 0.9, 1, played, 8)
    assert found.rho["x"] == pytest.approx(20 / (80 / 6))
    assert found.mean == pytest.approx(20.0) and found.met == 1.0 and found.used == pytest.approx(120 / 320)
    assert Summary.of(found.to_json()) == found
    half = Summary.of({**found.to_json(), "policy": "q", "mean": 10.0})
    ratio = compared([found, half], "q", "p", "mean")
    assert ratio is not None and ratio.ratio == 0.5 and "q" in lines([found, half])[-1]


def test_a_small_run_under_two_policies(tmp_path: Path) -> None:
    monkey = pytest.MonkeyPatch()
    monkey.setattr(simulate, "plans_of", lambda directory: {n: plan(4 * n, 30.0) for n in range(1, 10)})
    simulate._arrivals.cache_clear()
    found = [simulate.summarised(simulate.Item(tmp_path, 0.9, 1, name, 0.05)) for name in ("max-min", "EDF")]
    again = simulate.summarised(simulate.Item(tmp_path, 0.9, 1, "EDF", 0.05))
    other = simulate.summarised(simulate.Item(tmp_path, 0.9, 1, "EDF", 0.05, error=0.2))
    crowded = simulate.summarised(simulate.Item(tmp_path, 1.2, 1, "max-min", 0.05, most_jobs=2))
    uncrowded = simulate.summarised(simulate.Item(tmp_path, 1.2, 1, "max-min", 0.05))
    monkey.undo()
    simulate._arrivals.cache_clear()
    assert found[1] == again and found[0].jobs == again.jobs > 20 and other.mean != again.mean
    assert crowded.mean > uncrowded.mean, "jobs queue behind the limit"
    assert found[1].met >= found[0].met and 0 < again.used <= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loads", "0.6,x"], "--loads must be numbers"),
        (["--loads", "0"], "--loads must be above 0"),
        (["--seeds", "0"], "there must be a seed"),
        (["--policies", "max-min,bold"], "there is no policy 'bold'"),
        (["--policies", "DuckDB"], "there is no policy 'DuckDB'"),
    ],
)
def test_the_command_refuses_what_cannot_be_played(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands.Plan, "simulated", lambda *_: {})
    assert main(["bench", "load", str(tmp_path), *words, "--results", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
