"""Schedules that broke the core once, made short by tests/adaptive/simulation: tests/scripts/*.txt."""

from __future__ import annotations

from pathlib import Path

import pytest
from sim_cover import SELDOM, Cell
from sim_script import Schedule
from sim_world import World

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.txt"))


def test_there_are_scripts() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_it_breaks_nothing_any_more(path: Path) -> None:
    schedule = Schedule.read(path.read_text())
    assert schedule.jobs and schedule.comment
    World(schedule).run()


@pytest.mark.parametrize("cell", SELDOM, ids=" ".join)
def test_what_drawn_schedules_seldom_do_a_script_does(cell: Cell) -> None:
    scripts = (Schedule.read(path.read_text()) for path in SCRIPTS)
    assert any(World(script).run().cover.hits[cell] for script in scripts)
