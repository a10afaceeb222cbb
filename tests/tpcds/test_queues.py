"""`qoop bench queues`: the same jobs for every way, and figures that programs can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.queues.bench import run, to_json
from qoop.tpcds.queues.workload import Setting, drawn


def test_queues_keep_slots_busy_and_an_order_helps_short_jobs() -> None:
    told: list[str] = []
    done = run(Setting(machines=2, jobs=24, tasks=12, load=1.2), 2, ["queued", "unordered"], told.append)
    assert len(told) == 3 and "short jobs" in told[0]
    for queued, none in zip(done.by_way["queued"], done.by_way["none"], strict=True):
        assert queued.busy > none.busy and queued.waited > none.waited == pytest.approx(1.5)
    ordered, unordered = done.times("queued", "usual"), done.times("unordered", "usual")
    assert ordered[0] > 1.0 > unordered[0]
    assert set(to_json(done)) == {"none", "queued", "unordered"}


def test_the_jobs_of_a_seed_are_those_of_the_mix() -> None:
    jobs = drawn(Setting(jobs=400), 1)
    assert drawn(Setting(jobs=400), 1) == jobs != drawn(Setting(jobs=400), 2)
    assert {job.seconds[0] for job in jobs} == {5.0, 50.0}
    assert 0.7 < sum(job.seconds[0] == 5.0 for job in jobs) / len(jobs) < 0.9
    hive = [job.seconds[0] for job in drawn(Setting(jobs=2000, mix="hive"), 1)]
    assert sum(hive) / len(hive) == pytest.approx(22.9, rel=0.1)


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "q.json"
    assert main(["bench", "queues", "--seeds", "1", "--jobs", "4", "--json", str(figures)]) == 0
    assert "jobs a minute" in capsys.readouterr().out
    assert set(json.loads(figures.read_text())) == {"none", "queued", "unordered"}


def test_a_way_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are none, queued"):
        run(Setting(jobs=1), 1, ["backwards"])
