"""A few seconds of bombs next to dashboards; `make soak-bombs` does ten minutes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bombs import MOST_ABOVE, Mix, perform

pytest.importorskip("starlette", reason="the extra server is not installed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def test_dashboards_are_answered_rightly_beside_bombs(tmp_path: Path) -> None:
    report = perform(Mix(tmp_path, seconds=3.0, dashboards=4, bombers=6, memory=1_000_000_000))
    lines = "\n".join(report.lines())
    assert report.died is None and not report.left, lines
    assert report.right > 0 and report.bombs, lines
    assert all(one.get("right", True) for one in report.short), lines
    assert report.peak <= MOST_ABOVE * report.mix.memory, lines
