"""Queries of several tenants at a load: what arrives, how a run is judged, and the whole of a small one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.__main__ import main
from qoop.planner.plan import Estimate, Plan, Stage, StageInput
from qoop.tpcds.load import commands, simulate
from qoop.tpcds.load.arrivals import BURST, TENANTS, Queries, arrivals
from qoop.tpcds.load.measures import Played, Summary, compared, even_shares, lines, split_lines, summary
from qoop.tpcds.simulate.shared_cluster import work_of

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


def test_a_query_in_pieces_has_the_same_work_in_one_job_and_in_twenty() -> None:
    scan = plan(30).stages[0]
    both = Plan(
        (scan, replace(scan, id="r", width=1, signature="r", inputs=(StageInput("i", "s", "all"),))),
        (("x", "INTEGER"),),
    )
    pieces = simulate.in_pieces(both)
    whole = simulate.side_by_side(pieces)
    assert len(pieces) == simulate.PIECES and simulate.side_by_side(pieces[:1]) is pieces[0]
    assert sum(map(work_of, pieces)) == pytest.approx(work_of(both)) == pytest.approx(work_of(whole), abs=0.01)
    assert {one.stage for one in whole.stages[3].stage_inputs} == {"s 1"} and len(whole.root.stage_inputs) == 20
    signatures = [stage.signature for stage in whole.stages]
    assert len(set(signatures)) == len(signatures)


def test_a_tenant_that_splits_its_queries_gains_by_shortest_first_and_not_by_finish_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(simulate, "plans_of", lambda directory: {n: plan(20 * n, 30.0) for n in range(1, 10)})
    simulate._arrivals.cache_clear()
    found = {
        (policy, apart): simulate.summarised(simulate.Item(tmp_path, 0.9, 1, policy, 0.05, split="ana1", apart=apart))
        for policy in ("finish time", "SRSF")
        for apart in (False, True)
    }
    simulate._arrivals.cache_clear()
    gains = {policy: found[policy, False].seconds["ana1"] / found[policy, True].seconds["ana1"] for policy, _ in found}
    assert gains["finish time"] < 1.03 < 1.1 < gains["SRSF"]
    [line] = split_lines(list(found.values()), "ana1", simulate.TOGETHER, simulate.APART)[1:2]
    assert line.split()[1:3] == ["finish", "time"]


def test_answers_that_can_grow_are_those_with_intervals_however_soon_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": list(range(100_000))}), tmp_path / "t.parquet", row_group_size=1000)
    texts = {1: "SELECT sum(a) AS s FROM t", 2: "SELECT max(a) - min(a) AS d FROM t"}
    monkeypatch.setattr(simulate, "plans_of", lambda directory: texts)
    monkeypatch.setattr(simulate, "text", texts.__getitem__)
    assert simulate.growing.__wrapped__(tmp_path) == {1}


def test_a_small_run_under_two_policies(tmp_path: Path) -> None:
    monkey = pytest.MonkeyPatch()
    monkey.setattr(simulate, "plans_of", lambda directory: {n: plan(4 * n, 30.0) for n in range(1, 10)})
    simulate._arrivals.cache_clear()
    found = [simulate.summarised(simulate.Item(tmp_path, 0.9, 1, name, 0.05)) for name in ("max-min", "EDF")]
    again = simulate.summarised(simulate.Item(tmp_path, 0.9, 1, "EDF", 0.05))
    other = simulate.summarised(simulate.Item(tmp_path, 0.9, 1, "EDF", 0.05, error=0.2))
    monkey.setattr(simulate, "growing", lambda directory: frozenset(range(1, 10)))
    crowded = simulate.Item(tmp_path, 1.2, 1, "max-min", 0.05, most_jobs=50, permit=0.5)
    cut, whole = simulate.summarised(crowded), simulate.summarised(replace(crowded, permit=0.0))
    calm = simulate.Item(tmp_path, 0.6, 1, "max-min", 0.05, most_jobs=1000.0)
    assert simulate.summarised(calm) == simulate.summarised(replace(calm, permit=1.0))
    monkey.undo()
    simulate._arrivals.cache_clear()
    assert found[1] == again and found[0].jobs == again.jobs > 20 and other.mean != again.mean
    assert 0 < cut.skipped < cut.cut < 0.7 and whole.skipped == whole.cut == 0.0 and cut.mean < whole.mean
    assert found[1].met >= found[0].met and 0 < again.used <= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loads", "0.6,x"], "--loads must be numbers"),
        (["--loads", "0"], "--loads must be above 0"),
        (["--seeds", "0"], "there must be a seed"),
        (["--policies", "max-min,bold"], "there is no policy 'bold'"),
        (["--policies", "DuckDB"], "there is no policy 'DuckDB'"),
        (["--split", "dash9"], "there is no tenant 'dash9'"),
    ],
)
def test_the_command_refuses_what_cannot_be_played(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands.Plan, "simulated", lambda *_: {})
    assert main(["bench", "load", str(tmp_path), *words, "--results", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
