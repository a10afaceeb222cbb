"""Ways to pull rows from other machines, in virtual time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.links.bench import ExchangesOptions, play, run, ways
from qoop.tpcds.links.workload import Cluster, drawn

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
